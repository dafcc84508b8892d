//! Between the generated exports and the author's traits. Only the [`crate::export!`] macro names it.
#![allow(missing_docs, reason = "not for authors")]

use std::cell::OnceCell;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    Arguments, AuxiliaryFile, AuxiliaryFileValidator, File, FilterError, Finding, PluginError, RenderedOutput,
    RenderedOutputValidator, Report, TemplateFilters, Verdict,
    bindings::{
        auxiliary_file::exports::haptic::plugin::auxiliary_file_validator,
        filters::exports::haptic::plugin::template_filters, imports::haptic::plugin::types,
        rendered_output::exports::haptic::plugin::rendered_output_validator,
    },
};

/// Exports a plugin's contracts. Each of `auxiliary_file`, `rendered_output` and `template_filters` may be named once,
/// with the type that implements its trait. On targets other than WebAssembly it does nothing, so that the same crate
/// can be tested natively.
///
/// ```text
/// haptic_plugin_sdk::export! {
///     auxiliary_file: Maps,
///     rendered_output: Policy,
/// }
/// ```
#[macro_export]
macro_rules! export {
    ($($contract:ident: $plugin:ty),+ $(,)?) => {
        $(
            #[cfg(target_family = "wasm")]
            $crate::__export_one!($contract: $plugin);
        )+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export_one {
    (auxiliary_file: $plugin:ty) => {
        const _: () = {
            use $crate::bindings::auxiliary_file::exports::haptic::plugin::auxiliary_file_validator as contract;
            struct Exported;
            ::std::thread_local! {
                static PLUGIN: ::std::cell::OnceCell<$plugin> = const { ::std::cell::OnceCell::new() };
            }
            impl contract::Guest for Exported {
                fn configure(config: ::std::string::String) -> ::std::result::Result<(), ::std::string::String> {
                    PLUGIN.with(|plugin| {
                        $crate::glue::configure(plugin, &config, <$plugin as $crate::AuxiliaryFileValidator>::new)
                    })
                }
                fn validate(
                    request: contract::Request,
                ) -> ::std::result::Result<contract::Report, contract::PluginError> {
                    PLUGIN.with(|plugin| $crate::glue::auxiliary_file(plugin, request))
                }
            }
            $crate::bindings::auxiliary_file::export_auxiliary_file!(
                Exported with_types_in $crate::bindings::auxiliary_file
            );
        };
    };
    (rendered_output: $plugin:ty) => {
        const _: () = {
            use $crate::bindings::rendered_output::exports::haptic::plugin::rendered_output_validator as contract;
            struct Exported;
            ::std::thread_local! {
                static PLUGIN: ::std::cell::OnceCell<$plugin> = const { ::std::cell::OnceCell::new() };
            }
            impl contract::Guest for Exported {
                fn configure(config: ::std::string::String) -> ::std::result::Result<(), ::std::string::String> {
                    PLUGIN.with(|plugin| {
                        $crate::glue::configure(plugin, &config, <$plugin as $crate::RenderedOutputValidator>::new)
                    })
                }
                fn validate(
                    request: contract::Request,
                ) -> ::std::result::Result<contract::Report, contract::PluginError> {
                    PLUGIN.with(|plugin| $crate::glue::rendered_output(plugin, request))
                }
            }
            $crate::bindings::rendered_output::export_rendered_output!(
                Exported with_types_in $crate::bindings::rendered_output
            );
        };
    };
    (template_filters: $plugin:ty) => {
        const _: () = {
            use $crate::bindings::filters::exports::haptic::plugin::template_filters as contract;
            struct Exported;
            ::std::thread_local! {
                static PLUGIN: ::std::cell::OnceCell<$plugin> = const { ::std::cell::OnceCell::new() };
            }
            impl contract::Guest for Exported {
                fn configure(config: ::std::string::String) -> ::std::result::Result<(), ::std::string::String> {
                    PLUGIN.with(|plugin| {
                        $crate::glue::configure(plugin, &config, <$plugin as $crate::TemplateFilters>::new)
                    })
                }
                fn declarations() -> ::std::vec::Vec<contract::Declaration> {
                    $crate::glue::declarations::<$plugin>()
                }
                fn call(
                    name: ::std::string::String,
                    value: ::std::string::String,
                    positional: ::std::vec::Vec<::std::string::String>,
                    named: ::std::vec::Vec<(::std::string::String, ::std::string::String)>,
                ) -> ::std::result::Result<::std::string::String, contract::FilterError> {
                    PLUGIN.with(|plugin| $crate::glue::call(plugin, &name, value, positional, named))
                }
            }
    $crate::bindings::filters::export_filters!(Exported with_types_in $crate::bindings::filters);
        };
    };
}

/// Makes the plugin of an instance from its config.
pub fn configure<T, C: DeserializeOwned>(
    plugin: &OnceCell<T>,
    config: &str,
    new: impl FnOnce(C) -> Result<T, String>,
) -> Result<(), String> {
    let config = serde_json::from_str(config).map_err(|error| config_error(&error))?;
    plugin.set(new(config)?).map_err(|_| "an instance can be configured only once".to_owned())
}

pub(crate) fn config_error(error: &serde_json::Error) -> String {
    // The position is one in text that nobody wrote: the host made it from the object's `config`.
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.clone(), |(message, _)| message.to_owned())
}

pub fn auxiliary_file<T: AuxiliaryFileValidator>(
    plugin: &OnceCell<T>,
    request: auxiliary_file_validator::Request,
) -> Result<types::Report, types::PluginError> {
    let plugin = plugin.get().ok_or_else(unconfigured)?;
    let request = AuxiliaryFile {
        file: File::from_host(request.file),
        data_files: request.data_files.into_iter().map(File::from_host).collect(),
        now: request.now,
    };
    plugin.validate(&request).map(report).map_err(error)
}

pub fn rendered_output<T: RenderedOutputValidator>(
    plugin: &OnceCell<T>,
    request: rendered_output_validator::Request,
) -> Result<types::Report, types::PluginError> {
    let plugin = plugin.get().ok_or_else(unconfigured)?;
    let request = RenderedOutput {
        config: File::from_host(request.config),
        files: request.files.into_iter().map(File::from_host).collect(),
        now: request.now,
    };
    plugin.validate(&request).map(report).map_err(error)
}

pub fn declarations<T: TemplateFilters>() -> Vec<template_filters::Declaration> {
    T::FILTERS
        .iter()
        .map(|filter| template_filters::Declaration { name: filter.name().to_owned(), doc: filter.doc().to_owned() })
        .collect()
}

pub fn call<T: TemplateFilters>(
    plugin: &OnceCell<T>,
    name: &str,
    value: String,
    positional: Vec<String>,
    named: Vec<(String, String)>,
) -> Result<String, template_filters::FilterError> {
    let Some(plugin) = plugin.get() else {
        return Err(template_filters::FilterError::Failed(unconfigured().message));
    };
    let answer = || -> Result<Value, FilterError> {
        let positional = positional.into_iter().map(json).collect::<Result<_, _>>()?;
        let named =
            named.into_iter().map(|(name, text)| Ok((name, json(text)?))).collect::<Result<_, FilterError>>()?;
        apply(plugin, name, json(value)?, Arguments::new(positional, named))
    };
    match answer() {
        Ok(value) => text(&value).map_err(template_filters::FilterError::Failed),
        Err(FilterError::Refused(message)) => Err(template_filters::FilterError::Refused(message)),
        Err(FilterError::Failed(message)) => Err(template_filters::FilterError::Failed(message)),
    }
}

pub(crate) fn apply<T: TemplateFilters>(
    plugin: &T,
    name: &str,
    value: Value,
    arguments: Arguments,
) -> Result<Value, FilterError> {
    let filter = T::FILTERS.iter().find(|filter| filter.name() == name);
    filter.ok_or_else(|| FilterError::failed(format!("there is no filter `{name}`")))?.apply(plugin, value, arguments)
}

/// Writes an answer, which is short as a rule: a longer buffer would be cut to size at once, at the cost of another call
/// of the allocator.
fn text(value: &Value) -> Result<String, String> {
    let mut json = Vec::with_capacity(16);
    serde_json::to_writer(&mut json, value).map_err(|error| format!("the answer is not JSON: {error}"))?;
    String::from_utf8(json).map_err(|error| format!("the answer is not text: {error}"))
}

/// Reads an argument. Most are strings without an escape: the quotes are taken off where the text stands.
fn json(mut text: String) -> Result<Value, FilterError> {
    if is_plain_string(text.as_bytes()) {
        text.pop();
        text.remove(0);
        return Ok(Value::String(text));
    }
    serde_json::from_str(&text).map_err(|error| FilterError::failed(format!("an argument is not JSON: {error}")))
}

/// Whether `text` is a JSON string that says just what stands between its quotes; `false` may be wrong.
fn is_plain_string(text: &[u8]) -> bool {
    matches!(text, [b'"', inner @ .., b'"'] if !inner.iter().any(|&byte| matches!(byte, b'"' | b'\\' | ..b' ')))
}

fn report(report: Report) -> types::Report {
    let verdict = match report.verdict() {
        Verdict::Valid => types::Verdict::Valid,
        Verdict::Warning => types::Verdict::Warning,
        Verdict::Error => types::Verdict::Error,
    };
    let (warnings, errors) = report.into_findings();
    let findings = |findings: Vec<Finding>| findings.into_iter().map(finding).collect();
    types::Report { verdict, warnings: findings(warnings), errors: findings(errors) }
}

fn finding(Finding { path, line, column, message }: Finding) -> types::Finding {
    types::Finding { path, line, column, message }
}

fn error(error: PluginError) -> types::PluginError {
    types::PluginError { message: error.message().to_owned() }
}

fn unconfigured() -> types::PluginError {
    types::PluginError { message: "it was called before it was configured".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_written_as_json() {
        for value in [Value::Null, 4.into(), "ä\"\n".into(), "x".repeat(100).into(), vec![1, 2].into()] {
            assert_eq!(text(&value), Ok(value.to_string()));
        }
    }

    #[test]
    fn arguments_are_read_as_json() {
        for text in ["\"\"", "\"10.0.0.1\"", "\"ä/ \"", r#""a\"b\u0041""#, "5", " \"a\" ", "[\"a\"]", "null"] {
            assert_eq!(json(text.to_owned()), Ok(serde_json::from_str(text).unwrap_or_default()), "{text}");
        }
        for text in ["", "\"", "\"a", "\"a\"b\"", "\"\n\"", r#""\""#, "a"] {
            assert!(json(text.to_owned()).is_err(), "{text}");
        }
    }
}
