//! The client of the worker's stats socket: runtime commands, each answer checked.
//!
//! Every batch is one line (`set severity-output number;a;b;c`) of at most [`BATCH_BYTES`] on a fresh connection, so
//! a reload between two batches can never leave commands with the old worker (haproxy-facts §0 trap 2). The old worker
//! shares the listening socket and, on a busy machine, takes a connection or two after the master has called the reload
//! done (measured on 3.2 and 3.4): a client that is bound to a worker asks each batch who runs it. A payload stands last
//! on its line with a mark of its own. Answers come in order, each ended by an empty line. An answer that is not the
//! known success text of its command is a failure: the caller then falls back to a reload.
//!
//! Names: with `default-path config` in `haproxy.cfg`, measured on 3.0, 3.2 and 3.4 after start and after reloads,
//! HAProxy resolves every path relative to the configuration file that names it, and the runtime API knows each file by
//! exactly that relative string. So a [`FilePath`] is the name on the command line as it is.

mod answer;
mod command;
mod execute;
mod token;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use haptic_model::{FilePath, Op};
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::{Instant, sleep, timeout},
};

use crate::version::MinorVersion;

pub use answer::Answer;
pub use token::{UnsafeToken, check_token};

/// Longest line, payload included; HAProxy's own limit is 16 KiB (haproxy-facts §4).
pub const BATCH_BYTES: usize = 12 << 10;
/// Longest answer that is read.
const ANSWER_BYTES: u64 = 64 << 20;
/// Opens every batch, so that a failure is recognised by number and not by its wording.
const SEVERITY: &str = "set severity-output number";
/// How long until a batch that another worker took is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// A client for the worker behind one stats socket (level admin).
#[derive(Clone, Debug)]
pub struct RuntimeClient {
    socket: PathBuf,
    version: MinorVersion,
    timeout: Duration,
    /// The pid of the worker that is meant; `None` = whichever answers.
    worker: Option<u32>,
}

/// What [`RuntimeClient::execute`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Operations whose commands were all answered with success.
    pub ops: usize,
    /// What waits to be removable, in order; [`RuntimeClient::try_delete`] finishes it.
    pub deferred: Vec<Deletion>,
}

/// The half of a deletion that may have to wait for connections to end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deletion {
    Server {
        backend: String,
        server: String,
    },
    /// Only after its servers are gone.
    Backend {
        name: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionState {
    Gone,
    /// Connections hold it: try again later.
    Waiting,
    /// Something of the configuration refers to it: only a reload removes it.
    Stuck,
}

/// The files that the worker has loaded and can change at run time. Names that are no [`FilePath`] (`@system-ca`,
/// absolute paths) are left out: haptic did not write them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedFiles {
    pub maps: Vec<FilePath>,
    pub certificates: Vec<FilePath>,
    pub ca_files: Vec<FilePath>,
    pub crl_files: Vec<FilePath>,
    pub crt_lists: Vec<FilePath>,
}

#[derive(Debug, Error)]
pub enum RuntimeError {
    #[error("could not talk to HAProxy's runtime socket {socket}")]
    Socket {
        socket: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("HAProxy's runtime socket {socket} did not answer within {limit:?}")]
    Timeout { socket: PathBuf, limit: Duration },
    #[error("worker {got} answered at HAProxy's runtime socket {socket} where worker {expected} is meant")]
    OtherWorker { socket: PathBuf, expected: u32, got: u32 },
    #[error("HAProxy refused `{command}`: {answer}")]
    Refused { command: String, answer: String },
    #[error("HAProxy answered {got} of {expected} commands, the first being `{first}`")]
    Unframed { expected: usize, got: usize, first: String },
    #[error(transparent)]
    UnsafeToken(#[from] UnsafeToken),
    #[error("could not read {path} for a runtime command")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{command}` needs {bytes} bytes on one line, over the limit of {BATCH_BYTES}")]
    TooLong { command: String, bytes: usize },
    #[error("{0} is not an IP port of 1 to 65535")]
    Port(u16),
}

// === impl RuntimeClient ===

impl RuntimeClient {
    pub fn new(socket: &Path, version: MinorVersion, timeout: Duration) -> Self {
        Self { socket: socket.to_owned(), version, timeout, worker: None }
    }

    /// Binds this client to the worker with this pid. A batch that another one took is sent again, until the timeout.
    /// The other one is ending as a rule, and what it did is lost with it; if it is a newer one, the caller gets
    /// [`RuntimeError::OtherWorker`] and must load what is on disk.
    pub fn bind_to(&mut self, worker: Option<u32>) {
        self.worker = worker;
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Runs operations in order; certificates, CA files and whole maps are read below `base_dir`.
    ///
    /// Stops after the first batch with a bad answer: what ran stays, so the caller must reload.
    pub async fn execute(&self, ops: &[Op], base_dir: &Path) -> Result<Executed, RuntimeError> {
        execute::run(self, self.version, ops, base_dir).await
    }

    /// Tries the waiting half of deletions once, all in one go.
    pub async fn try_delete(&self, deletions: &[Deletion]) -> Result<Vec<DeletionState>, RuntimeError> {
        execute::try_delete(self, deletions).await
    }

    /// The pid of the worker that answers, whether or not it is the one that this client is bound to.
    pub async fn worker_pid(&self) -> Result<u32, RuntimeError> {
        let answers = self.ask_any(&["show info".to_owned()], None).await?;
        pid(&answers[0])
    }

    /// What the worker has loaded.
    pub async fn loaded_files(&self) -> Result<LoadedFiles, RuntimeError> {
        let commands = ["show map", "show ssl cert", "show ssl ca-file", "show ssl crl-file", "show ssl crt-list"];
        let answers = self.ask(&commands.map(str::to_owned), None).await?;
        let [maps, certificates, ca_files, crl_files, crt_lists] = answers.as_slice() else {
            return Err(RuntimeError::Unframed { expected: 5, got: answers.len(), first: commands[0].to_owned() });
        };
        Ok(LoadedFiles {
            maps: answer::names_in_parentheses(&maps.text),
            certificates: answer::names(&certificates.text),
            ca_files: answer::names(&ca_files.text),
            crl_files: answer::names(&crl_files.text),
            crt_lists: answer::names(&crt_lists.text),
        })
    }

    /// Runs read-only commands of a caller's own, e.g. `show servers state`.
    pub async fn ask_one(&self, command: &str) -> Result<Answer, RuntimeError> {
        let mut answers = self.ask(&[command.to_owned()], None).await?;
        answers.pop().ok_or(RuntimeError::Unframed { expected: 1, got: 0, first: command.to_owned() })
    }

    /// Sends commands as one line, with a payload for the last one, and returns one answer for each.
    pub(crate) async fn ask(&self, commands: &[String], payload: Option<&str>) -> Result<Vec<Answer>, RuntimeError> {
        let Some(expected) = self.worker else { return self.ask_any(commands, payload).await };
        let mut bound = Vec::with_capacity(commands.len() + 1);
        bound.push("show info".to_owned());
        bound.extend_from_slice(commands);
        let deadline = Instant::now() + self.timeout;
        loop {
            let mut answers = self.ask_any(&bound, payload).await?;
            let got = pid(&answers.remove(0))?;
            if got == expected {
                return Ok(answers);
            }
            if Instant::now() + RETRY_PAUSE >= deadline {
                return Err(RuntimeError::OtherWorker { socket: self.socket.clone(), expected, got });
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    /// As [`RuntimeClient::ask`], of whichever worker answers.
    async fn ask_any(&self, commands: &[String], payload: Option<&str>) -> Result<Vec<Answer>, RuntimeError> {
        let first = commands.first().cloned().unwrap_or_default();
        let mut line = String::with_capacity(SEVERITY.len() + 64 * commands.len() + payload.map_or(0, str::len));
        line.push_str(SEVERITY);
        for command in commands {
            line.push(';');
            line.push_str(command);
        }
        if let Some(payload) = payload {
            let mark = command::free_mark(payload);
            line.push_str(" <<");
            line.push_str(&mark);
            line.push('\n');
            line.push_str(payload);
            line.push_str(if payload.ends_with('\n') { "" } else { "\n" });
            line.push_str(&mark);
        }
        line.push('\n');
        if line.len() > BATCH_BYTES + 1024 {
            return Err(RuntimeError::TooLong { command: first, bytes: line.len() });
        }
        let text = timeout(self.timeout, self.exchange(line.as_bytes()))
            .await
            .map_err(|_| RuntimeError::Timeout { socket: self.socket.clone(), limit: self.timeout })?
            .map_err(|source| RuntimeError::Socket { socket: self.socket.clone(), source })?;
        let mut answers = answer::frames(&text);
        // The first frame belongs to `set severity-output`.
        if answers.len() != commands.len() + 1 {
            let got = answers.len().saturating_sub(1);
            return Err(RuntimeError::Unframed { expected: commands.len(), got, first });
        }
        answers.remove(0);
        Ok(answers)
    }

    async fn exchange(&self, line: &[u8]) -> io::Result<String> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        stream.write_all(line).await?;
        let mut answer = Vec::with_capacity(1024);
        stream.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

fn pid(info: &Answer) -> Result<u32, RuntimeError> {
    let pid = info.text.lines().find_map(|line| line.strip_prefix("Pid: ")?.trim().parse().ok());
    pid.ok_or_else(|| info.refused("show info"))
}

// === impl Deletion ===

impl std::fmt::Display for Deletion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Server { backend, server } => write!(f, "{backend}/{server}"),
            Self::Backend { name } => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncBufReadExt as _, io::BufReader, net::UnixListener};

    use super::*;
    use crate::version::OLDEST;

    /// A fake for a moment that a real HAProxy shows only on a busy machine: the old worker takes the first connections
    /// after a reload. Returns the lines that each worker was sent.
    async fn fake_workers(listener: UnixListener, pids: &[u32]) -> Vec<(u32, String)> {
        let mut sent = Vec::new();
        for pid in pids {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            let answers = line.trim_end().split(';').map(|command| match command {
                "show info" => format!("Name: HAProxy\nPid: {pid}\n\n"),
                _ => "\n".to_owned(),
            });
            stream.write_all(answers.collect::<String>().as_bytes()).await.unwrap();
            sent.push((*pid, line));
        }
        sent
    }

    #[tokio::test]
    async fn a_batch_that_the_old_worker_took_is_sent_again() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("worker.sock");
        let workers = fake_workers(UnixListener::bind(&socket).unwrap(), &[1, 1, 2]);
        let mut client = RuntimeClient::new(&socket, OLDEST, Duration::from_secs(10));
        client.bind_to(Some(2));
        let (answer, sent) = tokio::join!(client.ask_one("set server b/s weight 1"), async {
            tokio::time::timeout(Duration::from_secs(10), workers).await.unwrap()
        });
        assert!(answer.unwrap().is_silent());
        let line = "set severity-output number;show info;set server b/s weight 1\n";
        assert_eq!(sent, [1, 1, 2].map(|pid| (pid, line.to_owned())));
    }

    #[tokio::test]
    async fn another_worker_that_stays_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("worker.sock");
        let workers = fake_workers(UnixListener::bind(&socket).unwrap(), &[1; 1000]);
        let mut client = RuntimeClient::new(&socket, OLDEST, Duration::from_millis(100));
        client.bind_to(Some(2));
        let answer = tokio::select! {
            answer = client.ask_one("show map") => answer,
            sent = workers => panic!("asked {} times", sent.len()),
        };
        assert!(matches!(answer, Err(RuntimeError::OtherWorker { expected: 2, got: 1, .. })), "{answer:?}");
    }
}
