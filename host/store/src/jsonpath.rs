//! JSONPath as Kubernetes writes it, as far as it names fields.
//!
//! `metadata.labels['kubernetes.io/service-name']`, `metadata.labels.kubernetes\.io/service-name`, `spec.ports[0]`,
//! `spec.rules[*].host`, with or without braces, a leading dot or `$`. Filters, ranges and `..` are refused: a key or
//! a field to be removed must be one that can be told from the path alone.

use std::{fmt, str::FromStr};

use serde_json::Value;
use thiserror::Error;

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Debug, Error)]
#[error("`{path}` is not a JSONPath: {reason}")]
pub struct InvalidJsonPath {
    path: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    /// Negative counts from the end.
    Item(i64),
    Every,
}

// === impl JsonPath ===

impl JsonPath {
    /// All values that the path leads to, in document order.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![value];
        for step in &self.steps {
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        found
    }

    /// Removes everything that the path leads to. What is not there is no error.
    pub fn remove(&self, value: &mut Value) {
        remove(&self.steps, value);
    }

    /// Whether the path can lead to more than one value.
    pub fn is_single(&self) -> bool {
        !self.steps.contains(&Step::Every)
    }

    /// Whether it leads to what every object has beside its kind.
    pub(crate) fn is_of_metadata(&self) -> bool {
        matches!(self.steps.first(), Some(Step::Field(first)) if matches!(&**first, "metadata" | "apiVersion" | "kind"))
    }

    /// The fields separated by dots, if the path has only fields and none with a dot in its name.
    pub fn dotted(&self) -> Option<String> {
        let names = self.steps.iter().map(|step| match step {
            Step::Field(name) if !name.contains('.') => Some(name.as_str()),
            _ => None,
        });
        names.collect::<Option<Vec<_>>>().map(|names| names.join("."))
    }

    /// The path of these fields, one inside the other.
    pub fn fields<const N: usize>(names: [&str; N]) -> Self {
        let steps = names.into_iter().map(|name| Step::Field(name.to_owned())).collect();
        Self { text: names.join("."), steps }
    }
}

impl FromStr for JsonPath {
    type Err = InvalidJsonPath;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |reason| InvalidJsonPath { path: text.to_owned(), reason };
        let inner = match text.trim().strip_prefix('{') {
            Some(rest) => rest.strip_suffix('}').ok_or_else(|| refuse("the closing brace is missing"))?.trim(),
            None => text.trim(),
        };
        let mut rest = inner.strip_prefix('$').unwrap_or(inner);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = if let Some(bracket) = rest.strip_prefix('[') {
                bracketed(bracket)
            } else {
                let name = match rest.strip_prefix('.') {
                    Some(name) if name.starts_with('[') => {
                        rest = name;
                        continue;
                    }
                    Some(name) => name,
                    None if steps.is_empty() => rest,
                    None => return Err(refuse("a dot is missing")),
                };
                dotted(name)
            }
            .map_err(refuse)?;
            steps.push(step);
            rest = after;
        }
        if steps.is_empty() {
            return Err(refuse("it names no field"));
        }
        Ok(Self { text: text.to_owned(), steps })
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

// === impl Step ===

impl Step {
    fn follow<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (Self::Item(index), Value::Array(items)) => {
                position(*index, items.len()).and_then(|index| items.get(index)).into_iter().collect()
            }
            (Self::Every, Value::Array(items)) => items.iter().collect(),
            (Self::Every, Value::Object(fields)) => fields.values().collect(),
            _ => Vec::new(),
        }
    }
}

fn remove(steps: &[Step], value: &mut Value) {
    let Some((step, rest)) = steps.split_first() else { return };
    match (step, value) {
        (Step::Field(name), Value::Object(fields)) => {
            if rest.is_empty() {
                // `shift_remove` would keep the order of the others, but objects are shaped with sorted fields anyway.
                fields.remove(name);
            } else if let Some(inner) = fields.get_mut(name) {
                remove(rest, inner);
            }
        }
        (Step::Item(index), Value::Array(items)) => {
            if let Some(index) = position(*index, items.len()) {
                if rest.is_empty() {
                    items.remove(index);
                } else {
                    remove(rest, &mut items[index]);
                }
            }
        }
        (Step::Every, Value::Array(items)) if rest.is_empty() => items.clear(),
        (Step::Every, Value::Array(items)) => items.iter_mut().for_each(|item| remove(rest, item)),
        (Step::Every, Value::Object(fields)) if rest.is_empty() => fields.clear(),
        (Step::Every, Value::Object(fields)) => fields.values_mut().for_each(|field| remove(rest, field)),
        _ => {}
    }
}

fn position(index: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).ok()?;
    let index = if index < 0 { index + len } else { index };
    (0..len).contains(&index).then(|| usize::try_from(index).ok())?
}

/// What follows a dot: a name, in which a backslash takes the next character as it is.
fn dotted(text: &str) -> Result<(Step, &str), &'static str> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next().ok_or("a backslash stands at its end")?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            ']' | '{' | '}' | '?' | '(' | ')' => return Err("filters and expressions cannot be used here"),
            c if c.is_whitespace() => return Err("a space stands in a name; write ['…'] around it"),
            c => name.push(c),
        }
    }
    match name.as_str() {
        "" => Err("a name is empty; `..` cannot be used here"),
        "*" => Ok((Step::Every, &text[end..])),
        _ => Ok((Step::Field(name), &text[end..])),
    }
}

/// What follows an opening bracket: a quoted name, a number or `*`.
fn bracketed(text: &str) -> Result<(Step, &str), &'static str> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) {
        let mut name = String::new();
        let mut chars = text.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.push(chars.next().ok_or("a backslash stands at its end")?.1),
                c if c == quote => {
                    let after = text[at + 1..].strip_prefix(']').ok_or("a bracket is not closed")?;
                    return Ok((Step::Field(name), after));
                }
                c => name.push(c),
            }
        }
        return Err("a quote is not closed");
    }
    let (inside, after) = text.split_once(']').ok_or("a bracket is not closed")?;
    match inside {
        "*" => Ok((Step::Every, after)),
        _ if inside.starts_with('?') => Err("filters and expressions cannot be used here"),
        _ => inside
            .parse()
            .map(|index| (Step::Item(index), after))
            .map_err(|_| "between brackets stands a quoted name, a number or `*`"),
    }
}

#[cfg(test)]
mod tests;
