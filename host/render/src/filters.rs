//! Filters and tests besides the engine's own: sinks, encodings, hashes and patterns.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_model::{Digest, FindingCode, ports::FilterCall, ports::TemplateFilters};
use hmac::{Hmac, KeyInit, Mac};
use minijinja::{
    Environment, Error, Value,
    value::{Kwargs, Rest, ValueKind, ValueOrKwargs},
};
use parking_lot::Mutex;
use regex::Regex;
use sha2::Sha256;

use crate::{
    RawText,
    answers::Key,
    failure::Cause,
    session::{safe, try_with, with},
    sink,
};

/// Longest pattern, in bytes; `regex` itself matches in linear time.
const MAX_PATTERN: usize = 4096;
/// Most compiled patterns kept.
const MAX_PATTERNS: usize = 512;

/// Every filter and test of ours, with one line for `haptic functions`.
pub(crate) const FILTERS: &[(&str, &str)] = &[
    ("b64decode", "text from base64; fails on bytes that are not UTF-8"),
    ("b64encode", "base64 of text"),
    ("basename", "what follows the last `/`"),
    ("dig", "dig(key…): the value at a path, or none where a step is missing"),
    ("fromjson", "the value that a JSON text stands for"),
    ("glob_match", "glob_match(pattern): whether the whole text matches; `*` and `?`"),
    ("hmac_sha256", "hmac_sha256(key): hex HMAC"),
    ("literal", "sink: one word where HAProxy reads no log-format"),
    ("log_format", "sink: one word where HAProxy reads a log-format"),
    ("raw", "sink: the text as it is; needs templating.rawText: Allowed"),
    ("regex_escape", "sink: a pattern that matches the text and nothing else"),
    ("regex_match", "regex_match(pattern): whether the pattern is found"),
    ("regex_replace", "regex_replace(pattern, replacement): every match replaced; `$1` or `${name}`"),
    ("regex_search", "regex_search(pattern): the first match or its first group, or none"),
    ("sha256", "hex SHA-256"),
    ("token", "sink: one word of configuration (what printing does anyway)"),
];

/// The engine's own; a plugin may not take their names.
const ENGINE_FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "keys",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "urlencode",
    "values",
    "zip",
];

/// Shared and never cloned: a clone of a `Regex` starts with an empty cache and builds its automaton anew.
type Patterns = Arc<Mutex<HashMap<String, Arc<Regex>>>>;

pub(crate) fn register(env: &mut Environment<'static>) {
    // `safe` would mark a value of an object as the author's text; `raw` does it where the configuration allows it.
    for name in ["safe", "escape", "e", "urlencode"] {
        env.remove_filter(name);
    }
    env.add_filter("token", |value: &Value| sunk(value, sink::token));
    env.add_filter("literal", |value: &Value| sunk(value, sink::literal));
    env.add_filter("log_format", |value: &Value| sunk(value, sink::log_format));
    env.add_filter("regex_escape", |value: &Value| sunk(value, sink::regex_literal));
    env.add_filter("raw", raw);
    env.add_filter("b64decode", b64decode);
    env.add_filter("b64encode", |text: &str| BASE64_STANDARD.encode(text));
    env.add_filter("basename", |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned());
    env.add_filter("sha256", |text: &str| Digest::of(text.as_bytes()).to_string());
    env.add_filter("hmac_sha256", hmac_sha256);
    env.add_filter("dig", dig);
    env.add_filter("fromjson", fromjson);
    env.add_filter("glob_match", glob_match);
    let patterns = Patterns::default();
    let known = Arc::clone(&patterns);
    env.add_filter("regex_match", move |text: &str, pattern: &str| -> Result<bool, Error> {
        Ok(compile(&known, pattern)?.is_match(text))
    });
    let known = Arc::clone(&patterns);
    env.add_filter("regex_search", move |text: &str, pattern: &str| -> Result<Value, Error> {
        let found = compile(&known, pattern)?.captures(text);
        let found = found.and_then(|captures| captures.get(1).or_else(|| captures.get(0)));
        Ok(found.map_or_else(|| Value::from(()), |found| Value::from(found.as_str())))
    });
    env.add_filter("regex_replace", move |text: &str, pattern: &str, replacement: &str| -> Result<String, Error> {
        Ok(compile(&patterns, pattern)?.replace_all(text, replacement).into_owned())
    });
}

/// Adds the filters of plugins; the names that are taken already are returned.
pub(crate) fn register_plugins(env: &mut Environment<'static>, filters: &dyn TemplateFilters) -> Vec<String> {
    let ours = FILTERS.iter().map(|(name, _)| *name);
    let taken: Vec<&str> = ours.chain(ENGINE_FILTERS.iter().copied()).collect();
    let mut refused = Vec::new();
    for (number, declaration) in (0..).zip(filters.declared()) {
        if taken.contains(&declaration.name.as_str()) {
            refused.push(format!("plugin `{}`, filter `{}`", declaration.plugin, declaration.name));
            continue;
        }
        let filter = PluginFilter { number, name: declaration.name.clone() };
        env.add_filter(declaration.name, move |value: &Value, arguments: Rest<ValueOrKwargs>| {
            filter.apply(value, arguments.into_values())
        });
    }
    refused
}

/// A filter of a plugin.
struct PluginFilter {
    /// Its place among all that are declared.
    number: u32,
    name: String,
}

impl PluginFilter {
    /// The engine's own `Kwargs` argument would allocate in each call, named arguments or not.
    fn apply(&self, value: &Value, mut positional: Vec<Value>) -> Result<Value, Error> {
        let named = positional.pop_if(|last| last.is_kwargs()).map(Kwargs::try_from).transpose()?;
        let mut key = Key::new(with(|session| session.answers.lend())?, self.number);
        // Not inside of `with`: what writes an object as JSON may ask the session.
        key.value(value)?;
        positional.iter().try_for_each(|argument| key.value(argument))?;
        let mut names = Vec::new();
        if let Some(named) = &named {
            for name in named.args() {
                let argument: Value = named.get(name)?;
                key.name(name);
                key.value(&argument)?;
                names.push((name, argument));
            }
        }
        match with(|session| session.answers.get(key))? {
            Ok(answer) => Ok(answer),
            Err(key) => self.ask(key, value, &positional, &names),
        }
    }

    fn ask(&self, key: Key, value: &Value, positional: &[Value], named: &[(&str, Value)]) -> Result<Value, Error> {
        let value = json(value)?;
        let positional = positional.iter().map(json).collect::<Result<Vec<_>, _>>()?;
        let named = named.iter().map(|(name, argument)| Ok(((*name).to_owned(), json(argument)?)));
        let named = named.collect::<Result<Vec<_>, Error>>()?;
        let call = FilterCall { filter: &self.name, value: &value, positional: &positional, named: &named };
        let text = try_with(|session| session.call_filter(call))?;
        let answer = serde_json::from_str::<Value>(&text).map_err(|error| {
            let filter = &self.name;
            Cause::system(FindingCode::PluginFailed, format!("filter `{filter}` answered invalid JSON: {error}"))
        })?;
        with(|session| session.answers.put(key, answer.clone(), &text))?;
        Ok(answer)
    }
}

fn json(value: &Value) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| not_plain(&error))
}

/// Appends what [`json`] gives.
pub(crate) fn json_into(text: &mut Vec<u8>, value: &Value) -> Result<(), Error> {
    serde_json::to_writer(text, value).map_err(|error| not_plain(&error))
}

fn not_plain(error: &serde_json::Error) -> Error {
    Cause::data(FindingCode::InvalidValue, format!("a filter argument is not plain data: {error}")).into()
}

fn sunk(value: &Value, sink: impl Fn(&str) -> Result<String, String>) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    let text = match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => plain(value),
        kind => {
            return Err(
                Cause::data(FindingCode::InvalidValue, format!("a {kind} cannot be printed as one word")).into()
            );
        }
    };
    Ok(safe(sink(&text).map_err(Cause::unsafe_value)?))
}

/// Text of a scalar in HAProxy's and not in Python's spelling.
pub(crate) fn plain(value: &Value) -> String {
    match value.kind() {
        ValueKind::Bool => if value.is_true() { "true" } else { "false" }.to_owned(),
        _ => value.to_string(),
    }
}

fn raw(value: &Value) -> Result<Value, Error> {
    if with(|session| session.raw_text)? == RawText::Refused {
        return Err(Cause::data(FindingCode::UnsafeValue, "raw text of objects is switched off")
            .hint("set spec.templating.rawText to Allowed in the HAProxyTemplateConfig if you trust who writes it")
            .into());
    }
    let text = plain(value);
    if text.contains(sink::MARK) || text.contains('\0') {
        return Err(Cause::unsafe_value("raw text holds a control character").into());
    }
    Ok(safe(text))
}

fn b64decode(text: &str) -> Result<String, Error> {
    let joined: String = text.split_ascii_whitespace().collect();
    let bytes = BASE64_STANDARD
        .decode(joined)
        .map_err(|error| Cause::data(FindingCode::InvalidValue, format!("this is not base64: {error}")))?;
    String::from_utf8(bytes)
        .map_err(|_| Cause::data(FindingCode::InvalidValue, "what base64 decodes to is not UTF-8 text").into())
}

fn hmac_sha256(text: &str, key: &str) -> Result<String, Error> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes())
        .map_err(|error| Cause::data(FindingCode::InvalidValue, error.to_string()))?;
    mac.update(text.as_bytes());
    Ok(hex::encode(mac.finalize().into_bytes()))
}

fn dig(value: &Value, path: Rest<Value>) -> Value {
    let mut current = value.clone();
    for step in path.iter() {
        match current.get_item(step) {
            Ok(next) if !next.is_undefined() => current = next,
            _ => return Value::from(()),
        }
    }
    current
}

fn fromjson(text: &str) -> Result<Value, Error> {
    serde_json::from_str::<Value>(text)
        .map_err(|error| Cause::data(FindingCode::InvalidValue, format!("this is not JSON: {error}")).into())
}

fn glob_match(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    let (mut at, mut star) = ((0, 0), None);
    while at.0 < text.len() {
        match pattern.get(at.1) {
            Some('*') => {
                star = Some((at.0, at.1 + 1));
                at.1 += 1;
            }
            Some(c) if *c == '?' || *c == text[at.0] => at = (at.0 + 1, at.1 + 1),
            _ => match star {
                Some((from, after)) => {
                    star = Some((from + 1, after));
                    at = (from + 1, after);
                }
                None => return false,
            },
        }
    }
    pattern[at.1..].iter().all(|c| *c == '*')
}

fn compile(patterns: &Patterns, pattern: &str) -> Result<Arc<Regex>, Error> {
    if pattern.len() > MAX_PATTERN {
        return Err(Cause::data(FindingCode::InvalidValue, "the pattern is longer than 4096 bytes").into());
    }
    let mut known = patterns.lock();
    if let Some(regex) = known.get(pattern) {
        return Ok(Arc::clone(regex));
    }
    let regex = Regex::new(pattern).map_err(|error| {
        Cause::data(FindingCode::InvalidValue, format!("{} is not a pattern: {error}", sink::shown(pattern)))
    })?;
    if known.len() >= MAX_PATTERNS {
        known.clear();
    }
    let regex = Arc::new(regex);
    known.insert(pattern.to_owned(), Arc::clone(&regex));
    Ok(regex)
}
