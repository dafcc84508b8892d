//! How the plugin takes a config that is wrong.

use std::collections::BTreeSet;

use haptic_plugins::LoadErrorReason;
use serde_json::{Map, Value, json};

use crate::{checks::Context, report::Said};

/// A name that no plugin knows.
const UNKNOWN: &str = "noSuchFieldInAnyPlugin";

/// Fields that are tried, each with every wrong value.
const MAX_FIELDS: usize = 100;

pub(super) fn unknown_field(ctx: &Context<'_>) -> Said {
    let Some(mut config) = configs(ctx).into_iter().next() else {
        return Said::skip("it takes no config that is an object");
    };
    config.insert(UNKNOWN.to_owned(), true.into());
    match ctx.probe.load(&config.into()) {
        Err(error) => match &error.reason {
            LoadErrorReason::Config { message } if message.trim().is_empty() => {
                Said::fail("it refuses the config without a word; say which field is wrong and what would be right")
            }
            LoadErrorReason::Config { message } => Said::pass(format!("refused: {message}")),
            reason => Said::fail(format!("a field that it does not know ends in: {reason}; refuse it in `configure`")),
        },
        Ok(_) => Said::warn(
            "it ignores a field that it does not know, so a misspelt field would not be told; refuse unknown fields in \
             `configure` (in Rust: `#[serde(deny_unknown_fields)]`)",
        ),
    }
}

pub(super) fn wrong_types(ctx: &Context<'_>) -> Said {
    let Wrong { tries, fields_left_out } = wrong(&configs(ctx));
    let mut refused = 0;
    for config in &tries {
        let Err(error) = ctx.probe.load(config) else { continue };
        match &error.reason {
            LoadErrorReason::Config { .. } => refused += 1,
            // A filter's declarations may follow from the config, and may be refused with it.
            LoadErrorReason::Declaration { message } => {
                return Said::fail(format!(
                    "with the config {config} it declares a filter against the contract: {message}"
                ));
            }
            reason => {
                return Said::fail(format!(
                    "the config {config} ends in: {reason}; return an error from `configure` that says which field is wrong"
                ));
            }
        }
    }
    let left_out = match fields_left_out {
        0 => String::new(),
        count => format!("; {count} more fields were not tried"),
    };
    let (tried, taken) = (tries.len(), tries.len() - refused);
    Said::pass(format!("{tried} wrong configs: {refused} refused, {taken} taken, none trapped{left_out}"))
}

/// Configs that no plugin should take.
struct Wrong {
    tries: Vec<Value>,
    fields_left_out: usize,
}

/// What is no object, and then each field of `configs` with values of every type, in the first config that has it.
fn wrong(configs: &[Map<String, Value>]) -> Wrong {
    let mut tries = vec![json!([]), json!("text"), json!(1)];
    let mut fields = BTreeSet::new();
    for (config, field) in configs.iter().flat_map(|config| config.keys().map(move |field| (config, field))) {
        if !fields.insert(field) || fields.len() > MAX_FIELDS {
            continue;
        }
        for value in [json!(null), json!(true), json!(-1), json!("wrong"), json!([1]), json!({ "wrong": 1 })] {
            let mut config = config.clone();
            config.insert(field.clone(), value);
            tries.push(config.into());
        }
    }
    Wrong { tries, fields_left_out: fields.len().saturating_sub(MAX_FIELDS) }
}

/// Every config that the plugin takes, by the project and its cases.
fn configs(ctx: &Context<'_>) -> Vec<Map<String, Value>> {
    let project = ctx.probe.project;
    let cases = project.cases.iter().filter_map(crate::Case::config);
    let mut configs: Vec<Map<String, Value>> = Vec::new();
    for config in std::iter::once(&project.config).chain(cases) {
        let object = match config {
            Value::Null => Map::new(),
            Value::Object(object) => object.clone(),
            _ => continue,
        };
        if !configs.contains(&object) && ctx.probe.load(config).is_ok() {
            configs.push(object);
        }
    }
    configs
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn config(fields: std::ops::Range<usize>) -> Map<String, Value> {
        fields.map(|field| (format!("field{field:03}"), field.into())).collect()
    }

    #[test]
    fn every_field_of_every_config_is_tried_once_and_so_is_what_is_no_object() {
        let Wrong { tries, fields_left_out } = wrong(&[config(0..20), config(10..30)]);
        assert_eq!((tries.len(), fields_left_out), (3 + 30 * 6, 0));
        assert!(tries[..3].iter().all(|config| !config.is_object()));
        let last: Vec<_> = tries[tries.len() - 6..].iter().map(|config| config["field029"].clone()).collect();
        assert_eq!(last, [json!(null), json!(true), json!(-1), json!("wrong"), json!([1]), json!({ "wrong": 1 })]);
        assert!(tries[3..].iter().all(|config| config.as_object().unwrap().len() == 20), "only one field is wrong");
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let Wrong { tries, fields_left_out } = wrong(&[config(0..80), config(50..130)]);
        assert_eq!((tries.len(), fields_left_out), (3 + MAX_FIELDS * 6, 30));
    }
}
