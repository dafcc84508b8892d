//! The eight types of assertions.

use std::{collections::BTreeMap, sync::Arc};

use haptic_api::{Assertion, AssertionType, ValidationTest};
use haptic_model::{CONFIG_PATH, FileKind, FileSet};
use haptic_render::{Inputs, Memo, Renderer};
use haptic_store::{JsonPath, Snapshot, Store};
use regex::Regex;
use serde_json::{Map, Value, json};

use crate::{
    config::merge_values,
    pipeline::Pipeline,
    validation_tests::{AssertionResult, TestRun},
};

/// The target that holds what the pipeline said when the render failed.
const RENDERING_ERROR: &str = "rendering_error";
const PREVIEW_CHARACTERS: usize = 200;

/// One test's render.
pub(super) struct Subject<'a> {
    run: &'a TestRun<'a>,
    renderer: Arc<Renderer>,
    extra_context: Value,
    snapshot: Arc<Snapshot>,
    outcome: Result<Arc<FileSet>, String>,
}

// === impl Subject ===

impl<'a> Subject<'a> {
    pub(super) fn render(run: &'a TestRun<'a>, test: &ValidationTest) -> Self {
        let mut resources = run.resources.to_vec();
        if !test.use_deployment_watch_scopes {
            for resource in &mut resources {
                resource.namespaces.clear();
            }
        }
        let (snapshot, findings) = Store::fixture(resources, &test.fixtures);
        let mut templates = run.candidate.templates.clone();
        let mut subject = Self {
            run,
            renderer: run.renderer.clone(),
            extra_context: templates.extra_context.clone(),
            snapshot,
            outcome: Err(String::new()),
        };
        if !findings.is_empty() {
            let words: Vec<_> = findings.iter().map(ToString::to_string).collect();
            subject.outcome = Err(words.join("; "));
            return subject;
        }
        if !test.http_resources.is_empty() || test.current_config.is_some() {
            let message = "httpResources and currentConfig have no effect, because no template function reads them";
            subject.outcome = Err(message.to_owned());
            return subject;
        }
        if !test.extra_context.is_empty() {
            if let Value::Object(context) = &mut templates.extra_context {
                merge_values(context, test.extra_context.clone());
            }
            subject.extra_context = templates.extra_context.clone();
            match Renderer::compile(templates, run.plugins.clone()) {
                Ok(renderer) => subject.renderer = Arc::new(renderer),
                Err(findings) => {
                    let words: Vec<_> = findings.iter().map(ToString::to_string).collect();
                    subject.outcome = Err(words.join("; "));
                    return subject;
                }
            }
        }
        subject.outcome = subject.render_once();
        subject
    }

    pub(super) fn render_error(&self) -> Option<String> {
        self.outcome.as_ref().err().cloned()
    }

    /// By path; what may be a private key is left out.
    pub(super) fn texts(&self) -> BTreeMap<String, String> {
        let Ok(files) = &self.outcome else { return BTreeMap::new() };
        let shown = files.values().filter(|file| file.kind != FileKind::Cert);
        shown.map(|file| (file.path.to_string(), String::from_utf8_lossy(&file.content).into_owned())).collect()
    }

    pub(super) fn judge(&self, assertion: &Assertion) -> AssertionResult {
        let about_text = matches!(
            assertion.kind,
            AssertionType::Contains
                | AssertionType::NotContains
                | AssertionType::Equals
                | AssertionType::MatchCount
                | AssertionType::MatchOrder
        );
        let target = about_text.then(|| assertion.target.clone().unwrap_or_else(|| CONFIG_PATH.to_owned()));
        let text = target.as_deref().map(|target| self.text(target));
        let outcome = match (&text, assertion.kind) {
            (Some(Err(error)), _) => Err(error.clone()),
            (Some(Ok(text)), _) => judge_text(assertion, text),
            (None, AssertionType::HaproxyValid) => self.haproxy_valid(),
            (None, AssertionType::Deterministic) => self.deterministic(),
            (None, _) => self.jsonpath(assertion),
        };
        // Certificates hold private keys.
        let shown = text.and_then(Result::ok).filter(|_| !target.as_deref().is_some_and(|t| t.starts_with("cert:")));
        AssertionResult {
            kind: assertion.kind,
            description: assertion.description.clone(),
            passed: outcome.is_ok(),
            error: outcome.err(),
            target,
            target_size: shown.as_ref().map(String::len),
            target_preview: shown.map(|text| text.chars().take(PREVIEW_CHARACTERS).collect()),
        }
    }

    /// An unknown target is an error: falling back to another text would let `not_contains` pass for a typo.
    fn text(&self, target: &str) -> Result<String, String> {
        if target == RENDERING_ERROR {
            let error = self.render_error();
            return error.ok_or_else(|| "the render did not fail, so there is no rendering_error".to_owned());
        }
        let path = match target.split_once(':') {
            None if target == CONFIG_PATH => CONFIG_PATH.to_owned(),
            Some(("map", name)) => format!("maps/{name}"),
            Some(("file", name)) => format!("general/{name}"),
            Some(("cert" | "crt-list", name)) => format!("ssl/{name}"),
            _ => {
                return Err(format!(
                    "`{target}` is no target; use haproxy.cfg, map:NAME, file:NAME, cert:NAME, crt-list:NAME or \
                     rendering_error"
                ));
            }
        };
        let files = self.outcome.as_ref().map_err(|error| format!("the render failed: {error}"))?;
        match files.get(path.as_str()) {
            Some(file) => Ok(String::from_utf8_lossy(&file.content).into_owned()),
            None => Err(format!("the render has no `{target}`; it has {}", names(files))),
        }
    }

    fn haproxy_valid(&self) -> Result<(), String> {
        let run = self.run;
        let check = run.candidate.settings.check;
        let pipeline = Pipeline { renderer: self.renderer.clone(), validators: run.plugins.clone(), check };
        let proof = pipeline
            .execute_strict(&self.snapshot, run.haproxy, run.check, run.now, &mut Memo::default(), run.cancelled)
            .map_err(|error| error.to_string())?;
        match proof.refused.first() {
            // In production the object would be left out; a test's fixtures are meant to be right.
            Some(refused) => Err(refused.finding.to_string()),
            None => Ok(()),
        }
    }

    fn deterministic(&self) -> Result<(), String> {
        let first = self.outcome.as_ref().map_err(|error| format!("the render failed: {error}"))?;
        let second = self.render_once().map_err(|error| format!("the second render failed: {error}"))?;
        for path in first.keys().chain(second.keys()) {
            if first.get(path).map(|file| file.digest) != second.get(path).map(|file| file.digest) {
                return Err(format!(
                    "`{path}` differs between two renders of the same input{}",
                    first_difference(
                        first.get(path).map(|file| &*file.content),
                        second.get(path).map(|file| &*file.content),
                    )
                ));
            }
        }
        Ok(())
    }

    fn jsonpath(&self, assertion: &Assertion) -> Result<(), String> {
        let text = assertion.jsonpath.as_deref().ok_or("`jsonpath` is missing")?;
        let path: JsonPath = text.parse().map_err(|error| format!("{error}"))?;
        let context = self.context()?;
        let found: Vec<Value> = path.find(&context).into_iter().cloned().collect();
        let found = match found.as_slice() {
            [] => return Err(format!("`{text}` leads nowhere in the template context")),
            [one] => one.clone(),
            _ => Value::Array(found),
        };
        let expected = &assertion.expected;
        if expected.is_null() || *expected == found || expected.as_str().is_some_and(|text| text == plain(&found)) {
            return Ok(());
        }
        Err(format!("`{text}` is {found}, and {expected} is expected"))
    }

    /// What templates see: `resources.NAME` as lists, `extraContext` and its fields, `haproxy.version`.
    fn context(&self) -> Result<Value, String> {
        let mut context = match &self.extra_context {
            Value::Object(fields) => fields.clone(),
            _ => Map::new(),
        };
        context.insert("extraContext".to_owned(), self.extra_context.clone());
        let mut resources = Map::new();
        for name in self.snapshot.resources() {
            let objects = self.snapshot.list(name).map_err(|error| error.to_string())?;
            let objects: Result<Vec<_>, _> =
                objects.iter().map(|object| serde_json::to_value(object.as_value())).collect();
            resources.insert(name.to_string(), Value::Array(objects.map_err(|error| error.to_string())?));
        }
        context.insert("resources".to_owned(), Value::Object(resources));
        let (major, minor) = self.run.haproxy;
        context.insert("haproxy".to_owned(), json!({ "version": format!("{major}.{minor}") }));
        Ok(Value::Object(context))
    }

    fn render_once(&self) -> Result<Arc<FileSet>, String> {
        let inputs = Inputs {
            snapshot: self.snapshot.clone(),
            quarantined: std::collections::BTreeSet::new(),
            haproxy: self.run.haproxy,
        };
        let rendered = self.renderer.render(&inputs, &mut Memo::default());
        rendered.map(|rendered| rendered.files).map_err(|error| error.to_string())
    }
}

fn judge_text(assertion: &Assertion, text: &str) -> Result<(), String> {
    let pattern = || regex(assertion.pattern.as_deref().ok_or("`pattern` is missing")?);
    match assertion.kind {
        AssertionType::Contains => {
            let pattern = pattern()?;
            pattern.is_match(text).then_some(()).ok_or_else(|| format!("`{pattern}` is not found"))
        }
        AssertionType::NotContains => {
            let pattern = pattern()?;
            match pattern.find(text) {
                None => Ok(()),
                Some(found) => Err(format!("`{pattern}` is found in line {}", line_of(text, found.start()))),
            }
        }
        AssertionType::MatchCount => {
            let pattern = pattern()?;
            let expected = count(&assertion.expected)?;
            let found = pattern.find_iter(text).count();
            (found == expected)
                .then_some(())
                .ok_or_else(|| format!("`{pattern}` is found {found} times, not {expected}"))
        }
        AssertionType::Equals => {
            let expected = assertion.expected.as_str().ok_or("`expected` must be a text")?;
            let difference = || first_difference(Some(text.as_bytes()), Some(expected.as_bytes()));
            (text == expected).then_some(()).ok_or_else(|| format!("it is not the expected text{}", difference()))
        }
        AssertionType::MatchOrder => in_order(&assertion.patterns, text),
        AssertionType::HaproxyValid | AssertionType::Jsonpath | AssertionType::Deterministic => {
            Err("this assertion is not about a text".to_owned())
        }
    }
}

fn in_order(patterns: &[String], text: &str) -> Result<(), String> {
    if patterns.len() < 2 {
        return Err("`patterns` must have at least two".to_owned());
    }
    let mut from = 0;
    for pattern in patterns {
        let pattern = regex(pattern)?;
        match pattern.find_at(text, from) {
            Some(found) => from = found.end(),
            None if pattern.is_match(text) => {
                return Err(format!("`{pattern}` stands before the pattern that it must follow"));
            }
            None => return Err(format!("`{pattern}` is not found")),
        }
    }
    Ok(())
}

/// `^` and `$` match at lines, as authors of line-wise texts expect.
fn regex(pattern: &str) -> Result<Regex, String> {
    regex::RegexBuilder::new(pattern)
        .multi_line(true)
        .build()
        .map_err(|error| format!("`{pattern}` is no regular expression: {error}"))
}

fn count(expected: &Value) -> Result<usize, String> {
    let number = match expected {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    number
        .and_then(|number| usize::try_from(number).ok())
        .ok_or_else(|| "`expected` must be a number of matches".to_owned())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

fn first_difference(left: Option<&[u8]>, right: Option<&[u8]>) -> String {
    let (Some(left), Some(right)) = (left, right) else { return ": it is missing in one of them".to_owned() };
    let (left, right) = (String::from_utf8_lossy(left), String::from_utf8_lossy(right));
    let (mut left, mut right) = (left.lines(), right.lines());
    for line in 1.. {
        match (left.next(), right.next()) {
            (None, None) => return String::new(),
            (a, b) if a == b => {}
            (a, b) => {
                return format!(": line {line} is `{}`, against `{}`", a.unwrap_or_default(), b.unwrap_or_default());
            }
        }
    }
    String::new()
}

fn names(files: &FileSet) -> String {
    files.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
