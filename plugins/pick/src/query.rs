//! JSONPath queries, bounded before they are parsed: the parser recurses, and every `..` multiplies the work.

use std::collections::HashMap;

use haptic_plugin_sdk::FilterError;
use serde_json_path::JsonPath;

const MAX_BYTES: usize = 1024;
const MAX_DEPTH: usize = 16;
const MAX_DESCENTS: usize = 2;

/// How many parsed queries are kept. Templates have few, and a query is parsed in microseconds.
const MAX_KEPT: usize = 64;

/// Parsed queries by their text: the same one is asked for every item of a loop.
#[derive(Default)]
pub(crate) struct Queries(HashMap<String, JsonPath>);

impl Queries {
    pub(crate) fn parsed(&mut self, text: &str) -> Result<&JsonPath, FilterError> {
        if !self.0.contains_key(text) {
            bound(text)?;
            let query = JsonPath::parse(text).map_err(|error| {
                let place = error.position();
                FilterError::refused(format!("`query` is no JSONPath at character {}: {}", place + 1, error.message()))
            })?;
            if self.0.len() == MAX_KEPT {
                self.0.clear();
            }
            self.0.insert(text.to_owned(), query);
        }
        Ok(&self.0[text])
    }
}

fn bound(text: &str) -> Result<(), FilterError> {
    let refused = |message: String| Err(FilterError::refused(message));
    if text.len() > MAX_BYTES {
        return refused(format!("`query` has {} bytes; at most {MAX_BYTES} are read", text.len()));
    }
    if !text.starts_with('$') {
        return refused("`query` must begin with `$`, which is the value itself, e.g. `$.spec.rules`".to_owned());
    }
    let mut depth = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return refused(format!("`query` nests brackets deeper than {MAX_DEPTH}; split it"));
        }
    }
    // `!` recurses in the parser as brackets do.
    if text.contains("!!") || text.contains("! !") {
        return refused("`query` negates twice in a row; leave both out".to_owned());
    }
    if text.matches("..").count() > MAX_DESCENTS {
        return refused(format!("`query` has more than {MAX_DESCENTS} `..`; name the steps between"));
    }
    Ok(())
}
