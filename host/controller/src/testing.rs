//! What the stages' unit tests share.
#![allow(clippy::unwrap_used, reason = "tests")]

mod fake_agent;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use haptic_model::{
    CONFIG_PATH, Digest, File, FileKind, FilePath, FileRecord, FileSet, Finding, FindingCode, ObjectRef,
    PLAN_SCHEMA_VERSION, Plan, Rendered, SectionKind, SectionRecord, SourceLocation, SourceMap,
};
use haptic_plugins::PluginSet;
use haptic_render::{Memo, Renderer};
use haptic_store::{RawObject, Store};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    bus::Subscription,
    check::{Answer, Cancellation, CheckAsk, CheckMessage, ConfigCheck},
    config::{Candidate, ConfigObjects},
    core::Core,
    events::{Cause, Change, ChangedObject, Correlation, Event, GateVerdict, ResourceChange, Trigger},
    pipeline::{Output, Pacing, Pipeline, PipelineTiming, Render},
    pod::{Endpoint, Pod},
};

pub(crate) use fake_agent::{Answering, FakeAgent, Fault};

/// A core whose configuration template is `text` and that watches Services, without plugins.
pub(crate) fn core(text: &str) -> Core {
    core_of(&candidate(text))
}

/// A core of this candidate, without plugins and with an empty store.
pub(crate) fn core_of(candidate: &Candidate) -> Core {
    let plugins = Arc::new(PluginSet::new(Vec::new()).unwrap());
    let renderer = Renderer::compile(candidate.templates.clone(), plugins.clone()).unwrap();
    Core {
        name: candidate.name.clone(),
        pipeline: Pipeline {
            renderer: Arc::new(renderer),
            validators: plugins.clone(),
            check: candidate.settings.check,
        },
        plugins,
        memo: Mutex::new(Memo::default()),
        store: Mutex::new(Store::new(candidate.resources().unwrap())),
        settings: candidate.settings,
        reporting: candidate.reporting.clone(),
        sources: candidate.sources.clone(),
    }
}

pub(crate) fn candidate(text: &str) -> Candidate {
    let config = json!({
        "apiVersion": "haptic.rs/v1alpha1",
        "kind": "HAProxyTemplateConfig",
        "metadata": { "namespace": "default", "name": "test" },
        "spec": {
            "watchedResources": { "services": { "apiVersion": "v1", "resources": "services" } },
            "haproxyConfig": { "template": text },
        },
    });
    ConfigObjects::pick([raw(&config)]).candidate().unwrap()
}

pub(crate) fn raw(value: &Value) -> Arc<RawObject> {
    let namespace = value.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let source = SourceLocation { file: "test.yaml".into(), line: 1, column: 1 };
    Arc::new(RawObject::new(value, namespace, source).unwrap())
}

/// Answers as it is told, in order; the last answer stays.
pub(crate) struct ScriptedCheck(Mutex<VecDeque<Answer>>);

impl ScriptedCheck {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(answers.into_iter().collect())))
    }
}

impl ConfigCheck for ScriptedCheck {
    fn check(&self, _: &FileSet, _: CheckAsk, _: &Cancellation) -> Answer {
        let mut answers = self.0.lock();
        if answers.len() > 1 { answers.pop_front().unwrap() } else { answers[0].clone() }
    }
}

pub(crate) fn passed() -> Answer {
    Answer::Passed { build: "3.2.26".to_owned(), warnings: Vec::new() }
}

pub(crate) fn refused_at(line: u32) -> Answer {
    let message = CheckMessage { file: CONFIG_PATH.to_owned(), line, text: "unknown keyword `bogus`".to_owned() };
    Answer::Refused { build: "3.2.26".to_owned(), messages: vec![message] }
}

/// A render whose configuration is `text`; equal texts are equal plans.
pub(crate) fn render(seq: u64, text: &str) -> Arc<Render> {
    Arc::new(render_of(seq, text, trigger()))
}

pub(crate) fn render_of(seq: u64, text: &str, trigger: Trigger) -> Render {
    let path = FilePath::new(CONFIG_PATH).unwrap();
    let file = File::new(path.clone(), FileKind::Config, text.to_owned());
    let record = FileRecord {
        digest: file.digest,
        size: file.content.len() as u64,
        kind: FileKind::Config,
        reload_on_change: false,
        entries: haptic_model::Entries::Opaque,
    };
    let sections =
        [SectionRecord { kind: SectionKind::Core, name: "global".into(), text: Digest::of(text.as_bytes()) }]
            .into_iter()
            .collect();
    let records = BTreeMap::from([(path.clone(), Arc::new(record))]);
    let plan = Plan {
        schema_version: PLAN_SCHEMA_VERSION,
        id: Plan::identify(&records),
        sections,
        profiles: BTreeMap::new(),
        backends: imbl::OrdMap::new(),
        binds: Vec::new(),
        files: records,
    };
    let rendered = Rendered {
        plan: Arc::new(plan),
        files: Arc::new(FileSet::from([(path, file)])),
        sources: Arc::new(SourceMap::default()),
        findings: Vec::new(),
        units: 0,
        failed_units: BTreeSet::new(),
    };
    Render {
        seq,
        correlation: Correlation(seq),
        trigger,
        output: Output { rendered, findings: Vec::new(), refused: Vec::new(), timing: PipelineTiming::default() },
        started: Instant::now(),
        snapshot: Store::new(Vec::new()).snapshot(),
        pacing: Pacing::default(),
    }
}

/// As [`render`], with a file that HAProxy does not read: applying it needs no reload.
pub(crate) fn with_note(seq: u64, text: &str, note: &str) -> Arc<Render> {
    let mut render = render_of(seq, text, trigger());
    let path = FilePath::new("general/note").unwrap();
    let file = File::new(path.clone(), FileKind::General, note.to_owned());
    let mut plan = (*render.output.rendered.plan).clone();
    let record = FileRecord {
        digest: file.digest,
        size: file.content.len() as u64,
        kind: FileKind::General,
        reload_on_change: false,
        entries: haptic_model::Entries::Opaque,
    };
    plan.files.insert(path.clone(), Arc::new(record));
    plan.id = Plan::identify(&plan.files);
    let mut files = (*render.output.rendered.files).clone();
    files.insert(path, file);
    render.output.rendered.plan = Arc::new(plan);
    render.output.rendered.files = Arc::new(files);
    Arc::new(render)
}

pub(crate) fn trigger() -> Trigger {
    Trigger::new(Cause::Synchronized, Instant::now())
}

pub(crate) fn refused() -> GateVerdict {
    GateVerdict::Refused { findings: vec![Finding::error(FindingCode::RefusedByHAProxy, "unknown keyword `bogus`")] }
}

pub(crate) fn pod(name: &str) -> Pod {
    let endpoint = Endpoint::Unix(format!("/{name}").into());
    Pod { name: name.into(), uid: "".into(), endpoint, haproxy: Some((3, 2)) }
}

pub(crate) fn change(resource: &str, name: &str) -> ResourceChange {
    let object = ChangedObject { object: ObjectRef::new("Service", "shop", name), change: Change::Changed };
    ResourceChange::one(resource.into(), object, Instant::now())
}

pub(crate) fn index_updated(correlation: u64, resource: &str, name: &str) -> Event {
    Event::ResourceIndexUpdated { correlation: Correlation(correlation), change: change(resource, name) }
}

/// The next event, within a bound of tokio's (paused) clock.
pub(crate) async fn next(events: &mut Subscription) -> Event {
    tokio::time::timeout(Duration::from_mins(2), events.next()).await.expect("an event in time").expect("an open bus")
}
