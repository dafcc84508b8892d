//! `make bench`: the figures of DESIGN §13 that a standalone haptic can show, as medians of one run on this machine.
//!
//! Wants a release build: HAPTIC_BIN names the binary, HAPTIC_PLUGINS_DIR the built plugins, HAPTIC_HAPROXY_DIR the
//! HAProxy builds, HAPTIC_NATIVE_VALIDATORS the built `tests/bench/native`. The first argument is the number of routes,
//! 5,000 if there is none, or `plugins`, and perhaps one of its sections, for the figures of plugins alone, or
//! `kubernetes`, and perhaps a number of routes, for those in a real Kubernetes (as root, with HAPTIC_REGISTRY_TOOLS_DIR),
//! or `admission`, and perhaps numbers of routes (2,000 and 10,000 if there are none), for writes that are judged there.
#![allow(clippy::print_stdout, reason = "printing figures is what it is for")]

mod admission;
mod cluster;
mod inside;
mod kubernetes;
mod live;
mod plugins;
mod render;
mod stats;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use haptic_haproxy::version::HaproxyBinary;

/// Routes, unless the command line says otherwise.
const ROUTES: usize = 5_000;
const ADMISSION_ROUTES: [usize; 2] = [2_000, 10_000];

/// What is measured.
pub(crate) struct Subject {
    pub(crate) haptic: PathBuf,
    pub(crate) plugins: PathBuf,
    pub(crate) guests: PathBuf,
    pub(crate) haproxy: HaproxyBinary,
    pub(crate) routes: usize,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let routes = match arguments[..] {
        ["idle", modules, cache, haptic] => {
            return plugins::idle::child(Path::new(modules), Path::new(cache), Path::new(haptic));
        }
        [] | ["plugins" | "admission", ..] | ["kubernetes"] => ROUTES,
        ["kubernetes", number, ..] => number.parse().context("after `kubernetes` comes the number of routes")?,
        [number, ..] => number.parse().context("the first argument is the number of routes, or `plugins`")?,
    };
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).with_context(|| format!("{name} is not set"));
    let haproxies = folder("HAPTIC_HAPROXY_DIR")?;
    let haproxy = HaproxyBinary::all_in(&haproxies).pop();
    let haproxy = haproxy.with_context(|| format!("no HAProxy in {}: run `make haproxies`", haproxies.display()))?;
    let subject = Subject {
        haptic: folder("HAPTIC_BIN")?,
        plugins: folder("HAPTIC_PLUGINS_DIR")?,
        guests: folder("HAPTIC_GUESTS_DIR")?,
        haproxy,
        routes,
    };
    let routes = if arguments.first() == Some(&"admission") { String::new() } else { format!(", {routes} routes") };
    heading(&subject, &routes);
    if let Some((&"plugins", section)) = arguments.split_first() {
        return plugins::measure(&subject, section.first().copied());
    }
    if let Some((&"admission", numbers)) = arguments.split_first() {
        let given: Result<Vec<usize>, _> = numbers.iter().map(|number| number.parse()).collect();
        let given = given.context("after `admission` come numbers of routes")?;
        return admission::measure(if given.is_empty() { &ADMISSION_ROUTES } else { &given });
    }
    if arguments.first() == Some(&"kubernetes") {
        return kubernetes::measure(&subject);
    }
    render::measure(&subject)?;
    live::measure(&subject)?;
    plugins::measure(&subject, None)
}

fn heading(subject: &Subject, routes: &str) {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = processors.lines().filter(|line| line.starts_with("processor")).count();
    println!("haptic {}, HAProxy {}, wasmtime 48", env!("CARGO_PKG_VERSION"), subject.haproxy.version);
    println!("{cores} cores, {}{routes}", model.map_or("unknown processor", |(_, model)| model));
    println!("{:<62} {:>10} {:>10} {:>10} {:>6}", "", "median", "p99", "to reach", "n");
}
