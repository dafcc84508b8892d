//! `haptic compile-plugin`, the process that compiles plugins for the controller: what it can reach, and what becomes of
//! modules that ask too much of it.

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::binary;
use haptic_model::ports::{FilterCall, TemplateFilters as _};
use haptic_plugins::{
    CompileFailure, CompileLimits, Compiler, CompilerProcess, LoadErrorReason, LoadedPlugin, PluginHost, PluginSet,
    PluginSettings, PluginUse,
};

fn host(limits: CompileLimits) -> Result<PluginHost> {
    let process = CompilerProcess::new(binary(), vec!["compile-plugin".into()], limits);
    Ok(PluginHost::with_compiler(None, Compiler::Process(process))?)
}

fn plugin(name: &str) -> Result<Vec<u8>> {
    let plugins = PathBuf::from(std::env::var_os("HAPTIC_PLUGINS_DIR").context("HAPTIC_PLUGINS_DIR is not set")?);
    Ok(fs::read(plugins.join(format!("{name}.wasm")))?)
}

fn load(host: &PluginHost, name: &str, module: &[u8]) -> Result<Arc<LoadedPlugin>, LoadErrorReason> {
    host.load(name, module, None, &PluginSettings::default()).map_err(|error| error.reason)
}

/// The filters of a host answer, whatever happened to other modules.
fn assert_serves(host: &PluginHost) -> Result<()> {
    let plugin = load(host, "network", &plugin("network")?)?;
    let set = PluginSet::new(vec![PluginUse { plugin, validators: Vec::new() }])?;
    let call = FilterCall { filter: "ip_version", value: "\"::1\"", positional: &[], named: &[] };
    ensure!(set.session().call(call)? == "6");
    Ok(())
}

/// A component of more functions than can be compiled soon, and fewer than are refused at sight.
fn slow_module() -> Result<Vec<u8>> {
    let body = "local.get 0 i64.const 3 i64.mul local.tee 0 i64.popcnt local.set 0 ".repeat(20);
    let function = format!("(func (param i64) {body})");
    Ok(wat::parse_str(format!("(component (core module {}))", function.repeat(60_000)))?)
}

#[test]
fn what_it_compiles_is_run() -> Result<()> {
    let host = host(CompileLimits::default())?;
    assert_serves(&host)?;
    ensure!(matches!(load(&host, "empty", b""), Err(LoadErrorReason::NotAComponent(_))));
    Ok(())
}

#[test]
fn a_module_that_takes_all_memory_is_named_and_harms_nobody() -> Result<()> {
    let host = host(CompileLimits { memory_bytes: 48 << 20, ..CompileLimits::default() })?;
    match load(&host, "bomb", &slow_module()?) {
        Err(LoadErrorReason::Compile(CompileFailure::Memory { limit_bytes })) => ensure!(limit_bytes == 48 << 20),
        other => ensure!(false, "{other:?}"),
    }
    assert_serves(&host)
}

#[test]
fn a_module_that_takes_for_ever_is_named_and_harms_nobody() -> Result<()> {
    let host = host(CompileLimits { processor_time: Duration::from_secs(1), ..CompileLimits::default() })?;
    match load(&host, "slow", &slow_module()?) {
        Err(LoadErrorReason::Compile(CompileFailure::ProcessorTime { limit_ms: 1000 })) => {}
        other => ensure!(false, "{other:?}"),
    }
    assert_serves(&host)
}

#[test]
fn it_gives_up_files_and_privileges_before_it_reads() -> Result<()> {
    let mut command = Command::new(binary());
    command.arg("compile-plugin").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut input = child.stdin.take().context("it is piped")?;
    // More than a pipe holds: once all is written, it has read.
    input.write_all(&vec![0; 1 << 20])?;
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let (limits, status) = (fs::read_to_string(proc.join("limits"))?, fs::read_to_string(proc.join("status"))?);
    drop(input);
    let answer = child.wait_with_output()?;
    for limit in ["Max open files            3 ", "Max file size             0 ", "Max core file size        0 "] {
        ensure!(limits.contains(limit), "{limits}");
    }
    // Landlock asks for it, where there is Landlock.
    ensure!(!fs::exists("/sys/kernel/security/landlock")? || status.contains("NoNewPrivs:\t1"), "{status}");
    ensure!(answer.status.success() && answer.stdout.starts_with(b"R"), "zeros are no component: {answer:?}");
    Ok(())
}
