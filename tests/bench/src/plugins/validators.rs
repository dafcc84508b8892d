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

pub(crate) fn measure(subject: &Subject, host: &PluginHost) -> Result<()> {
    let config = json!({"bufferBytes": 16 << 20});
    compare(subject, host, "error-file", &config, "general/503.http", error_file)?;
    compare(subject, host, "maps", &json!({}), "maps/hosts.map", map)?;
    policy(subject, host)
}

/// Both ways in turns, so that whatever else the machine does hits both; several calls each, so that neither always
/// finds the processor's caches as the other one left them.
fn compare(
    subject: &Subject,
    host: &PluginHost,
    name: &str,
    config: &Value,
    path: &str,
    content: fn(usize) -> String,
) -> Result<()> {
    let plugin = plugin(subject, host, name, config.clone())?;
    let mut process = native::NativeProcess::start(name, config)?;
    for (bytes, calls, goal) in SIZES {
        let content = content(bytes);
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
        wasm.print(&format!("{name}, file of {size}, wasm, fresh instance"), goal);
        let native = native::in_process(name, config, path, &content, TURNS * calls)?;
        stats::print(&format!("{name}, file of {size}, native, in process"), &stats::shown(native), "");
        socket.print(&format!("{name}, file of {size}, native process, unix socket and JSON"), "");
        let ratio = socket.median().as_secs_f64() / wasm.median().as_secs_f64();
        let goal = if bytes >= 1 << 20 { "≥ 2" } else { "" };
        stats::print(&format!("{name}, file of {size}, native process ÷ wasm"), &format!("{ratio:.2}"), goal);
    }
    Ok(())
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
