//! What is allowed where, merged so that nothing is said twice.

use std::collections::{BTreeMap, BTreeSet};

/// Where something is allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Cluster,
    Namespace(String),
}

/// Verbs that are needed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Verbs(pub(super) &'static [&'static str]);

/// By scope, then by resource.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants(BTreeMap<Scope, BTreeMap<Resource, Objects>>);

/// One rule of a Role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) group: String,
    pub(super) resources: Vec<String>,
    /// Empty = every object.
    pub(super) names: Vec<String>,
    pub(super) verbs: BTreeSet<&'static str>,
}

/// Group and plural name, a subresource behind a slash.
type Resource = (String, String);

/// What may be done to every object, and to those of a name.
#[derive(Clone, Debug, Default)]
struct Objects {
    all: BTreeSet<&'static str>,
    named: BTreeMap<String, BTreeSet<&'static str>>,
}

// === impl Verbs ===

impl Verbs {
    pub(super) const GET: Self = Self(&["get"]);
    /// To be told of every change. A server that streams lists is asked for a watch alone, others for a list first.
    pub(super) const FOLLOW: Self = Self(&["list", "watch"]);
    pub(super) const CREATE: Self = Self(&["create"]);
    pub(super) const UPDATE: Self = Self(&["update"]);
    pub(super) const PATCH: Self = Self(&["patch"]);
    pub(super) const REPORT: Self = Self(&["create", "patch"]);
    pub(super) const CORRECT: Self = Self(&["get", "patch"]);
    /// Of a Lease, whose watch goes on where a read ended.
    pub(super) const HOLD: Self = Self(&["get", "update", "watch"]);
    /// Applied, so that `create` is asked for within `patch`, listed by their owner, and deleted.
    pub(super) const PUBLISH: Self = Self(&["create", "delete", "list", "patch"]);
}

// === impl Grants ===

impl Grants {
    /// Allows something for every object of a resource.
    pub(super) fn all(&mut self, scope: &Scope, group: &str, resource: &str, verbs: Verbs) {
        self.objects(scope, group, resource).all.extend(verbs.0);
    }

    /// Allows something for the object of this name.
    pub(super) fn named(&mut self, scope: &Scope, group: &str, resource: &str, verbs: Verbs, name: &str) {
        self.objects(scope, group, resource).named.entry(name.to_owned()).or_default().extend(verbs.0);
    }

    pub(super) fn scopes(&self) -> impl Iterator<Item = &Scope> {
        self.0.keys()
    }

    /// Sorted; resources of a group that are allowed alike stand in one rule.
    pub(super) fn rules(&self, scope: &Scope) -> Vec<Rule> {
        type Alike<'a> = (&'a str, Vec<&'a str>, BTreeSet<&'static str>);
        let mut rules: BTreeMap<Alike<'_>, Vec<&str>> = BTreeMap::new();
        for ((group, resource), objects) in self.0.get(scope).into_iter().flatten() {
            if !objects.all.is_empty() {
                rules.entry((group, Vec::new(), objects.all.clone())).or_default().push(resource);
            }
            let mut by_verbs: BTreeMap<BTreeSet<&'static str>, Vec<&str>> = BTreeMap::new();
            for (name, verbs) in &objects.named {
                let more: BTreeSet<_> = verbs.difference(&objects.all).copied().collect();
                if !more.is_empty() {
                    by_verbs.entry(more).or_default().push(name);
                }
            }
            for (verbs, names) in by_verbs {
                rules.entry((group, names, verbs)).or_default().push(resource);
            }
        }
        let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let rule = |((group, names, verbs), resources): (Alike<'_>, Vec<&str>)| Rule {
            group: group.to_owned(),
            resources: owned(resources),
            names: owned(names),
            verbs,
        };
        rules.into_iter().map(rule).collect()
    }

    fn objects(&mut self, scope: &Scope, group: &str, resource: &str) -> &mut Objects {
        self.0.entry(scope.clone()).or_default().entry((group.to_owned(), resource.to_owned())).or_default()
    }
}
