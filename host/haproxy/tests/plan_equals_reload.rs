//! The property of the plan diff: its operations bring a running HAProxy to where a load of the same text brings it.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "plan_rules/build.rs"]
mod plan_build;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use haptic_haproxy::{
    plan::{Baseline, diff},
    runtime::{DeletionState, RuntimeClient},
    version::MinorVersion,
};
use haptic_model::{Keyword, Verdict};
use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::plan_build::{Build, backend, backend_text, inventory, server};

const KEYS: [&str; 6] = ["/a", "/b", "/c", "/d", "/e", "/f"];
const VALUES: [&str; 4] = ["b1", "b2", "b3", "with space; and more"];
const BOUND: Duration = Duration::from_secs(10);

/// Name → number of the address, weight, disabled, checked.
type Servers = BTreeMap<u8, (u8, u16, bool)>;

#[derive(Clone, Debug)]
struct Shape {
    backends: BTreeMap<u8, Servers>,
    unordered: Vec<(usize, usize)>,
    ordered: Vec<(usize, usize)>,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let servers = || btree_map(1_u8..5, (1_u8..6, prop_oneof![Just(0_u16), Just(1), Just(100)], any::<bool>()), 0..4);
    let entries = || vec((0..KEYS.len(), 0..VALUES.len()), 0..6);
    (btree_map(1_u8..4, servers(), 1..4), entries(), entries()).prop_map(|(backends, unordered, ordered)| Shape {
        backends,
        unordered,
        ordered,
    })
}

impl Shape {
    fn build(&self) -> Build {
        let entries = |list: &[(usize, usize)]| list.iter().map(|&(key, value)| (KEYS[key], VALUES[value])).collect();
        let mut build = Build {
            core: vec![("global".to_owned(), "g".to_owned())],
            profiles: vec![("fast".to_owned(), "p".to_owned())],
            maps: vec![
                ("maps/path.map".to_owned(), false, entries(&self.unordered)),
                ("maps/regex.map".to_owned(), true, entries(&self.ordered)),
            ],
            ..Build::default()
        };
        for (name, servers) in &self.backends {
            let servers = servers.iter().map(|(name, &(last, weight, disabled))| {
                let mut server = server(&format!("s{name}"), last);
                (server.weight, server.disabled) = (weight, disabled);
                // What is declared of a server of a name stays the same: the rest is a reload by rule.
                server.keywords = vec![Keyword::with("maxconn", &format!("{}", 100 + u16::from(*name)))];
                server
            });
            build.backends.push(backend(&format!("b{name}"), "fast", servers.collect()));
        }
        build
    }
}

/// A worker of its own, in a directory of its own.
struct Worker {
    child: Child,
    directory: tempfile::TempDir,
    client: RuntimeClient,
}

impl Worker {
    fn load(version: MinorVersion, build: &Build, runtime: &tokio::runtime::Runtime) -> Self {
        let directory = tempfile::Builder::new().prefix("h").tempdir_in("/tmp").unwrap();
        let root = directory.path();
        write(root, build);
        let (socket, agent) = (root.join("s"), root.join("agent.cfg"));
        fs::write(&agent, format!("global\n  stats socket {} mode 600 level admin\n", socket.display())).unwrap();
        let child = Command::new(binary(version))
            .args(["-db", "-f"])
            .arg(agent)
            .arg("-f")
            .arg(root.join("haproxy.cfg"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(root.join("log")).unwrap())
            .spawn()
            .unwrap();
        let client = RuntimeClient::new(&socket, version, Duration::from_secs(5));
        let mut worker = Self { child, directory, client };
        let started = Instant::now();
        while runtime.block_on(worker.client.worker_pid()).is_err() {
            let log = || fs::read_to_string(worker.directory.path().join("log")).unwrap();
            assert!(worker.child.try_wait().unwrap().is_none(), "{}", log());
            assert!(started.elapsed() < BOUND, "{}", log());
            std::thread::yield_now();
        }
        worker
    }

    /// Backends, servers and map entries, without what differs between two processes in any case.
    async fn view(&self) -> Vec<String> {
        let mut view = Vec::new();
        let backends = self.client.ask_one("show backend").await.unwrap().text;
        view.extend(backends.lines().filter(|line| line.starts_with('b')).map(str::to_owned));
        let state = self.client.ask_one("show servers state").await.unwrap().text;
        let header: Vec<_> = state.lines().find(|line| line.starts_with("# ")).unwrap()[2..].split(' ').collect();
        let at = |name: &str| header.iter().position(|column| *column == name).unwrap();
        let columns = ["be_name", "srv_name", "srv_addr", "srv_port", "srv_uweight", "srv_op_state"].map(at);
        for line in state.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(' ')) {
            let words: Vec<_> = line.split(' ').collect();
            view.push(columns.map(|column| words[column]).join(" "));
        }
        view.sort();
        for (map, ordered) in [("maps/path.map", false), ("maps/regex.map", true)] {
            let text = self.client.ask_one(&format!("show map {map}")).await.unwrap().text;
            let entries =
                text.lines().filter_map(|line| line.split_once(' ')).map(|(_, entry)| format!("{map} {entry}"));
            let mut entries: Vec<_> = entries.collect();
            if !ordered {
                entries.sort();
            }
            view.extend(entries);
        }
        view
    }

    async fn apply(&self, ops: &[haptic_model::Op]) {
        let mut left = self.client.execute(ops, self.directory.path()).await.unwrap().deferred;
        let started = Instant::now();
        while !left.is_empty() {
            assert!(started.elapsed() < BOUND, "{left:?} stay");
            let states = self.client.try_delete(&left).await.unwrap();
            let mut state = states.iter();
            left.retain(|_| *state.next().unwrap() != DeletionState::Gone);
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn binary(version: MinorVersion) -> PathBuf {
    let directory = std::env::var_os("HAPTIC_HAPROXY_DIR").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/haptic/haproxy/bin"),
        PathBuf::from,
    );
    let binary = directory.join(format!("haproxy-{}.{}", version.major, version.minor));
    assert!(binary.exists(), "{} is missing; run `make haproxies`", binary.display());
    binary
}

fn write(root: &Path, build: &Build) {
    let mut text = format!(
        "global\n  default-path config\ndefaults fast\n  mode http\n  timeout connect 1s\n  timeout client 1s\n  timeout \
         server 1s\n  balance roundrobin\nfrontend http from fast\n  bind unix@{}/f\n  http-request set-header x \
         %[path,map_reg(maps/regex.map)]\n  use_backend %[path,map(maps/path.map)]\n",
        root.display()
    );
    for backend in &build.backends {
        text.push_str(&backend_text(backend));
    }
    fs::write(root.join("haproxy.cfg"), text).unwrap();
    fs::create_dir_all(root.join("maps")).unwrap();
    for (path, _, entries) in &build.maps {
        let text: String = entries.iter().map(|(key, value)| format!("{key} {value}\n")).collect();
        fs::write(root.join(path), text).unwrap();
    }
}

fn names(build: &Build) -> BTreeSet<&str> {
    build.backends.iter().map(|backend| &*backend.name).collect()
}

fn operations_equal_a_load(version: MinorVersion, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = Config { cases, max_shrink_iters: 16, failure_persistence: None, ..Config::default() };
    let applied = std::cell::Cell::new(0);
    let outcome = TestRunner::new(config).run(&(shapes(), shapes()), |(old, next)| {
        let (old, next) = (old.build(), next.build());
        let (before, after) = (old.plan(), next.plan());
        let (loaded, none) = (inventory(&before), BTreeSet::new());
        let haproxy = (version.major, version.minor);
        let baseline = Baseline {
            plan: Some(&before),
            haproxy,
            inventory: &loaded,
            pending_deletes: &none,
            reload_pending: false,
        };
        let decided = diff(&after, &baseline);
        if decided.verdict == Verdict::Reload {
            prop_assert!(haproxy < (3, 4) && names(&old) != names(&next), "{:?}", decided.reasons);
            return Ok(());
        }
        let worker = Worker::load(version, &old, &runtime);
        let fresh = Worker::load(version, &next, &runtime);
        write(worker.directory.path(), &next);
        let (changed, wanted) = runtime.block_on(async {
            worker.apply(&decided.ops).await;
            (worker.view().await, fresh.view().await)
        });
        prop_assert_eq!(changed, wanted, "{:?}", decided.ops);
        applied.set(applied.get() + 1);
        Ok(())
    });
    outcome.unwrap();
    assert!(applied.get() > 0, "every case was a reload");
}

#[test]
fn operations_on_3_4_equal_a_load() {
    operations_equal_a_load(MinorVersion { major: 3, minor: 4 }, 24);
}

#[test]
fn operations_on_3_2_equal_a_load() {
    operations_equal_a_load(MinorVersion { major: 3, minor: 2 }, 32);
}

#[test]
fn operations_on_3_0_equal_a_load() {
    operations_equal_a_load(MinorVersion { major: 3, minor: 0 }, 32);
}
