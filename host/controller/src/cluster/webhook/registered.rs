//! Which kinds are judged, and what a request proposes to the watched resources.

use std::sync::Arc;

use haptic_model::{ObjectRef, SourceLocation};
use haptic_store::{RawChange, RawKey, RawObject};
use serde_json::{Value, json};

use crate::{
    admission::{Pinned, Proposal},
    cluster::webhook::review::{Operation, Request},
};

/// The watched resources of one configuration.
#[derive(Clone, Debug)]
pub(super) struct Registered(Vec<Pinned>);

/// A request as far as it concerns the configuration.
#[derive(Clone, Debug)]
pub(super) struct Proposed {
    pub(super) proposal: Proposal,
    /// It was written in another version than templates read: its fields were taken as they are.
    pub(super) other_version: bool,
}

/// Why a request proposes nothing that can be judged.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    #[error("the request has no object")]
    NoObject,
    #[error("the request's object has no name, kind or version")]
    NoIdentity,
}

// === impl Registered ===

impl Registered {
    pub(super) fn new(resources: Vec<Pinned>) -> Self {
        Self(resources)
    }

    /// How metrics name the kind of a request; `None` = nobody switched its admission on.
    pub(super) fn label(&self, request: &Request) -> Option<String> {
        let enabled = self.of(request).find(|pinned| pinned.resource.admission)?;
        let (version, kind) = (&enabled.api_version, &request.kind.kind);
        // Names of kinds come from the API server: only one that the resource has is a label.
        let known = enabled.resource.serves(version, kind);
        known.then(|| format!("{version}/{kind}"))
    }

    /// What the request would change: in every resource of its kind, whatever their selectors and versions.
    pub(super) fn propose(&self, request: &Request) -> Result<Proposed, Unfit> {
        let (group, kind) = (&request.resource.group, &request.kind.kind);
        let namespace = if (group.as_str(), kind.as_str()) == ("", "Namespace") { "" } else { &*request.namespace };
        if request.operation == Operation::Delete {
            let object = ObjectRef::new(kind, namespace, &request.name);
            let key = RawKey {
                group: group.as_str().into(),
                kind: object.kind.clone(),
                namespace: object.namespace.clone(),
                name: object.name.clone(),
            };
            let changes = self.of(request).map(|pinned| (pinned.resource.name.clone(), RawChange::Delete(key.clone())));
            return Ok(Proposed { proposal: Proposal { object, changes: changes.collect() }, other_version: false });
        }
        let mut value = request.object.clone().ok_or(Unfit::NoObject)?;
        name(&mut value, request);
        let written = version_of(request);
        let mut changes = Vec::new();
        let mut other_version = false;
        for pinned in self.of(request) {
            other_version |= *pinned.api_version != *written;
            value["apiVersion"] = json!(pinned.api_version);
            let object = raw(&value, namespace)?;
            changes.push((pinned.resource.name.clone(), RawChange::Upsert(object)));
        }
        let object = raw(&value, namespace)?.reference();
        Ok(Proposed { proposal: Proposal { object, changes }, other_version })
    }

    fn of<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = &'a Pinned> {
        let wanted = &request.resource;
        self.0.iter().filter(|pinned| pinned.resource.is_of(&wanted.group, &wanted.resource))
    }
}

fn raw(value: &Value, namespace: &str) -> Result<Arc<RawObject>, Unfit> {
    let nowhere = SourceLocation { file: "".into(), line: 0, column: 0 };
    RawObject::new(value, namespace, nowhere).map(Arc::new).ok_or(Unfit::NoIdentity)
}

/// Group and version of the object that was sent.
fn version_of(request: &Request) -> String {
    let kind = &request.kind;
    if kind.group.is_empty() { kind.version.clone() } else { format!("{}/{}", kind.group, kind.version) }
}

/// An object that is yet to be named by the server gets a name that no other has.
fn name(value: &mut Value, request: &Request) {
    let text = |value: &Value, field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
    if !text(value, "name").is_empty() || !value["metadata"].is_object() {
        return;
    }
    let name = if request.name.is_empty() {
        format!("{}{}", text(value, "generateName"), request.uid)
    } else {
        request.name.clone()
    };
    value["metadata"]["name"] = name.into();
}

#[cfg(test)]
mod tests;
