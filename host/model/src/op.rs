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
