//! Filter calls, alone and in a render.

use std::{
    collections::{BTreeMap, BTreeSet},
    hint::black_box,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow, ensure};
use haptic_model::ports::{FilterCall, TemplateFilters};
use haptic_plugins::{PluginHost, PluginSet, PluginUse};
use haptic_render::{FileTemplate, Inputs, Memo, RawText, Renderer, Template, TemplateSet};
use haptic_store::Store;
use serde_json::json;

use crate::{
    Subject,
    plugins::plugin,
    stats::{self, Samples},
};

const CALLS: usize = 20_000;
/// Calls that are timed together, because one is too short. Few enough that most batches are not interrupted.
const BATCH: u32 = 100;
const MEMOISED: usize = 500;
const ROUNDS: usize = 15;

/// Calls of one render.
const RENDERED_CALLS: usize = 100_000;

pub(crate) fn measure(subject: &Subject, host: &PluginHost) -> Result<()> {
    let plugin = plugin(subject, host, "network", json!({}))?;
    let set = Arc::new(PluginSet::new(vec![PluginUse { plugin, validators: Vec::new() }])?);
    calls(&set)?;
    render(subject, &set)
}

/// Means of batches. A session that is new asks the guest, and again answers from memory.
fn calls(set: &PluginSet) -> Result<()> {
    let values: Vec<String> = (0..CALLS).map(|n| format!("\"10.{}.{}.1\"", n / 250, n % 250)).collect();
    let (mut new, mut memoised, mut native) = (Samples::default(), Samples::default(), Samples::default());
    let mut session = set.session();
    let mut ask = |value: &String| {
        session.call(FilterCall { filter: "ip_version", value, positional: &[], named: &[] }).map(drop)
    };
    for batch in values.chunks_exact(BATCH as usize) {
        new.push(each(|| batch.iter().try_for_each(&mut ask))?);
    }
    for batch in values[..MEMOISED].chunks_exact(BATCH as usize).cycle().take(CALLS / BATCH as usize) {
        memoised.push(each(|| batch.iter().try_for_each(&mut ask))?);
    }
    let parse = |value: &String| {
        black_box(value).trim_matches('"').parse().map(|address: IpAddr| {
            black_box(if address.is_ipv4() { "4" } else { "6" }.to_owned());
        })
    };
    for batch in values.chunks_exact(BATCH as usize) {
        native.push(each(|| batch.iter().try_for_each(parse))?);
    }
    new.print("filter ip_version, every value new", "0.6 µs");
    memoised.print(&format!("filter ip_version, memoised ({MEMOISED} values)"), "");
    native.print("the same in native code", "");
    Ok(())
}

/// The mean time of one call of a batch.
fn each<E>(batch: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
    let began = Instant::now();
    batch()?;
    Ok(began.elapsed() / BATCH)
}

/// One template with a filter of a plugin and with a native one, in turns.
fn render(subject: &Subject, set: &Arc<PluginSet>) -> Result<()> {
    // What an author would write without the plugin, and a filter that does next to nothing.
    let wasm = renderer("ip_version", set)?;
    for native in ["regex_match(':')", "length"] {
        let with_native = renderer(native, set)?;
        let (mut of_wasm, mut of_native) = (Samples::default(), Samples::default());
        for _ in 0..ROUNDS {
            of_wasm.push(timed(subject, &wasm)?);
            of_native.push(timed(subject, &with_native)?);
        }
        let calls = RENDERED_CALLS / 1000;
        of_wasm.print(&format!("render with {calls},000 calls of ip_version, {MEMOISED} values"), "");
        of_native.print(&format!("render with {calls},000 calls of the native {native}"), "");
        let ratio = of_wasm.median().as_secs_f64() / of_native.median().as_secs_f64();
        stats::print(&format!("render with ip_version ÷ with {native}"), &format!("{ratio:.2}"), "≤ 1.5");
    }
    Ok(())
}

fn renderer(filter: &str, plugins: &Arc<PluginSet>) -> Result<Renderer> {
    let rounds = RENDERED_CALLS / MEMOISED;
    let source = format!(
        "{{% for round in range({rounds}) %}}{{% for value in addresses %}}{{{{ value | {filter} }}}}\n{{% endfor %}}{{% endfor %}}"
    );
    let template = |name: &str, source: &str| Template { name: name.into(), source: source.into() };
    let file = FileTemplate { template: template("calls", &source), reload_on_change: false };
    let addresses: Vec<String> = (0..MEMOISED).map(|n| format!("10.{}.{}.1", n / 250, n % 250)).collect();
    let set = TemplateSet {
        config: template("main", "global\n"),
        snippets: BTreeMap::new(),
        maps: BTreeMap::new(),
        files: BTreeMap::from([("calls".to_owned(), file)]),
        certificates: BTreeMap::new(),
        crt_lists: BTreeMap::new(),
        extra_context: json!({"addresses": addresses}),
        raw_text: RawText::Refused,
    };
    let filters: Arc<dyn TemplateFilters> = Arc::clone(plugins) as _;
    Renderer::compile(set, filters).map_err(|findings| anyhow!("{findings:?}"))
}

/// A render with an empty memo and a new session.
fn timed(subject: &Subject, renderer: &Renderer) -> Result<Duration> {
    let inputs = Inputs {
        snapshot: Store::new(Vec::new()).snapshot(),
        quarantined: BTreeSet::new(),
        haproxy: (subject.haproxy.minor.major, subject.haproxy.minor.minor),
    };
    let began = Instant::now();
    let rendered = renderer.render(&inputs, &mut Memo::default())?;
    let time = began.elapsed();
    let file = rendered.files.values().find(|file| file.path.as_str() == "general/calls");
    let lines = file.map_or(0, |file| file.content.split(|byte| *byte == b'\n').count() - 1);
    ensure!(lines == RENDERED_CALLS, "every call gives a line, not {lines}");
    Ok(time)
}
