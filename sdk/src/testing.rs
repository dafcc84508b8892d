//! Runs a plugin natively, on files in memory or on folders of cases.
//!
//! A report is held against the contract as haptic does: a path that was not in the request or a position outside its
//! file is an error of the test, [`TestError::Contract`].
//!
//! # Cases
//!
//! [`check_cases`] runs every folder below a folder. Each holds a `case.json` and, for validators, the rendered files
//! below `files/`. A validator's case:
//!
//! ```json
//! {
//!   "description": "what this case shows",
//!   "config": {},
//!   "file": "general/errors/503.http",
//!   "now": 0,
//!   "expect": { "result": "valid", "warnings": [], "errors": [] }
//! }
//! ```
//!
//! For an auxiliary-file validator `file` is the file to check and all others are data files; for a rendered-output
//! validator it is `haproxy.cfg`. A case of filters has `calls` instead:
//!
//! ```json
//! {
//!   "description": "what this case shows",
//!   "calls": [ { "filter": "ip_version", "value": "::1", "expect": { "answer": 6 } } ]
//! }
//! ```
//!
//! A validator's case may also say what HAProxy makes of the same files, as `"haproxy": { "accepts": true, "says": "…" }`
//! with a `haproxy.cfg` beside the `case.json`. That is for whoever runs HAProxy: here it is kept as it stands.
//!
//! A `transcript.json`, beside a `case.json` or alone, holds recorded exchanges of haptic's protocol v1, one or a list:
//!
//! ```json
//! {
//!   "request": { "protocol_version": 1, "files": [ { "path": "a.map", "content": "…" } ] },
//!   "response": { "protocol_version": 1, "result": "valid", "warnings": [], "errors": [] }
//! }
//! ```
//!
//! The file without a `kind` is checked; those with `"kind": "data"` are its data files.
//!
//! With `HAPTIC_BLESS=1` in the environment the expectations are written instead of compared: review the difference
//! like code.

mod transcript;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Arguments, AuxiliaryFile, AuxiliaryFileValidator, File, FilterError, Finding, PluginError, RenderedOutput,
    RenderedOutputValidator, Report, TemplateFilters, Verdict, glue,
};

/// A validator gave no report that haptic would believe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestError {
    /// It refused its config.
    Config(String),
    /// It could not answer.
    Plugin(PluginError),
    /// Its report breaks the contract.
    Contract(String),
}

/// Which contract the cases of a folder are for.
enum Outcome {
    Report(Result<Report, TestError>),
    Calls(Vec<Expected>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Case {
    description: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    config: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(default)]
    now: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Call>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expect: Option<Expected>,
    /// HAProxy's own verdict, which others compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    haproxy: Option<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    filter: String,
    value: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    positional: Vec<Value>,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    named: serde_json::Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expect: Option<Expected>,
}

/// What a case says must come out.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Expected {
    Report { result: Verdict, warnings: Vec<Finding>, errors: Vec<Finding> },
    ConfigRefused { config_refused: String },
    Answer { answer: Value },
    Refused { refused: String },
    Failed { failed: String },
}

/// A file in memory.
pub fn file(path: &str, content: impl Into<Vec<u8>>) -> File {
    File::in_memory(path, content)
}

/// A request to check `file`, with no data files, at second 0.
pub fn auxiliary_file(file: File) -> AuxiliaryFile {
    AuxiliaryFile { file, data_files: Vec::new(), now: 0 }
}

/// A request to check a render that is nothing but this `haproxy.cfg`, at second 0.
pub fn rendered_output(config: impl Into<Vec<u8>>) -> RenderedOutput {
    RenderedOutput { config: file("haproxy.cfg", config), files: Vec::new(), now: 0 }
}

/// Makes the validator from `config`, asks it, and holds the report against the contract.
pub fn validate_auxiliary_file<V: AuxiliaryFileValidator>(
    config: Value,
    request: &AuxiliaryFile,
) -> Result<Report, TestError> {
    let report = make(config, V::new)?.validate(request).map_err(TestError::Plugin)?;
    prove(report, std::iter::once(&request.file).chain(&request.data_files))
}

/// Makes the validator from `config`, asks it, and holds the report against the contract.
pub fn validate_rendered_output<V: RenderedOutputValidator>(
    config: Value,
    request: &RenderedOutput,
) -> Result<Report, TestError> {
    let report = make(config, V::new)?.validate(request).map_err(TestError::Plugin)?;
    prove(report, std::iter::once(&request.config).chain(&request.files))
}

/// Makes the filters from `config` and calls one. A refused config is a [`FilterError::Failed`].
pub fn call_filter<T: TemplateFilters>(
    config: Value,
    name: &str,
    value: Value,
    positional: &[Value],
    named: &[(&str, Value)],
) -> Result<Value, FilterError> {
    let filters = make(config, T::new).map_err(|error| FilterError::failed(error.to_string()))?;
    let named = named.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    glue::apply(&filters, name, value, Arguments::new(positional.to_vec(), named))
}

/// Runs the cases of an auxiliary-file validator.
///
/// # Panics
///
/// If a case does not give what it expects, cannot be read, or if there is none.
pub fn check_auxiliary_file_cases<V: AuxiliaryFileValidator>(cases: impl AsRef<Path>) {
    check_cases(cases.as_ref(), |case, mut files| {
        let path = case.file.as_deref().expect("`file` says which file to check");
        let index = files.iter().position(|file| file.path() == path).expect("`file` stands below `files/`");
        let request = AuxiliaryFile { file: files.remove(index), data_files: files, now: case.now };
        Outcome::Report(validate_auxiliary_file::<V>(case.config.clone(), &request))
    });
}

/// Runs the cases of a rendered-output validator.
///
/// # Panics
///
/// If a case does not give what it expects, cannot be read, or if there is none.
pub fn check_rendered_output_cases<V: RenderedOutputValidator>(cases: impl AsRef<Path>) {
    check_cases(cases.as_ref(), |case, mut files| {
        let path = case.file.as_deref().unwrap_or("haproxy.cfg");
        let index = files.iter().position(|file| file.path() == path).expect("`haproxy.cfg` stands below `files/`");
        let request = RenderedOutput { config: files.remove(index), files, now: case.now };
        Outcome::Report(validate_rendered_output::<V>(case.config.clone(), &request))
    });
}

/// Runs the cases of template filters.
///
/// # Panics
///
/// If a case does not give what it expects, cannot be read, or if there is none.
pub fn check_filter_cases<T: TemplateFilters>(cases: impl AsRef<Path>) {
    check_cases(cases.as_ref(), |case, _| {
        let call = |call: &Call| {
            let named: Vec<_> = call.named.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            let value = call.value.clone();
            match call_filter::<T>(case.config.clone(), &call.filter, value, &call.positional, &named) {
                Ok(answer) => Expected::Answer { answer },
                Err(FilterError::Refused(refused)) => Expected::Refused { refused },
                Err(FilterError::Failed(failed)) => Expected::Failed { failed },
            }
        };
        Outcome::Calls(case.calls.iter().map(call).collect())
    });
}

fn make<T, C: DeserializeOwned>(config: Value, new: impl FnOnce(C) -> Result<T, String>) -> Result<T, TestError> {
    let config = if config.is_null() { Value::Object(serde_json::Map::new()) } else { config };
    let config = serde_json::from_value(config).map_err(|error| TestError::Config(glue::config_error(&error)))?;
    new(config).map_err(TestError::Config)
}

fn prove<'a>(report: Report, files: impl Iterator<Item = &'a File>) -> Result<Report, TestError> {
    let files: Vec<&File> = files.collect();
    for Finding { path, line, column, message } in report.errors().iter().chain(report.warnings()) {
        let against = |what: String| Err(TestError::Contract(format!("{path}:{line}:{column}: {message}: {what}")));
        if message.trim().is_empty() {
            return against("the message is empty".to_owned());
        }
        let Some(file) = files.iter().find(|file| file.path() == path) else {
            return against("the path was not in the request".to_owned());
        };
        if *line == 0 {
            if *column != 0 {
                return against("a column without a line".to_owned());
            }
            continue;
        }
        let content = file.read_all();
        let Some(text) = content.split(|byte| *byte == b'\n').nth(*line as usize - 1) else {
            return against("the line is not in the file".to_owned());
        };
        if *column as usize > text.len() + 1 {
            return against(format!("the line has {} bytes", text.len()));
        }
    }
    Ok(report)
}

fn check_cases(cases: &Path, run: impl Fn(&Case, Vec<File>) -> Outcome) {
    let mut folders: Vec<PathBuf> = fs::read_dir(cases)
        .unwrap_or_else(|error| panic!("reading the cases in {}: {error}", cases.display()))
        .map(|entry| entry.expect("a folder can be listed").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(!folders.is_empty(), "there are no cases in {}", cases.display());
    let bless = std::env::var_os("HAPTIC_BLESS").is_some_and(|value| value == "1");
    let wrong: Vec<String> = folders.iter().filter_map(|folder| check_folder(folder, bless, &run)).collect();
    assert!(wrong.is_empty(), "{} of {} cases are wrong:\n{}", wrong.len(), folders.len(), wrong.join("\n"));
}

/// What is wrong with a folder's case and transcript; `None` = nothing.
fn check_folder(folder: &Path, bless: bool, run: &impl Fn(&Case, Vec<File>) -> Outcome) -> Option<String> {
    let transcript = folder.join("transcript.json");
    if !transcript.is_file() {
        return check_case(folder, bless, run);
    }
    let place = transcript.display().to_string();
    let text = fs::read_to_string(&transcript).unwrap_or_else(|error| panic!("reading {place}: {error}"));
    let case = folder.join("case.json").is_file().then(|| check_case(folder, bless, run)).flatten();
    let wrong: Vec<String> = case.into_iter().chain(transcript::check(&place, &text, run)).collect();
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}

/// What is wrong with a case; `None` = nothing.
fn check_case(folder: &Path, bless: bool, run: &impl Fn(&Case, Vec<File>) -> Outcome) -> Option<String> {
    let path = folder.join("case.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()));
    let mut case: Case =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()));
    let mut files = Vec::new();
    let root = folder.join("files");
    if root.is_dir() {
        collect(&root, &root, &mut files);
        files.sort_by(|a, b| a.path().cmp(b.path()));
    }
    let mut wrong = Vec::new();
    let mut compare = |place: String, expect: &mut Option<Expected>, actual: Expected| {
        if bless {
            *expect = Some(actual);
        } else if expect.as_ref() != Some(&actual) {
            wrong.push(format!("{place}\n  expected {expect:?}\n  but got  {actual:?}"));
        }
    };
    match run(&case, files) {
        Outcome::Report(outcome) => {
            let actual = match outcome {
                Ok(report) => {
                    let result = report.verdict();
                    let (warnings, errors) = report.into_findings();
                    Expected::Report { result, warnings, errors }
                }
                Err(TestError::Config(config_refused)) => Expected::ConfigRefused { config_refused },
                Err(TestError::Plugin(error)) => Expected::Failed { failed: error.to_string() },
                Err(TestError::Contract(message)) => return Some(format!("{}: {message}", folder.display())),
            };
            compare(folder.display().to_string(), &mut case.expect, actual);
        }
        Outcome::Calls(answers) => {
            for (index, (call, actual)) in case.calls.iter_mut().zip(answers).enumerate() {
                let place = format!("{}: call {} of `{}`", folder.display(), index + 1, call.filter);
                compare(place, &mut call.expect, actual);
            }
        }
    }
    if bless {
        let text = serde_json::to_string_pretty(&case).expect("a case can be written") + "\n";
        fs::write(&path, text).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
    }
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("a case's folder can be listed") {
        let path = entry.expect("a case's folder can be listed").path();
        if path.is_dir() {
            collect(root, &path, files);
            continue;
        }
        let name = path.strip_prefix(root).expect("it stands below").to_str().expect("a path is plain text");
        files.push(file(name, fs::read(&path).expect("a case's file can be read")));
    }
}

// === impl Case ===

impl Case {
    fn of_exchange(config: Value, file: String, now: u64) -> Self {
        let description = String::new();
        Self { description, config, file: Some(file), now, calls: Vec::new(), expect: None, haproxy: None }
    }
}

// === impl TestError ===

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(message) => write!(f, "it refuses its config: {message}"),
            Self::Plugin(error) => write!(f, "it could not answer: {error}"),
            Self::Contract(message) => write!(f, "it answers against its contract: {message}"),
        }
    }
}

impl std::error::Error for TestError {}
