//! A served plugin says what it says in process.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, bail, ensure};
use haptic_conformance::v1::{Request, RequestFile, RequestFileKind, Response, VERSION};
use haptic_e2e::within;
use haptic_model::{
    File, FileKind, FilePath, FileSet,
    ports::{Contract, Now},
};
use haptic_plugins::{Limits, LoadErrorReason, LoadedPlugin, PluginHost, PluginSettings, Question};
use serde_json::{Value, json};

use crate::served::{LIMITS, Served, cache, first_path, guest, plugin, refused, request};

/// A case of a validator, as `sdk/src/testing.rs` describes it.
struct Case {
    folder: PathBuf,
    file: String,
    files: BTreeMap<String, String>,
    expect: Value,
}

/// Cases that one process can answer.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Start {
    plugin: String,
    /// As text, to be compared.
    config: String,
    now: u64,
    rendered_output: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every case of every first-party validator whose files protocol v1 can carry, and how many it cannot.
fn cases() -> Result<(BTreeMap<Start, Vec<Case>>, usize)> {
    let mut starts: BTreeMap<Start, Vec<Case>> = BTreeMap::new();
    let mut left_out = 0;
    for plugin in folders(&root().join("plugins"))? {
        if !plugin.join("cases").is_dir() {
            continue;
        }
        for folder in folders(&plugin.join("cases"))? {
            let path = folder.join("case.json");
            let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
            let case: Value = serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
            if case["calls"].is_array() {
                continue;
            }
            let mut files = BTreeMap::new();
            if !collect(&folder.join("files"), &folder.join("files"), &mut files)? {
                left_out += 1;
                continue;
            }
            let file = case["file"].as_str().unwrap_or("haproxy.cfg").to_owned();
            let start = Start {
                plugin: plugin.file_name().context("a folder has a name")?.to_string_lossy().into_owned(),
                config: if case["config"].is_null() { "{}".to_owned() } else { case["config"].to_string() },
                now: case["now"].as_u64().unwrap_or(0),
                rendered_output: file == "haproxy.cfg",
            };
            starts.entry(start).or_default().push(Case { folder, file, files, expect: case["expect"].clone() });
        }
    }
    Ok((starts, left_out))
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    found.retain(|path| path.is_dir());
    found.sort();
    Ok(found)
}

/// Reads the files of a case; `false` if one of them is no UTF-8.
fn collect(base: &Path, folder: &Path, files: &mut BTreeMap<String, String>) -> Result<bool> {
    if !folder.is_dir() {
        return Ok(true);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !collect(base, &path, files)? {
                return Ok(false);
            }
            continue;
        }
        let Ok(text) = String::from_utf8(fs::read(&path)?) else { return Ok(false) };
        files.insert(path.strip_prefix(base)?.to_string_lossy().into_owned(), text);
    }
    Ok(true)
}

fn load(host: &PluginHost, start: &Start) -> Result<Result<Arc<LoadedPlugin>, LoadErrorReason>> {
    let bytes = fs::read(plugin(&start.plugin)?)?;
    let limits = Limits { timeout: std::time::Duration::from_secs(20), ..Limits::default() };
    let settings = PluginSettings { config: serde_json::from_str(&start.config)?, limits, ..PluginSettings::default() };
    Ok(host.load(&start.plugin, &bytes, None, &settings).map_err(|error| error.reason))
}

fn in_process(plugin: &LoadedPlugin, start: &Start, case: &Case) -> Result<Response> {
    let mut files = FileSet::new();
    for (path, content) in &case.files {
        let path = FilePath::new(path)?;
        files.insert(path.clone(), File::new(path, FileKind::General, content.clone()));
    }
    let now = Now(start.now);
    let report = if start.rendered_output {
        plugin.validate(&Question::RenderedOutput { files: &files, now })
    } else {
        let file = files.get(case.file.as_str()).context("the file of the case")?;
        let data_files = files.values().filter(|other| other.path != file.path).collect();
        plugin.validate(&Question::AuxiliaryFile { file, data_files, now })
    };
    ensure!(report.contract == if start.rendered_output { Contract::RenderedOutput } else { Contract::AuxiliaryFile });
    Ok(match report.failure {
        Some(failure) => Response::refused(failure.to_string()),
        None => Response::new(report.warnings, report.errors),
    })
}

impl Case {
    fn request(&self) -> Request {
        let file = |(path, content): (&String, &String)| RequestFile {
            path: path.clone(),
            content: content.clone(),
            kind: (*path != self.file).then_some(RequestFileKind::Data),
        };
        Request { protocol_version: VERSION, files: self.files.iter().map(file).collect(), staged_root: None }
    }
}

/// Serves `start`, unless the plugin refuses its config in process: then it must refuse it here with the same words.
async fn serve(start: &Start, loaded: &Result<Arc<LoadedPlugin>, LoadErrorReason>) -> Result<Option<Served>> {
    let (module, now) = (plugin(&start.plugin)?, start.now.to_string());
    let contract = if start.rendered_output { "rendered-output" } else { "auxiliary-file" };
    let arguments = ["--config", &start.config, "--now", &now, "--limits", LIMITS, "--contract", contract];
    match loaded {
        Ok(_) => Ok(Some(Served::start(&module, &arguments).await?)),
        Err(LoadErrorReason::Config { message }) => {
            let folder = tempfile::tempdir()?;
            let output = refused(&module, &folder.path().join("v1.sock"), &arguments)?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(2) && said.contains(message), "{said}");
            Ok(None)
        }
        Err(other) => bail!("{} does not load: {other}", start.plugin),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_case_gets_the_same_report_as_in_process() -> Result<()> {
    let host = PluginHost::new(Some(cache()))?;
    let (starts, left_out) = cases()?;
    let mut compared = BTreeMap::new();
    for (start, cases) in &starts {
        let loaded = load(&host, start)?;
        let Some(served) = serve(start, &loaded).await? else { continue };
        let in_process_plugin = loaded.expect("a plugin that is served was loaded");
        let mut client = served.client().await?;
        for case in cases {
            // Repeats are answered anew and alike.
            client.send(&case.request()).await?;
            client.send(&case.request()).await?;
            let (first, again) = (client.receive().await?, client.receive().await?);
            ensure!(first == again, "{}: a repeat differs", case.folder.display());
            let expected = in_process(&in_process_plugin, start, case)?;
            ensure!(first == expected, "{}: served {first:#?}, but in process {expected:#?}", case.folder.display());
            if case.expect["result"].is_string() {
                let Response { result, warnings, errors, .. } = &first;
                let report = json!({ "result": result, "warnings": warnings, "errors": errors });
                ensure!(report == case.expect, "{}: served {report:#}", case.folder.display());
            }
            *compared.entry(start.plugin.as_str()).or_insert(0) += 1;
        }
    }
    for name in ["error-file", "policy"] {
        ensure!(compared.get(name).is_some_and(|count| *count >= 5), "cases of {name} were compared: {compared:?}");
    }
    ensure!(left_out <= compared.values().sum::<usize>(), "most cases are text; {left_out} are not");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_in_python_reads_the_same() -> Result<()> {
    let (starts, _) = cases()?;
    let host = PluginHost::new(Some(cache()))?;
    // The start with the most cases of each plugin.
    let mut largest: BTreeMap<&str, (&Start, &Vec<Case>)> = BTreeMap::new();
    for (start, cases) in &starts {
        let entry = largest.entry(&start.plugin).or_insert((start, cases));
        if cases.len() > entry.1.len() {
            *entry = (start, cases);
        }
    }
    for (start, cases) in largest.into_values() {
        let loaded = load(&host, start)?;
        let Some(served) = serve(start, &loaded).await? else { continue };
        let mut client = served.client().await?;
        let (mut lines, mut expected) = (Vec::new(), Vec::new());
        for case in cases {
            let request = case.request();
            writeln!(lines, "{}", serde_json::to_string(&request.files)?)?;
            expected.push(serde_json::to_value(client.ask(&request).await?)?);
        }
        let answers = python(served.socket(), lines).await?;
        ensure!(answers == expected, "{}: {answers:#?} are not {expected:#?}", start.plugin);
    }
    Ok(())
}

async fn python(socket: &Path, lines: Vec<u8>) -> Result<Vec<Value>> {
    let mut child = Command::new("python3")
        .arg(root().join("tests/tools/v1_client.py"))
        .arg(socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start python3")?;
    child.stdin.take().context("a pipe")?.write_all(&lines)?;
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await??;
    ensure!(output.status.success(), "v1_client.py: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_names_plugin_and_limit_and_the_connection_goes_on() -> Result<()> {
    for (fault, limits, says) in [
        (
            "loop",
            "timeout=1s",
            &["validation timed out after 1s", "plugin `fault` ran longer than its limit of 1000 ms"][..],
        ),
        ("memory-hog", LIMITS, &["plugin `fault` asked for more memory than its limit of 67108864 bytes"]),
        ("panic", LIMITS, &["plugin `fault` trapped: "]),
        (
            "contradictory-verdict",
            LIMITS,
            &["plugin `fault` answered against its contract: the verdict `valid` contradicts"],
        ),
        ("error", LIMITS, &["plugin `fault` could not answer: the moon is in the wrong house"]),
        ("huge-output", LIMITS, &["plugin `fault` answered more than its limit of 1048576 bytes"]),
    ] {
        let config = json!({ "on_call": fault }).to_string();
        let arguments = ["--contract", "auxiliary-file", "--config", &config, "--limits", limits];
        let mut served = Served::start(&guest("fault")?, &arguments).await?;
        let mut client = served.client().await?;
        for _ in 0..2 {
            let answer = client.ask(&request("general/a.txt", "text", &[])).await?;
            let said = crate::served::about_no_file(&answer);
            ensure!(said.len() == says.len(), "{fault}: {said:?}");
            for (said, says) in said.iter().zip(says) {
                ensure!(said.starts_with(says), "{fault}: {said}");
            }
        }
        drop(client);
        let did = served.stop().await?;
        ensure!(did["requests"] == 2 && did["failed"] == 2, "{did}");
        ensure!(did["timeouts"] == if fault == "loop" { 2 } else { 0 }, "{did}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_more_than_a_frame_is_an_error() -> Result<()> {
    let config = json!({ "on_call": "huge-output" }).to_string();
    let limits = "timeout=20s,memory=256Mi,outputBytes=64Mi";
    let arguments = ["--contract", "rendered-output", "--config", &config, "--limits", limits];
    let mut served = Served::start(&guest("fault")?, &arguments).await?;
    let mut client = served.client().await?;
    for _ in 0..2 {
        let answer = client.ask(&request("haproxy.cfg", "global\n", &[("maps/a.map", "")])).await?;
        let said = crate::served::about_no_file(&answer);
        ensure!(said.len() == 1, "{said:?}");
        ensure!(
            said[0].starts_with("response frame exceeds maximum size of 8388608 bytes: plugin `fault`"),
            "{said:?}"
        );
    }
    drop(client);
    ensure!(served.stop().await?["failed"] == 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_connections_are_answered_at_once() -> Result<()> {
    let mut served = Served::start(&plugin("error-file")?, &["--limits", LIMITS]).await?;
    let (clients, requests) = (32, 20);
    let mut tasks = Vec::new();
    for number in 0..clients {
        let mut client = served.client().await?;
        tasks.push(tokio::spawn(async move {
            for round in 0..requests {
                let path = format!("general/errors/{number}-{round}.http");
                let answer = client.ask(&request(&path, "no response", &[])).await?;
                ensure!(first_path(&answer) == path, "{answer:?}");
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let did = served.stop().await?;
    ensure!(did["connections"] == clients && did["requests"] == clients * requests && did["broken"] == 0, "{did}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_give_way_to_clients_that_wait() -> Result<()> {
    let served = Served::start(&plugin("error-file")?, &["--limits", LIMITS]).await?;
    let mut idle = Vec::new();
    for _ in 0..32 {
        let mut client = served.client().await?;
        client.ask(&request("general/errors/a.http", "", &[])).await?;
        idle.push(client);
    }
    // The patience with idle connections is a minute, and there is room for none but these.
    let bound = std::time::Duration::from_secs(30);
    let mut late = served.client().await?;
    within(bound, "an answer for the client that waits", async || {
        late.ask(&request("general/errors/late.http", "", &[])).await.ok()
    })
    .await;
    Ok(())
}
