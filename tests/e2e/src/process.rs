use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{HaproxyBuild, ProcessTable, Shop, eventually, get, haproxy::ask, within};

/// How to start haptic, besides the folders of the shop.
#[derive(Default)]
pub struct Run {
    pub once: bool,
    /// Where the status page is served; default: nowhere.
    pub debug: Option<SocketAddr>,
    /// More words of the command line.
    pub arguments: Vec<String>,
    /// Besides the environment of the test.
    pub environment: Vec<(&'static str, String)>,
}

/// A running `haptic run --standalone`, and what it wrote.
pub struct Haptic {
    child: Child,
    state: PathBuf,
    lines: Arc<Mutex<Vec<String>>>,
    /// HAProxy outlives this value.
    leave_haproxy: bool,
}

/// Longer than any stop takes, drain included.
const STOP_BOUND: Duration = Duration::from_secs(20);
const STATUSES: [&str; 4] = ["config", "pods", "objects", "plugins"];
/// Lines shown when a test fails.
const SHOWN: usize = 120;

// === impl Haptic ===

impl Haptic {
    pub fn start(shop: &Shop, haproxy: &HaproxyBuild, run: Run) -> Result<Self> {
        let mut command = Command::new(binary());
        command.arg("run");
        for folder in ["common", "standalone"] {
            command.arg("--standalone").arg(shop.manifests().join(folder));
        }
        command.arg("--haproxy").arg(&haproxy.path).arg("--state").arg(shop.state()).args(["--log-format", "json"]);
        if run.once {
            command.arg("--once");
        }
        if let Some(address) = run.debug {
            command.arg("--debug-listen").arg(address.to_string());
        }
        command.args(run.arguments);
        command.envs(run.environment).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("start {}", binary().display()))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let outputs: [Option<Box<dyn Read + Send>>; 2] =
            [child.stdout.take().map(|pipe| Box::new(pipe) as _), child.stderr.take().map(|pipe| Box::new(pipe) as _)];
        for output in outputs.into_iter().flatten() {
            let lines = lines.clone();
            // Ends with the pipe.
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    lines.lock().push(line);
                }
            });
        }
        Ok(Self { child, state: shop.state(), lines, leave_haproxy: false })
    }

    /// Starts haptic and waits until both services of the shop answer.
    pub async fn serve(shop: &Shop, haproxy: &HaproxyBuild) -> Result<Self> {
        let mut haptic = Self::start(shop, haproxy, Run::default())?;
        haptic.wait_until_served(shop).await;
        Ok(haptic)
    }

    pub async fn wait_until_served(&mut self, shop: &Shop) {
        for target in Shop::targets() {
            let what = format!("an answer for {} on {}", target.host, shop.http());
            within(Duration::from_mins(1), &what, async || {
                if let Ok(Some(status)) = self.child.try_wait() {
                    panic!("haptic ended with {status} before it served:\n{}", self.lines().join("\n"));
                }
                let answer = get(shop.http(), &target.host, "/").await.ok()?;
                answer.served_by().filter(|name| name.starts_with(&target.served_by)).map(|_| ())
            })
            .await;
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id fits")
    }

    /// HAProxy's processes, now.
    pub fn processes(&self) -> Result<ProcessTable> {
        ProcessTable::read(&self.state.join("run/master.sock"))
    }

    /// Asks the worker over its runtime socket.
    pub fn worker(&self, command: &str) -> Result<String> {
        ask(&self.state.join("run/worker.sock"), command)
    }

    /// Everything printed so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// Lines printed after the first `skip` ones that hold all of `words`.
    pub fn lines_with(&self, skip: usize, words: &[&str]) -> Vec<String> {
        let lines = self.lines.lock();
        lines.iter().skip(skip).filter(|line| words.iter().all(|word| line.contains(word))).cloned().collect()
    }

    /// Waits until a line of the log after the first `skip`, or a status file, holds all of `words`; returns it.
    ///
    /// People read messages and not fields, so what is asked for is a message: one line with everything in it.
    pub async fn said(&self, skip: usize, words: &[&str]) -> String {
        let what = format!("haptic to say {words:?} in one line of its log or of a status");
        eventually(&what, async || {
            let statuses = STATUSES.iter().flat_map(|name| paragraphs(&self.status_text(name)));
            self.lines()
                .into_iter()
                .skip(skip)
                .chain(statuses)
                .find(|line| words.iter().all(|word| line.contains(word)))
        })
        .await
    }

    /// A status file as text: `config`, `pods`, `objects` or `plugins`. Empty while there is none.
    pub fn status_text(&self, name: &str) -> String {
        fs::read_to_string(self.state.join("status").join(format!("{name}.yaml"))).unwrap_or_default()
    }

    /// A status file as a value; it must be one whole YAML document whenever it is looked at.
    pub fn status(&self, name: &str) -> Result<Value> {
        serde_norway::from_str(&self.status_text(name)).with_context(|| format!("read the status of {name}"))
    }

    /// Every file of the set that HAProxy loads, by path.
    pub fn file_set(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
        let base = self.state.join("haproxy");
        let mut set = BTreeMap::new();
        collect(&base, &base, &mut set)?;
        Ok(set)
    }

    pub fn config(&self) -> Result<String> {
        fs::read_to_string(self.state.join("haproxy/haproxy.cfg")).context("read haproxy.cfg")
    }

    /// Asks haptic to stop, and waits until it did.
    pub async fn stop(&mut self) -> ExitStatus {
        signal(self.pid(), Signal::TERM);
        self.ended().await
    }

    pub async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        within(STOP_BOUND, "the end of haptic", async || child.try_wait().ok().flatten()).await.0
    }

    /// Ends haptic without a chance to clean up; HAProxy goes on, for the next haptic to find.
    pub async fn kill(mut self) {
        self.leave_haproxy = true;
        signal(self.pid(), Signal::KILL);
        self.ended().await;
    }
}

impl Drop for Haptic {
    fn drop(&mut self) {
        #[allow(clippy::print_stderr, reason = "the log of a failed test is read where the test failed")]
        if thread::panicking() {
            let lines = self.lines.lock();
            for line in &lines[lines.len().saturating_sub(SHOWN)..] {
                eprintln!("haptic: {line}");
            }
        }
        if let Ok(None) = self.child.try_wait() {
            signal(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
        // A HAProxy outlives a killed haptic on purpose; once the test is over, it ends too.
        let haproxy = if self.leave_haproxy && !thread::panicking() { Vec::new() } else { processes_of(&self.state) };
        for pid in haproxy {
            signal(pid, Signal::KILL);
        }
    }
}

/// Whether the process exists and is more than a zombie.
pub fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// Ends the processes whose command line names a folder that only one test uses: a HAProxy that was left running.
pub fn stop_processes_of(folder: &Path) {
    for pid in processes_of(folder) {
        signal(pid, Signal::KILL);
    }
}

/// Sends a signal to a process that this test started; one that has ended already is fine.
fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Processes whose command line names the state folder, which no other test uses.
fn processes_of(state: &Path) -> Vec<i32> {
    let needle = state.to_string_lossy().into_owned();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&needle))
        })
        .collect()
}

/// The entries of the lists in a YAML text, each as one line.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in text.lines() {
        match found.last_mut() {
            Some(last) if !line.trim_start().starts_with("- ") => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => found.push(line.trim().to_owned()),
        }
    }
    found
}

/// The binary under test.
pub fn binary() -> PathBuf {
    if let Some(path) = env::var_os("HAPTIC_BIN") {
        return path.into();
    }
    if let Some(target) = env::var_os("CARGO_TARGET_DIR") {
        return PathBuf::from(target).join("debug/haptic");
    }
    // target/debug/deps/TEST → target/debug/haptic
    let test = env::current_exe().expect("a test has a path");
    test.ancestors().nth(2).expect("a test lies in target/PROFILE/deps").join("haptic")
}

fn collect(base: &Path, folder: &Path, set: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        let relative = path.strip_prefix(base).expect("below its base").to_owned();
        // The agent's own records lie in names that start with a dot; no file of the set does.
        if relative.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.')) {
            continue;
        }
        if path.is_dir() {
            collect(base, &path, set)?;
        } else {
            let content = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
            set.insert(relative, content);
        }
    }
    Ok(())
}
