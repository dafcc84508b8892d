//! The filters. Values are at most 128 deep, which is as deep as they are read from JSON: recursion is safe.

use haptic_plugin_sdk::{Arguments, FilterError};
use parts::cut;
use serde_json::Value;

use crate::Pick;

/// Bounds what one call answers.
const MAX_PICKED: usize = 10_000;

pub(crate) fn json_pointer(_: &Pick, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [pointer, default] = arguments.bind(["pointer", "default"])?;
    let pointer = text("pointer", "e.g. `/spec/rules/0`", pointer.as_ref())?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(FilterError::refused(format!(
            "`pointer` must be empty or begin with `/`, as in `/{}`",
            cut(pointer)
        )));
    }
    if pointer.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1'])) {
        return Err(FilterError::refused("`pointer` has a `~` that is not `~0` (for `~`) or `~1` (for `/`)"));
    }
    Ok(value.pointer(pointer).cloned().or(default).unwrap_or(Value::Null))
}

pub(crate) fn pick(filters: &Pick, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [query] = arguments.bind(["query"])?;
    select(filters, &value, query.as_ref(), |picked| {
        if picked.len() > MAX_PICKED {
            let count = picked.len();
            return Err(FilterError::refused(format!(
                "`query` selects {count} values; at most {MAX_PICKED} are given"
            )));
        }
        Ok(picked.into_iter().cloned().collect())
    })
}

pub(crate) fn pick_one(filters: &Pick, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [query, default] = arguments.bind(["query", "default"])?;
    select(filters, &value, query.as_ref(), |picked| match picked.as_slice() {
        [] => Ok(default.unwrap_or(Value::Null)),
        [one] => Ok((*one).clone()),
        several => {
            let count = several.len();
            Err(FilterError::refused(format!("`query` selects {count} values; narrow it, or use `pick` for all")))
        }
    })
}

pub(crate) fn json_merge_patch(_: &Pick, value: Value, arguments: Arguments) -> Result<Value, FilterError> {
    let [patch] = arguments.bind(["patch"])?;
    let patch = patch.ok_or_else(|| FilterError::refused("it needs a `patch`"))?;
    Ok(merged(value, patch))
}

fn merged(value: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut merged_fields = if let Value::Object(fields) = value { fields } else { serde_json::Map::new() };
    for (name, change) in patch {
        if change.is_null() {
            merged_fields.shift_remove(&name);
        } else {
            let old = merged_fields.get_mut(&name).map_or(Value::Null, Value::take);
            merged_fields.insert(name, merged(old, change));
        }
    }
    Value::Object(merged_fields)
}

fn select(
    filters: &Pick,
    value: &Value,
    query: Option<&Value>,
    answer: impl FnOnce(Vec<&Value>) -> Result<Value, FilterError>,
) -> Result<Value, FilterError> {
    let query = text("query", "e.g. `$.spec.rules[*].host`", query)?;
    let mut queries = filters.queries.borrow_mut();
    answer(queries.parsed(query)?.query(value).all())
}

fn text<'a>(name: &str, example: &str, value: Option<&'a Value>) -> Result<&'a str, FilterError> {
    match value {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(FilterError::refused(format!("`{name}` must be text, {example}"))),
        None => Err(FilterError::refused(format!("it needs a `{name}`, {example}"))),
    }
}
