//! One validator call: a fresh instance, configured, asked once and dropped.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::Bytes;
use haptic_model::{
    CONFIG_PATH, File, FileSet,
    ports::{Contract, Now, PluginFailureKind, PluginReport},
};
use wasmtime::{Store, component::Resource};

use crate::{
    call::{self, Call},
    failure::classify,
    plugin::LoadedPlugin,
    report::{Believed, believe, printable},
    stack,
    v1::{
        HostFile, auxiliary_file_validator, rendered_output_validator,
        types::{PluginError, Report},
    },
};

/// Longest own words of a plugin that are kept.
const MAX_ERROR_BYTES: usize = 1024;

/// What one validator is asked.
#[derive(Clone, Debug)]
pub enum Question<'a> {
    /// One file, and what goes with it.
    AuxiliaryFile { file: &'a File, data_files: Vec<&'a File>, now: Now },
    /// `haproxy.cfg` and all others.
    RenderedOutput { files: &'a FileSet, now: Now },
}

/// Asks `plugin`, and believes its answer only if it holds what the contract says.
pub(crate) fn ask(plugin: &LoadedPlugin, question: &Question<'_>) -> PluginReport {
    let started = Instant::now();
    let outcome = answer(plugin, question);
    report(plugin, question, started.elapsed(), outcome)
}

// === impl LoadedPlugin ===

impl LoadedPlugin {
    /// Asks a validator once, in a fresh instance. Blocks until it has answered or met a limit.
    pub fn validate(&self, question: &Question<'_>) -> PluginReport {
        ask(self, question)
    }
}

/// Counts the call and makes its report.
pub(crate) fn report(
    plugin: &LoadedPlugin,
    question: &Question<'_>,
    elapsed: Duration,
    outcome: Result<Believed, PluginFailureKind>,
) -> PluginReport {
    let (believed, failure) = match plugin.count(question.contract(), elapsed, outcome) {
        Ok(believed) => (believed, None),
        Err(failure) => (Believed { warnings: Vec::new(), errors: Vec::new() }, Some(failure)),
    };
    PluginReport {
        plugin: plugin.name.clone(),
        contract: question.contract(),
        path: question.path().to_owned(),
        warnings: believed.warnings,
        errors: believed.errors,
        failure,
        failure_policy: plugin.failure_policy,
        elapsed,
    }
}

fn answer(plugin: &LoadedPlugin, question: &Question<'_>) -> Result<Believed, PluginFailureKind> {
    let _in_flight = plugin.ticker.enter();
    let mut store = plugin.store();
    let report = guest_report(plugin, &mut store, question)?;
    believe(report, &question.files()).map_err(|message| PluginFailureKind::Contract { message })
}

/// The report as the guest in a fresh `store` gives it, which nobody has believed yet.
pub(crate) fn guest_report(
    plugin: &LoadedPlugin,
    store: &mut Store<Call>,
    question: &Question<'_>,
) -> Result<Report, PluginFailureKind> {
    let answered = stack::with_room(|| match question {
        Question::AuxiliaryFile { file, data_files, now } => auxiliary_file(plugin, store, file, data_files, *now),
        Question::RenderedOutput { files, now } => rendered_output(plugin, store, files, *now),
    });
    match answered {
        Err(error) => Err(classify(store, &error)),
        Ok(Err(message)) => Err(PluginFailureKind::Reported { message: printable(&message, MAX_ERROR_BYTES) }),
        Ok(Ok(report)) => Ok(report),
    }
}

/// Either answer of the plugin: its report, or its own words about why there is none.
type Answer = wasmtime::Result<Result<Report, String>>;

fn auxiliary_file(
    plugin: &LoadedPlugin,
    store: &mut Store<Call>,
    file: &File,
    data_files: &[&File],
    now: Now,
) -> Answer {
    let Some(indices) = &plugin.exports.auxiliary_file else {
        return Ok(Err("it does not export `auxiliary-file-validator`".to_owned()));
    };
    let instance = plugin.pre.instantiate(&mut *store)?;
    let guest = indices.load(&mut *store, &instance)?;
    if let Err(message) = guest.call_configure(&mut *store, &plugin.config)? {
        return Ok(Err(message));
    }
    let file = lend(store, file)?;
    let data_files = data_files.iter().map(|file| lend(store, file)).collect::<wasmtime::Result<_>>()?;
    let request = auxiliary_file_validator::Request { file, data_files, now: now.0 };
    Ok(guest.call_validate(&mut *store, &request)?.map_err(|PluginError { message }| message))
}

fn rendered_output(plugin: &LoadedPlugin, store: &mut Store<Call>, files: &FileSet, now: Now) -> Answer {
    let Some(indices) = &plugin.exports.rendered_output else {
        return Ok(Err("it does not export `rendered-output-validator`".to_owned()));
    };
    let Some(config) = files.get(CONFIG_PATH) else {
        return Ok(Err(format!("there is no `{CONFIG_PATH}` among the rendered files")));
    };
    let instance = plugin.pre.instantiate(&mut *store)?;
    let guest = indices.load(&mut *store, &instance)?;
    if let Err(message) = guest.call_configure(&mut *store, &plugin.config)? {
        return Ok(Err(message));
    }
    let others = files.values().filter(|file| file.path != config.path);
    let others = others.map(|file| lend(store, file)).collect::<wasmtime::Result<_>>()?;
    let config = lend(store, config)?;
    let request = rendered_output_validator::Request { config, files: others, now: now.0 };
    Ok(guest.call_validate(&mut *store, &request)?.map_err(|PluginError { message }| message))
}

/// Gives a guest a handle; the content stays here.
fn lend(store: &mut Store<Call>, file: &File) -> wasmtime::Result<Resource<HostFile>> {
    let file = HostFile { path: file.path.clone(), content: file.content.clone() };
    call::lend(store, file)
}

// === impl Question ===

impl<'a> Question<'a> {
    /// The contract that answers it.
    pub fn contract(&self) -> Contract {
        match self {
            Self::AuxiliaryFile { .. } => Contract::AuxiliaryFile,
            Self::RenderedOutput { .. } => Contract::RenderedOutput,
        }
    }

    /// The file that is checked.
    pub fn path(&self) -> &'a str {
        match self {
            Self::AuxiliaryFile { file, .. } => file.path.as_str(),
            Self::RenderedOutput { .. } => CONFIG_PATH,
        }
    }

    pub(crate) fn files(&self) -> BTreeMap<&'a str, &'a Bytes> {
        let entry = |file: &'a File| (file.path.as_str(), &file.content);
        match self {
            Self::AuxiliaryFile { file, data_files, .. } => {
                std::iter::once(entry(file)).chain(data_files.iter().map(|file| entry(file))).collect()
            }
            Self::RenderedOutput { files, .. } => files.values().map(entry).collect(),
        }
    }
}
