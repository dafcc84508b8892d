//! As in a container: process 1, an ordinary user, no capabilities, a read-only root, and one writable folder.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{Echo, binary, eventually, get};
use rustix::process::Signal;

use crate::pod::{Pod, signal};

/// Makes the container from inside new namespaces, and becomes its process 1. `$1` is the pod's folder, `$2` haptic,
/// `$3` haproxy; the rest are haptic's arguments. As root, an ordinary user is chosen, for whom the folder of HAProxy's
/// build is laid open where it is, because the build names its loader by its path. Any other user is an ordinary one
/// already, and is only root to the namespace.
const CONTAINER: &str = r#"
set -e
pod=$1 haptic=$2 haproxy=$3
shift 3
touch "$pod/haptic"
mount --bind "$haptic" "$pod/haptic"
mkdir "$pod/data"
mount -t tmpfs -o mode=0700 tmpfs "$pod/data"
become=""
if [ "$ORDINARY" = yes ]; then
    chown 65534:65534 "$pod/data"
    become="setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all"
    if ! $become test -x "$haproxy"; then
        build=${haproxy%/*}
        mkdir "$pod/build"
        mount --bind "$build" "$pod/build"
        top=${build#/}
        mount -t tmpfs -o mode=0755 tmpfs "/${top%%/*}"
        mkdir -p "$build"
        mount --bind "$pod/build" "$build"
    fi
fi
mount -o remount,bind,ro /
exec $become "$pod/haptic" "$@"
"#;

fn container(pod: &Pod) -> Result<Command> {
    // An ordinary user looks for the binaries and certificates in there.
    fs::set_permissions(pod.folder(), fs::Permissions::from_mode(0o755)).context("open the pod's folder")?;
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new("unshare");
    if !root {
        command.args(["--user", "--map-root-user"]);
    }
    // When the test ends this command, process 1 ends, and with it everything in the namespace.
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c", CONTAINER, "sh"]);
    command.env("ORDINARY", if root { "yes" } else { "no" });
    let haproxy = fs::canonicalize(&pod.haproxy.path).context("find HAProxy")?;
    command.arg(pod.folder()).arg(binary()).arg(&haproxy).args(pod.arguments(&haproxy));
    Ok(command)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_as_process_1_of_a_read_only_container_and_reaps_orphans() -> Result<()> {
    let mut pod = Pod::prepare()?;
    pod.run(container(&pod)?)?;
    pod.until_alive().await;
    let _echo = Echo::start("web-1", pod.backend()).await?;
    ensure!(pod.apply(&pod.config(pod.backend())).await?.ok, "the configuration is applied");
    ensure!(get(pod.traffic(), "shop", "/").await?.served_by() == Some("web-1"), "traffic flows");

    // Seen from outside: unshare → process 1 → agent → HAProxy's master → its worker.
    let first = only_child(pod.pid())?;
    let agent = only_child(first)?;
    let master = only_child(agent)?;
    let worker = only_child(master)?;
    ensure!(inner_pid(first)? == Some(1), "haptic is process 1 in there");
    if rustix::process::geteuid().is_root() {
        let status = fs::read_to_string(format!("/proc/{agent}/status"))?;
        ensure!(status.contains("Uid:\t65534\t65534\t65534\t65534"), "an ordinary user: {status}");
        ensure!(status.contains("CapEff:\t0000000000000000"), "no capabilities: {status}");
    }
    let mounts = fs::read_to_string(format!("/proc/{agent}/mountinfo"))?;
    let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/")).context("there is a root")?;
    ensure!(root.split(' ').nth(5).is_some_and(|options| options.split(',').any(|word| word == "ro")), "{root}");

    signal(master, Signal::KILL)?;
    eventually("master and worker are gone and reaped", async || {
        let gone = |pid: i32| !Path::new(&format!("/proc/{pid}")).exists();
        (gone(master) && gone(worker)).then_some(())
    })
    .await;
    eventually("HAProxy serves again", async || get(pod.traffic(), "shop", "/").await.ok()?.served_by().map(|_| ()))
        .await;
    ensure!(only_child(first)? == agent, "the agent went on");

    signal(first, Signal::TERM)?;
    let status = pod.ended().await;
    ensure!(status.code() == Some(0), "the agent's exit code is that of process 1: {status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_1_ends_as_its_agent_does() -> Result<()> {
    let mut pod = Pod::prepare()?;
    pod.run(container(&pod)?)?;
    pod.until_alive().await;
    let agent = only_child(only_child(pod.pid())?)?;
    signal(agent, Signal::KILL)?;
    let status = pod.ended().await;
    ensure!(status.code() == Some(128 + 9), "a killed agent is no success: {status}");

    let mut wrong = Pod::prepare()?;
    fs::write(wrong.volume.path("tls.key"), "no key")?;
    wrong.run(container(&wrong)?)?;
    let status = wrong.ended().await;
    ensure!(status.code() == Some(2), "{status}");
    ensure!(wrong.log().iter().any(|line| line.contains("tls.key")), "{:?}", wrong.log());
    Ok(())
}

/// Living and ended children that nobody has reaped.
fn only_child(parent: i32) -> Result<i32> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").context("list processes")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // It may have ended since it was listed.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let ppid = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<i32>().ok());
        if ppid == Some(parent) {
            children.push(pid);
        }
    }
    ensure!(children.len() == 1, "process {parent} has the children {children:?}");
    Ok(children[0])
}

/// The pid that a process has in its own namespace.
fn inner_pid(pid: i32) -> Result<Option<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("read a process's status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    Ok(line.and_then(|pids| pids.split_whitespace().last()?.parse().ok()))
}
