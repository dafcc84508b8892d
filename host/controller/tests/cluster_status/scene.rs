//! A configuration in a namespace of its own, the stages on a bus, and the fleet's answers.

use std::{future::Future, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use haptic_controller::{
    bus::EventBus,
    clock::WallClock,
    cluster::{
        ClusterStatusApplier, ConfigOwner, ConfigPublisher, ConfigStanding, OwnWrites, PublisherSettings, Reporter,
        Served, WriteSettings,
    },
    config::ConfigObjects,
    core::{ActiveCore, Core},
    events::{Cause, Correlation, Event, Trigger},
    feed::ManifestFindings,
    pipeline::{Pacing, Pipeline, Render},
    plugin_loader::PluginState,
    pod::{Endpoint, Pod, PodOutcome, PodReport},
    quarantine::LeftOut,
};
use haptic_kubernetes::{Api, Backoff, Jitter, Limits};
use haptic_model::{Mode, SourceLocation, ports::Now};
use haptic_plugins::PluginSet;
use haptic_render::{Memo, Renderer};
use haptic_store::{RawObject, Store};
use http::Method;
use serde_json::{Value, json};
use tokio::{
    sync::{OnceCell, watch},
    task::JoinHandle,
    time::Instant,
};

use crate::cluster::{Cluster, Room};

/// Longer than anything here takes.
const BOUND: Duration = Duration::from_mins(1);

/// Serves every Ingress by a backend of its own and an entry of a map.
pub(crate) const CONFIG: &str = r#"global
  log stdout format raw local0
defaults
  mode http
  timeout connect 1s
  timeout client 1s
  timeout server 1s
{{ render_each("ingress", resources.ingresses.list()) }}
"#;

pub(crate) const INGRESS: &str = r#"{%- set host = item.spec.rules[0].host %}
{% call backend("b_" ~ item.metadata.name) %}
  {{ server("web", "10.0.0.1", 80) }}
{% endcall %}
{{ map_entry("hosts.map", key=[host], value="b_" ~ item.metadata.name) }}
"#;

pub(crate) struct Scene {
    pub(crate) room: Room,
    pub(crate) owner: ConfigOwner,
    pub(crate) core: ActiveCore,
    pub(crate) standing: watch::Sender<Arc<ConfigStanding>>,
    pub(crate) own_writes: OwnWrites,
    pub(crate) api: Api,
    pub(crate) clock: WallClock,
    pub(crate) settings: PublisherSettings,
}

/// A leader's term: its stages and its scope of the bus.
pub(crate) struct Term {
    pub(crate) bus: Arc<EventBus>,
    stages: Vec<JoinHandle<()>>,
}

// === impl Scene ===

impl Scene {
    pub(crate) async fn new(controller: Value) -> Result<Self> {
        Self::with(controller, CONFIG, INGRESS).await
    }

    pub(crate) async fn with(controller: Value, config: &str, ingress: &str) -> Result<Self> {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let room = Room::new().await?;
        INSTALLED.get_or_try_init(|| install(&room)).await?;
        Self::make(room, controller, config, ingress).await
    }

    /// In a cluster of its own, which may be stopped.
    pub(crate) async fn alone(cluster: &Cluster) -> Result<Self> {
        let room = Room::of(cluster).await?;
        install(&room).await?;
        Self::make(room, json!({}), CONFIG, INGRESS).await
    }

    async fn make(room: Room, controller: Value, config: &str, ingress: &str) -> Result<Self> {
        let object = configuration(config, ingress, &controller);
        let path = room.path("apis/haptic.rs/v1alpha1", "haproxytemplateconfigs");
        let made = room.send(Method::POST, &path, &object).await?;
        let core = core(&made)?;
        let uid = made["metadata"]["uid"].as_str().context("it has a UID")?.into();
        let owner = ConfigOwner { namespace: room.namespace.as_str().into(), name: "shop".into(), uid };
        let standing = ConfigStanding {
            owner: Some(owner.clone()),
            serving: Some(Served { generation: 1, warnings: Arc::new([]) }),
            refused: None,
            credentials: Arc::default(),
            certificates: Arc::default(),
        };
        let mut settings = PublisherSettings::new(&core.reporting, Jitter::random());
        settings.pace = Duration::from_millis(20);
        settings.backoff = quick();
        Ok(Self {
            api: Api::new(room.client.clone(), Limits::default()),
            room,
            owner,
            core: ActiveCore::new(Arc::new(core)),
            standing: watch::Sender::new(Arc::new(standing)),
            own_writes: OwnWrites::default(),
            clock: WallClock::system(),
            settings,
        })
    }

    /// The same place with another configuration that serves.
    pub(crate) fn reconfigured(self, controller: Value) -> Result<Self> {
        let core = core(&configuration(CONFIG, INGRESS, &controller))?;
        Ok(Self { core: ActiveCore::new(Arc::new(core)), ..self })
    }

    /// Begins a term: both stages, and pods with these names.
    pub(crate) fn lead(&self, pods: &[&str]) -> Term {
        let bus = EventBus::new();
        let scope = bus.scope();
        let publisher = ConfigPublisher::new(
            &scope,
            &self.api,
            self.standing.subscribe(),
            self.clock.clone(),
            self.settings.clone(),
        );
        let applier = ClusterStatusApplier::new(
            &scope,
            &self.api,
            self.core.clone(),
            self.standing.subscribe(),
            watch::Sender::new(ManifestFindings::default()).subscribe(),
            watch::Sender::new(Arc::new(Vec::<PluginState>::new())).subscribe(),
            self.own_writes.clone(),
            self.clock.clone(),
            Reporter::new("haptic-0"),
            Self::write_settings(),
        );
        bus.start();
        let stages = vec![tokio::spawn(publisher.run()), tokio::spawn(applier.run())];
        let term = Term { bus: scope, stages };
        term.found(pods);
        term
    }

    pub(crate) fn write_settings() -> WriteSettings {
        let mut settings = WriteSettings::new(Jitter::random());
        (settings.pace, settings.grace, settings.backoff) = (Duration::from_millis(20), Duration::ZERO, quick());
        settings
    }

    /// What the pipeline makes of these objects.
    pub(crate) fn render(&self, seq: u64, objects: &[Value]) -> Arc<Render> {
        render(&self.core.get(), seq, objects)
    }

    /// The same with another text for each Ingress.
    pub(crate) fn render_with(ingress: &str, seq: u64, objects: &[Value]) -> Result<Arc<Render>> {
        let core = core(&configuration(CONFIG, ingress, &json!({})))?;
        Ok(render(&core, seq, objects))
    }

    /// Makes an Ingress in the cluster and gives it as the server has it.
    pub(crate) async fn ingress(&self, name: &str, host: &str) -> Result<Value> {
        let service = json!({ "service": { "name": "web", "port": { "number": 80 } } });
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": { "name": name },
            "spec": { "rules": [{ "host": host, "http": { "paths": [
                { "path": "/", "pathType": "Prefix", "backend": service },
            ] } }] },
        });
        let path = self.room.path("apis/networking.k8s.io/v1", "ingresses");
        self.room.send(Method::POST, &path, &object).await
    }

    pub(crate) async fn object(&self, group: &str, resources: &str, name: &str) -> Result<Value> {
        let path = format!("{}/{name}", self.room.path(group, resources));
        self.room.send(Method::GET, &path, &Value::Null).await
    }

    pub(crate) async fn list(&self, group: &str, resources: &str) -> Result<Vec<Value>> {
        let list = self.room.send(Method::GET, &self.room.path(group, resources), &Value::Null).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    pub(crate) async fn published(&self, resources: &str) -> Result<Vec<Value>> {
        self.list("apis/haptic.rs/v1alpha1", resources).await
    }

    pub(crate) async fn config(&self) -> Result<Value> {
        self.object("apis/haptic.rs/v1alpha1", "haproxytemplateconfigs", "shop").await
    }

    /// Waits for a condition of the configuration object: status and reason.
    pub(crate) async fn condition(&self, kind: &str, status: &str, reason: &str) -> Result<Value> {
        eventually(&format!("{kind} is {status} because {reason}"), || async {
            let config = self.config().await?;
            let conditions = config["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let found = conditions.into_iter().find(|condition| condition["type"] == kind);
            Ok(found.filter(|found| found["status"] == status && found["reason"] == reason))
        })
        .await
    }
}

// === impl Term ===

impl Term {
    pub(crate) fn found(&self, pods: &[&str]) {
        let pods = pods.iter().map(|name| Pod {
            uid: "".into(),
            name: (*name).into(),
            endpoint: Endpoint::Unix(format!("/{name}").into()),
            haproxy: Some((3, 2)),
        });
        self.bus.publish(Event::HAProxyPodsDiscovered { correlation: Correlation(0), pods: pods.collect() });
    }

    pub(crate) fn rendered(&self, render: &Arc<Render>) {
        self.bus.publish(Event::TemplateRendered { correlation: render.correlation, render: render.clone() });
    }

    /// These pods answered about the render.
    pub(crate) fn answered(&self, render: &Arc<Render>, pods: &[&str], answer: PodOutcome) {
        let reports = pods.iter().map(|pod| report(render, pod, answer)).collect();
        let (correlation, render) = (render.correlation, render.clone());
        self.bus.publish(Event::DeploymentCompleted { correlation, render, reports });
    }

    /// It is rendered and every pod serves it.
    pub(crate) fn serves(&self, render: &Arc<Render>, pods: &[&str]) {
        self.rendered(render);
        self.answered(render, pods, PodOutcome::Serving);
    }

    pub(crate) fn audit(&self) {
        self.bus.publish(Event::DriftPreventionTriggered { correlation: Correlation(0) });
    }

    /// Ends the term and waits for its stages.
    pub(crate) async fn end(self) -> Result<()> {
        self.bus.close();
        for stage in self.stages {
            tokio::time::timeout(BOUND, stage).await.context("a stage does not end with its term")??;
        }
        Ok(())
    }
}

/// Waits until it gives something, and says what did not come true.
pub(crate) async fn eventually<T, F: Future<Output = Result<Option<T>>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> Result<T> {
    let found = async {
        loop {
            match look().await {
                Ok(Some(found)) => return found,
                Ok(None) | Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    match tokio::time::timeout(BOUND, found).await {
        Ok(found) => Ok(found),
        Err(_) => {
            look().await?;
            anyhow::bail!("it did not come true: {what}")
        }
    }
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn report(render: &Arc<Render>, pod: &str, outcome: PodOutcome) -> PodReport {
    let applied = (outcome != PodOutcome::Failed).then(|| render.plan());
    PodReport {
        pod: pod.into(),
        plan: render.plan(),
        outcome,
        verdict: None,
        mode: applied.map(|_| Mode::Runtime),
        applied_plan: applied,
        running_plan: applied.filter(|_| outcome == PodOutcome::Serving),
        haproxy: Some("3.2.26".to_owned()),
        reasons: Vec::new(),
        ops_run: 1,
        error: applied.is_none().then(|| "the agent does not answer".to_owned()),
        diff: Duration::ZERO,
        apply: Duration::ZERO,
        course: None,
    }
}

fn render(core: &Core, seq: u64, objects: &[Value]) -> Arc<Render> {
    let snapshot = {
        let mut store = core.store.lock();
        let objects: Vec<_> = objects.iter().map(|object| Arc::new(raw(object))).collect();
        store.replace_all("ingresses", &objects).unwrap();
        store.snapshot()
    };
    let output = core.pipeline.execute(&snapshot, (3, 2), LeftOut::default(), &mut core.memo.lock(), Now(0)).unwrap();
    let trigger = Trigger::new(Cause::Synchronized, Instant::now());
    Arc::new(Render {
        seq,
        correlation: Correlation(seq),
        trigger,
        output,
        started: Instant::now(),
        snapshot,
        pacing: Pacing::default(),
    })
}

fn configuration(config: &str, ingress: &str, controller: &Value) -> Value {
    json!({
        "apiVersion": "haptic.rs/v1alpha1", "kind": "HAProxyTemplateConfig",
        "metadata": { "name": "shop" },
        "spec": {
            "watchedResources": { "ingresses": { "apiVersion": "networking.k8s.io/v1", "resources": "ingresses" } },
            "haproxyConfig": { "template": config },
            "templateSnippets": { "ingress": { "template": ingress } },
            "maps": { "hosts.map": { "template": "" } },
            "controller": controller,
        },
    })
}

fn raw(object: &Value) -> RawObject {
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let source = SourceLocation { file: "the cluster".into(), line: 0, column: 0 };
    RawObject::new(object, namespace, source).unwrap()
}

fn core(object: &Value) -> Result<Core> {
    let candidate = ConfigObjects::pick([Arc::new(raw(object))]).candidate();
    let candidate = candidate.map_err(|findings| anyhow::anyhow!("{findings:?}"))?;
    let plugins = Arc::new(PluginSet::new(Vec::new())?);
    let renderer = Renderer::compile(candidate.templates.clone(), plugins.clone())
        .map_err(|findings| anyhow::anyhow!("{findings:?}"))?;
    let resources = candidate.resources().map_err(|findings| anyhow::anyhow!("{findings:?}"))?;
    Ok(Core {
        name: candidate.name.clone(),
        pipeline: Pipeline {
            renderer: Arc::new(renderer),
            validators: plugins.clone(),
            check: candidate.settings.check,
        },
        plugins,
        memo: Memo::default().into(),
        store: Store::new(resources).into(),
        settings: candidate.settings,
        reporting: candidate.reporting,
        sources: candidate.sources,
    })
}

fn quick() -> Backoff {
    let (first, longest) = (Duration::from_millis(20), Duration::from_millis(200));
    Backoff { first, longest, longest_unreachable: longest }
}

/// The definitions.
async fn install(room: &Room) -> Result<()> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut names = Vec::new();
    for crd in haptic_api::crds() {
        let mut object = serde_json::to_value(&crd)?;
        object["apiVersion"] = json!("apiextensions.k8s.io/v1");
        object["kind"] = json!("CustomResourceDefinition");
        room.apply(&format!("{definitions}/{}?fieldManager=test", name(&object)), &object).await?;
        names.push(crd.spec.names.plural);
    }
    for plural in names {
        let path = room.path("apis/haptic.rs/v1alpha1", &plural);
        eventually(&format!("{plural} are served"), || async {
            Ok(room.send(Method::GET, &path, &Value::Null).await.ok())
        })
        .await?;
    }
    Ok(())
}
