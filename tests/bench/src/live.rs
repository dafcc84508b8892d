//! The real binary with a real HAProxy: changes of files until they are acknowledged, or answered through HAProxy.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::{
    Subject, cluster,
    stats::{self, Samples},
};

const CHANGES: usize = 60;
const NEW_ROUTES: usize = 20;
/// A start with many routes and a debug build of nothing: generous.
const BOUND: Duration = Duration::from_mins(2);
const HTTP: u16 = 18_080;

struct Running {
    child: Child,
    lines: Receiver<String>,
}

pub(crate) fn measure(subject: &Subject) -> Result<()> {
    let backend = backend()?;
    for policy in [false, true] {
        let folder = tempfile::Builder::new().prefix("hb").tempdir_in("/tmp")?;
        let root = folder.path().join("m");
        fs::create_dir(&root)?;
        cluster::write(&root, subject.routes, backend.port(), &cluster::config(HTTP, policy))?;
        let began = Instant::now();
        let running = Running::start(subject, &root, &folder.path().join("s"))?;
        running.reconciled("reload")?;
        if !policy {
            stats::print("start until HAProxy serves all of it", &stats::shown(began.elapsed()), "");
        }
        let with = if policy { ", with the policy plugin" } else { "" };
        endpoints(&running, &root, backend.port(), with)?;
        if !policy {
            new_routes(&running, &root, backend.port())?;
            stats::print("memory of the controller (RSS)", &format!("{} MiB", running.memory()?), "120 MiB");
        }
        running.stop()?;
    }
    Ok(())
}

fn endpoints(running: &Running, root: &Path, port: u16, with: &str) -> Result<()> {
    let (mut event, mut file) = (Samples::default(), Samples::default());
    for round in 0..CHANGES {
        let number = round % cluster::ALONE;
        let began = Instant::now();
        fs::write(cluster::slice_file(root, number), cluster::slice(number, &format!("127.9.2.{}", round + 1), port))?;
        let line = running.reconciled("runtime")?;
        file.push(began.elapsed());
        let total = line["total_ms"].as_f64().context("the line has total_ms")?;
        event.push(Duration::from_secs_f64(total / 1e3));
    }
    let goal = if with.is_empty() { "5 ms" } else { "" };
    event.print(&format!("endpoint change: store event to acknowledged{with}"), goal);
    file.print(&format!("endpoint change: file written to acknowledged{with}"), "");
    Ok(())
}

fn new_routes(running: &Running, root: &Path, port: u16) -> Result<()> {
    let frontend = SocketAddr::from(([127, 9, 0, 9], HTTP));
    let mut samples = Samples::default();
    for round in 0..NEW_ROUTES {
        let number = 1_000_000 + round;
        let (ingress, service) = (cluster::ingress(number), cluster::service(number));
        let text = format!("{ingress}---\n{service}---\n{}", cluster::slice(number, "127.9.0.1", port));
        let began = Instant::now();
        fs::write(root.join(format!("new-{round}.yaml")), text)?;
        while !answers(frontend, &format!("app-{number}.example")) {
            ensure!(began.elapsed() < BOUND, "the new route does not answer");
            thread::yield_now();
        }
        samples.push(began.elapsed());
        running.reconciled("runtime")?;
    }
    samples.print("new route: file written to the first 200", "50 ms");
    Ok(())
}

/// Answers 200 to everything on 127.9.0.1 and 127.9.0.2.
fn backend() -> Result<SocketAddr> {
    let first = TcpListener::bind("127.9.0.1:0")?;
    let address = first.local_addr()?;
    let second = TcpListener::bind(("127.9.0.2", address.port()))?;
    for listener in [first, second] {
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || answer(stream));
            }
        });
    }
    Ok(address)
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = BufReader::new(stream.try_clone()?);
    loop {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            if request.read_line(&mut line)? == 0 {
                return Ok(());
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
    }
}

fn answers(frontend: SocketAddr, host: &str) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&frontend, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(&status == b"HTTP/1.1 200")
    };
    ask().unwrap_or(false)
}

// === impl Running ===

impl Running {
    fn start(subject: &Subject, root: &Path, state: &Path) -> Result<Self> {
        let mut command = Command::new(&subject.haptic);
        command.arg("run").arg("--standalone").arg(root).arg("--state").arg(state);
        command.arg("--haproxy").arg(&subject.haproxy.path).args(["--log-format", "json"]);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().context("starting haptic")?;
        let output = child.stderr.take().context("haptic's log")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// The next line about a reconciliation that ended in `mode`.
    fn reconciled(&self, mode: &str) -> Result<Value> {
        let until = Instant::now() + BOUND;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).with_context(|| format!("no reconciliation ended in {mode}"))?;
            let Ok(value) = serde_json::from_str::<Value>(&line) else { continue };
            if value["level"] == "ERROR" {
                bail!("haptic says: {line}");
            }
            if value["mode"] == mode && value["target"] == "haptic::reconciliation" {
                return Ok(value);
            }
        }
    }

    fn memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        Ok(kib.context("VmRSS")?.trim().parse::<u64>()? / 1024)
    }

    fn stop(mut self) -> Result<()> {
        let kill = Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status()?;
        ensure!(kill.success(), "haptic was gone before it was told to stop");
        ensure!(self.child.wait()?.success(), "haptic stops cleanly");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
