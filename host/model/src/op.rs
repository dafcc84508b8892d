use std::{fmt, net::IpAddr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{CrtListEntry, FilePath, Keyword, ProxyMode};

/// What a diff decided for one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing differs.
    Noop,
    /// Files change, nothing has to run.
    FileOnly,
    /// Every change is a command that the running worker takes.
    Runtime,
    /// HAProxy must load the whole set again; [`Reason`]s say why.
    Reload,
}

/// What an apply did (the agent's answer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Noop,
    FileOnly,
    Runtime,
    Reload,
    /// Files landed and in-place operations ran; the reload follows when the pacing window ends.
    Scheduled,
    Rejected,
}

/// Why a change could not stay reload-free, or a note on what will only be seen after the next reload.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reason {
    pub code: ReasonCode,
    /// A sentence that a person understands, naming the section, server or file.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    NoBaseline,
    SectionChanged,
    SectionAdded,
    SectionRemoved,
    ProfileAdded,
    ProfileChanged,
    BackendNeedsNewerHAProxy,
    BackendStructural,
    ServerStructural,
    ServerNotDynamic,
    MapNotLoaded,
    CrtListNotLoaded,
    FileReloadsOnChange,
    FileRemoved,
    UnsafeToken,
    UnexplainedText,
    TooManyOperations,
    /// A reload is already on its way; this change joins it.
    ReloadPending,
    /// The agent fell back: a runtime command was refused or answered something unknown.
    RuntimeRefused,
    /// Only a note; never the cause of a reload.
    Note,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    Ready,
    Drain,
    Maint,
}

/// One typed command for a running worker, in the order it must run. Content of certificates and whole maps is not
/// in the op: the agent reads it from the file that the same apply wrote.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// `add backend N from PROFILE mode M` (HAProxy ≥ 3.4).
    BackendAdd {
        name: Arc<str>,
        profile: Arc<str>,
        mode: ProxyMode,
    },
    BackendPublish {
        name: Arc<str>,
    },
    BackendUnpublish {
        name: Arc<str>,
    },
    /// Waits until it is removable, then deletes; the wait is off the apply path.
    BackendDel {
        name: Arc<str>,
    },
    /// `add server`: literal address only; weight is always given; `keywords` are raw values.
    ServerAdd {
        backend: Arc<str>,
        server: Arc<str>,
        address: IpAddr,
        port: u16,
        weight: u16,
        keywords: Vec<Keyword>,
    },
    /// `enable server`, and `enable health` first when the server is checked.
    ServerEnable {
        backend: Arc<str>,
        server: Arc<str>,
        health: bool,
    },
    ServerSetAddr {
        backend: Arc<str>,
        server: Arc<str>,
        address: IpAddr,
        port: u16,
    },
    ServerSetWeight {
        backend: Arc<str>,
        server: Arc<str>,
        weight: u16,
    },
    ServerSetState {
        backend: Arc<str>,
        server: Arc<str>,
        state: ServerState,
    },
    /// Puts the server in maintenance at once; waits until it is removable and deletes it off the apply path.
    ServerDel {
        backend: Arc<str>,
        server: Arc<str>,
    },
    MapAdd {
        map: FilePath,
        key: Arc<str>,
        value: Arc<str>,
    },
    MapSet {
        map: FilePath,
        key: Arc<str>,
        value: Arc<str>,
    },
    MapDel {
        map: FilePath,
        key: Arc<str>,
    },
    /// Versioned swap of the whole map by the entries of the file: `prepare map`, `add map @v`, `commit map`.
    MapReplace {
        map: FilePath,
    },
    CertNew {
        certificate: FilePath,
    },
    CertSet {
        certificate: FilePath,
    },
    /// Only after its crt-list entries are gone.
    CertDel {
        certificate: FilePath,
    },
    CaSet {
        file: FilePath,
    },
    CrlSet {
        file: FilePath,
    },
    CrtListAdd {
        list: FilePath,
        entry: CrtListEntry,
    },
    CrtListDel {
        list: FilePath,
        certificate: FilePath,
    },
}

// === impl Verdict ===

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Noop => "noop",
            Self::FileOnly => "file_only",
            Self::Runtime => "runtime",
            Self::Reload => "reload",
        })
    }
}

// === impl Mode ===

impl Mode {
    pub const ALL: [Self; 6] =
        [Self::Noop, Self::FileOnly, Self::Runtime, Self::Reload, Self::Scheduled, Self::Rejected];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Noop => "noop",
            Self::FileOnly => "file_only",
            Self::Runtime => "runtime",
            Self::Reload => "reload",
            Self::Scheduled => "scheduled",
            Self::Rejected => "rejected",
        })
    }
}

// === impl ReasonCode ===

impl ReasonCode {
    pub const ALL: [Self; 20] = [
        Self::NoBaseline,
        Self::SectionChanged,
        Self::SectionAdded,
        Self::SectionRemoved,
        Self::ProfileAdded,
        Self::ProfileChanged,
        Self::BackendNeedsNewerHAProxy,
        Self::BackendStructural,
        Self::ServerStructural,
        Self::ServerNotDynamic,
        Self::MapNotLoaded,
        Self::CrtListNotLoaded,
        Self::FileReloadsOnChange,
        Self::FileRemoved,
        Self::UnsafeToken,
        Self::UnexplainedText,
        Self::TooManyOperations,
        Self::ReloadPending,
        Self::RuntimeRefused,
        Self::Note,
    ];

    /// The class as a label of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::NoBaseline => "no_baseline",
            Self::SectionChanged => "section_changed",
            Self::SectionAdded => "section_added",
            Self::SectionRemoved => "section_removed",
            Self::ProfileAdded => "profile_added",
            Self::ProfileChanged => "profile_changed",
            Self::BackendNeedsNewerHAProxy => "backend_needs_newer_haproxy",
            Self::BackendStructural => "backend_structural",
            Self::ServerStructural => "server_structural",
            Self::ServerNotDynamic => "server_not_dynamic",
            Self::MapNotLoaded => "map_not_loaded",
            Self::CrtListNotLoaded => "crt_list_not_loaded",
            Self::FileReloadsOnChange => "file_reloads_on_change",
            Self::FileRemoved => "file_removed",
            Self::UnsafeToken => "unsafe_token",
            Self::UnexplainedText => "unexplained_text",
            Self::TooManyOperations => "too_many_operations",
            Self::ReloadPending => "reload_pending",
            Self::RuntimeRefused => "runtime_refused",
            Self::Note => "note",
        }
    }
}

// === impl Reason ===

impl Reason {
    pub fn new(code: ReasonCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// === impl Op ===

impl Op {
    /// Every [`Self::kind`].
    pub const KINDS: [&'static str; 21] = [
        "backend_add",
        "backend_publish",
        "backend_unpublish",
        "backend_del",
        "server_add",
        "server_enable",
        "server_set_addr",
        "server_set_weight",
        "server_set_state",
        "server_del",
        "map_add",
        "map_set",
        "map_del",
        "map_replace",
        "cert_new",
        "cert_set",
        "cert_del",
        "ca_set",
        "crl_set",
        "crt_list_add",
        "crt_list_del",
    ];

    /// The kind as a label of metrics, as [`serde`] writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::BackendAdd { .. } => "backend_add",
            Self::BackendPublish { .. } => "backend_publish",
            Self::BackendUnpublish { .. } => "backend_unpublish",
            Self::BackendDel { .. } => "backend_del",
            Self::ServerAdd { .. } => "server_add",
            Self::ServerEnable { .. } => "server_enable",
            Self::ServerSetAddr { .. } => "server_set_addr",
            Self::ServerSetWeight { .. } => "server_set_weight",
            Self::ServerSetState { .. } => "server_set_state",
            Self::ServerDel { .. } => "server_del",
            Self::MapAdd { .. } => "map_add",
            Self::MapSet { .. } => "map_set",
            Self::MapDel { .. } => "map_del",
            Self::MapReplace { .. } => "map_replace",
            Self::CertNew { .. } => "cert_new",
            Self::CertSet { .. } => "cert_set",
            Self::CertDel { .. } => "cert_del",
            Self::CaSet { .. } => "ca_set",
            Self::CrlSet { .. } => "crl_set",
            Self::CrtListAdd { .. } => "crt_list_add",
            Self::CrtListDel { .. } => "crt_list_del",
        }
    }
}

// === impl ServerState ===

impl fmt::Display for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::Drain => "drain",
            Self::Maint => "maint",
        })
    }
}

#[cfg(test)]
mod tests;
