//! What a plugin costs, in one table.

mod table;

use std::{
    fs, io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use haptic_model::ports::{Contract, FilterSession, TemplateFilters as _};
use haptic_plugins::{HostError, InvalidPluginSet, Limits, LoadError, PluginHost, PluginSet, PluginUse, RUNTIME};
use serde::Serialize;
use thiserror::Error;

use crate::{
    Project,
    case::JsonCall,
    probe::{Base, Probe},
    report::micros,
    sample::{self, FilterSample, Sample},
};

/// Sizes of input that are made from the cases.
const SIZES: [(&str, usize); 4] = [("1 KiB", 1 << 10), ("100 KiB", 100 << 10), ("1 MiB", 1 << 20), ("5 MiB", 5 << 20)];

/// A measured call is not stopped at the plugin's own timeout: that it took longer is part of the answer.
const PATIENCE: Duration = Duration::from_mins(1);

/// What is measured again and again is measured until this time is over.
const TIME_PER_ROW: Duration = Duration::from_millis(400);

const MIN_RUNS: usize = 5;
const MAX_RUNS: usize = 500;

/// Compiling takes seconds for a large module.
const COMPILE_RUNS: usize = 3;

/// How to measure.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The content of the checked file, instead of content of several sizes made from the cases.
    pub input: Option<PathBuf>,
    /// An empty folder for compiled modules, from which loads are measured.
    pub scratch: PathBuf,
}

/// What a plugin costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Costs {
    pub plugin: String,
    /// Version of haptic.
    pub haptic: &'static str,
    pub runtime: &'static str,
    /// Size of the component.
    pub module_bytes: u64,
    /// The timeout of one call, which a row may be over.
    #[serde(rename = "timeoutMicros", serialize_with = "micros")]
    pub timeout: Duration,
    pub rows: Vec<Cost>,
}

/// One thing that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    /// E.g. `call, 1 MiB`.
    pub what: String,
    pub runs: usize,
    #[serde(rename = "medianMicros", serialize_with = "micros")]
    pub median: Duration,
    #[serde(rename = "p99Micros", serialize_with = "micros")]
    pub p99: Duration,
    /// The most that an instance held; `None` where none was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// How the call ended, for calls: a verdict, or what stopped it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// There is nothing to measure.
#[derive(Debug, Error)]
pub enum BenchError {
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("starting the plugin host")]
    Host(#[from] HostError),
    #[error("{0}")]
    Load(Arc<LoadError>),
    #[error("putting the plugin in use")]
    Set(#[from] InvalidPluginSet),
    #[error("the folder for compiled modules, {0}, did not serve one; give one that only you can write")]
    NotCached(PathBuf),
    #[error("--input is the file that a validator checks, and the plugin exports no validator")]
    NoValidator,
}

/// Measures a plugin. Blocks, for seconds to minutes. Numbers of a debug build of the host mean little.
pub fn bench(project: &Project, options: &BenchOptions) -> Result<Costs, BenchError> {
    let read = |path: &PathBuf| fs::read(path).map_err(|source| BenchError::Read { path: path.clone(), source });
    let bytes = read(&project.module)?;
    let input = options.input.as_ref().map(read).transpose()?;
    let module_bytes = bytes.len() as u64;
    let probe = Probe::new(project, bytes, None)?;
    let base = probe.base().map_err(BenchError::Load)?;
    let mut rows = vec![compile(&probe, &base, options)?, load(&probe, &base, options)?];
    for contract in base.plugin.contracts() {
        let name = match contract {
            Contract::AuxiliaryFile => "start, auxiliary file",
            Contract::RenderedOutput => "start, rendered output",
            Contract::TemplateFilter => "start, filters",
        };
        rows.push(repeated(name, || base.plugin.try_start(contract).unwrap_or_default()));
    }
    let samples = sample::samples(&probe, &base);
    if input.is_some() && samples.is_empty() {
        return Err(BenchError::NoValidator);
    }
    for sample in sample::largest_of_each(&samples) {
        let name = match sample.contract() {
            Contract::RenderedOutput => "check haproxy.cfg",
            _ => "check a file",
        };
        match &input {
            Some(content) => rows.push(call(&format!("{name}, {} B", content.len()), sample, content.clone())),
            None => rows.extend(SIZES.iter().map(|(size, length)| {
                let content = crate::checks::filled(sample.subject.content(), *length);
                call(&format!("{name}, {size}"), sample, content)
            })),
        }
    }
    for sample in &sample::filter_samples(&probe, &base) {
        rows.extend(filter(sample)?);
    }
    Ok(Costs {
        plugin: project.name.clone(),
        haptic: env!("CARGO_PKG_VERSION"),
        runtime: RUNTIME,
        module_bytes,
        timeout: project.limits.timeout,
        rows,
    })
}

// === impl Costs ===

impl Costs {
    /// For a terminal.
    pub fn text(&self) -> String {
        table::text(self)
    }
}

// === impl Cost ===

impl Cost {
    fn of(what: impl Into<String>, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            times.get((times.len().saturating_sub(1) * percent).div_ceil(100)).copied().unwrap_or_default()
        };
        Self { what: what.into(), runs: times.len(), median: at(50), p99: at(99), memory_bytes: None, ended: None }
    }
}

/// In hosts that know nothing; the last of them leaves the compiled module in the cache.
fn compile(probe: &Probe<'_>, base: &Base<'_>, options: &BenchOptions) -> Result<Cost, BenchError> {
    let mut times = Vec::new();
    for run in 1..=COMPILE_RUNS {
        let cache = (run == COMPILE_RUNS).then(|| options.scratch.clone());
        let host = PluginHost::new(cache)?;
        times
            .push(probe.load_in(&host, base.config).map_err(|error| BenchError::Load(Arc::new(error)))?.compile_time());
    }
    Ok(Cost::of("compile", times))
}

/// All of loading, in hosts that find the compiled module.
fn load(probe: &Probe<'_>, base: &Base<'_>, options: &BenchOptions) -> Result<Cost, BenchError> {
    let mut times = Vec::new();
    for _ in 0..COMPILE_RUNS * MIN_RUNS {
        let host = PluginHost::new(Some(options.scratch.clone()))?;
        let plugin = probe.load_in(&host, base.config).map_err(|error| BenchError::Load(Arc::new(error)))?;
        if !plugin.from_cache() {
            return Err(BenchError::NotCached(options.scratch.clone()));
        }
        times.push(plugin.load_time());
    }
    Ok(Cost::of("load from the cache", times))
}

fn call(what: &str, sample: &Sample, content: Vec<u8>) -> Cost {
    let subject = sample.subject.with_content(content);
    let limits = Limits { timeout: PATIENCE, ..sample.plugin.limits() };
    let mut last = None;
    let mut memory = 0;
    let mut cost = repeated(what, || {
        let trial = sample.plugin.try_question(&subject.question(sample.now), limits);
        let elapsed = trial.report.elapsed;
        memory = memory.max(trial.memory_bytes);
        last = Some(match (&trial.report.failure, &trial.raw) {
            (Some(failure), _) => failure.kind.to_string(),
            (None, Some(raw)) => raw.verdict.as_str().to_owned(),
            (None, None) => "no report".to_owned(),
        });
        elapsed
    });
    cost.memory_bytes = Some(memory);
    cost.ended = last;
    cost
}

/// A call that is answered by the instance, and one that is answered from memory.
fn filter(sample: &FilterSample) -> Result<[Cost; 2], BenchError> {
    let call = sample.call.json();
    let name = format!("{} ({})", sample.call.filter, sample.name);
    let mut direct = sample.plugin.direct_filters().expect("a sample of a filter is of a plugin that offers filters");
    let mut new = measured_filter(&format!("filter {name}, new"), &mut direct, &call);
    new.memory_bytes = Some(direct.memory_bytes());
    let used = PluginUse { plugin: Arc::clone(&sample.plugin), validators: Vec::new() };
    let set = PluginSet::new(vec![used])?;
    let remembered = measured_filter(&format!("filter {name}, again"), &mut *set.session(), &call);
    Ok([new, remembered])
}

fn measured_filter(what: &str, session: &mut dyn FilterSession, call: &JsonCall) -> Cost {
    // The first call also makes the instance.
    let ended = match session.call(call.borrowed()) {
        Ok(_) => "answered".to_owned(),
        Err(error) => error.to_string(),
    };
    let mut cost = repeated(what, || {
        let started = Instant::now();
        let _ = session.call(call.borrowed());
        started.elapsed()
    });
    cost.ended = Some(ended);
    cost
}

fn repeated(what: &str, mut once: impl FnMut() -> Duration) -> Cost {
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < MIN_RUNS || (times.len() < MAX_RUNS && started.elapsed() < TIME_PER_ROW) {
        times.push(once());
    }
    Cost::of(what, times)
}
