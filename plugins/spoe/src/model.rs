//! What an SPOE configuration declares, with the place of everything that may have to be named.

use std::collections::{HashMap, HashSet};

use haptic_plugin_sdk::{File, Position};
use parts::Words;

/// A place in the file that is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    line: u32,
    column: u32,
}

/// A word and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) place: Place,
}

/// Names in their order, each once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    list: Vec<Name>,
    lines: HashMap<String, u32>,
}

/// All scopes of a file. The first has no name and may be empty.
pub(crate) struct Scopes {
    pub(crate) list: Vec<Scope>,
    index: HashMap<String, usize>,
}

/// What one engine is made of: everything below a `[name]` line, or what stands before the first of them.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// `None` = no engine name.
    pub(crate) name: Option<Name>,
    pub(crate) agent: Option<Agent>,
    pub(crate) groups: Vec<Group>,
    pub(crate) group_names: Names,
    pub(crate) messages: Vec<Message>,
    pub(crate) message_names: Names,
}

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) name: Name,
    pub(crate) messages: Names,
    pub(crate) groups: Names,
    pub(crate) backend: Option<Name>,
    pub(crate) prefix: Option<Name>,
    /// The timeouts that are set to more than nothing.
    pub(crate) timeouts: Vec<&'static str>,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: Name,
    pub(crate) messages: Names,
}

#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) name: Name,
    /// The fetch of each argument, e.g. `req.hdr`.
    pub(crate) fetches: Vec<Name>,
    pub(crate) argument_names: Names,
    pub(crate) event: Option<(Event, Place)>,
    pub(crate) acls: Names,
    /// ACLs that its condition names.
    pub(crate) used_acls: HashSet<String>,
}

/// When a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    ClientSession,
    ServerSession,
    FrontendTcpRequest,
    BackendTcpRequest,
    FrontendHttpRequest,
    BackendHttpRequest,
    TcpResponse,
    HttpResponse,
}

// === impl Place ===

impl Place {
    pub(crate) fn of(words: &Words, index: usize) -> Self {
        Self { line: words.line(), column: words.column(index) }
    }

    pub(crate) fn plus(self, bytes: usize) -> Self {
        Self { line: self.line, column: self.column + u32::try_from(bytes).unwrap_or(0) }
    }

    pub(crate) fn line(self) -> u32 {
        self.line
    }

    pub(crate) fn in_file(self, file: &File) -> Position {
        Position::at(file.path(), self.line, self.column)
    }
}

// === impl Name ===

impl Name {
    pub(crate) fn of(words: &Words, index: usize) -> Self {
        Self { text: words.text(index), place: Place::of(words, index) }
    }
}

// === impl Names ===

impl Names {
    /// Adds a name; one that is there already stays where it was.
    pub(crate) fn add(&mut self, name: Name) {
        if !self.contains(&name.text) {
            self.lines.insert(name.text.clone(), name.place.line());
            self.list.push(name);
        }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.lines.contains_key(name)
    }

    pub(crate) fn line_of(&self, name: &str) -> Option<u32> {
        self.lines.get(name).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.list.iter()
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|name| name.text.as_str())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

// === impl Scopes ===

impl Default for Scopes {
    fn default() -> Self {
        Self { list: vec![Scope::default()], index: HashMap::new() }
    }
}

impl Scopes {
    /// Where the scope of this name is; it begins here if there is none yet.
    pub(crate) fn named(&mut self, name: Name) -> usize {
        if let Some(index) = self.index.get(&name.text) {
            return *index;
        }
        self.index.insert(name.text.clone(), self.list.len());
        self.list.push(Scope { name: Some(name), ..Scope::default() });
        self.list.len() - 1
    }
}

// === impl Agent ===

impl Agent {
    pub(crate) fn new(name: Name) -> Self {
        Self {
            name,
            messages: Names::default(),
            groups: Names::default(),
            backend: None,
            prefix: None,
            timeouts: Vec::new(),
        }
    }
}

// === impl Message ===

impl Message {
    pub(crate) fn new(name: Name) -> Self {
        Self {
            name,
            fetches: Vec::new(),
            argument_names: Names::default(),
            event: None,
            acls: Names::default(),
            used_acls: HashSet::new(),
        }
    }
}

// === impl Event ===

impl Event {
    pub(crate) const ALL: [(&'static str, Self); 8] = [
        ("on-client-session", Self::ClientSession),
        ("on-server-session", Self::ServerSession),
        ("on-frontend-tcp-request", Self::FrontendTcpRequest),
        ("on-backend-tcp-request", Self::BackendTcpRequest),
        ("on-frontend-http-request", Self::FrontendHttpRequest),
        ("on-backend-http-request", Self::BackendHttpRequest),
        ("on-tcp-response", Self::TcpResponse),
        ("on-http-response", Self::HttpResponse),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, event)| *event)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, event)| *event == self).map_or("", |(name, _)| name)
    }
}
