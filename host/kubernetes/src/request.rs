//! What is asked of the server: which resource, which of its objects, and how much of them.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use haptic_api::StorePolicy;
use haptic_store::{Extent, WatchedResource};

use crate::{ResourceVersion, discovery::Served, transport::JSON};

/// A resource to follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Names, candidates for the version, and selectors.
    pub spec: WatchedResource,
    pub content: Content,
}

/// How much of an object is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Whole objects.
    #[default]
    Whole,
    /// Metadata, with the `apiVersion` and `kind` of the whole object.
    Metadata,
}

/// The objects of one list and watch.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    pub(crate) served: Arc<Served>,
    /// `None` = all.
    pub(crate) namespace: Option<Arc<str>>,
    labels: String,
    /// Path and requirement of each; the store tests them all again.
    fields: Vec<(String, String)>,
    content: Content,
    /// What the objects are to who gets them.
    pub(crate) extent: Extent,
}

// === impl Wanted ===

impl Wanted {
    /// Whole objects of a watched resource.
    pub fn whole(spec: WatchedResource) -> Self {
        Self { spec, content: Content::Whole }
    }

    /// A watched resource as its store keeps it: whole objects, or mere metadata of those that are read on demand.
    pub fn stored(spec: WatchedResource) -> Self {
        let content = if spec.store == StorePolicy::OnDemand { Content::Metadata } else { Content::Whole };
        Self { spec, content }
    }

    fn extent(&self) -> Extent {
        let mere = self.content == Content::Metadata && self.spec.store == StorePolicy::OnDemand;
        if mere { Extent::Metadata } else { Extent::Whole }
    }

    /// One scope for each namespace, or one for all.
    pub(crate) fn scopes(&self, served: &Arc<Served>) -> Vec<Scope> {
        let scope = |namespace: Option<Arc<str>>| Scope {
            served: Arc::clone(served),
            namespace,
            labels: self.spec.label_selector.to_string(),
            fields: self.spec.field_selector.server_requirements().collect(),
            content: self.content,
            extent: self.extent(),
        };
        if !served.namespaced || self.spec.namespaces.is_empty() {
            return vec![scope(None)];
        }
        let mut namespaces = self.spec.namespaces.clone();
        namespaces.sort();
        namespaces.dedup();
        namespaces.iter().map(|namespace| scope(Some(namespace.as_str().into()))).collect()
    }
}

// === impl Scope ===

impl Scope {
    /// One page of a list that is not older than `version`.
    pub(crate) fn page(&self, version: &ResourceVersion, limit: Option<usize>, next: Option<&str>) -> String {
        let mut query = self.query();
        if let Some(limit) = limit {
            query.add("limit", &limit.to_string());
        }
        match next {
            // The token holds the version.
            Some(next) => query.add("continue", next),
            None if !version.is_unknown() => {
                query.add("resourceVersion", version.as_str());
                query.add("resourceVersionMatch", "NotOlderThan");
            }
            // The newest state.
            None => {}
        }
        query.0
    }

    /// A list that is not older than `version`, event by event, and then a watch.
    pub(crate) fn streaming_list(&self, version: &ResourceVersion, open_for: Duration) -> String {
        let mut query = self.watch_query(open_for);
        query.add("sendInitialEvents", "true");
        query.add("resourceVersionMatch", "NotOlderThan");
        query.add("resourceVersion", version.as_str());
        query.0
    }

    /// Everything after `version`.
    pub(crate) fn watch(&self, version: &ResourceVersion, open_for: Duration) -> String {
        let mut query = self.watch_query(open_for);
        query.add("resourceVersion", version.as_str());
        query.0
    }

    pub(crate) fn accept_page(&self) -> &'static str {
        match self.content {
            Content::Whole => JSON,
            Content::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        }
    }

    pub(crate) fn accept_watch(&self) -> &'static str {
        match self.content {
            Content::Whole => JSON,
            Content::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        }
    }

    /// Asks for a selection by those fields only that every resource has. Says whether others were asked for.
    pub(crate) fn ask_for_common_fields_only(&mut self) -> bool {
        let before = self.fields.len();
        self.fields.retain(|(path, _)| matches!(path.as_str(), "metadata.name" | "metadata.namespace"));
        self.fields.len() < before
    }

    fn watch_query(&self, open_for: Duration) -> Query {
        let mut query = self.query();
        query.add("watch", "true");
        query.add("allowWatchBookmarks", "true");
        query.add("timeoutSeconds", &open_for.as_secs().max(1).to_string());
        query
    }

    fn query(&self) -> Query {
        let mut query = Query(self.served.path(self.namespace.as_deref()));
        if !self.labels.is_empty() {
            query.add("labelSelector", &self.labels);
        }
        if !self.fields.is_empty() {
            let fields: Vec<&str> = self.fields.iter().map(|(_, requirement)| requirement.as_str()).collect();
            query.add("fieldSelector", &fields.join(","));
        }
        query
    }
}

/// A path and its query so far.
pub(crate) struct Query(String);

// === impl Query ===

impl Query {
    /// `path` is escaped.
    pub(crate) fn new(path: String) -> Self {
        Self(path)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn add(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&escaped(value));
    }
}

/// As one segment of a path or one value of a query: names come from configuration objects.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("writing to a text never fails");
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
