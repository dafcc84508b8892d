//! The master socket: only `reload` and `show proc` are ever sent to it.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use thiserror::Error;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::process::ProcessIdentity;

/// How long until a reload is asked for again while another one runs or the socket is being made anew.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Longest answer that is read.
const ANSWER_BYTES: u64 = 1 << 20;
/// Longest words of HAProxy that are passed on.
const WORDS_BYTES: usize = 4096;

/// A client of one master socket. One connection per request: the master keeps ten and closes none by itself
/// (haproxy-facts §0 trap 3), so the sending half is closed at once.
#[derive(Clone, Debug)]
pub struct Master {
    socket: PathBuf,
    timeout: Duration,
}

/// `show proc`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    pub master: u32,
    /// The serving worker. After a failed reload 3.2 and 3.4 list it among the old ones (haproxy-facts §0 trap 16); then
    /// the youngest of those is meant.
    pub worker: Option<u32>,
    /// Workers that only finish their connections.
    pub old_workers: Vec<u32>,
}

#[derive(Debug, Error)]
pub enum ReloadError {
    /// `Success=0`: the old worker serves on. In HAProxy's own words.
    #[error("HAProxy refused the reload: {words}")]
    Refused { words: String },
    /// Whether it reloaded is not known.
    #[error("could not reload HAProxy through {socket}; look at its log and whether its master runs")]
    Unreachable {
        socket: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("HAProxy did not answer a reload within {limit:?}")]
    Timeout { limit: Duration },
}

// === impl Master ===

impl Master {
    /// `timeout` bounds each request, a reload with its retries included.
    pub fn new(socket: &Path, timeout: Duration) -> Self {
        Self { socket: socket.to_owned(), timeout }
    }

    pub async fn show_proc(&self) -> io::Result<Processes> {
        let answer = timeout(self.timeout, self.exchange("show proc\n"))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the master did not answer `show proc`"))??;
        parse_processes(&answer).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the master answered `show proc` without a master")
        })
    }

    /// Loads the files on disk into a new worker and waits for the verdict. Returns the notices of the load. Asks again
    /// while another reload runs, but not once `master` has ended.
    pub async fn reload(&self, master: ProcessIdentity) -> Result<String, ReloadError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let Ok(answer) = timeout_at(deadline, self.exchange("reload\n")).await else {
                return Err(ReloadError::Timeout { limit: self.timeout });
            };
            let retry = match answer {
                Ok(answer) if answer.starts_with("Success=1") => return Ok(words(&answer)),
                Ok(answer) if answer.contains("Another reload is still in progress") => Ok(()),
                Ok(answer) if answer.starts_with("Success=0") => {
                    return Err(ReloadError::Refused { words: words(&answer) });
                }
                // Cut before the verdict, e.g. by another reload. Loading the same files twice does no harm.
                Ok(_) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the master closed before its verdict")),
                Err(source) => Err(source),
            };
            if Instant::now() + RETRY_PAUSE >= deadline {
                return Err(match retry {
                    Ok(()) => ReloadError::Timeout { limit: self.timeout },
                    Err(source) => ReloadError::Unreachable { socket: self.socket.clone(), source },
                });
            }
            if let Err(source) = retry
                && !(is_passing(&source) && master.is_alive())
            {
                return Err(ReloadError::Unreachable { socket: self.socket.clone(), source });
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn exchange(&self, request: &str) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        stream.write_all(request.as_bytes()).await?;
        stream.shutdown().await?;
        let mut answer = Vec::with_capacity(1024);
        stream.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// What a master that is reloading does to its clients.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, Interrupted, UnexpectedEof, WouldBlock};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | BrokenPipe | UnexpectedEof | WouldBlock | Interrupted)
}

/// HAProxy's alerts and warnings, or all it said if there are none; at most [`WORDS_BYTES`] bytes.
pub(crate) fn words(text: &str) -> String {
    let said = text.split_once("--\n").map_or(text, |(_, said)| said);
    // An alert may go on for several lines; the next message starts with its own level.
    let mut in_alert = false;
    let mut alerts = Vec::new();
    for line in said.lines() {
        if line.starts_with('[') {
            in_alert = line.starts_with("[ALERT]");
        }
        if in_alert {
            alerts.push(line);
        }
    }
    let mut words = if alerts.is_empty() { said.trim().to_owned() } else { alerts.join("\n") };
    if words.len() > WORDS_BYTES {
        let end = (0..=WORDS_BYTES).rev().find(|index| words.is_char_boundary(*index)).unwrap_or(0);
        words.truncate(end);
    }
    words
}

fn parse_processes(answer: &str) -> Option<Processes> {
    let mut processes = Processes::default();
    let mut workers = Vec::new();
    let mut old = false;
    let mut old_workers = Vec::new();
    for line in answer.lines() {
        if line.starts_with('#') {
            old = line.starts_with("# old workers");
            continue;
        }
        let mut fields = line.split_whitespace();
        let (Some(Ok(pid)), Some(kind)) = (fields.next().map(str::parse::<u32>), fields.next()) else { continue };
        let reloads: u32 = fields.next().and_then(|number| number.parse().ok()).unwrap_or(0);
        match kind {
            "master" => processes.master = pid,
            "worker" if old => old_workers.push((reloads, pid)),
            "worker" => workers.push(pid),
            _ => {}
        }
    }
    if processes.master == 0 {
        return None;
    }
    // The youngest has seen the fewest reloads.
    old_workers.sort_unstable();
    processes.worker = workers.first().copied();
    let mut old_workers = old_workers.into_iter().map(|(_, pid)| pid);
    if processes.worker.is_none() {
        processes.worker = old_workers.next();
    }
    processes.old_workers = old_workers.collect();
    Some(processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_youngest_old_worker_after_a_failed_reload() {
        let answer = "#<PID>          <type>          <reloads>       <uptime>        <version>\n\
             12704           master          1 [failed: 1]   0d00h00m01s     3.2.26-1\n# workers\n# old workers\n\
             12500           worker          5               0d00h00m09s     3.2.26-1\n\
             12706           worker          1               0d00h00m01s     3.2.26-1\n";
        let expected = Processes { master: 12704, worker: Some(12706), old_workers: vec![12500] };
        assert_eq!(parse_processes(answer), Some(expected));
    }

    #[test]
    fn passes_on_the_alerts() {
        let answer = "Success=0\n--\n[NOTICE]   (1) : haproxy version is 3.2\n[ALERT]    (1) : config : parsing [x:1] : \
             unknown keyword 'bogus'\n[WARNING]  (1) : Loading failure!\n";
        assert_eq!(words(answer), "[ALERT]    (1) : config : parsing [x:1] : unknown keyword 'bogus'");
        let long = "Success=0\n--\n[ALERT]    (1) : config : first\n  second\n[NOTICE] (1) : third\n";
        assert_eq!(words(long), "[ALERT]    (1) : config : first\n  second");
        assert_eq!(words("Success=1\n--\n[NOTICE] fine\n"), "[NOTICE] fine");
    }
}
