//! An honest plugin with all three contracts, built against its own copy of the text of generation 1.0.0 and nothing
//! else of haptic. The host must run it as long as it serves that generation.

#[allow(clippy::pedantic, clippy::same_length_and_capacity, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "haptic:plugin/plugin", generate_all });
}

use bindings::{
    exports::haptic::plugin::{auxiliary_file_validator, rendered_output_validator, template_filters},
    haptic::plugin::{
        files::File,
        logging,
        types::{Finding, PluginError, Report, Verdict},
    },
};

struct Guest;

impl auxiliary_file_validator::Guest for Guest {
    fn configure(config: String) -> Result<(), String> {
        configure(&config)
    }

    /// Finds the first tab, and warns if there is no data file.
    fn validate(request: auxiliary_file_validator::Request) -> Result<Report, PluginError> {
        let file = &request.file;
        let mut errors = Vec::new();
        let content = file.read_all();
        if let Some(at) = content.iter().position(|byte| *byte == b'\t') {
            let before = &content[..at];
            let line = before.split(|byte| *byte == b'\n').count();
            let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
            errors.push(finding(file, line, column, "a tab; use spaces".to_owned()));
        }
        let mut warnings = Vec::new();
        if request.data_files.is_empty() {
            warnings.push(finding(file, 0, 0, format!("no data files at {}", request.now)));
        }
        Ok(report(warnings, errors))
    }
}

impl rendered_output_validator::Guest for Guest {
    fn configure(config: String) -> Result<(), String> {
        configure(&config)
    }

    /// Wants each other file to be named in the configuration.
    fn validate(request: rendered_output_validator::Request) -> Result<Report, PluginError> {
        let size = request.config.size();
        let text = String::from_utf8(request.config.read(0, size))
            .map_err(|error| PluginError { message: format!("the configuration is no text: {error}") })?;
        logging::log(logging::Level::Debug, "read the configuration");
        let unused = request.files.iter().filter(|file| !text.contains(&file.path()));
        let errors = unused.map(|file| finding(file, 0, 0, "nothing refers to it".to_owned())).collect();
        Ok(report(Vec::new(), errors))
    }
}

impl template_filters::Guest for Guest {
    fn configure(config: String) -> Result<(), String> {
        configure(&config)
    }

    fn declarations() -> Vec<template_filters::Declaration> {
        vec![template_filters::Declaration { name: "arguments".to_owned(), doc: "Its arguments as a list.".to_owned() }]
    }

    fn call(
        name: String,
        value: String,
        positional: Vec<String>,
        named: Vec<(String, String)>,
    ) -> Result<String, template_filters::FilterError> {
        if name != "arguments" {
            return Err(template_filters::FilterError::Failed(format!("there is no filter `{name}`")));
        }
        if value == "null" {
            return Err(template_filters::FilterError::Refused("there is no value".to_owned()));
        }
        let named = named.into_iter().map(|(name, value)| format!("{{\"{name}\":{value}}}"));
        let all: Vec<_> = std::iter::once(value).chain(positional).chain(named).collect();
        Ok(format!("[{}]", all.join(",")))
    }
}

bindings::export!(Guest with_types_in bindings);

fn configure(config: &str) -> Result<(), String> {
    if config == "{}" { Ok(()) } else { Err(format!("`{config}` is not the empty config")) }
}

fn report(warnings: Vec<Finding>, errors: Vec<Finding>) -> Report {
    let verdict = match (warnings.is_empty(), errors.is_empty()) {
        (_, false) => Verdict::Error,
        (false, true) => Verdict::Warning,
        (true, true) => Verdict::Valid,
    };
    Report { verdict, warnings, errors }
}

fn finding(file: &File, line: usize, column: usize, message: String) -> Finding {
    let number = |count: usize| u32::try_from(count).expect("files have fewer than four billion lines and columns");
    Finding { path: file.path(), line: number(line), column: number(column), message }
}
