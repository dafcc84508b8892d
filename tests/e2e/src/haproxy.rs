use std::{
    env,
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

/// An installed HAProxy.
#[derive(Clone, Debug)]
pub struct HaproxyBuild {
    /// E.g. `3.4`.
    pub version: &'static str,
    pub path: PathBuf,
}

/// The processes of one HAProxy, from `show proc` on its master socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessTable {
    pub master: i32,
    /// Reloads that the master has done.
    pub reloads: u64,
    /// The worker that takes new connections.
    pub worker: i32,
}

const SOCKET_BOUND: Duration = Duration::from_secs(3);

/// The installed builds of `versions`, in that order.
///
/// # Panics
/// When one is missing: a test that skips itself proves nothing.
pub fn builds(versions: &[&'static str]) -> Vec<HaproxyBuild> {
    let folder = env::var_os("HAPTIC_HAPROXY_DIR").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache/haptic/haproxy/bin"),
        PathBuf::from,
    );
    let build = |version: &&'static str| {
        let path = folder.join(format!("haproxy-{version}"));
        assert!(path.exists(), "{} is missing: run `make haproxies`", path.display());
        HaproxyBuild { version, path }
    };
    versions.iter().map(build).collect()
}

// === impl HaproxyBuild ===

impl HaproxyBuild {
    /// A whole backend can be made at run time.
    pub fn has_dynamic_backends(&self) -> bool {
        self.version == "3.4"
    }
}

// === impl ProcessTable ===

impl ProcessTable {
    /// Asks again while the master starts anew, as it does at a reload and, on 3.0, after a start: it refuses
    /// connections or leaves them without an answer then.
    pub(crate) fn read(master_socket: &Path) -> Result<Self> {
        let begun = Instant::now();
        let answer = loop {
            match ask(master_socket, "show proc") {
                Err(_) if begun.elapsed() < SOCKET_BOUND => {}
                answer => break answer?,
            }
        };
        Self::parse(&answer).with_context(|| format!("`show proc` names no worker:\n{answer}"))
    }

    fn parse(answer: &str) -> Option<Self> {
        let (current, _) = answer.split_once("# old workers").unwrap_or((answer, ""));
        let mut rows = current.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let master = rows.clone().find(|row| row.get(1) == Some(&"master"))?;
        let worker = rows.find(|row| row.get(1) == Some(&"worker"))?;
        Some(Self {
            master: master[0].parse().ok()?,
            reloads: master.get(2)?.parse().ok()?,
            worker: worker[0].parse().ok()?,
        })
    }
}

/// Sends one command to a HAProxy socket and reads until it closes.
pub(crate) fn ask(socket: &Path, command: &str) -> Result<String> {
    let mut stream = UnixStream::connect(socket).with_context(|| format!("connect to {}", socket.display()))?;
    stream.set_read_timeout(Some(SOCKET_BOUND)).context("bound the wait for HAProxy's answer")?;
    stream.write_all(format!("{command}\n").as_bytes()).context("send a command to HAProxy")?;
    // The master's socket closes only when its client has: without this it waits for the next command.
    stream.shutdown(Shutdown::Write).context("end the commands to HAProxy")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read HAProxy's answer")?;
    ensure!(!answer.is_empty(), "HAProxy answered nothing to `{command}`");
    Ok(answer)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn reads_the_current_worker_and_the_reloads() {
        let answer = "#<PID>          <type>          <reloads>       <uptime>        <version>\n\
                      100             master          2               0d00h01m00s     3.2.1\n\
                      # workers\n\
                      120             worker          0               0d00h00m05s     3.2.1\n\
                      # old workers\n\
                      110             worker          1               0d00h00m30s     3.2.1\n\
                      # programs\n\n";
        let table = ProcessTable::parse(answer).unwrap();
        assert_eq!(table, ProcessTable { master: 100, reloads: 2, worker: 120 });
    }
}
