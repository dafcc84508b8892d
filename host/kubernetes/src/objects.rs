//! Single objects: read, listed by label, written whole or in part, deleted. Bodies are JSON as the API has it.

use http::Method;
use serde_json::{Value, json};

use crate::{
    Api, Malformed, Trouble,
    discovery::group_path,
    request::{Query, escaped},
    transport::JSON,
};

/// Who the API server notes as the owner of fields that are written here.
pub const FIELD_MANAGER: &str = "haptic";

/// The largest body that is sent: what an API server takes at most.
pub const LARGEST_BODY: usize = 3 << 20;

/// The objects of one resource, in one namespace or outside of all. Cheap to clone.
#[derive(Clone)]
pub struct Objects {
    api: Api,
    path: String,
}

/// Which object, and which state of it, is deleted: an object that was made anew under the same name is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub uid: String,
    /// `None` = in whatever state it is.
    pub resource_version: Option<String>,
}

/// What became of an object that was to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is gone, or will be when its finalizers are done.
    Done,
    /// It was gone before.
    NotThere,
}

/// How much of each object a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    Whole,
    /// Names, labels, versions and owners.
    Metadata,
}

// === impl Objects ===

impl Objects {
    /// `api_version` is group and version, such as `networking.k8s.io/v1`; `resources` is the plural name.
    pub fn in_namespace(api: &Api, api_version: &str, resources: &str, namespace: &str) -> Self {
        let path = format!("{}/namespaces/{}/{}", group_path(api_version), escaped(namespace), escaped(resources));
        Self { api: api.clone(), path }
    }

    /// Of a resource that has no namespaces, or for a list of all of them.
    pub fn in_cluster(api: &Api, api_version: &str, resources: &str) -> Self {
        Self { api: api.clone(), path: format!("{}/{}", group_path(api_version), escaped(resources)) }
    }

    /// `None` = there is no such object.
    pub async fn get(&self, name: &str) -> Result<Option<Value>, Trouble> {
        match self.api.get(&self.object(name), JSON).await {
            Ok(body) => parsed(&body).map(Some),
            Err(trouble) if trouble.is_not_found() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Every object whose labels match the selector, page by page; an error if the list cannot be read to its end.
    pub async fn list(&self, labels: &str, listing: Listing) -> Result<Vec<Value>, Trouble> {
        let accept = match listing {
            Listing::Whole => JSON,
            Listing::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        };
        let _turn = self.api.list_turn().await;
        let mut objects = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut query = Query::new(self.path.clone());
            query.add("labelSelector", labels);
            query.add("limit", &self.api.limits().page.to_string());
            if let Some(next) = &next {
                query.add("continue", next);
            }
            let mut page = parsed(&self.api.get(query.as_str(), accept).await?)?;
            next = page.pointer("/metadata/continue").and_then(Value::as_str).map(str::to_owned);
            if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                objects.extend(items);
            }
            if next.as_deref().is_none_or(str::is_empty) {
                return Ok(objects);
            }
        }
    }

    /// Makes an object; a conflict if there is one of its name.
    pub async fn create(&self, object: &Value) -> Result<Value, Trouble> {
        let mut query = Query::new(self.path.clone());
        query.add("fieldManager", FIELD_MANAGER);
        self.send(Method::POST, query.as_str(), JSON, object).await
    }

    /// Makes the object, or makes the fields that it names what it says, whoever wrote them before; fields that it
    /// named earlier and does not name now are removed. `object` has `apiVersion` and `kind`.
    pub async fn apply(&self, name: &str, object: &Value) -> Result<Value, Trouble> {
        let mut query = Query::new(self.object(name));
        query.add("fieldManager", FIELD_MANAGER);
        query.add("force", "true");
        // JSON is YAML.
        self.send(Method::PATCH, query.as_str(), "application/apply-patch+yaml", object).await
    }

    /// Makes the object what is given, whole; with `metadata.resourceVersion` in it, it is a conflict if the object has
    /// another one.
    pub async fn replace(&self, name: &str, object: &Value) -> Result<Value, Trouble> {
        let mut query = Query::new(self.object(name));
        query.add("fieldManager", FIELD_MANAGER);
        self.send(Method::PUT, query.as_str(), JSON, object).await
    }

    /// As [`Self::merge`], but of a list whose elements have names only those change that the patch names. For kinds of
    /// Kubernetes itself: those of custom resources know no such lists.
    pub async fn merge_elements(&self, name: &str, patch: &Value) -> Result<Value, Trouble> {
        let mut query = Query::new(self.object(name));
        query.add("fieldManager", FIELD_MANAGER);
        self.send(Method::PATCH, query.as_str(), "application/strategic-merge-patch+json", patch).await
    }

    /// Changes what the patch names; `null` removes, lists are replaced. With `metadata.uid` or
    /// `metadata.resourceVersion` in the patch it is a conflict if the object has another one.
    pub async fn merge(&self, name: &str, patch: &Value) -> Result<Value, Trouble> {
        self.merge_into(self.object(name), patch).await
    }

    /// As [`Self::merge`], of the status alone.
    pub async fn merge_status(&self, name: &str, patch: &Value) -> Result<Value, Trouble> {
        self.merge_into(format!("{}/status", self.object(name)), patch).await
    }

    /// Deletes this very object and what it owns; a conflict if the object of that name is another one or in another
    /// state.
    pub async fn delete(&self, name: &str, identity: &Identity) -> Result<Deletion, Trouble> {
        let mut preconditions = json!({ "uid": identity.uid });
        if let Some(version) = &identity.resource_version {
            preconditions["resourceVersion"] = json!(version);
        }
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": preconditions, "propagationPolicy": "Background",
        });
        match self.send(Method::DELETE, &self.object(name), JSON, &options).await {
            Ok(_) => Ok(Deletion::Done),
            Err(trouble) if trouble.is_not_found() => Ok(Deletion::NotThere),
            Err(trouble) => Err(trouble),
        }
    }

    async fn merge_into(&self, path: String, patch: &Value) -> Result<Value, Trouble> {
        let mut query = Query::new(path);
        query.add("fieldManager", FIELD_MANAGER);
        self.send(Method::PATCH, query.as_str(), "application/merge-patch+json", patch).await
    }

    async fn send(&self, method: Method, uri: &str, content_type: &str, body: &Value) -> Result<Value, Trouble> {
        let body = body.to_string().into_bytes();
        if body.len() > LARGEST_BODY {
            return Err(Trouble::TooLargeToSend { bytes: body.len(), limit: LARGEST_BODY });
        }
        parsed(&self.api.send(method, uri, content_type, body).await?)
    }

    fn object(&self, name: &str) -> String {
        format!("{}/{}", self.path, escaped(name))
    }
}

fn parsed(body: &[u8]) -> Result<Value, Trouble> {
    serde_json::from_slice(body).map_err(|error| Malformed::Json(error).into())
}
