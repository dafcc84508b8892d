//! What the checks start from: the questions of the author's cases, or plain ones where there are none.

use std::sync::Arc;

use bytes::Bytes;
use haptic_model::{
    CONFIG_PATH, File, FilePath,
    ports::{Contract, Now},
};
use haptic_plugins::{LoadedPlugin, Question};
use serde_json::Value;

use crate::{
    case::{Call, Work, file},
    probe::{Base, Probe},
    v1::{Request, Subject},
};

/// A question to a validator, and the plugin with the config that the question is for.
pub(crate) struct Sample {
    /// Of the case.
    pub(crate) name: String,
    pub(crate) config: Value,
    pub(crate) plugin: Arc<LoadedPlugin>,
    pub(crate) subject: Subject,
    pub(crate) now: Now,
}

/// A call of a filter, and the plugin with the config that the call is for.
pub(crate) struct FilterSample {
    pub(crate) name: String,
    pub(crate) config: Value,
    pub(crate) plugin: Arc<LoadedPlugin>,
    pub(crate) call: Call,
}

/// Every question of the cases whose config the plugin takes.
pub(crate) fn samples(probe: &Probe<'_>, base: &Base<'_>) -> Vec<Sample> {
    let exported = probe.contracts();
    let mut samples = Vec::new();
    for case in &probe.project.cases {
        let Ok(contract) = case.contract(&exported) else { continue };
        if contract == Contract::TemplateFilter {
            continue;
        }
        let mut add = |config: &Value, now, subject| {
            if let Ok(plugin) = probe.load(config) {
                samples.push(Sample { name: case.name.clone(), config: config.clone(), plugin, subject, now });
            }
        };
        match case.work() {
            Work::Document { document, files } => {
                if let Ok(subject) = document.subject(files, contract) {
                    add(&document.config, document.clock(), subject);
                }
            }
            Work::Transcript(transcript) => {
                for exchange in &transcript.exchanges {
                    let body = exchange.request.to_string();
                    let subject = Request::decode(body.as_bytes()).and_then(|request| request.subject(contract));
                    if let Ok(subject) = subject {
                        add(&exchange.config, Now(exchange.now), subject);
                    }
                }
            }
        }
    }
    for contract in exported.into_iter().filter(|contract| *contract != Contract::TemplateFilter) {
        if !samples.iter().any(|sample| sample.contract() == contract) {
            samples.push(plain(base, contract));
        }
    }
    samples
}

/// Every call of the cases whose config the plugin takes.
pub(crate) fn filter_samples(probe: &Probe<'_>, base: &Base<'_>) -> Vec<FilterSample> {
    let mut samples = Vec::new();
    for case in &probe.project.cases {
        let Work::Document { document, .. } = case.work() else { continue };
        let Ok(plugin) = probe.load(&document.config) else { continue };
        samples.extend(document.calls.iter().map(|call| FilterSample {
            name: case.name.clone(),
            config: document.config.clone(),
            plugin: Arc::clone(&plugin),
            call: call.clone(),
        }));
    }
    for declared in base.plugin.filters() {
        if !samples.iter().any(|sample| sample.call.filter == declared.name) {
            samples.push(FilterSample {
                name: "a plain call".to_owned(),
                config: base.config.clone(),
                plugin: Arc::clone(&base.plugin),
                call: Call::plain(&declared.name, "10.0.0.1".into()),
            });
        }
    }
    samples
}

/// The sample of each contract with the most content: an empty one makes no larger input.
pub(crate) fn largest_of_each(samples: &[Sample]) -> Vec<&Sample> {
    let mut chosen: Vec<&Sample> = Vec::new();
    for sample in samples {
        match chosen.iter_mut().find(|other| other.contract() == sample.contract()) {
            Some(other) if other.subject.content().len() < sample.subject.content().len() => *other = sample,
            Some(_) => {}
            None => chosen.push(sample),
        }
    }
    chosen
}

/// A question that any validator can be asked.
fn plain(base: &Base<'_>, contract: Contract) -> Sample {
    let text = "# a plain file\nglobal\n  maxconn 100\n\ndefaults\n  mode http\n";
    let path = if contract == Contract::RenderedOutput { CONFIG_PATH } else { "general/plain.txt" };
    let path = FilePath::new(path).expect("it is a path");
    let checked = file(&path, &Bytes::from_static(text.as_bytes()));
    let subject = match contract {
        Contract::RenderedOutput => Subject::RenderedOutput { files: [(path, checked)].into() },
        _ => Subject::AuxiliaryFile { file: checked, data_files: Vec::new() },
    };
    let (config, plugin) = (base.config.clone(), Arc::clone(&base.plugin));
    Sample { name: "a plain file".to_owned(), config, plugin, subject, now: Now(0) }
}

// === impl Sample ===

impl Sample {
    pub(crate) fn question(&self) -> Question<'_> {
        self.subject.question(self.now)
    }

    pub(crate) fn contract(&self) -> Contract {
        self.question().contract()
    }
}

// === impl Subject ===

impl Subject {
    /// The content of the file that is checked.
    pub(crate) fn content(&self) -> &Bytes {
        match self {
            Self::AuxiliaryFile { file, .. } => &file.content,
            Self::RenderedOutput { files } => &files[CONFIG_PATH].content,
        }
    }

    /// The same question about another content.
    pub(crate) fn with_content(&self, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        let mut changed = self.clone();
        match &mut changed {
            Self::AuxiliaryFile { file: checked, .. } => *checked = file(&checked.path, &content),
            Self::RenderedOutput { files } => {
                let path = FilePath::new(CONFIG_PATH).expect("it is a path");
                files.insert(path.clone(), file(&path, &content));
            }
        }
        changed
    }

    /// The files that go with the one that is checked.
    pub(crate) fn data(&self) -> Vec<&File> {
        match self {
            Self::AuxiliaryFile { data_files, .. } => data_files.iter().collect(),
            Self::RenderedOutput { files } => files.values().filter(|file| file.path.as_str() != CONFIG_PATH).collect(),
        }
    }

    /// The same question with only those files beside the checked one.
    pub(crate) fn with_data(&self, keep: impl Fn(&File) -> Option<File>) -> Self {
        let mut changed = self.clone();
        match &mut changed {
            Self::AuxiliaryFile { data_files, .. } => *data_files = data_files.iter().filter_map(keep).collect(),
            Self::RenderedOutput { files } => {
                let changed = files
                    .values()
                    .filter_map(|file| if file.path.as_str() == CONFIG_PATH { Some(file.clone()) } else { keep(file) });
                *files = changed.map(|file| (file.path.clone(), file)).collect();
            }
        }
        changed
    }

    /// The file of that path, checked or not.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        match self {
            Self::AuxiliaryFile { file, data_files } => {
                std::iter::once(file).chain(data_files).find(|file| file.path.as_str() == path)
            }
            Self::RenderedOutput { files } => files.get(path),
        }
    }
}
