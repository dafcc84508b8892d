//! How the plugin takes a config that is wrong.

use haptic_plugins::LoadErrorReason;
use serde_json::{Map, Value, json};

use crate::{checks::Context, report::Said};

/// A name that no plugin knows.
const UNKNOWN: &str = "noSuchFieldInAnyPlugin";

/// Wrong configs that are tried.
const MAX_TRIES: usize = 60;

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
    let mut tried = 0;
    let mut refused = 0;
    let wrong = [json!(null), json!(true), json!(-1), json!("wrong"), json!([1]), json!({ "wrong": 1 })];
    let variants = configs(ctx).into_iter().flat_map(|config| {
        let keys: Vec<String> = config.keys().cloned().collect();
        let wrong = wrong.clone();
        keys.into_iter().flat_map(move |key| {
            let config = config.clone();
            wrong.clone().into_iter().map(move |value| {
                let mut config = config.clone();
                config.insert(key.clone(), value);
                Value::Object(config)
            })
        })
    });
    for config in variants.chain([json!([]), json!("text"), json!(1)]).take(MAX_TRIES) {
        tried += 1;
        let Err(error) = ctx.probe.load(&config) else { continue };
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
    Said::pass(format!("{tried} wrong configs: {refused} refused, {} taken, none trapped", tried - refused))
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
