//! Checks map files and lists of patterns, as `map_…(FILE)` and `-f FILE` load them.
//!
//! HAProxy refuses a pattern that it cannot parse. It says nothing about an entry that can never be found, because an
//! earlier one is found first, and nothing about a line that it reads otherwise than a person does.
#![forbid(unsafe_code)]

mod addresses;
mod config;
mod duplicates;
mod entries;
mod numbers;
mod patterns;
mod shadows;
mod usage;
mod values;

use haptic_plugin_sdk::{AuxiliaryFile, AuxiliaryFileValidator, File, PluginError, Position, Report};
use parts::Findings;

use crate::{
    config::{Config, Kind, Match, Severity, Use},
    entries::{Entries, Entry},
};

/// The validator.
pub struct Maps {
    config: Config,
}

/// What the checks of one use of a file share.
pub(crate) struct Check<'a> {
    pub(crate) file: &'a File,
    pub(crate) entries: &'a Entries<'a>,
    pub(crate) usage: Use,
    pub(crate) config: &'a Config,
    pub(crate) findings: &'a mut Findings,
}

impl AuxiliaryFileValidator for Maps {
    type Config = Config;

    fn new(config: Config) -> Result<Self, String> {
        config.check()?;
        Ok(Self { config })
    }

    fn validate(&self, request: &AuxiliaryFile) -> Result<Report, PluginError> {
        let file = &request.file;
        let mut findings = Findings::default();
        if u32::try_from(file.size()).is_err() {
            return Err(PluginError::new(format!("{} is larger than 4 GiB; leave it out of `files`", file.path())));
        }
        let content = file.read_all();
        for (index, usage) in self.uses(file, &request.data_files).into_iter().enumerate() {
            // What is wrong with a line in itself is told once, however many use the file.
            let mut told = Findings::default();
            let lines = if index == 0 { &mut findings } else { &mut told };
            let entries = Entries::read(file, &content, usage.kind, &self.config, lines);
            Check { file, entries: &entries, usage, config: &self.config, findings: &mut findings }.run();
        }
        Ok(findings.finish(|| file.whole()))
    }
}

impl Maps {
    /// How the file is used: as the config says, or else as `haproxy.cfg` says, or else as its name tells.
    fn uses(&self, file: &File, data_files: &[File]) -> Vec<Use> {
        if let Some(usage) = self.config.of(file.path()) {
            return vec![usage];
        }
        let found = usage::uses(file.path(), data_files);
        if found.is_empty() { vec![Use::by_name(file.path())] } else { found }
    }
}

// === impl Check ===

impl Check<'_> {
    fn run(mut self) {
        match self.usage.matching {
            Some(Match::Ip) => addresses::check(&mut self),
            Some(Match::Int | Match::Len) => numbers::check(&mut self),
            Some(Match::Bool) => {}
            Some(matching) => {
                patterns::check(&mut self, matching);
                duplicates::check(&mut self);
                shadows::check(&mut self, matching);
            }
            None => duplicates::check(&mut self),
        }
        if self.usage.kind == Kind::Map {
            values::check(&mut self);
        }
        if self.usage.sorted {
            self.sorted();
        }
    }

    pub(crate) fn key_place(&self, entry: Entry) -> Position {
        Position::at(self.file.path(), entry.line(), self.entries.column(entry))
    }

    /// The key, as words of a message.
    pub(crate) fn key_text(&self, entry: Entry) -> String {
        let key = self.entries.key(entry);
        let text = String::from_utf8_lossy(&key[..key.len().min(200)]).into_owned();
        if key.len() > 200 { text + "…" } else { text }
    }

    pub(crate) fn error(&mut self, entry: Entry, message: impl Into<String>) {
        self.findings.error(self.key_place(entry), message);
    }

    pub(crate) fn warn(&mut self, entry: Entry, message: impl Into<String>) {
        self.findings.warn(self.key_place(entry), message);
    }

    /// Adds a finding as severe as the config says.
    pub(crate) fn tell(&mut self, severity: Severity, entry: Entry, message: impl FnOnce(&Self) -> String) {
        match severity {
            Severity::Ignore => {}
            Severity::Warning => self.warn(entry, message(self)),
            Severity::Error => self.error(entry, message(self)),
        }
    }

    /// The entry `never` is not found because `first` is found before.
    pub(crate) fn unreachable(&mut self, never: Entry, first: Entry, why: &str) {
        self.tell(self.config.unreachable, never, |check| {
            let (key, line, other) = (check.key_text(never), first.line(), check.key_text(first));
            format!("`{key}` is never found: `{other}` in line {line} {why}; remove one, or move this one up")
        });
    }

    fn sorted(&mut self) {
        let pairs = self.entries.list().windows(2);
        let unsorted = |pair: &&[Entry]| self.entries.key(pair[0]) > self.entries.key(pair[1]);
        let Some(pair) = pairs.into_iter().find(unsorted) else { return };
        let (before, line) = (self.key_text(pair[0]), pair[0].line());
        let message =
            format!("the file is not sorted from here on: `{before}` stands in line {line}; sort it by bytes");
        self.warn(pair[1], message);
    }
}

haptic_plugin_sdk::export! { auxiliary_file: Maps }

#[cfg(test)]
mod tests;
