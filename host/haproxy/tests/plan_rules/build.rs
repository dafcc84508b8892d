//! Builds small plans, and the text that belongs to them.
#![allow(clippy::unwrap_used, dead_code, reason = "tests; each test file uses its part")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use haptic_haproxy::plan::Inventory;
use haptic_model::{
    BackendRecord, CONFIG_PATH, CrtListEntry, Digest, Entries, FileKind, FilePath, FileRecord, Keyword, MapEntry,
    PLAN_SCHEMA_VERSION, Plan, ProfileRecord, ProxyMode, SectionKind, SectionRecord, ServerAddress, ServerRecord,
};

type Entry = (&'static str, &'static str);

#[derive(Clone, Default)]
pub(crate) struct Build {
    pub(crate) core: Vec<(String, String)>,
    pub(crate) profiles: Vec<(String, String)>,
    pub(crate) backends: Vec<BackendRecord>,
    /// Path, ordered, entries.
    pub(crate) maps: Vec<(String, bool, Vec<Entry>)>,
    pub(crate) files: Vec<(String, String)>,
    pub(crate) list: Vec<CrtListEntry>,
    /// Text of this backend that no record says.
    pub(crate) comment: &'static str,
    /// Text before the first section.
    pub(crate) preamble: &'static str,
}

impl Build {
    /// b1: three servers, the last one disabled; b2: one; b3 is free; st: a static algorithm.
    pub(crate) fn sample() -> Self {
        let mut disabled = server("s3", 3);
        disabled.disabled = true;
        disabled.keywords = vec![Keyword::flag("check")];
        let mut fixed = backend("st", "fast", vec![server("s1", 9)]);
        fixed.dynamic_servers = false;
        let entries: Vec<Entry> = vec![("/a", "b1"), ("/b", "b2"), ("/c", "b1")];
        let text = |(path, content): (&str, &str)| (path.to_owned(), content.to_owned());
        Self {
            core: [("global", "g"), ("frontend http", "f"), ("frontend https", "f")].map(text).into(),
            profiles: vec![text(("fast", "p"))],
            backends: vec![
                backend("b1", "fast", vec![server("s1", 1), server("s2", 2), disabled]),
                backend("b2", "fast", vec![server("s1", 4)]),
                fixed,
            ],
            maps: vec![
                ("maps/path.map".to_owned(), false, entries.clone()),
                ("maps/regex.map".to_owned(), true, entries),
            ],
            files: [
                ("ssl/a.pem", "a"),
                ("ssl/b.pem", "b"),
                ("ssl/ca.pem", "ca"),
                ("general/x.lua", "x"),
                ("general/page.http", "page"),
            ]
            .map(text)
            .into(),
            list: vec![entry("ssl/a.pem", "", &["a.test"]), entry("ssl/b.pem", "", &["b.test"])],
            comment: "",
            preamble: "",
        }
    }

    pub(crate) fn core(&mut self, name: &str, text: &str) {
        put(&mut self.core, name, text);
    }

    pub(crate) fn profile(&mut self, name: &str, text: &str) {
        put(&mut self.profiles, name, text);
    }

    pub(crate) fn file(&mut self, path: &str, content: &str) {
        put(&mut self.files, path, content);
    }

    pub(crate) fn map(&mut self, path: &str) -> &mut Vec<Entry> {
        &mut self.maps.iter_mut().find(|map| map.0 == path).unwrap().2
    }

    pub(crate) fn keyword(&mut self, backend: usize, server: usize, name: &str, value: Option<&str>) {
        let keyword = Keyword { name: name.into(), value: value.map(Into::into) };
        self.backends[backend].servers[server].keywords.push(keyword);
    }

    pub(crate) fn add_server(&mut self, backend: usize, change: impl Fn(&mut ServerRecord)) {
        let mut new = server("new", 77);
        change(&mut new);
        self.backends[backend].servers.push(new);
    }

    pub(crate) fn add_server_with(&mut self, backend: usize, name: &str, value: Option<&str>) {
        self.add_server(backend, |_| {});
        let last = self.backends[backend].servers.len() - 1;
        self.keyword(backend, last, name, value);
    }

    pub(crate) fn plan(&self) -> Plan {
        let mut sections = Vec::new();
        for (name, text) in &self.core {
            sections.push(section(SectionKind::Core, name, text));
        }
        for (name, text) in &self.profiles {
            sections.push(section(SectionKind::Profile, name, text));
        }
        for backend in &self.backends {
            let mut text = backend_text(backend);
            if &*backend.name == self.comment {
                text.push_str("  # said by nothing\n");
            }
            sections.push(section(SectionKind::Backend, &backend.name, &text));
        }
        let mut files = BTreeMap::new();
        let all: String = sections.iter().map(|section| section.text.to_string()).collect();
        files.insert(path(CONFIG_PATH), record(FileKind::Config, &(self.preamble.to_owned() + &all), Entries::Opaque));
        for (name, ordered, entries) in &self.maps {
            let text: String = entries.iter().map(|(key, value)| format!("{key} {value}\n")).collect();
            let entries =
                entries.iter().map(|&(key, value)| MapEntry { key: key.into(), value: value.into() }).collect();
            files.insert(path(name), record(FileKind::Map, &text, Entries::Map { ordered: *ordered, entries }));
        }
        for (name, content) in &self.files {
            let kind = match name.as_str() {
                "ssl/ca.pem" => FileKind::Ca,
                name if name.starts_with("ssl/") => FileKind::Cert,
                _ => FileKind::General,
            };
            files.insert(path(name), record(kind, content, Entries::Opaque));
        }
        if !self.list.is_empty() {
            let text = format!("{:?}", self.list);
            files.insert(
                path("lists/l.list"),
                record(FileKind::CrtList, &text, Entries::CrtList(self.list.clone().into())),
            );
        }
        if let Some(lua) = files.get_mut("general/x.lua") {
            Arc::make_mut(lua).reload_on_change = true;
        }
        let sections = sections.into();
        Plan {
            schema_version: PLAN_SCHEMA_VERSION,
            id: Plan::identify(&files),
            sections,
            profiles: self
                .profiles
                .iter()
                .map(|(name, text)| (Arc::from(&**name), profile_record(name, text)))
                .collect(),
            backends: self.backends.iter().map(|backend| (backend.name.clone(), Arc::new(backend.clone()))).collect(),
            binds: Vec::new(),
            files,
        }
    }
}

fn put(list: &mut Vec<(String, String)>, name: &str, text: &str) {
    match list.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => text.clone_into(known),
        None => list.push((name.to_owned(), text.to_owned())),
    }
}

fn section(kind: SectionKind, name: &str, text: &str) -> SectionRecord {
    SectionRecord { kind, name: name.into(), text: Digest::of(text.as_bytes()) }
}

fn profile_record(name: &str, text: &str) -> ProfileRecord {
    ProfileRecord { name: name.into(), text: Digest::of(text.as_bytes()), mode: ProxyMode::Http, dynamic_servers: true }
}

fn record(kind: FileKind, text: &str, entries: Entries) -> Arc<FileRecord> {
    let digest = Digest::of(text.as_bytes());
    Arc::new(FileRecord { digest, size: text.len() as u64, kind, reload_on_change: false, entries })
}

pub(crate) fn path(path: &str) -> FilePath {
    FilePath::new(path).unwrap()
}

pub(crate) fn host(name: &str) -> ServerAddress {
    ServerAddress::Host(name.into())
}

pub(crate) fn entry(certificate: &str, options: &str, sni: &[&str]) -> CrtListEntry {
    let sni = sni.iter().map(|&name| name.into()).collect();
    CrtListEntry { certificate: path(certificate), options: options.into(), sni }
}

pub(crate) fn server(name: &str, last: u8) -> ServerRecord {
    ServerRecord {
        name: name.into(),
        address: ServerAddress::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))),
        port: 80,
        weight: 100,
        disabled: false,
        keywords: Vec::new(),
    }
}

pub(crate) fn numbered(number: u16) -> ServerRecord {
    server(&format!("n{number}"), 1)
}

pub(crate) fn backend(name: &str, profile: &str, servers: Vec<ServerRecord>) -> BackendRecord {
    BackendRecord {
        name: name.into(),
        profile: profile.into(),
        mode: ProxyMode::Http,
        body: "".into(),
        dynamic_servers: true,
        servers,
    }
}

/// The section as HAProxy reads it.
pub(crate) fn backend_text(backend: &BackendRecord) -> String {
    let mut text = format!("backend {} from {}\n{}", backend.name, backend.profile, backend.body);
    for server in &backend.servers {
        let ServerRecord { name, address, port, weight, .. } = server;
        write!(text, "  server {name} {address}:{port} weight {weight}").unwrap();
        if server.disabled {
            text.push_str(" disabled");
        }
        for keyword in &server.keywords {
            write!(text, " {}", keyword.name).unwrap();
            if let Some(value) = &keyword.value {
                write!(text, " {value}").unwrap();
            }
        }
        text.push('\n');
    }
    text
}

/// All that a plan names is loaded.
pub(crate) fn inventory(plan: &Plan) -> Inventory {
    let mut loaded = Inventory::default();
    for (path, file) in &plan.files {
        let set = match file.kind {
            FileKind::Map => &mut loaded.maps,
            FileKind::Cert => &mut loaded.certificates,
            FileKind::Ca => &mut loaded.ca_files,
            FileKind::Crl => &mut loaded.crl_files,
            FileKind::CrtList => &mut loaded.crt_lists,
            FileKind::Config | FileKind::General => continue,
        };
        set.insert(path.clone());
    }
    loaded
}
