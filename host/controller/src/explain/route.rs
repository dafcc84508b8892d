//! From a host and a path to the backend that gets the request, by the records of the route maps.
//!
//! The maps and their order are those of `frontend/50-routing` in the library `base`: exact paths first, then prefixes,
//! the longest wins, then the default of the host; first for the host itself, then for its wildcard, then for any host.
//! What a configuration decides besides them, in lines of its own, is not known here, and the answer says so.

use haptic_model::{BackendRecord, Entries, MapEntry, PlanId};
use serde::Serialize;

use crate::explain::{Author, Explained, lines::call_of};

/// A host and a path as HAProxy will see them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteQuery {
    host: String,
    path: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteAnswer {
    pub host: String,
    pub path: String,
    /// The render that the answer is about.
    pub plan: PlanId,
    /// One sentence.
    pub summary: String,
    /// The maps as they are asked, until one answers.
    pub tried: Vec<Lookup>,
    /// The entry that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<RouteEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<RouteBackend>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lookup {
    pub map: &'static str,
    /// What is looked for.
    pub key: String,
    pub by: By,
    pub found: bool,
}

/// How a map is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum By {
    Exact,
    /// The rule's path itself, without what may follow it.
    PrefixItself,
    /// The longest entry that the key begins with.
    Prefix,
    /// The default of a host.
    Host,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteEntry {
    pub map: &'static str,
    /// 1-based.
    pub line: u32,
    pub key: String,
    pub value: String,
    #[serde(flatten)]
    pub author: Author,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteBackend {
    pub name: String,
    /// At most `SERVERS`.
    pub servers: Vec<RouteServer>,
    pub total: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteServer {
    pub name: String,
    /// With its port.
    pub address: String,
    pub weight: u16,
    pub disabled: bool,
}

const EXACT: &str = "maps/path-exact.map";
const PREFIX_ITSELF: &str = "maps/path-prefix-exact.map";
const PREFIX: &str = "maps/path-prefix.map";
const HOST: &str = "maps/host-default.map";
/// Servers that an answer names.
const SERVERS: usize = 50;

// === impl RouteQuery ===

impl RouteQuery {
    /// A URL can stand in place of the host.
    pub fn new(host: &str, path: &str) -> Self {
        let host = host.trim();
        let host = host.split_once("://").map_or(host, |(_, rest)| rest);
        let (host, of_url) = host.find('/').map_or((host, ""), |slash| host.split_at(slash));
        let path = Some(path.trim()).filter(|path| !path.is_empty()).unwrap_or(of_url);
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        // As the frontend does: without the port and the dot at the end, in small letters.
        let host = host.split(':').next().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
        Self { host, path: format!("{slash}{path}") }
    }
}

// === impl Explained ===

impl Explained<'_> {
    pub fn route(&self, query: &RouteQuery) -> RouteAnswer {
        let RouteQuery { host, path } = query.clone();
        let plan = &self.rendered.plan;
        let mut answer = RouteAnswer {
            host,
            path,
            plan: plan.id,
            summary: String::new(),
            tried: Vec::new(),
            entry: None,
            backend: None,
        };
        if [EXACT, PREFIX_ITSELF, PREFIX, HOST].iter().all(|map| self.entries(map).is_none()) {
            "this configuration has none of the route maps of the library `base`: its own lines decide, look at them by \
             text"
                .clone_into(&mut answer.summary);
            return answer;
        }
        answer.entry = self.decide(query, &mut answer.tried);
        let Some(entry) = &answer.entry else {
            "no route: the default backend of the frontend answers, in the library `base` with 404"
                .clone_into(&mut answer.summary);
            return answer;
        };
        match plan.backends.get(entry.value.as_str()) {
            Some(backend) => {
                let backend = RouteBackend::of(backend);
                let servers = match (backend.total, backend.servers.iter().filter(|server| !server.disabled).count()) {
                    (0, _) => "has no server, so clients get 503".to_owned(),
                    (_, 0) => "has disabled servers only, so clients get 503".to_owned(),
                    (1, _) => "has 1 server".to_owned(),
                    (all, _) => format!("has {all} servers"),
                };
                answer.summary = format!("goes to backend {}, which {servers}", backend.name);
                answer.backend = Some(backend);
            }
            None => {
                answer.summary = format!(
                    "names backend {}, which no template declares through backend(): its lines are in haproxy.cfg, or the \
                     default backend answers",
                    entry.value
                );
            }
        }
        answer
    }

    fn decide(&self, query: &RouteQuery, tried: &mut Vec<Lookup>) -> Option<RouteEntry> {
        let RouteQuery { host, path } = query;
        let parent = host.split_once('.').map_or("", |(_, parent)| parent);
        let wildcard = format!("*.{parent}");
        // Any host has an empty one in its keys and a star in the map of hosts.
        for (of_path, of_host) in [(host.as_str(), host.as_str()), (&wildcard, &wildcard), ("", "*")] {
            let key = format!("{of_path}{path}");
            let lookups = [
                (EXACT, key.clone(), By::Exact),
                (PREFIX_ITSELF, key.clone(), By::PrefixItself),
                (PREFIX, key, By::Prefix),
                (HOST, of_host.to_owned(), By::Host),
            ];
            for (map, key, by) in lookups {
                let entries = self.entries(map).unwrap_or_default();
                let found = by.find(entries, &key);
                tried.push(Lookup { map, key, by, found: found.is_some() });
                if let Some(index) = found {
                    return Some(self.entry(map, index, &entries[index]));
                }
            }
        }
        None
    }

    fn entry(&self, map: &'static str, index: usize, entry: &MapEntry) -> RouteEntry {
        let line = u32::try_from(index + 1).unwrap_or(0);
        let text = format!("{} {}", entry.key, entry.value);
        let call = self.rendered.files.get(map).and_then(|file| call_of(file, &text));
        RouteEntry {
            map,
            line,
            key: entry.key.to_string(),
            value: entry.value.to_string(),
            author: self.author(map, line, &text, call.as_deref()),
        }
    }

    /// The records of a map; `None` = there is no such map.
    fn entries(&self, map: &str) -> Option<&[MapEntry]> {
        match &self.rendered.plan.files.get(map)?.entries {
            Entries::Map { entries, .. } => Some(entries),
            _ => None,
        }
    }
}

// === impl By ===

impl By {
    /// The entry that HAProxy would find.
    fn find(self, entries: &[MapEntry], key: &str) -> Option<usize> {
        let all = entries.iter().enumerate();
        let found = match self {
            Self::Exact | Self::PrefixItself | Self::Host => all.clone().find(|(_, entry)| *entry.key == *key),
            // `map_beg` takes the longest; of entries alike the first.
            Self::Prefix => all
                .filter(|(_, entry)| key.starts_with(&*entry.key))
                .max_by_key(|(index, entry)| (entry.key.len(), std::cmp::Reverse(*index))),
        };
        found.map(|(index, _)| index)
    }
}

// === impl RouteBackend ===

impl RouteBackend {
    fn of(record: &BackendRecord) -> Self {
        let servers = record.servers.iter().take(SERVERS).map(|server| RouteServer {
            name: server.name.to_string(),
            address: format!("{}:{}", server.address, server.port),
            weight: server.weight,
            disabled: server.disabled,
        });
        Self { name: record.name.to_string(), servers: servers.collect(), total: record.servers.len() }
    }
}
