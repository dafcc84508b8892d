//! The plugins of one accepted configuration.

use std::{
    num::NonZero,
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use haptic_model::{
    CONFIG_PATH, File, FileSet,
    ports::{FilterDeclaration, FilterSession, Now, OutputValidators, PluginCounters, PluginReport, TemplateFilters},
};
use thiserror::Error;

use crate::{
    plugin::LoadedPlugin,
    session::{FilterIndex, Offered, Session},
    validate::{Question, ask},
};

/// Calls of one request that run beside each other, whatever the machine has.
const MAX_PARALLEL_CALLS: usize = 8;

/// Asked once: the answer is in several files of the cgroup, and reading them takes longer than a call.
static CORES: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));

/// A plugin and what it is used for. Filters are on offer by being in the set.
#[derive(Clone, Debug)]
pub struct PluginUse {
    pub plugin: Arc<LoadedPlugin>,
    /// One for each entry of the configuration's `validators` that names the plugin. Empty = its filters only.
    pub validators: Vec<ValidatorScope>,
}

/// What one `validators` entry lets its plugin see. Globs are over whole paths of the file set; `*` and `?` stop at
/// `/`, `**` does not.
#[derive(Clone, Debug, Default)]
pub struct ValidatorScope {
    /// The files that an auxiliary-file validator checks, one request each. `haproxy.cfg` is never one of them. The
    /// rendered-output contract does not ask for these: it gets everything.
    pub files: Vec<String>,
    /// What goes with each of these requests. A file that both match is data, as in protocol v1.
    pub data_files: Vec<String>,
}

/// The plugins of one accepted configuration, pinned: a changed plugin or config is another set.
pub struct PluginSet {
    plugins: Vec<Scoped>,
    filters: Arc<FilterIndex>,
}

#[derive(Debug, Error)]
pub enum InvalidPluginSet {
    #[error("plugin `{plugin}`: `{glob}` is not a glob: {source}")]
    Glob { plugin: Arc<str>, glob: String, source: globset::Error },
    #[error("plugins `{first}` and `{second}` both offer the filter `{filter}`; leave one of them out")]
    FilterTwice { filter: String, first: Arc<str>, second: Arc<str> },
    #[error("plugin `{plugin}` is listed twice; name it once with all its validators")]
    PluginTwice { plugin: Arc<str> },
    #[error("plugin `{plugin}` is named in `validators` but exports no validator")]
    NoValidator { plugin: Arc<str> },
}

struct Scoped {
    plugin: Arc<LoadedPlugin>,
    scopes: Vec<(GlobSet, GlobSet)>,
}

// === impl PluginSet ===

impl PluginSet {
    /// Puts plugins together. Reports come in this order of plugins, then scopes, then paths.
    pub fn new(uses: Vec<PluginUse>) -> Result<Self, InvalidPluginSet> {
        let mut plugins: Vec<Scoped> = Vec::with_capacity(uses.len());
        let mut filters = FilterIndex::default();
        for PluginUse { plugin, validators } in uses {
            let name = plugin.name();
            if plugins.iter().any(|other| other.plugin.name() == name) {
                return Err(InvalidPluginSet::PluginTwice { plugin: Arc::clone(name) });
            }
            let exports = &plugin.exports;
            if !validators.is_empty() && exports.auxiliary_file.is_none() && exports.rendered_output.is_none() {
                return Err(InvalidPluginSet::NoValidator { plugin: Arc::clone(name) });
            }
            for declared in plugin.filters() {
                let number = u32::try_from(filters.len()).expect("plugins are few, and their filters are bounded");
                let offered = Offered { plugin: Arc::clone(&plugin), place: plugins.len(), number };
                if let Some(first) = filters.insert(declared.name.clone(), offered) {
                    let (first, second) = (Arc::clone(first.plugin.name()), Arc::clone(name));
                    return Err(InvalidPluginSet::FilterTwice { filter: declared.name.clone(), first, second });
                }
            }
            let scopes = validators
                .iter()
                .map(|scope| Ok((globs(name, &scope.files)?, globs(name, &scope.data_files)?)))
                .collect::<Result<_, _>>()?;
            plugins.push(Scoped { plugin, scopes });
        }
        Ok(Self { plugins, filters: Arc::new(filters) })
    }

    /// The plugins, in the order in which they were given.
    pub fn plugins(&self) -> impl Iterator<Item = &Arc<LoadedPlugin>> {
        self.plugins.iter().map(|scoped| &scoped.plugin)
    }

    /// What each plugin's calls have cost since it was loaded.
    pub fn counters(&self) -> PluginCounters {
        self.plugins().map(|plugin| (Arc::clone(plugin.name()), plugin.counter())).collect()
    }
}

impl TemplateFilters for PluginSet {
    fn declared(&self) -> Vec<FilterDeclaration> {
        self.plugins().flat_map(|plugin| plugin.filters().iter().cloned()).collect()
    }

    fn session(&self) -> Box<dyn FilterSession> {
        Box::new(Session::new(Arc::clone(&self.filters)))
    }
}

impl OutputValidators for PluginSet {
    fn validate_auxiliary(&self, files: &FileSet, now: Now) -> Vec<PluginReport> {
        let mut calls = Vec::new();
        for scoped in &self.plugins {
            if scoped.plugin.exports.auxiliary_file.is_none() {
                continue;
            }
            for (checked, data) in &scoped.scopes {
                let (data_files, others): (Vec<&File>, Vec<&File>) =
                    files.values().partition(|file| data.is_match(file.path.as_str()));
                let checks = |file: &&File| file.path.as_str() != CONFIG_PATH && checked.is_match(file.path.as_str());
                for file in others.into_iter().filter(checks) {
                    let question = Question::AuxiliaryFile { file, data_files: data_files.clone(), now };
                    calls.push((&*scoped.plugin, question));
                }
            }
        }
        ask_all(&calls)
    }

    fn validate_output(&self, files: &FileSet, now: Now) -> Vec<PluginReport> {
        let asked = self
            .plugins
            .iter()
            .filter(|scoped| scoped.plugin.exports.rendered_output.is_some() && !scoped.scopes.is_empty());
        let calls: Vec<_> = asked.map(|scoped| (&*scoped.plugin, Question::RenderedOutput { files, now })).collect();
        ask_all(&calls)
    }
}

/// Asks all, some beside each other; the reports stand in the order of the calls.
fn ask_all(calls: &[(&LoadedPlugin, Question<'_>)]) -> Vec<PluginReport> {
    let workers = calls.len().min(*CORES).min(MAX_PARALLEL_CALLS);
    if workers <= 1 {
        return calls.iter().map(|(plugin, question)| ask(plugin, question)).collect();
    }
    let next = AtomicUsize::new(0);
    let reports: Vec<OnceLock<PluginReport>> = calls.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (Some((plugin, question)), Some(report)) = (calls.get(index), reports.get(index)) else { return };
            report.get_or_init(|| ask(plugin, question));
        }
    };
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    reports.into_iter().map(|report| report.into_inner().expect("every call was asked")).collect()
}

fn globs(plugin: &Arc<str>, patterns: &[String]) -> Result<GlobSet, InvalidPluginSet> {
    let invalid =
        |glob: &str, source| InvalidPluginSet::Glob { plugin: Arc::clone(plugin), glob: glob.to_owned(), source };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| invalid(pattern, error))?);
    }
    set.build().map_err(|error| invalid(&patterns.join(", "), error))
}
