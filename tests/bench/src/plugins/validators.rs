//! Validator calls: a fresh instance each, against the same code natively, in process and over protocol v1.

use std::{sync::Arc, time::Instant};

use anyhow::{Result, ensure};
use haptic_model::{
    File, FileKind, FilePath, FileSet,
    ports::{Now, OutputValidators as _},
};
use haptic_plugins::{PluginHost, PluginSet, PluginUse, ValidatorScope};
use serde_json::{Value, json};

use crate::{
    Subject,
    plugins::{checked, native, plugin},
    stats::{self, Samples},
};

const TURNS: usize = 5;
/// Bytes of the file, how often it is checked in one turn, and what a call is to take.
const SIZES: [(usize, usize, &str); 3] = [(1 << 10, 400, "40 µs"), (100 << 10, 60, ""), (5 << 20, 6, "")];
const POLICY_CALLS: usize = 20;

/// A validator and what it checks.
struct Comparison {
    plugin: &'static str,
    what: &'static str,
    path: &'static str,
    config: Value,
    /// A valid file of so many bytes.
    content: fn(usize) -> String,
}

pub(crate) fn measure(subject: &Subject, host: &PluginHost) -> Result<()> {
    let error_pages = json!({"bufferBytes": 16 << 20});
    let comparisons = [
        Comparison {
            plugin: "error-file",
            what: "file",
            path: "general/503.http",
            config: error_pages,
            content: error_file,
        },
        Comparison { plugin: "maps", what: "file", path: "maps/hosts.map", config: json!({}), content: map },
        Comparison {
            plugin: "maps",
            what: "unsorted",
            path: "maps/hosts.map",
            config: json!({}),
            content: unsorted_map,
        },
    ];
    comparisons.iter().try_for_each(|comparison| comparison.measure(subject, host))?;
    policy(subject, host)
}

fn error_file(bytes: usize) -> String {
    let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n";
    let line = "<p>The service is unavailable for the moment; please try again in a few minutes.</p>\n";
    format!("{head}{}", &line.repeat(bytes / line.len() + 1)[..bytes - head.len()])
}

fn map(bytes: usize) -> String {
    let line = |number: usize| format!("app-{number:07}.example backend-{number:07}\n");
    let length = line(0).len();
    (0..bytes / length).map(line).collect()
}

/// The same lines in an order that no sorting makes.
fn unsorted_map(bytes: usize) -> String {
    let sorted = map(bytes);
    let lines: Vec<&str> = sorted.split_inclusive('\n').collect();
    // A prime that is larger than any number of lines here visits each of them once.
    (0..lines.len()).map(|number| lines[number * 1_000_003 % lines.len()]).collect()
}

fn policy(subject: &Subject, host: &PluginHost) -> Result<()> {
    let plugin = plugin(subject, host, "policy", json!({"minTlsVersion": "TLSv1.2"}))?;
    let section = "backend app from profile\n  server a 10.0.0.1:80 weight 100 check inter 5s\n";
    let config = section.repeat((3 << 19) / section.len());
    let file = File::new(FilePath::new("haproxy.cfg")?, FileKind::Config, config);
    let files = FileSet::from([(file.path.clone(), file)]);
    let scopes = vec![ValidatorScope::default()];
    let set = PluginSet::new(vec![PluginUse { plugin: Arc::clone(&plugin), validators: scopes }])?;
    let mut samples = Samples::default();
    for _ in 0..POLICY_CALLS {
        let began = Instant::now();
        let reports = set.validate_output(&files, Now(0));
        samples.push(began.elapsed());
        ensure!(reports.len() == 1 && reports[0].failure.is_none(), "{reports:?}");
    }
    samples.print("policy, configuration of 1.5 MiB, wasm, fresh instance", "");
    Ok(())
}

// === impl Comparison ===

impl Comparison {
    /// Both ways in turns, so that whatever else the machine does hits both; several calls each, so that neither always
    /// finds the processor's caches as the other one left them.
    fn measure(&self, subject: &Subject, host: &PluginHost) -> Result<()> {
        let Self { plugin: name, what, path, ref config, content: make } = *self;
        let plugin = plugin(subject, host, name, config.clone())?;
        let mut process = native::NativeProcess::start(name, config)?;
        for (bytes, calls, goal) in SIZES {
            let content = make(bytes);
            let (set, files) = checked(&plugin, path, &content)?;
            let (mut wasm, mut socket) = (Samples::default(), Samples::default());
            for _ in 0..TURNS {
                for _ in 0..calls {
                    let began = Instant::now();
                    let reports = set.validate_auxiliary(&files, Now(0));
                    wasm.push(began.elapsed());
                    ensure!(reports.len() == 1 && !reports[0].stops(), "the file is valid: {reports:?}");
                }
                for _ in 0..calls {
                    let began = Instant::now();
                    let answer = process.ask(path, &content)?;
                    socket.push(began.elapsed());
                    ensure!(answer["result"] == "valid", "the native process says the same: {answer}");
                }
            }
            let size = if bytes < 1 << 20 { format!("{} KiB", bytes >> 10) } else { format!("{} MiB", bytes >> 20) };
            wasm.print(&format!("{name}, {what} of {size}, wasm, fresh instance"), goal);
            let native = native::in_process(name, config, path, &content, TURNS * calls)?;
            stats::print(&format!("{name}, {what} of {size}, native, in process"), &stats::shown(native), "");
            socket.print(&format!("{name}, {what} of {size}, native process, unix socket and JSON"), "");
            let ratio = socket.median().as_secs_f64() / wasm.median().as_secs_f64();
            let goal = if bytes >= 1 << 20 { "≥ 2" } else { "" };
            stats::print(&format!("{name}, {what} of {size}, native process ÷ wasm"), &format!("{ratio:.2}"), goal);
        }
        Ok(())
    }
}
