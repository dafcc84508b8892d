//! The same validators as a native process, asked over protocol v1 on a unix socket, or timing themselves.

use std::{
    env, fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;

/// How long a process may take to listen.
const BOUND: Duration = Duration::from_secs(10);

pub(crate) struct NativeProcess {
    child: Child,
    connection: UnixStream,
    _folder: tempfile::TempDir,
}

#[derive(Serialize)]
struct Request<'a> {
    protocol_version: u32,
    files: [RequestFile<'a>; 1],
}

#[derive(Serialize)]
struct RequestFile<'a> {
    path: &'a str,
    content: &'a str,
}

/// The median of calls that the process makes by itself.
pub(crate) fn in_process(validator: &str, config: &Value, path: &str, content: &str, calls: usize) -> Result<Duration> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("file");
    fs::write(&file, content)?;
    let mut command = Command::new(binary()?);
    command.args(["time", validator, &config.to_string(), path]).arg(&file).arg(calls.to_string());
    let output = command.stderr(Stdio::inherit()).output().context("timing a native validator")?;
    ensure!(output.status.success(), "the native `{validator}` failed");
    Ok(Duration::from_nanos(String::from_utf8(output.stdout)?.trim().parse()?))
}

fn binary() -> Result<PathBuf> {
    let message = "HAPTIC_NATIVE_VALIDATORS is not set: it names the built `tests/bench/native`, see `make bench`";
    env::var_os("HAPTIC_NATIVE_VALIDATORS").map(PathBuf::from).context(message)
}

// === impl NativeProcess ===

impl NativeProcess {
    pub(crate) fn start(validator: &str, config: &Value) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("v1.sock");
        let mut command = Command::new(binary()?);
        command.arg("serve").arg(&socket).args([validator, &config.to_string()]);
        let child = command.stdin(Stdio::null()).spawn().context("starting a native validator")?;
        let connection = connect(&socket)?;
        Ok(Self { child, connection, _folder: folder })
    }

    /// Asks about one file; the verdict comes back as `result`.
    pub(crate) fn ask(&mut self, path: &str, content: &str) -> Result<Value> {
        let request = Request { protocol_version: 1, files: [RequestFile { path, content }] };
        let body = serde_json::to_vec(&request)?;
        self.connection.write_all(&u32::try_from(body.len())?.to_be_bytes())?;
        self.connection.write_all(&body)?;
        let mut length = [0; 4];
        self.connection.read_exact(&mut length)?;
        let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length))?];
        self.connection.read_exact(&mut answer)?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

impl Drop for NativeProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(socket: &Path) -> Result<UnixStream> {
    let began = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(connection) => return Ok(connection),
            Err(error) if began.elapsed() > BOUND => return Err(error).context("the native validator does not listen"),
            Err(_) => thread::yield_now(),
        }
    }
}
