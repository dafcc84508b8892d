//! A plugin as an author might write it, with one mistake that its config names. Without one it is right.
//!
//! It checks files of lines `KEY NUMBER` and offers the filter `join`. The tests of `host/conformance` show that each
//! mistake is found by the check that is for it. What an attacker might write is in `fault`.

mod check;
mod join;

use std::cell::RefCell;

use serde_json::{Map, Value};

#[allow(clippy::pedantic, clippy::same_length_and_capacity, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit/haptic-plugin-1.0.0",
        world: "haptic:plugin/plugin",
        generate_all,
    });
}

use bindings::{
    exports::haptic::plugin::{auxiliary_file_validator, rendered_output_validator, template_filters},
    haptic::plugin::types::{PluginError, Report},
};

thread_local! {
    /// The mistake that the config names; empty = none.
    static MISTAKE: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Guest;

impl auxiliary_file_validator::Guest for Guest {
    fn configure(config: String) -> Result<(), String> {
        configure(&config)
    }

    fn validate(request: auxiliary_file_validator::Request) -> Result<Report, PluginError> {
        Ok(check::check(&mistake(), &request.file, &request.data_files, request.now))
    }
}

impl rendered_output_validator::Guest for Guest {
    fn configure(config: String) -> Result<(), String> {
        configure(&config)
    }

    fn validate(request: rendered_output_validator::Request) -> Result<Report, PluginError> {
        Ok(check::check("", &request.config, &request.files, request.now))
    }
}

impl template_filters::Guest for Guest {
    fn configure(config: String) -> Result<(), String> {
        configure(&config)
    }

    fn declarations() -> Vec<template_filters::Declaration> {
        let doc = if mistake() == "no-docs" { " " } else { "The list as text, with `with` (default `,`) between." };
        vec![template_filters::Declaration { name: "join".to_owned(), doc: doc.to_owned() }]
    }

    fn call(
        name: String,
        value: String,
        positional: Vec<String>,
        named: Vec<(String, String)>,
    ) -> Result<String, template_filters::FilterError> {
        join::call(&mistake(), &name, &value, &positional, &named)
    }
}

bindings::export!(Guest with_types_in bindings);

fn mistake() -> String {
    MISTAKE.with_borrow(Clone::clone)
}

/// Takes `mistake`, and `weight`, which is there to be of a wrong type.
fn configure(config: &str) -> Result<(), String> {
    let mut fields: Map<String, Value> = serde_json::from_str(config).map_err(|error| error.to_string())?;
    let mistake = match fields.remove("mistake") {
        None => String::new(),
        Some(Value::String(mistake)) => mistake,
        Some(other) => return Err(format!("`mistake` must be a text, not {other}")),
    };
    match (mistake.as_str(), fields.remove("weight")) {
        ("trap-on-config", Some(weight)) => assert!(weight.is_u64(), "weight is no number"),
        (_, None) => {}
        (_, Some(weight)) if weight.is_u64() => {}
        (_, Some(weight)) => return Err(format!("`weight` must be a number, not {weight}")),
    }
    if let Some(unknown) = fields.keys().next().filter(|_| mistake != "ignore-unknown-field") {
        return Err(format!("there is no field `{unknown}`; known: `mistake`, `weight`"));
    }
    MISTAKE.set(mistake);
    Ok(())
}
