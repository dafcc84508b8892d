//! Which version of a wanted resource the server has, and what the resource is called there.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};

use crate::{Api, Malformed, Trouble, Wanted, request::escaped, transport::JSON};

/// A resource in the version in which it is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Group and version, such as `networking.k8s.io/v1`.
    pub api_version: Arc<str>,
    /// The plural name.
    pub resources: Arc<str>,
    pub kind: Arc<str>,
    pub namespaced: bool,
}

/// Asks the server what it serves. Nothing is remembered: an answer is true only when it is given.
#[derive(Clone)]
pub struct Discovery {
    api: Api,
}

// === impl Served ===

impl Served {
    /// Empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The path of its lists, of one namespace or of all.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let root = group_path(&self.api_version);
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/namespaces/{}/{}", escaped(namespace), escaped(&self.resources)),
            None => format!("{root}/{}", escaped(&self.resources)),
        }
    }
}

// === impl Discovery ===

impl Discovery {
    pub fn new(api: Api) -> Self {
        Self { api }
    }

    /// The first version of the resource that is served; `None` if the server has none of them. Where a question
    /// failed there is no answer: a version that is preferred may be there.
    pub async fn resolve(&self, wanted: &Wanted) -> Result<Option<Served>, Trouble> {
        for api_version in &wanted.spec.versions {
            if let Some(resource) = self.find(api_version, &wanted.spec.resources).await? {
                return wanted.check(api_version, resource).map(Some);
            }
        }
        Ok(None)
    }

    /// As [`Self::resolve`], where `None` is a trouble that names the resource unless the resource is optional.
    pub async fn require(&self, wanted: &Wanted) -> Result<Option<Served>, Trouble> {
        match self.resolve(wanted).await? {
            None if !wanted.spec.optional => Err(wanted.missing()),
            found => Ok(found),
        }
    }

    async fn find(&self, api_version: &str, resources: &str) -> Result<Option<APIResource>, Trouble> {
        let body = match self.api.get(&group_path(api_version), JSON).await {
            Ok(body) => body,
            Err(trouble) if trouble.is_not_found() => return Ok(None),
            Err(trouble) => return Err(trouble),
        };
        let list: APIResourceList = serde_json::from_slice(&body).map_err(Malformed::Json)?;
        Ok(list.resources.into_iter().find(|resource| resource.name == resources))
    }
}

// === impl Wanted ===

impl Wanted {
    pub(crate) fn missing(&self) -> Trouble {
        Trouble::Missing { resources: self.spec.resources.clone(), versions: self.spec.versions.join(", ") }
    }

    fn check(&self, api_version: &str, resource: APIResource) -> Result<Served, Trouble> {
        let (resources, api_version) = (self.spec.resources.clone(), api_version.to_owned());
        // An aggregated server may leave the verbs out.
        let can = |verb: &str| resource.verbs.is_empty() || resource.verbs.iter().any(|known| known == verb);
        if let Some(verb) = ["list", "watch"].into_iter().find(|verb| !can(verb)) {
            return Err(Trouble::Unwatchable { resources, api_version, verb });
        }
        // The store tells the objects of a resource by their kind.
        if !self.spec.serves(&api_version, &resource.kind) {
            let wanted = self.spec.kind.clone().unwrap_or_else(|| "one that its plural name tells".to_owned());
            return Err(Trouble::OtherKind { resources, api_version, served: resource.kind, wanted });
        }
        Ok(Served {
            api_version: api_version.into(),
            resources: resources.into(),
            kind: resource.kind.into(),
            namespaced: resource.namespaced,
        })
    }
}

/// The path of a group and version.
pub(crate) fn group_path(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", escaped(group), escaped(version)),
        None => format!("/api/{}", escaped(api_version)),
    }
}

#[cfg(test)]
mod tests;
