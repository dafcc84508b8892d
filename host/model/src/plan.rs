use std::{collections::BTreeMap, fmt, net::IpAddr, sync::Arc};

use imbl::{OrdMap, Vector};
use serde::{Deserialize, Serialize};

use crate::{Digest, FileKind, FilePath, Framer, PlanId};

/// Raised whenever a field of [`Plan`] changes its meaning; a baseline of another version is no baseline.
pub const PLAN_SCHEMA_VERSION: u32 = 1;

/// The path of the HAProxy configuration in every file set.
pub const CONFIG_PATH: &str = "haproxy.cfg";

/// What a render declared: the records from which every diff is made. HAProxy text is never parsed. A plan shares with the
/// one before it what did not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub schema_version: u32,
    pub id: PlanId,
    /// In the order of the configuration text.
    pub sections: Vector<SectionRecord>,
    pub profiles: BTreeMap<Arc<str>, ProfileRecord>,
    pub backends: OrdMap<Arc<str>, Arc<BackendRecord>>,
    pub binds: Vec<BindRecord>,
    /// Every file of the set, `haproxy.cfg` included.
    pub files: BTreeMap<FilePath, Arc<FileRecord>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SectionKind {
    /// Anything that no other record explains: `global`, `defaults`, frontends, resolvers, free text.
    Core,
    /// A named `defaults` section that backends take everything from.
    Profile,
    Backend,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionRecord {
    pub kind: SectionKind,
    /// For a person: `frontend http`, or the name of the profile or backend.
    pub name: Arc<str>,
    /// Of the section's exact text.
    pub text: Digest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileRecord {
    pub name: Arc<str>,
    pub text: Digest,
    pub mode: ProxyMode,
    /// Servers may be added and removed at run time (haproxy-facts §5: the LB algorithm must be dynamic).
    pub dynamic_servers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyMode {
    Http,
    Tcp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendRecord {
    pub name: Arc<str>,
    /// The `defaults` section this backend takes from.
    pub profile: Arc<str>,
    pub mode: ProxyMode,
    /// Text of the section besides its first line and its servers. Empty = the profile says it all, and then
    /// HAProxy 3.4 can make the whole backend at run time.
    pub body: Arc<str>,
    /// Servers may be added and removed at run time.
    pub dynamic_servers: bool,
    /// In the order of the text.
    pub servers: Vec<ServerRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRecord {
    pub name: Arc<str>,
    pub address: ServerAddress,
    /// 1–65535.
    pub port: u16,
    /// 0–256.
    pub weight: u16,
    /// Written as `disabled`: takes no new connection.
    pub disabled: bool,
    /// All else on the line, in order, e.g. `check`, `inter 5s`.
    pub keywords: Vec<Keyword>,
}

/// One keyword of a server line with its value, if it takes one. Raw values: escaping happens when text is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Keyword {
    pub name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerAddress {
    Ip(IpAddr),
    /// Resolved by HAProxy; such a server is never changed at run time.
    Host(Arc<str>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BindRecord {
    pub frontend: Arc<str>,
    /// `None` = every address.
    pub address: Option<IpAddr>,
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    pub digest: Digest,
    pub size: u64,
    pub kind: FileKind,
    pub reload_on_change: bool,
    #[serde(default, skip_serializing_if = "Entries::is_opaque")]
    pub entries: Entries,
}

/// The records inside a file, where it is made of records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entries {
    #[default]
    Opaque,
    Map {
        /// The position of an entry matters (`map_reg`, `map_dom`, `map_sub` …).
        ordered: bool,
        entries: Arc<[MapEntry]>,
    },
    CrtList(Arc<[CrtListEntry]>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapEntry {
    pub key: Arc<str>,
    pub value: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CrtListEntry {
    pub certificate: FilePath,
    /// The text between the brackets, e.g. `alpn h2,http/1.1`; empty = none.
    pub options: Arc<str>,
    pub sni: Vec<Arc<str>>,
}

// === impl Plan ===

impl Plan {
    /// Computes the identity from the digests of the files: what did not change is not hashed again. Sections are part of a
    /// file.
    pub fn identify(files: &BTreeMap<FilePath, Arc<FileRecord>>) -> PlanId {
        let mut framer = Framer::default();
        framer.field(PLAN_SCHEMA_VERSION.to_be_bytes());
        for (path, file) in files {
            framer
                .field(path.as_str())
                .field([file.kind as u8, u8::from(file.reload_on_change)])
                .field(file.size.to_be_bytes())
                .field(file.digest.as_bytes());
        }
        PlanId(framer.finish())
    }
}

// === impl Entries ===

impl Entries {
    pub fn is_opaque(&self) -> bool {
        matches!(self, Self::Opaque)
    }
}

// === impl ProxyMode ===

impl fmt::Display for ProxyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Tcp => "tcp",
        })
    }
}

// === impl ServerAddress ===

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // HAProxy reads `2001:db8::1` without brackets as a name and a port (haproxy-facts §0 trap 11).
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Ip(IpAddr::V4(ip)) => write!(f, "{ip}"),
            Self::Host(name) => f.write_str(name),
        }
    }
}

// === impl Keyword ===

impl Keyword {
    pub fn flag(name: &str) -> Self {
        Self { name: name.into(), value: None }
    }

    pub fn with(name: &str, value: &str) -> Self {
        Self { name: name.into(), value: Some(value.into()) }
    }
}
