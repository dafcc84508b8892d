//! Label and field selectors. What cannot be understood is an error: a selector is never widened.

use std::{fmt, str::FromStr};

use serde_json::Value;
use thiserror::Error;

use crate::JsonPath;

/// Requirements on labels; all must hold. Equality- and set-based, as the API server reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<LabelRequirement>);

/// Requirements on fields; all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldRequirement>);

#[derive(Debug, Error)]
#[error("`{selector}` is not a selector: {reason}")]
pub struct InvalidSelector {
    selector: String,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Missing,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    path: JsonPath,
    value: String,
    negated: bool,
}

// === impl LabelSelector ===

impl LabelSelector {
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.0.iter().all(|requirement| {
            let label = labels.and_then(|labels| labels.get(&requirement.key)).and_then(Value::as_str);
            match (&requirement.test, label) {
                (Test::In(values), Some(label)) => values.iter().any(|value| value == label),
                (Test::NotIn(values), Some(label)) => values.iter().all(|value| value != label),
                (Test::Exists, label) => label.is_some(),
                (Test::Missing, label) => label.is_none(),
                (Test::In(_), None) => false,
                (Test::NotIn(_), None) => true,
            }
        })
    }
}

/// As the API server reads it; empty without requirements.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, LabelRequirement { key, test }) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "," })?;
            match test {
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Exists => f.write_str(key)?,
                Test::Missing => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for LabelSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason: String| InvalidSelector { selector: text.to_owned(), reason };
        let requirements = split(text).map(|part| requirement(part.trim()).map_err(refuse));
        requirements.collect::<Result<_, _>>().map(Self)
    }
}

// === impl FieldSelector ===

impl FieldSelector {
    pub(crate) fn paths(&self) -> impl Iterator<Item = &JsonPath> + '_ {
        self.0.iter().map(|requirement| &requirement.path)
    }

    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let equal = requirement.path.find(object).into_iter().any(|value| match value {
                Value::String(text) => *text == requirement.value,
                Value::Null => requirement.value.is_empty(),
                other => *requirement.value == *other.to_string(),
            });
            equal != requirement.negated
        })
    }
}

impl FieldSelector {
    /// The requirements that an API server may be able to test, as it reads them: path with dots, and value with
    /// what separates requirements escaped. The server's answer is never narrower than [`Self::matches`].
    pub fn server_requirements(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.0.iter().filter_map(|FieldRequirement { path, value, negated }| {
            let path = path.dotted()?;
            let operator = if *negated { "!=" } else { "=" };
            let value = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            let text = format!("{path}{operator}{value}");
            Some((path, text))
        })
    }
}

impl FromStr for FieldSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason: String| InvalidSelector { selector: text.to_owned(), reason };
        let parse = |part: &str| {
            let (path, value, negated) = match (part.split_once("!="), part.split_once("==")) {
                (Some((path, value)), _) => (path, value, true),
                (None, Some((path, value))) => (path, value, false),
                (None, None) => {
                    let missing = || refuse(format!("`{part}` is not `path=value` or `path!=value`"));
                    part.split_once('=').map(|(path, value)| (path, value, false)).ok_or_else(missing)?
                }
            };
            let path: JsonPath = path.trim().parse().map_err(|error| refuse(format!("{error}")))?;
            Ok(FieldRequirement { path, value: value.trim().to_owned(), negated })
        };
        split(text).map(parse).collect::<Result<_, _>>().map(Self)
    }
}

/// Splits at commas outside of parentheses and brackets; an empty selector has no parts.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = text.split(move |c| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.filter(move |_| !text.trim().is_empty())
}

fn requirement(part: &str) -> Result<LabelRequirement, String> {
    if let Some(key) = part.strip_prefix('!') {
        return Ok(LabelRequirement { key: label_key(key)?, test: Test::Missing });
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(LabelRequirement { key: label_key(key)?, test: Test::NotIn(vec![label_value(value)?]) });
    }
    if let Some((key, value)) = part.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Ok(LabelRequirement { key: label_key(key)?, test: Test::In(vec![label_value(value)?]) });
    }
    let Some((key, rest)) = part.split_once(char::is_whitespace) else {
        return Ok(LabelRequirement { key: label_key(part)?, test: Test::Exists });
    };
    let rest = rest.trim();
    let unknown = || format!("`{part}` has an unknown operator; there are =, ==, !=, in, notin and !");
    let (negated, set) = match (rest.strip_prefix("notin"), rest.strip_prefix("in")) {
        (Some(set), _) => (true, set),
        (None, Some(set)) => (false, set),
        (None, None) => return Err(unknown()),
    };
    let set = set.trim().strip_prefix('(').and_then(|set| set.strip_suffix(')')).ok_or_else(unknown)?;
    let values = set.split(',').map(label_value).collect::<Result<Vec<_>, _>>()?;
    let test = if negated { Test::NotIn(values) } else { Test::In(values) };
    Ok(LabelRequirement { key: label_key(key)?, test })
}

fn label_key(text: &str) -> Result<String, String> {
    let key = text.trim();
    let name = key.rsplit('/').next().unwrap_or_default();
    if name.is_empty() || name.len() > 63 || key.matches('/').count() > 1 || !key.chars().all(label_character) {
        return Err(format!("`{key}` is not the name of a label"));
    }
    Ok(key.to_owned())
}

fn label_value(text: &str) -> Result<String, String> {
    let value = text.trim();
    if value.len() > 63 || value.contains('/') || !value.chars().all(label_character) {
        return Err(format!("`{value}` is not the value of a label"));
    }
    Ok(value.to_owned())
}

fn label_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/')
}

#[cfg(test)]
mod tests;
