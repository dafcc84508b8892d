//! Strict decoding of manifests that no API server saw.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use haptic_model::{Finding, FindingCode, ObjectRef};
use kube::Resource;
use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    GROUP, VERSION, crds, rules,
    yaml::{self, Position, Step},
};

/// Where a manifest was read, so that what is wrong in it can be told with its line.
#[derive(Clone, Debug)]
pub struct ManifestSource {
    /// The file's path, as messages show it.
    pub file: Arc<str>,
    /// The line where the object's document starts, 1-based; 0 = unknown.
    pub line: u32,
    /// The whole text of the file; empty = unknown.
    pub text: Arc<str>,
    /// Where the object stands inside its document; empty unless it is an item of a `List`.
    pub path: Vec<Step>,
}

/// A kind of this crate.
pub trait Kind: Resource<DynamicType = ()> + DeserializeOwned {}

/// Decodes an object of one of this crate's kinds and reports every mistake in it: unknown fields with the nearest
/// known name, wrong types, values out of range and broken rules, each with its path and, where the text is known, its
/// line. What the file says about `status` is ignored.
pub fn decode<T: Kind>(value: &Value, source: &ManifestSource) -> Result<T, Vec<Finding>> {
    let kind = T::kind(&());
    let mut walk = Walk { kind: &kind, mistakes: Vec::new(), path: Vec::new() };
    walk.head(value);
    if let Some(schema) = SCHEMAS.get(kind.as_ref()) {
        walk.root(schema, value);
    }
    let mut mistakes = walk.mistakes;
    if mistakes.is_empty() {
        let mut value = value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        match serde_json::from_value(value) {
            Ok(decoded) => return Ok(decoded),
            Err(error) => mistakes.push(Mistake { path: Vec::new(), message: error.to_string(), hint: None }),
        }
    }
    Err(source.findings(&kind, value, mistakes))
}

struct Mistake {
    path: Vec<Step>,
    message: String,
    hint: Option<String>,
}

struct Walk<'a> {
    kind: &'a str,
    mistakes: Vec<Mistake>,
    path: Vec<Step>,
}

static SCHEMAS: LazyLock<HashMap<String, Value>> = LazyLock::new(|| {
    let schema = |crd: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition| {
        let schema = crd.spec.versions.into_iter().next()?.schema?.open_api_v3_schema?;
        Some((crd.spec.names.kind, serde_json::to_value(schema).ok()?))
    };
    crds().into_iter().filter_map(schema).collect()
});

impl<T: Resource<DynamicType = ()> + DeserializeOwned> Kind for T {}

// === impl ManifestSource ===

impl ManifestSource {
    /// A source of which only the name is known.
    pub fn named(file: impl Into<Arc<str>>) -> Self {
        Self { file: file.into(), line: 0, text: "".into(), path: Vec::new() }
    }

    /// Where the value at the end of `path` stands, if the text is known.
    pub fn position(&self, path: &[Step]) -> Option<Position> {
        let documents = yaml::read(&self.text).ok()?;
        let document = documents.iter().rfind(|document| document.start().line <= self.line.max(1))?;
        let whole: Vec<Step> = self.path.iter().chain(path).cloned().collect();
        Some(document.position(&whole))
    }

    fn findings(&self, kind: &str, value: &Value, mistakes: Vec<Mistake>) -> Vec<Finding> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let object = ObjectRef::new(kind, text("/metadata/namespace"), text("/metadata/name"));
        let mut findings: Vec<Finding> = mistakes
            .into_iter()
            .map(|mistake| {
                let (line, column) = self.position(&mistake.path).map_or((self.line, 0), |at| (at.line, at.column));
                let mut finding = Finding::error(FindingCode::ConfigInvalid, mistake.message)
                    .about(Some(object.clone()))
                    .at(Arc::clone(&self.file), line, column);
                finding.hint = mistake.hint;
                finding
            })
            .collect();
        findings.sort_by(|a, b| (&a.location, &a.message).cmp(&(&b.location, &b.message)));
        findings
    }
}

// === impl Walk ===

impl Walk<'_> {
    fn head(&mut self, value: &Value) {
        let expected = [("apiVersion", format!("{GROUP}/{VERSION}")), ("kind", self.kind.to_owned())];
        for (field, expected) in expected {
            if value.get(field).and_then(Value::as_str) != Some(&expected) {
                self.path.push(Step::Field(field.to_owned()));
                self.report(format!("{field} must be `{expected}`"), None);
                self.path.pop();
            }
        }
    }

    fn root(&mut self, schema: &Value, value: &Value) {
        let Some(fields) = value.as_object() else {
            return self.report("a manifest must be an object".to_owned(), None);
        };
        let mut known: Vec<&str> = vec!["apiVersion", "kind", "metadata"];
        let properties = schema["properties"].as_object();
        known.extend(properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str)));
        for (name, value) in fields {
            self.path.push(Step::Field(name.clone()));
            match name.as_str() {
                "apiVersion" | "kind" | "metadata" | "status" => {}
                name => match properties.and_then(|properties| properties.get(name)) {
                    Some(schema) => self.value(schema, value),
                    None => self.unknown(name, &known),
                },
            }
            self.path.pop();
        }
        self.required(schema, value);
    }

    fn value(&mut self, schema: &Value, value: &Value) {
        if value.is_null() && schema["nullable"] == true {
            return;
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return match value {
                Value::String(text) => self.text(schema, text),
                Value::Number(number) if number.is_i64() || number.is_u64() => {}
                other => self.wrong_type("a text or a whole number", other),
            };
        }
        match (schema["type"].as_str(), value) {
            (None, _) => {}
            (Some("object"), Value::Object(_)) => self.object(schema, value),
            (Some("array"), Value::Array(items)) => self.list(schema, items),
            (Some("string"), Value::String(text)) => self.text(schema, text),
            (Some("integer"), Value::Number(number)) if number.is_i64() || number.is_u64() => {
                self.range(schema, number.as_f64());
            }
            (Some("number"), Value::Number(number)) => self.range(schema, number.as_f64()),
            (Some("boolean"), Value::Bool(_)) => {}
            (Some(expected), other) => self.wrong_type(article(expected), other),
        }
    }

    fn object(&mut self, schema: &Value, value: &Value) {
        let fields = value.as_object().expect("the caller looked");
        if let Some(properties) = schema["properties"].as_object() {
            let known: Vec<&str> = properties.keys().map(String::as_str).collect();
            for (name, value) in fields {
                self.path.push(Step::Field(name.clone()));
                match properties.get(name) {
                    Some(schema) => self.value(schema, value),
                    None if schema["x-kubernetes-preserve-unknown-fields"] == true => {}
                    None => self.unknown(name, &known),
                }
                self.path.pop();
            }
        } else if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
            for (name, value) in fields {
                self.path.push(Step::Field(name.clone()));
                self.value(inner, value);
                self.path.pop();
            }
        }
        self.count(schema, "maxProperties", fields.len(), "fields");
        if self.required(schema, value) {
            self.rules(schema, value);
        }
    }

    fn list(&mut self, schema: &Value, items: &[Value]) {
        self.count(schema, "maxItems", items.len(), "items");
        if schema["minItems"].as_u64().is_some_and(|least| (items.len() as u64) < least) {
            self.report(format!("{} must not be empty", self.shown()), None);
        }
        let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
            .as_array()
            .map_or(Vec::new(), |keys| keys.iter().filter_map(Value::as_str).collect());
        let mut seen: Vec<Vec<&Value>> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            self.path.push(Step::Item(index));
            self.value(&schema["items"], item);
            let key: Vec<&Value> = keys.iter().map(|key| &item[*key]).collect();
            if !keys.is_empty() && seen.contains(&key) {
                self.report(format!("{} has the same {} as an item before it", self.shown(), keys.join(", ")), None);
            }
            seen.push(key);
            self.path.pop();
        }
    }

    fn text(&mut self, schema: &Value, text: &str) {
        let length = text.chars().count() as u64;
        if schema["minLength"].as_u64().is_some_and(|least| length < least) {
            self.report(format!("{} must not be empty", self.shown()), None);
        }
        if let Some(most) = schema["maxLength"].as_u64().filter(|most| length > *most) {
            self.report(format!("{} has {length} characters, more than {most}", self.shown()), None);
        }
        if let Some(allowed) = schema["enum"].as_array() {
            let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
            if !allowed.contains(&text) {
                let hint = nearest(text, &allowed).map(|name| format!("write `{name}`"));
                self.report(format!("{} is `{text}`; it must be one of {}", self.shown(), allowed.join(", ")), hint);
            }
        }
        if let Some(pattern) = schema["pattern"].as_str()
            && Regex::new(pattern).is_ok_and(|regex| !regex.is_match(text))
        {
            let shown = self.shown();
            self.report(
                if is_plain(text) {
                    format!("{shown} is `{text}`, which does not match `{pattern}`")
                } else {
                    format!("{shown} does not match `{pattern}`")
                },
                None,
            );
        }
    }

    fn range(&mut self, schema: &Value, number: Option<f64>) {
        let Some(number) = number else { return };
        if let Some(least) = schema["minimum"].as_f64().filter(|least| number < *least) {
            self.report(format!("{} is {number}, less than {least}", self.shown()), None);
        }
        if let Some(most) = schema["maximum"].as_f64().filter(|most| number > *most) {
            self.report(format!("{} is {number}, more than {most}", self.shown()), None);
        }
    }

    fn count(&mut self, schema: &Value, bound: &str, count: usize, what: &str) {
        if let Some(most) = schema[bound].as_u64().filter(|most| count as u64 > *most) {
            self.report(format!("{} has {count} {what}, more than {most}", self.shown()), None);
        }
    }

    /// Whether all required fields are there.
    fn required(&mut self, schema: &Value, value: &Value) -> bool {
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let missing: Vec<&str> = required.filter(|name| value.get(name).is_none()).collect();
        for name in &missing {
            self.path.push(Step::Field((*name).to_owned()));
            self.report(format!("{} is missing", self.shown()), None);
            self.path.pop();
        }
        missing.is_empty()
    }

    fn rules(&mut self, schema: &Value, value: &Value) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            if let Some(rule) = rule["rule"].as_str().and_then(rules::find)
                && !(rule.holds)(value)
            {
                self.report(format!("{}: {}", self.shown(), rule.message), None);
            }
        }
    }

    fn unknown(&mut self, name: &str, known: &[&str]) {
        let hint = nearest(name, known).map(|near| format!("write `{near}`"));
        self.report(format!("{} is not a known field", self.shown()), hint);
    }

    fn wrong_type(&mut self, expected: &str, found: &Value) {
        let found = match found {
            Value::Null => "empty",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.report(format!("{} must be {expected}, but is {found}", self.shown()), None);
    }

    fn report(&mut self, message: String, hint: Option<String>) {
        self.mistakes.push(Mistake { path: self.path.clone(), message, hint });
    }

    fn shown(&self) -> String {
        let mut shown = String::new();
        for step in &self.path {
            match step {
                Step::Item(index) => write!(shown, "[{index}]"),
                Step::Field(name) if name.contains(['.', '[', ' ', '"']) => write!(shown, "[{name:?}]"),
                Step::Field(name) if shown.is_empty() => write!(shown, "{name}"),
                Step::Field(name) => write!(shown, ".{name}"),
            }
            .expect("writing to a string does not fail");
        }
        if shown.is_empty() { "the manifest".to_owned() } else { shown }
    }
}

/// Whether it may be shown: a number, a unit, a name. What has other signs may be an address with a password or a query.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '+' | ' '))
}

fn article(kind: &str) -> &str {
    match kind {
        "object" => "an object",
        "array" => "a list",
        "string" => "a text (put it in quotes if it looks like a number)",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        other => other,
    }
}

/// The known name that a person most likely meant, if any is near.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&lower, &known.to_lowercase()), *known))
        .filter(|(distance, known)| *distance <= (known.len() / 3).max(2).min(known.len().saturating_sub(1)))
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests;
