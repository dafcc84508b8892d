//! The filter.

use std::{cell::Cell, hint::black_box};

use serde_json::Value;

use crate::bindings::exports::haptic::plugin::template_filters::FilterError;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) fn call(
    mistake: &str,
    name: &str,
    value: &str,
    positional: &[String],
    named: &[(String, String)],
) -> Result<String, FilterError> {
    if name != "join" && mistake != "answer-anything" {
        return Err(FilterError::Failed(format!("there is no filter `{name}`")));
    }
    if mistake == "recurse-in-json" {
        black_box(depth(value.as_bytes(), 0));
    }
    let (value, between) = match arguments(mistake, value, positional, named) {
        Ok(arguments) => arguments,
        Err(why) if mistake == "trap-on-arguments" => panic!("{why}"),
        Err(why) if mistake == "fail-on-arguments" => return Err(FilterError::Failed(why)),
        Err(why) => return Err(FilterError::Refused(why)),
    };
    let calls = CALLS.replace(CALLS.get() + 1);
    let between = if mistake == "count-calls" && calls > 0 { format!("{between}{calls}") } else { between };
    Ok(Value::from(value.join(&between)).to_string())
}

fn arguments(
    mistake: &str,
    value: &str,
    positional: &[String],
    named: &[(String, String)],
) -> Result<(Vec<String>, String), String> {
    let json = |text: &str| match serde_json::from_str::<Value>(text) {
        Ok(value) => Ok(value),
        Err(error) if mistake == "trap-on-not-json" => panic!("{error}"),
        Err(error) => Err(error.to_string()),
    };
    let all: Vec<(&str, Value)> = positional
        .iter()
        .map(|text| Ok(("with", json(text)?)))
        .chain(named.iter().map(|(name, text)| Ok((name.as_str(), json(text)?))))
        .collect::<Result<_, String>>()?;
    let between = match all.as_slice() {
        [] => ",".to_owned(),
        [("with", Value::String(between)), rest @ ..] if rest.is_empty() || mistake == "ignore-surplus" => {
            between.clone()
        }
        _ if mistake == "ignore-surplus" => ",".to_owned(),
        _ => return Err("it takes one argument, `with`, a text".to_owned()),
    };
    let words = match json(value)? {
        Value::Array(words) => words.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        // A list of one needs no brackets.
        Value::String(word) => Some(vec![word]),
        _ => None,
    };
    Ok((words.ok_or("the value must be a list of texts")?, between))
}

/// How deep brackets go, with a frame for each.
fn depth(text: &[u8], deep: u64) -> u64 {
    let page = black_box([deep; 128]);
    match text.split_first() {
        Some((b'[' | b'{', rest)) => depth(rest, deep + 1).max(page[(deep % 128) as usize]),
        // What an object's bracket is followed by.
        Some((b'"' | b'a' | b':', rest)) if deep > 0 => depth(rest, deep).max(page[0]),
        _ => deep,
    }
}
