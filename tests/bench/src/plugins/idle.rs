//! What many plugins hold while nobody calls them, in a process of their own.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use haptic_plugins::{CompileLimits, Compiler, CompilerProcess, PluginHost, PluginSettings};

use crate::{
    Subject,
    plugins::{modules, name},
    stats,
};

const PLUGINS: usize = 50;

/// Loads plugins in a child of this process, whose memory says nothing but that.
pub(crate) fn measure(subject: &Subject) -> Result<()> {
    let (cache, variants) = (tempfile::tempdir()?, tempfile::tempdir()?);
    write_variants(subject, variants.path())?;
    for what in ["compiled", "from the cache"] {
        let mut child = Command::new(env::current_exe()?);
        child.arg("idle").arg(variants.path()).arg(cache.path()).arg(&subject.haptic);
        let output = child.stderr(Stdio::inherit()).output().context("starting a child that loads plugins")?;
        ensure!(output.status.success(), "the child loads {PLUGINS} plugins");
        let kib: u64 = String::from_utf8(output.stdout)?.trim().parse()?;
        stats::print(&format!("{PLUGINS} plugins of {PLUGINS} modules, {what}, idle (RSS)"), &mebibytes(kib), "50 MiB");
    }
    Ok(())
}

/// The child: prints how many KiB its plugins added to it. They are compiled as haptic does it, by another process.
pub(crate) fn child(folder: &Path, cache: &Path, haptic: &Path) -> Result<()> {
    let compiler = CompilerProcess::new(haptic.to_owned(), vec!["compile-plugin".into()], CompileLimits::default());
    let host = PluginHost::with_compiler(Some(cache.to_owned()), Compiler::Process(compiler))?;
    let modules = listed(folder)?;
    // What the first use of the runtime takes is the host's, not the plugins'.
    let before = resident()?;
    let mut plugins = Vec::new();
    for module in modules {
        plugins.push(host.load(&name(&module), &fs::read(&module)?, None, &PluginSettings::default())?);
    }
    let after = resident()?;
    ensure!(plugins.len() == PLUGINS, "{} plugins are loaded", plugins.len());
    println!("{}", after.saturating_sub(before));
    Ok(())
}

/// Modules that do the same as the first-party ones and differ from each other in an empty custom section.
fn write_variants(subject: &Subject, folder: &Path) -> Result<()> {
    let modules = modules(subject)?;
    for (number, module) in (0..PLUGINS).zip(modules.iter().cycle()) {
        let mut bytes = fs::read(module)?;
        let section = format!("variant-{number:02}");
        // Section 0, its length, the length of its name, its name.
        bytes.extend([0, u8::try_from(section.len() + 1)?, u8::try_from(section.len())?]);
        bytes.extend(section.as_bytes());
        fs::write(folder.join(format!("{}-{number:02}.wasm", name(module))), bytes)?;
    }
    Ok(())
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    Ok(kib.context("VmRSS")?.trim().parse()?)
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn mebibytes(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}
