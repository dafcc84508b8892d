//! `haptic plugin test` and `haptic plugin bench`, as an author calls them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use haptic_e2e::binary;
use serde_json::Value;
use tempfile::TempDir;

struct Answer {
    code: i32,
    out: String,
    err: String,
}

/// Runs `haptic plugin …` in `folder`, with its cache there.
fn plugin(folder: &TempDir, arguments: &[&str]) -> Result<Answer> {
    let mut command = Command::new(binary());
    command.arg("plugin").args(arguments).current_dir(folder).env("XDG_CACHE_HOME", folder.path().join("cache"));
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("run haptic plugin {arguments:?}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Answer { code: status.code().context("a signal ended it")?, out: text(stdout), err: text(stderr) })
}

fn module() -> Result<String> {
    let plugins = PathBuf::from(std::env::var_os("HAPTIC_PLUGINS_DIR").context("HAPTIC_PLUGINS_DIR is not set")?);
    Ok(plugins.join("error-file.wasm").to_string_lossy().into_owned())
}

/// A copy of a first-party plugin's cases, as a project with `plugin.yaml`.
fn project() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/error-file/cases");
    copy(&cases, &folder.path().join("cases"))?;
    fs::create_dir(folder.path().join("dist"))?;
    fs::copy(module()?, folder.path().join("dist/error-file.wasm"))?;
    fs::write(folder.path().join("plugin.yaml"), "name: error-file\nlanguage: rust\n")?;
    Ok(folder)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[test]
fn a_project_is_tested_in_full_where_it_stands() -> Result<()> {
    let project = project()?;
    let tested = plugin(&project, &["test"])?;
    ensure!(tested.code == 0, "{}{}", tested.out, tested.err);
    ensure!(tested.out.contains("ok    complete-response"), "{}", tested.out);
    ensure!(tested.out.contains("ok    bit-flips"), "{}", tested.out);
    ensure!(tested.out.contains(" 0 failed, "), "{}", tested.out);
    let mut cached = fs::read_dir(project.path().join("cache/haptic/plugin-cache/compiled"))?;
    ensure!(cached.next().is_some(), "the compiled module is kept");
    Ok(())
}

#[test]
fn a_folder_without_a_manifest_is_tested_with_a_named_module() -> Result<()> {
    let project = project()?;
    fs::remove_file(project.path().join("plugin.yaml"))?;
    let refused = plugin(&project, &["test", "--quick"])?;
    ensure!(refused.code == 2 && refused.err.contains("holds no `plugin.yaml`"), "{}", refused.err);
    let tested = plugin(&project, &["test", ".", "--quick", "--module", &module()?, "--output", "json"])?;
    ensure!(tested.code == 0, "{}{}", tested.out, tested.err);
    let report: Value = serde_json::from_str(&tested.out)?;
    ensure!(report["summary"]["failed"] == 0 && report["module"]["generation"] == "1.0.0", "{report}");
    Ok(())
}

#[test]
fn a_wrong_case_is_exit_code_1_in_every_output() -> Result<()> {
    let project = project()?;
    let case = project.path().join("cases/empty/case.json");
    let text = fs::read_to_string(&case)?;
    let changed = text.replacen("\"line\": ", "\"line\": 9", 1);
    ensure!(text != changed, "the case has a finding");
    fs::write(&case, changed)?;
    let only = ["test", "--filter", "empty"];
    let tested = plugin(&project, &only)?;
    ensure!(tested.code == 1 && tested.out.contains("FAIL  empty"), "{}{}", tested.out, tested.err);
    ensure!(tested.out.contains("- error general/errors/503.http:9"), "{}", tested.out);
    let report = project.path().join("report.xml");
    let junit = ["--output", "junit", "--report", "report.xml"];
    let tested = plugin(&project, &[&only[..], &junit[..]].concat())?;
    ensure!(tested.code == 1 && tested.out.contains("FAIL  empty"), "the terminal has the text: {}", tested.out);
    let xml = fs::read_to_string(report)?;
    ensure!(xml.contains("<testsuite name=\"error-file cases\"") && xml.contains("<failure"), "{xml}");

    let blessed = plugin(&project, &["test", "--bless"])?;
    ensure!(blessed.code == 0, "{}{}", blessed.out, blessed.err);
    ensure!(plugin(&project, &only)?.code == 0, "what was blessed passes");
    Ok(())
}

#[test]
fn what_cannot_run_is_exit_code_2_with_the_next_step() -> Result<()> {
    let project = project()?;
    fs::write(project.path().join("plugin.yaml"), "name: error-file\nlanguage: rust\nlimits:\n  tmeout: 1s\n")?;
    let refused = plugin(&project, &["test"])?;
    ensure!(refused.code == 2, "{}", refused.err);
    ensure!(refused.err.contains("plugin.yaml: limits: unknown field `tmeout`"), "{}", refused.err);
    fs::write(project.path().join("plugin.yaml"), "name: other\nlanguage: rust\n")?;
    let refused = plugin(&project, &["test"])?;
    ensure!(refused.code == 2 && refused.err.contains("haptic plugin build"), "{}", refused.err);
    let refused = plugin(&project, &["test", "nowhere"])?;
    ensure!(refused.code == 2 && refused.err.contains("nowhere is not a folder"), "{}", refused.err);
    Ok(())
}

#[test]
fn a_bench_prints_a_table_or_json() -> Result<()> {
    let project = project()?;
    let benched = plugin(&project, &["bench"])?;
    ensure!(benched.code == 0, "{}", benched.err);
    for row in ["compile ", "load from the cache ", "start, auxiliary file ", "check a file, 5 MiB "] {
        ensure!(benched.out.contains(row), "{}", benched.out);
    }
    ensure!(benched.out.contains("wasmtime"), "versions are printed: {}", benched.out);
    let input = project.path().join("cases/complete-response/files/general/errors/503.http");
    let one = ["bench", &module()?, "--output", "json", "--input", &input.to_string_lossy()];
    let benched = plugin(&project, &one)?;
    let costs: Value = serde_json::from_str(&benched.out)?;
    let last = costs["rows"].as_array().and_then(|rows| rows.last()).context("there are rows")?;
    ensure!(last["ended"] == "valid" && last["medianMicros"].as_f64() > Some(0.0), "{costs}");
    Ok(())
}
