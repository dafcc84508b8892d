//! From template sources to an engine: syntax, globals, escaping by template name.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use haptic_model::{CONFIG_PATH, FileKind, FilePath, Finding, FindingCode, ports::TemplateFilters};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, syntax::SyntaxConfig,
    value::ValueKind,
};

use crate::{
    RawText, Template, TemplateSet, failure,
    failure::Cause,
    filters, functions,
    resources::{Haproxy, Resources},
    sink,
};

/// Bounds time and memory of one unit, and of the templates outside of units; one unit of fuel is about one
/// instruction or 64 bytes. A unit of the ingress library uses a few hundred.
const FUEL: u64 = 50_000_000;
/// Nested includes and macro calls.
const RECURSION_LIMIT: usize = 64;
const HAPROXY_SINK: &str = "haproxy";
const MAP_SINK: &str = "map";
const TEXT_SINK: &str = "text";

pub(crate) struct Compiled {
    /// Unlike that of any other renderer of this process.
    pub(crate) id: u64,
    pub(crate) env: Environment<'static>,
    pub(crate) main: String,
    pub(crate) files: Vec<FileSource>,
    pub(crate) names: Arc<Names>,
    pub(crate) filters: Arc<dyn TemplateFilters>,
    pub(crate) raw_text: RawText,
}

/// A template whose text is a file of the set.
#[derive(Clone, Debug)]
pub(crate) struct FileSource {
    pub(crate) path: FilePath,
    /// Its name in the engine.
    pub(crate) template: String,
    pub(crate) kind: FileKind,
    /// Maps only.
    pub(crate) ordered: bool,
    pub(crate) reload_on_change: bool,
}

/// Templates by their name in the engine, for messages.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<String, Template>);

pub(crate) fn compile(set: TemplateSet, filters: Arc<dyn TemplateFilters>) -> Result<Compiled, Vec<Finding>> {
    static NEXT_ID: AtomicU64 = AtomicU64::new(1);
    let mut findings = Vec::new();
    let mut env = environment();
    for refused in filters::register_plugins(&mut env, filters.as_ref()) {
        findings.push(
            Finding::error(FindingCode::ConfigInvalid, format!("{refused} has the name of another filter"))
                .hint("rename the filter in the plugin, or remove one of the two plugins"),
        );
    }
    add_context(&mut env, &set.extra_context, &mut findings);
    let (templates, files) = named(set.clone(), &mut findings);
    let names = Arc::new(Names(templates));
    for (name, template) in &names.0 {
        if template.source.contains(sink::MARK) {
            let finding = Finding::error(FindingCode::ConfigInvalid, "a template may not hold the character U+0001");
            findings.push(finding.at(Arc::clone(&template.name), 0, 0));
        } else if let Err(error) = env.add_template_owned(name.clone(), template.source.to_string()) {
            findings.push(failure::finding(&names, &error, None));
        }
    }
    if !findings.is_empty() {
        findings.sort();
        return Err(findings);
    }
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    Ok(Compiled { id, env, main: CONFIG_PATH.to_owned(), files, names, filters, raw_text: set.raw_text })
}

fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build();
    env.set_syntax(syntax.expect("the engine's own delimiters are valid"));
    env.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    // Named variables in messages; costs nothing on success.
    env.set_debug(true);
    env.set_fuel(Some(FUEL));
    env.set_recursion_limit(RECURSION_LIMIT);
    env.set_auto_escape_callback(|name| {
        let sink = match name.split('/').next() {
            Some("@maps") => MAP_SINK,
            Some("@general" | "@ssl") => TEXT_SINK,
            _ => HAPROXY_SINK,
        };
        AutoEscape::Custom(sink.into())
    });
    env.set_formatter(print);
    functions::register(&mut env);
    filters::register(&mut env);
    env.add_global("resources", Value::from_object(Resources));
    env.add_global("haproxy", Value::from_object(Haproxy));
    env
}

/// Prints a value into the sink of the template that prints it.
fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if value.is_safe() {
        return out.write_str(value.as_str().unwrap_or_default()).map_err(Error::from);
    }
    let text = match value.kind() {
        ValueKind::String | ValueKind::Number | ValueKind::Bool => filters::plain(value),
        ValueKind::Undefined => return Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::None => {
            return Err(Cause::data(FindingCode::InvalidValue, "the value to print is none")
                .hint("give a default with `| default(…, true)`, or print it only if it is there")
                .into());
        }
        kind => {
            return Err(Cause::data(FindingCode::InvalidValue, format!("a {kind} cannot be printed"))
                .hint("print its parts, or join them")
                .into());
        }
    };
    let sink = match state.auto_escape() {
        AutoEscape::Custom(sink) => sink.as_ref(),
        _ => HAPROXY_SINK,
    };
    let escaped = match sink {
        TEXT_SINK => Ok(text),
        MAP_SINK if text.chars().any(char::is_control) => {
            Err(format!("{} holds a control character", sink::shown(&text)))
        }
        MAP_SINK => Ok(text),
        _ if value.kind() == ValueKind::Number => Ok(text),
        _ => sink::token(&text),
    };
    let escaped = escaped.map_err(Cause::unsafe_value)?;
    out.write_str(&escaped).map_err(Error::from)
}

fn add_context(env: &mut Environment<'static>, extra: &serde_json::Value, findings: &mut Vec<Finding>) {
    let taken: Vec<String> = env.globals().map(|(name, _)| name.to_owned()).collect();
    if let serde_json::Value::Object(entries) = extra {
        for (name, value) in entries {
            if taken.contains(name) {
                findings.push(
                    Finding::error(
                        FindingCode::ConfigInvalid,
                        format!("extraContext.{name} has the name of a function or variable of the engine"),
                    )
                    .hint("rename it"),
                );
            } else {
                env.add_global(name.clone(), plain_value(value));
            }
        }
    }
    env.add_global("extraContext", plain_value(extra));
}

fn plain_value(value: &serde_json::Value) -> Value {
    Value::from(minijinja::value::Serde(value))
}

fn named(set: TemplateSet, findings: &mut Vec<Finding>) -> (BTreeMap<String, Template>, Vec<FileSource>) {
    let mut templates = set.snippets;
    templates.insert(CONFIG_PATH.to_owned(), set.config);
    let mut files = Vec::new();
    let mut add = |folder: &str, name: String, template: Template, kind, ordered, reload_on_change| {
        match FilePath::new(&format!("{folder}/{name}")) {
            Ok(path) => {
                // No snippet can have this name by accident.
                let engine_name = format!("@{path}");
                files.push(FileSource { path, template: engine_name.clone(), kind, ordered, reload_on_change });
                templates.insert(engine_name, template);
            }
            Err(error) => findings.push(
                Finding::error(FindingCode::ConfigInvalid, error.to_string())
                    .at(template.name, 0, 0)
                    .hint("rename the file"),
            ),
        }
    };
    for (name, map) in set.maps {
        add("maps", name, map.template, FileKind::Map, map.ordered, false);
    }
    for (name, file) in set.files {
        add("general", name, file.template, FileKind::General, false, file.reload_on_change);
    }
    for (name, template) in set.certificates {
        add("ssl", name, template, FileKind::Cert, false, false);
    }
    for (name, template) in set.crt_lists {
        add("ssl", name, template, FileKind::CrtList, false, false);
    }
    (templates, files)
}

// === impl Names ===

impl Names {
    /// How messages call the template that the engine calls `name`.
    pub(crate) fn display(&self, name: &str) -> Arc<str> {
        self.template(name).map_or_else(|| name.into(), |template| Arc::clone(&template.name))
    }

    /// The template that the engine calls `name`.
    pub(crate) fn template(&self, name: &str) -> Option<&Template> {
        self.0.get(name)
    }

    /// The snippets that a hook renders, in the order of their names.
    pub(crate) fn below(&self, hook: &str) -> Vec<Arc<str>> {
        let prefix = format!("{hook}/");
        let from = self.0.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
        from.map(|(name, _)| name)
            .take_while(|name| name.starts_with(&prefix))
            .map(|name| name.as_str().into())
            .collect()
    }

    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.0.values()
    }
}
