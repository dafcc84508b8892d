//! Starting and ending the whole process group.

use std::{fs::File, io, os::unix::fs::DirBuilderExt as _, process::Stdio, time::Duration};

use rustix::process::Signal;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep},
};
use tracing::{info, warn};

use crate::{
    process::{Launch, Master, ProcessIdentity, Running, StartError, check_socket_path, master::words},
    runtime::RuntimeClient,
    version::OLDEST,
};

/// How often conditions are looked at that no event announces: a socket that appears, a process that ends.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What an orphan gets between SIGTERM and SIGKILL, and a killed process until it must be gone.
const ORPHAN_GRACE: Duration = Duration::from_millis(500);

pub(crate) async fn start(launch: &Launch) -> Result<Running, StartError> {
    prepare(launch)?;
    if !launch.leftovers().is_empty() {
        warn!(pids = ?launch.leftovers(), "stopping processes of an earlier HAProxy before the start");
        end_all(launch, Signal::TERM, ORPHAN_GRACE).await?;
    }
    // A stale socket file would be taken for an answer that does not come.
    let _ = std::fs::remove_file(launch.master_socket());
    let _ = std::fs::remove_file(launch.worker_socket());
    let mut child = spawn(launch)?;
    let running = wait_for_sockets(launch, &mut child).await;
    match &running {
        Ok(running) => info!(master = running.master.pid, worker = running.worker.pid, "started HAProxy"),
        // Half a start must not keep a port.
        Err(_) => end_all(launch, Signal::KILL, ORPHAN_GRACE).await?,
    }
    running
}

/// Sends `signal` to every process of the launch, SIGKILL after `grace`, and waits until they are gone.
pub(crate) async fn end_all(launch: &Launch, signal: Signal, grace: Duration) -> Result<(), StartError> {
    signal_all(launch, signal);
    if wait_until_gone(launch, grace).await {
        return Ok(());
    }
    signal_all(launch, Signal::KILL);
    if wait_until_gone(launch, ORPHAN_GRACE * 4).await {
        return Ok(());
    }
    Err(StartError::Leftovers { pids: launch.leftovers() })
}

pub(crate) async fn drain(launch: &Launch, bound: Duration) -> Result<(), StartError> {
    let master = Master::new(&launch.master_socket(), launch.start_timeout).show_proc().await;
    if let Some(master) = master.ok().and_then(|processes| ProcessIdentity::of(processes.master)) {
        master.signal(Signal::USR1);
        if wait_until_gone(launch, bound).await {
            return Ok(());
        }
    }
    end_all(launch, Signal::TERM, ORPHAN_GRACE).await
}

/// Writes `agent.cfg`: the part of the configuration that is the agent's and not of the file set.
fn prepare(launch: &Launch) -> Result<(), StartError> {
    let io = |path: &std::path::Path| {
        let path = path.to_owned();
        move |source: io::Error| StartError::Prepare { path, source }
    };
    check_socket_path(&launch.master_socket())?;
    check_socket_path(&launch.worker_socket())?;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&launch.run_dir).map_err(io(&launch.run_dir))?;
    let socket = launch.worker_socket();
    let text = format!(
        "# Written by haptic agent at every start; not part of the file set.\n\
         global\n    stats socket {} mode 600 level admin\n    stats maxconn 50\n    stats timeout 1m\n",
        socket.display()
    );
    std::fs::write(launch.agent_config(), text).map_err(io(&launch.agent_config()))
}

fn spawn(launch: &Launch) -> Result<Child, StartError> {
    let log = launch.log();
    let prepared = File::create(&log).and_then(|output| Ok((output.try_clone()?, output)));
    let (output, errors) = prepared.map_err(|source| StartError::Prepare { path: log, source })?;
    let mut command = Command::new(&launch.binary);
    command
        .arg("-W")
        .arg("-S")
        .arg(format!("{},mode,600", launch.master_socket().display()))
        .arg("-f")
        .arg(launch.agent_config())
        .arg("-f")
        .arg(&launch.config)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        // Signals to the starter's group (Ctrl-C) must not end HAProxy, and it must outlive a kill -9 of the starter.
        .process_group(0);
    // As in the check jail: the file of a filter (SPOE) is looked for from here, whatever `default-path` says.
    if let Some(base) = launch.config.parent().filter(|base| base.is_absolute() && launch.run_dir.is_absolute()) {
        command.current_dir(base);
    }
    command.spawn().map_err(|source| StartError::Spawn { binary: launch.binary.clone(), source })
}

async fn wait_for_sockets(launch: &Launch, child: &mut Child) -> Result<Running, StartError> {
    let deadline = Instant::now() + launch.start_timeout;
    let said = || words(&std::fs::read_to_string(launch.log()).unwrap_or_default());
    // What is asked here is the same in every version.
    let runtime = RuntimeClient::new(&launch.worker_socket(), OLDEST, Duration::from_secs(1));
    loop {
        if let Ok(Some(_)) = child.try_wait() {
            return Err(StartError::Refused { words: said() });
        }
        if launch.worker_socket().exists()
            && let Ok(worker) = runtime.worker_pid().await
            && let Some(running) = launch.adopt().await
            && running.worker.pid == worker
        {
            return Ok(running);
        }
        if Instant::now() >= deadline {
            return Err(StartError::Timeout { limit: launch.start_timeout, words: said() });
        }
        sleep(LOOK_EVERY).await;
    }
}

fn signal_all(launch: &Launch, signal: Signal) {
    for identity in launch.leftovers().into_iter().filter_map(ProcessIdentity::of) {
        identity.signal(signal);
    }
}

async fn wait_until_gone(launch: &Launch, bound: Duration) -> bool {
    let deadline = Instant::now() + bound;
    while !launch.leftovers().is_empty() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(LOOK_EVERY).await;
    }
    true
}
