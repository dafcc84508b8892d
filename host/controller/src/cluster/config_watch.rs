//! The watch of the configuration and of all that it names: the `HAProxyTemplateConfig` of this controller, the libraries
//! and plugins of its namespace, the Secrets and ConfigMaps that plugins name, and the credentials Secret.
//!
//! One for the whole process: an iteration subscribes to it and compares once what it was made of with what is there,
//! so nothing that changes during a start or a hand-over is lost. No debounce: a change is a candidate at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_api as api;
use haptic_kubernetes::{Api, Source, SourceEnded, SourceSettings, States, Update, Wanted};
use haptic_model::Finding;
use haptic_store::{RawChange, RawKey, RawObject, WatchedResource};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::standing::ConfigOwner,
    config::{ConfigObjects, mistakes, references},
    feed::ManifestFindings,
};

/// Everything a configuration is made of, as the API server has it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigPicture {
    pub objects: ConfigObjects,
    /// Named by `spec.credentialsSecretRef`; `None` = the configuration names none.
    pub credentials: Option<CredentialsSecret>,
    /// `None` = the configuration object is not there.
    pub owner: Option<ConfigOwner>,
    /// `metadata.generation` of the configuration object; 0 = it is not there.
    pub generation: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct CredentialsSecret {
    pub key: RawKey,
    /// `None` = it is not there.
    pub object: Option<Arc<RawObject>>,
}

/// The newest complete picture; `None` until everything was read once.
pub(crate) type ConfigPictures = watch::Receiver<Option<Arc<ConfigPicture>>>;

/// Which object is the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigName {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

pub(crate) struct ConfigWatch {
    source: Source,
    /// By the name of the watched resource.
    objects: BTreeMap<Arc<str>, BTreeMap<RawKey, Arc<RawObject>>>,
    /// Resources whose first list has yet to come.
    unread: BTreeSet<Arc<str>>,
    /// Secrets and ConfigMaps, each followed by its name.
    named: BTreeMap<RawKey, Arc<str>>,
    pictures: watch::Sender<Option<Arc<ConfigPicture>>>,
    findings: watch::Sender<ManifestFindings>,
}

/// Names that the configuration has.
struct Named {
    libraries: BTreeSet<String>,
    plugins: BTreeSet<String>,
}

// === impl ConfigWatch ===

impl ConfigWatch {
    /// Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// When the name of the configuration is none that an object can have.
    pub(crate) fn start(
        api: Api,
        config: &ConfigName,
        settings: SourceSettings,
    ) -> Result<(Self, ConfigPictures, watch::Receiver<ManifestFindings>), Vec<Finding>> {
        let group = format!("{}/v1alpha1", haptic_api::GROUP);
        let own = [
            ("HAProxyTemplateConfig", "haproxytemplateconfigs", Some(&config.name)),
            ("HAProxyTemplateLibrary", "haproxytemplatelibraries", None),
            ("HAProxyPlugin", "haproxyplugins", None),
        ];
        let mut wanted = Vec::new();
        for (kind, resources, name) in own {
            let name = name.map(|name| &**name);
            wanted.push(Wanted::whole(watched(resources, &group, resources, kind, &config.namespace, name)?));
        }
        let unread = wanted.iter().map(|wanted| wanted.spec.name.clone()).collect();
        let source = Source::start(api, wanted, settings);
        let (pictures, receiver) = watch::channel(None);
        let (findings, found) = watch::channel(ManifestFindings::default());
        let (objects, named) = (BTreeMap::new(), BTreeMap::new());
        Ok((Self { source, objects, unread, named, pictures, findings }, receiver, found))
    }

    /// How each watch stands.
    pub(crate) fn states(&self) -> watch::Receiver<States> {
        self.source.states()
    }

    /// Ends when it is told to stop.
    ///
    /// # Errors
    /// When a task of the source ended.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), SourceEnded> {
        let mut states = self.source.states();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                update = self.source.next() => self.take(update?),
                Ok(()) = states.changed() => {
                    let states = states.borrow_and_update().clone();
                    self.give_up_forbidden(&states);
                }
            }
        }
    }

    /// A Secret or ConfigMap that may not be read is one that is not there, for who names it: that is told. It counts
    /// again as soon as it may be read.
    fn give_up_forbidden(&mut self, states: &States) {
        let before = self.unread.len();
        for resource in self.named.values() {
            let trouble = states.get(resource).and_then(|state| state.trouble());
            if trouble.is_some_and(|trouble| trouble.is_forbidden()) {
                self.unread.remove(resource);
            }
        }
        if self.unread.len() < before {
            self.publish();
        }
    }

    fn take(&mut self, update: Update) {
        let Update { resource, changes, synced } = update;
        let objects = self.objects.entry(resource.clone()).or_default();
        let mut news = synced;
        for (change, _) in changes {
            match change {
                // A status, which haptic itself writes, makes no other configuration.
                RawChange::Upsert(object)
                    if objects.get(&object.key()).is_some_and(|known| is_same_generation(known, &object)) =>
                {
                    continue;
                }
                RawChange::Upsert(object) => {
                    objects.insert(object.key(), object);
                }
                RawChange::Delete(key) => {
                    objects.remove(&key);
                }
            }
            news = true;
        }
        if !news {
            return;
        }
        if synced {
            self.unread.remove(&resource);
        }
        self.follow_what_is_named();
        self.publish();
    }

    fn publish(&self) {
        // Half a picture is none: what is not read yet would look as if it were not there.
        if self.unread.is_empty() {
            let own = mistakes(self.objects.values().flat_map(BTreeMap::values));
            self.findings.send_if_modified(|known| {
                let next = ManifestFindings::of_own(own);
                let differs = *known != next;
                *known = next;
                differs
            });
            self.pictures.send_replace(Some(Arc::new(self.picture())));
        }
    }

    /// Only what the configuration names: other objects of the namespace make no other configuration.
    fn picture(&self) -> ConfigPicture {
        let named = self.named_by_config();
        let objects = || self.objects.values().flat_map(BTreeMap::values);
        let wanted = objects().filter(|object| match &*object.kind {
            "HAProxyTemplateLibrary" => named.libraries.contains(&*object.name),
            "HAProxyPlugin" => named.plugins.contains(&*object.name),
            _ => true,
        });
        let objects_of_group = ConfigObjects::pick(wanted.cloned());
        let config = objects_of_group.configs.first();
        let credentials = config
            .and_then(|config| credentials_of(config))
            .map(|key| CredentialsSecret { object: objects().find(|object| object.key() == key).cloned(), key });
        let value = config.map(|config| config.value()).unwrap_or_default();
        let owner = config.map(|config| ConfigOwner {
            namespace: config.namespace.clone(),
            name: config.name.clone(),
            uid: value.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default().into(),
        });
        let generation = value.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        ConfigPicture { objects: objects_of_group, credentials, owner, generation }
    }

    fn named_by_config(&self) -> Named {
        let config = self.objects.values().flat_map(BTreeMap::values).find(|it| *it.kind == *"HAProxyTemplateConfig");
        let spec = config.map(|config| config.value()).unwrap_or_default();
        let names = |list: &str| {
            let named = spec.pointer(list).and_then(Value::as_array).into_iter().flatten();
            named.filter_map(|it| it.get("name")?.as_str().map(str::to_owned)).collect()
        };
        Named { libraries: names("/spec/libraryRefs"), plugins: names("/spec/plugins") }
    }

    fn follow_what_is_named(&mut self) {
        let mut wanted = BTreeSet::new();
        let named = self.named_by_config();
        for object in self.objects.values().flat_map(BTreeMap::values) {
            match &*object.kind {
                "HAProxyPlugin" if named.plugins.contains(&*object.name) => wanted.extend(references(object)),
                "HAProxyTemplateConfig" => wanted.extend(credentials_of(object)),
                _ => {}
            }
        }
        let gone: Vec<RawKey> = self.named.keys().filter(|key| !wanted.contains(*key)).cloned().collect();
        for key in gone {
            if let Some(resource) = self.named.remove(&key) {
                self.source.forget(&resource);
                self.objects.remove(&resource);
                self.unread.remove(&resource);
            }
        }
        for key in wanted {
            if self.named.contains_key(&key) {
                continue;
            }
            let plural = if &*key.kind == "Secret" { "secrets" } else { "configmaps" };
            let name = format!("{plural} {}/{}", key.namespace, key.name);
            let Ok(spec) = watched(&name, "v1", plural, &key.kind, &key.namespace, Some(&key.name)) else {
                // No object can have this name: it is missing, and whoever names it is told so.
                continue;
            };
            let resource = spec.name.clone();
            self.unread.insert(resource.clone());
            self.named.insert(key, resource);
            self.source.follow(Wanted::whole(spec));
        }
    }
}

// === impl ConfigPicture ===

impl ConfigPicture {
    /// Whether another configuration could come of it. The content of the credentials is no part of that: it is taken
    /// over live.
    pub(crate) fn makes_the_same(&self, other: &Self) -> bool {
        self.objects.same(&other.objects) && self.credentials_key() == other.credentials_key()
    }

    /// Whether the credentials are another object than before.
    pub(crate) fn has_other_credentials(&self, other: &Self) -> bool {
        let serial = |picture: &Self| Some(picture.credentials.as_ref()?.object.as_ref()?.serial());
        serial(self) != serial(other)
    }

    pub(crate) fn credentials_key(&self) -> Option<&RawKey> {
        self.credentials.as_ref().map(|credentials| &credentials.key)
    }
}

/// Of haptic's own kinds, whose generation grows with every change of their spec.
fn is_same_generation(known: &RawObject, newer: &RawObject) -> bool {
    known.group() == haptic_api::GROUP && known.uid() == newer.uid() && known.generation() == newer.generation()
}

fn credentials_of(config: &RawObject) -> Option<RawKey> {
    let value = config.value();
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let name = text("/spec/credentialsSecretRef/name")?;
    let namespace = text("/spec/credentialsSecretRef/namespace").unwrap_or(&config.namespace);
    Some(RawKey { group: "".into(), kind: "Secret".into(), namespace: namespace.into(), name: name.into() })
}

/// One object of a kind, or all in the namespace.
pub(crate) fn watched(
    name: &str,
    version: &str,
    resources: &str,
    kind: &str,
    namespace: &str,
    object: Option<&str>,
) -> Result<WatchedResource, Vec<Finding>> {
    let spec = api::WatchedResource {
        api_version: Some(version.to_owned()),
        resources: resources.to_owned(),
        kind: Some(kind.to_owned()),
        namespaces: vec![namespace.to_owned()],
        field_selector: object.map(|object| format!("metadata.name={object}")),
        ..api::WatchedResource::default()
    };
    WatchedResource::new(name, &spec, &[])
}
