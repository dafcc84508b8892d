//! Objects as a source delivers them, before the store shapes them.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use haptic_api::ManifestSource;
use haptic_model::{Digest, ObjectRef, SourceLocation};
use serde::Deserialize;
use serde_json::Value;

/// What tells objects of a source apart: group (without the version), kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RawKey {
    pub group: Arc<str>,
    pub kind: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

/// An object as it was read. It keeps compact JSON text and not a tree, which would take ten times the memory.
pub struct RawObject {
    /// Group and version, such as `networking.k8s.io/v1`.
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    /// Empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub source: SourceLocation,
    /// What a decoder needs to name lines; only of kinds of haptic's own group.
    pub manifest: Option<Arc<ManifestSource>>,
    serial: u64,
    extent: Extent,
    /// Empty if the source has no versions.
    resource_version: Box<str>,
    json: Box<str>,
}

/// How much of an object its text holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    #[default]
    Whole,
    /// Metadata: the rest is read when a template asks for it (`store: on-demand`).
    Metadata,
}

/// An object that a source already wrote as compact JSON text while it read it, so that no tree is made of it.
pub struct Transcript {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    /// Empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    /// `metadata.resourceVersion`, which is not part of the text: what differs in nothing else is the same content.
    pub resource_version: Box<str>,
    pub extent: Extent,
    /// Valid JSON of one object.
    pub json: Box<str>,
}

/// What a source says about one object.
#[derive(Clone, Debug)]
pub enum RawChange {
    Upsert(Arc<RawObject>),
    Delete(RawKey),
}

// === impl RawObject ===

impl RawObject {
    /// Reads kind, names and version from the object. `None` if one of `apiVersion`, `kind` and `metadata.name` is
    /// missing or empty.
    pub fn new(value: &Value, namespace: &str, source: SourceLocation) -> Option<Self> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some(Self {
            api_version: text("/apiVersion")?.into(),
            kind: text("/kind")?.into(),
            namespace: namespace.into(),
            name: text("/metadata/name")?.into(),
            source,
            manifest: None,
            serial: NEXT.fetch_add(1, Ordering::Relaxed),
            extent: Extent::Whole,
            resource_version: text("/metadata/resourceVersion").unwrap_or_default().into(),
            json: value.to_string().into(),
        })
    }

    /// An object of a source without files.
    pub fn transcribed(transcript: Transcript) -> Self {
        let Transcript { api_version, kind, namespace, name, resource_version, extent, json } = transcript;
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let source = SourceLocation { file: Arc::clone(&NO_FILE), line: 0, column: 0 };
        Self { api_version, kind, namespace, name, source, manifest: None, serial, extent, resource_version, json }
    }

    /// The same object in a manifest of which the text is kept.
    #[must_use]
    pub fn with_manifest(mut self, manifest: Arc<ManifestSource>) -> Self {
        self.manifest = Some(manifest);
        self
    }

    /// The object as JSON; parsed on every call.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.json).expect("it was written by serde_json")
    }

    /// The version that the API server gave this state of the object; empty if it came from somewhere else.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// `metadata.uid`, which tells an object from an earlier one of the same name; empty if it came from somewhere else
    /// than an API server. Read from the text on every call.
    pub fn uid(&self) -> String {
        self.identity().uid.unwrap_or_default().into_owned()
    }

    /// `metadata.generation`, which the API server counts up with every change of the specification; 0 where nobody
    /// counts. Read from the text on every call.
    pub fn generation(&self) -> i64 {
        self.identity().generation.unwrap_or_default()
    }

    fn identity(&self) -> Identity<'_> {
        #[derive(Deserialize)]
        struct Head<'a> {
            #[serde(borrow, default)]
            metadata: Identity<'a>,
        }
        // A manifest may hold anything there.
        serde_json::from_str(&self.json).map_or_else(|_| Identity::default(), |head: Head<'_>| head.metadata)
    }

    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// What tells one state of the object from another, for a source of [`Transcript`]s: its text, without the resource
    /// version, except where the text is mere metadata and only the version tells whether the rest differs.
    pub fn content(&self) -> Digest {
        match self.extent {
            Extent::Whole => Digest::of(self.json.as_bytes()),
            Extent::Metadata => Digest::of([&*self.json, &*self.resource_version].concat().as_bytes()),
        }
    }

    /// The same content in the same place: a source keeps the object it has.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let text = |object: &Self| object.manifest.as_ref().map(|manifest| Arc::clone(&manifest.text));
        self.json == other.json && self.source == other.source && text(self) == text(other)
    }

    /// A number that no other raw object of this process has.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    pub fn key(&self) -> RawKey {
        RawKey {
            group: self.group().into(),
            kind: Arc::clone(&self.kind),
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
        }
    }

    pub fn reference(&self) -> ObjectRef {
        ObjectRef { kind: Arc::clone(&self.kind), namespace: Arc::clone(&self.namespace), name: Arc::clone(&self.name) }
    }

    /// The group of its version; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Decodes one of haptic's own kinds strictly.
    pub fn decode<T>(&self) -> Result<T, Vec<haptic_model::Finding>>
    where
        T: haptic_api::Kind,
    {
        let value = self.value();
        match &self.manifest {
            Some(manifest) => haptic_api::decode(&value, manifest),
            None => haptic_api::decode(
                &value,
                &ManifestSource { line: self.source.line, ..ManifestSource::named(Arc::clone(&self.source.file)) },
            ),
        }
    }
}

impl fmt::Debug for RawObject {
    // Content may be secret and is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawObject({} {} from {})", self.api_version, self.reference(), self.source)
    }
}

/// What an API server writes into the metadata of each object.
#[derive(Default, Deserialize)]
struct Identity<'a> {
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
    #[serde(default)]
    generation: Option<i64>,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Shared by all objects that no file holds.
static NO_FILE: LazyLock<Arc<str>> = LazyLock::new(|| "".into());

#[cfg(test)]
mod tests;
