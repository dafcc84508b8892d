//! A running `haptic plugin serve`.

use std::{
    env,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use haptic_conformance::v1::{Client, Request, RequestFile, RequestFileKind, Response, VERSION};
use haptic_e2e::{binary, eventually, within};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Enough for honest work in a build that is slow to be debugged, on a machine that does much else.
pub(crate) const LIMITS: &str = "timeout=20s";

/// Longer than any start or stop takes.
const BOUND: Duration = Duration::from_mins(1);

pub(crate) struct Served {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    socket: PathBuf,
    _folder: Option<TempDir>,
}

/// A first-party plugin.
pub(crate) fn plugin(name: &str) -> Result<PathBuf> {
    built("HAPTIC_PLUGINS_DIR", "plugins", name)
}

/// A guest that commits faults.
pub(crate) fn guest(name: &str) -> Result<PathBuf> {
    built("HAPTIC_GUESTS_DIR", "guests", name)
}

fn built(variable: &str, kind: &str, name: &str) -> Result<PathBuf> {
    let folder = match env::var_os(variable) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env::var_os("HOME").context("HOME is not set")?).join(".cache/haptic").join(kind),
    };
    let path = folder.join(format!("{name}.wasm"));
    ensure!(path.exists(), "{} is not there: run make {kind}", path.display());
    Ok(path)
}

/// Where compiled plugins are kept between tests.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-plugins")
}

/// `haptic plugin serve` with these arguments, to its end: for starts that must fail.
pub(crate) fn refused(module: &Path, socket: &Path, arguments: &[&str]) -> Result<Output> {
    command(module, socket, arguments).output().context("run haptic plugin serve")
}

/// A folder is a project.
fn command(module: &Path, socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(["plugin", "serve"]);
    if module.is_dir() {
        command.arg("--project");
    }
    command.arg(module).arg("--socket").arg(socket).arg("--cache").arg(cache());
    command.args(["--log-format", "json"]).args(arguments).env("HAPTIC_LOG", "info,haptic_conformance=debug");
    command.stdin(Stdio::null());
    command
}

/// One file and the data files that go with it.
pub(crate) fn request(path: &str, content: &str, data: &[(&str, &str)]) -> Request {
    let file =
        |path: &str, content: &str, kind| RequestFile { path: path.to_owned(), content: content.to_owned(), kind };
    let data = data.iter().map(|(path, content)| file(path, content, Some(RequestFileKind::Data)));
    let files = std::iter::once(file(path, content, None)).chain(data).collect();
    Request { protocol_version: VERSION, files, staged_root: None }
}

/// What a client of a good plugin gets for a file that is wrong: the path of its first error.
pub(crate) fn first_path(response: &Response) -> &str {
    response.errors.first().map_or("", |error| error.path.as_str())
}

/// The sentences of an answer that is about no file.
pub(crate) fn about_no_file(response: &Response) -> Vec<&str> {
    assert!(response.errors.iter().all(|error| error.path.is_empty() && (error.line, error.column) == (0, 0)));
    response.errors.iter().map(|error| error.message.as_str()).collect()
}

// === impl Served ===

impl Served {
    /// Serves a plugin in a folder of its own.
    pub(crate) async fn start(module: &Path, arguments: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("v1.sock");
        Self::launch(module, &socket, arguments, Some(folder)).await
    }

    /// Serves a plugin at `socket`.
    pub(crate) async fn start_at(module: &Path, socket: &Path, arguments: &[&str]) -> Result<Self> {
        Self::launch(module, socket, arguments, None).await
    }

    /// Starts the process, and waits until it says that it serves.
    async fn launch(module: &Path, socket: &Path, arguments: &[&str], folder: Option<TempDir>) -> Result<Self> {
        let mut child = command(module, socket, arguments).stderr(Stdio::piped()).spawn().context("start haptic")?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let (pipe, lines) = (child.stderr.take().context("a pipe")?, Arc::clone(&log));
        // Ends with the pipe.
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                lines.lock().push(line);
            }
        });
        let mut served = Self { child, log, socket: socket.to_owned(), _folder: folder };
        within(BOUND, "a served plugin", async || {
            if let Ok(Some(status)) = served.child.try_wait() {
                panic!("haptic plugin serve ended with {status}:\n{}", served.log.lock().join("\n"));
            }
            (!served.logged("serving protocol v1").is_empty()).then_some(())
        })
        .await;
        Ok(served)
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        Ok(Client::connect(&self.socket).await?)
    }

    /// Asks over a new connection.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Response> {
        Ok(self.client().await?.ask(request).await?)
    }

    /// Lines of the log with this message.
    pub(crate) fn logged(&self, message: &str) -> Vec<Value> {
        let lines = self.log.lock();
        let values = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        values.filter(|value| value["message"] == message).collect()
    }

    /// Waits until the log has `count` lines with this message.
    pub(crate) async fn until_logged(&self, message: &str, count: usize) {
        eventually(&format!("{count} times `{message}` in the log"), async || {
            (self.logged(message).len() >= count).then_some(())
        })
        .await;
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("a process id is not 0")?;
        Ok(kill_process(pid, signal)?)
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        within(BOUND, "the end of haptic plugin serve", async || child.try_wait().ok().flatten()).await.0
    }

    /// Asks it to stop, waits until it has, and returns what it said that it did.
    pub(crate) async fn stop(&mut self) -> Result<Value> {
        self.signal(Signal::TERM)?;
        let status = self.ended().await;
        ensure!(status.success(), "haptic plugin serve ended with {status}");
        ensure!(!self.socket.exists(), "the socket is gone");
        self.until_logged("stopped serving", 1).await;
        Ok(self.logged("stopped serving").remove(0))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        #[allow(clippy::print_stderr, reason = "the log of a failed test is read where the test failed")]
        if thread::panicking() {
            for line in self.log.lock().iter().rev().take(60).rev() {
                eprintln!("haptic plugin serve: {line}");
            }
        }
    }
}
