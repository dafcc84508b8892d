//! An honest plugin's calls, alone and while hostile guests run beside it, each on a core of its own.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, ensure};
use haptic_model::ports::{Now, OutputValidators as _};
use haptic_plugins::{Limits, PluginHost, PluginSet, PluginSettings};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;

use crate::{
    Subject,
    plugins::{checked, plugin},
    stats::{self, Samples},
};

/// What the neighbours do: never end, take all memory, nest without end.
const FAULTS: [&str; 3] = ["loop", "memory-hog", "recursion"];
const TIMEOUT: Duration = Duration::from_millis(50);
const ROUNDS: usize = 10;
const CALLS: usize = 500;

pub(crate) fn measure(subject: &Subject, host: &PluginHost) -> Result<()> {
    let cores: Vec<usize> = available()?;
    let honest = plugin(subject, host, "error-file", json!({}))?;
    let page = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\r\ntry again later\n";
    let (honest, files) = checked(&honest, "general/503.http", page)?;
    let call = |samples: &mut Samples| -> Result<()> {
        for _ in 0..CALLS {
            let began = Instant::now();
            let reports = honest.validate_auxiliary(&files, Now(0));
            samples.push(began.elapsed());
            ensure!(!reports[0].stops(), "the honest plugin answers: {reports:?}");
        }
        Ok(())
    };
    let path = subject.guests.join("fault.wasm");
    let bytes = fs::read(&path).with_context(|| format!("reading {}: run `make guests`", path.display()))?;
    let limits = Limits { timeout: TIMEOUT, ..Limits::default() };
    let settings = |fault: &str| PluginSettings { config: json!({"on_call": fault}), limits, ..Default::default() };
    for fault in FAULTS {
        let hostile = host.load(fault, &bytes, None, &settings(fault))?;
        let (hostile, hostile_files) = checked(&hostile, "general/x", "x")?;
        let neighbour = Neighbour::new(hostile, hostile_files);
        let (mut alone, mut beside) = (Samples::default(), Samples::default());
        let (first, last) = (cores.first().copied(), cores.last().copied());
        thread::scope(|scope| -> Result<()> {
            let run = scope.spawn(|| pinned(last).and_then(|()| neighbour.run()));
            let (alone, beside, neighbour, call) = (&mut alone, &mut beside, &neighbour, &call);
            let thread = run.thread().clone();
            // A thread of its own: what is pinned stays pinned.
            let measured = scope.spawn(move || -> Result<()> {
                pinned(first)?;
                for _ in 0..ROUNDS {
                    call(alone)?;
                    neighbour.resume(&thread);
                    call(beside)?;
                    neighbour.pause();
                }
                Ok(())
            });
            let measured = measured.join().map_err(|_| anyhow!("the honest calls panicked"));
            neighbour.end(run.thread());
            run.join().map_err(|_| anyhow!("the hostile calls panicked"))??;
            measured?
        })?;
        ensure!(neighbour.stopped.load(Ordering::SeqCst) > 0, "`{fault}` ran and was stopped");
        alone.print(&format!("1 KiB call before `{fault}` runs beside it"), "");
        let ratio = beside.median().as_secs_f64() / alone.median().as_secs_f64();
        beside.print(&format!("1 KiB call while `{fault}` runs beside it"), "");
        stats::print(&format!("with `{fault}` ÷ alone, {} cores", cores.len()), &format!("{ratio:.2}"), "≤ 1.1");
    }
    Ok(())
}

/// A thread that makes hostile calls while it is told to.
struct Neighbour {
    hostile: PluginSet,
    files: haptic_model::FileSet,
    running: AtomicBool,
    ended: AtomicBool,
    idle: AtomicBool,
    stopped: AtomicU64,
}

impl Neighbour {
    fn new(hostile: PluginSet, files: haptic_model::FileSet) -> Self {
        let (running, ended, idle) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(true));
        Self { hostile, files, running, ended, idle, stopped: AtomicU64::new(0) }
    }

    fn run(&self) -> Result<()> {
        while !self.ended.load(Ordering::SeqCst) {
            self.idle.store(false, Ordering::SeqCst);
            if !self.running.load(Ordering::SeqCst) {
                self.idle.store(true, Ordering::SeqCst);
                thread::park();
                continue;
            }
            let reports = self.hostile.validate_auxiliary(&self.files, Now(0));
            ensure!(reports[0].failure.is_some(), "the hostile plugin is stopped: {reports:?}");
            self.stopped.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn resume(&self, thread: &Thread) {
        self.running.store(true, Ordering::SeqCst);
        thread.unpark();
    }

    /// Comes back when no hostile call runs any more.
    fn pause(&self) {
        self.running.store(false, Ordering::SeqCst);
        while !self.idle.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    }

    fn end(&self, thread: &Thread) {
        self.ended.store(true, Ordering::SeqCst);
        thread.unpark();
    }
}

fn available() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

fn pinned(core: Option<usize>) -> Result<()> {
    let Some(core) = core else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}
