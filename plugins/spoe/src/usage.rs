//! What `haproxy.cfg` says about the file, where it is among the data files.

use std::collections::{HashMap, HashSet};

use haptic_plugin_sdk::{File, Lines};
use parts::{Findings, First, Words, first};

use crate::{
    model::{Name, Scope},
    parse::meant,
};

/// Where the configuration stands among the rendered files.
const CONFIG: &str = "haproxy.cfg";

/// A `filter spoe` line that loads the file.
struct Filter {
    engine: Option<String>,
    line: u32,
}

/// What `haproxy.cfg` says that matters here.
#[derive(Default)]
struct Usage {
    filters: Vec<Filter>,
    /// Each backend with its mode, if it says one.
    backends: HashMap<String, Option<String>>,
}

/// The modes that `defaults` sections give.
#[derive(Default)]
struct Defaults {
    /// Of each section with a name.
    named: HashMap<String, Option<String>>,
    /// Of the last section: for all that name none.
    last: Option<String>,
}

/// The section that a line of `haproxy.cfg` stands in.
enum Section {
    /// With its name; empty if it has none.
    Defaults(String),
    Backend(String),
    Other,
}

/// Holds the scopes against `haproxy.cfg`, and the backends against those that the plugin's config lists.
pub(crate) fn check(file: &File, data_files: &[File], scopes: &[Scope], listed: &[String], report: &mut Findings) {
    let usage = data_files.iter().find(|data| data.path() == CONFIG).map(|config| Usage::of(config, file.path()));
    for agent in scopes.iter().filter_map(|scope| scope.agent.as_ref()) {
        let Some(backend) = &agent.backend else { continue };
        let (name, position) = (&backend.text, backend.place.in_file(file));
        let known = match (&usage, listed) {
            (_, [_, ..]) => listed.contains(name),
            (Some(usage), []) => usage.backends.contains_key(name),
            (None, []) => continue,
        };
        if !known {
            let meant = match &usage {
                _ if report.is_full() => String::new(),
                Some(usage) if listed.is_empty() => meant(report, name, usage.sorted_backends()),
                _ => meant(report, name, listed.iter().map(String::as_str)),
            };
            report.error(
                position,
                format!("no backend is named `{name}`; declare it in {CONFIG}, or name another{meant}"),
            );
        } else if let Some(Some(mode)) = usage.as_ref().and_then(|usage| usage.backends.get(name))
            && mode != "tcp"
            && mode != "spop"
        {
            let advice = "agents do not speak it, so write `mode tcp` (`mode spop` from HAProxy 3.1 on) there";
            report.error(position, format!("the backend `{name}` has `mode {mode}` and {advice}"));
        }
    }
    if let Some(usage) = usage {
        usage.engines(file, scopes, report);
    }
}

// === impl Usage ===

impl Usage {
    /// Reads `config`, in which the file may be named with any path before its own.
    fn of(config: &File, path: &str) -> Self {
        let mut usage = Self::default();
        let mut defaults = Defaults::default();
        let mut section = Section::Other;
        let mut words = Words::default();
        let mut lines = Lines::of(config);
        while let Some(line) = lines.next_line() {
            match first(line.text) {
                First::Nothing => continue,
                First::Plain(word) if !is_about(word) => continue,
                First::Plain(_) | First::Quoted => words.split(line.number, line.text),
            }
            match words.get(0) {
                Some(b"backend" | b"listen") => {
                    let name = words.text(1);
                    usage.backends.insert(name.clone(), defaults.of(&words));
                    section = Section::Backend(name);
                }
                Some(b"defaults") => section = Section::Defaults(defaults.begin(&words)),
                Some(b"frontend" | b"global") => section = Section::Other,
                Some(b"mode") => match &section {
                    Section::Defaults(name) => defaults.set(name, words.text(1)),
                    Section::Backend(name) => drop(usage.backends.insert(name.clone(), Some(words.text(1)))),
                    Section::Other => {}
                },
                Some(b"filter") => usage.filters.extend(Filter::of(&words, path)),
                _ => {}
            }
        }
        usage
    }

    fn sorted_backends(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.backends.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// HAProxy skips every scope but the filter's own, and then says that there is no agent.
    fn engines(&self, file: &File, scopes: &[Scope], report: &mut Findings) {
        if self.filters.is_empty() {
            let path = file.path();
            report.warn(
                file.whole(),
                format!("no `filter spoe` in {CONFIG} loads this file; add `filter spoe engine NAME config {path}`"),
            );
            return;
        }
        let names: Vec<&str> = scopes.iter().filter_map(|scope| scope.name.as_ref()).map(|n| n.text.as_str()).collect();
        let known: HashSet<&str> = names.iter().copied().collect();
        for Filter { engine, line } in &self.filters {
            match engine {
                Some(engine) if !known.contains(engine.as_str()) => {
                    let meant = meant(report, engine, names.iter().copied());
                    report.error(
                        file.whole(),
                        format!(
                            "line {line} of {CONFIG} loads the engine `{engine}`, which is not here; write its parts \
                             below a line `[{engine}]`{meant}"
                        ),
                    );
                }
                None if !names.is_empty() => report.error(
                    file.whole(),
                    format!(
                        "line {line} of {CONFIG} loads this file without `engine`, so that all below `[{0}]` is skipped; \
                         write `engine {0}` there",
                        names[0]
                    ),
                ),
                _ => {}
            }
        }
        let used: HashSet<Option<&str>> = self.filters.iter().map(|filter| filter.engine.as_deref()).collect();
        let unused = |name: &&Name| !used.contains(&None) && !used.contains(&Some(name.text.as_str()));
        for name in scopes.iter().filter_map(|scope| scope.name.as_ref()).filter(unused) {
            let text = &name.text;
            report.warn(
                name.place.in_file(file),
                format!(
                    "no `filter spoe` in {CONFIG} loads the engine `{text}`; add one with `engine {text}`, or remove it"
                ),
            );
        }
    }
}

// === impl Defaults ===

impl Defaults {
    /// The mode that the proxy which `words` begin takes over.
    fn of(&self, words: &Words) -> Option<String> {
        match words.get(2) {
            Some(b"from") => self.named.get(&words.text(3)).cloned().flatten(),
            _ => self.last.clone(),
        }
    }

    /// Begins the section that `words` begin, and returns its name. It takes nothing over but what it names: its line is
    /// `defaults`, `defaults NAME`, `defaults from OTHER` or `defaults NAME from OTHER`.
    fn begin(&mut self, words: &Words) -> String {
        let from = (1..=2).find(|at| words.get(*at) == Some(b"from"));
        let name = if from == Some(1) { String::new() } else { words.text(1) };
        self.last = from.and_then(|at| self.named.get(&words.text(at + 1)).cloned().flatten());
        self.named.insert(name.clone(), self.last.clone());
        name
    }

    fn set(&mut self, name: &str, mode: String) {
        self.named.insert(name.to_owned(), Some(mode.clone()));
        self.last = Some(mode);
    }
}

// === impl Filter ===

impl Filter {
    fn of(words: &Words, path: &str) -> Option<Self> {
        if words.get(1) != Some(b"spoe") {
            return None;
        }
        let value = |keyword: &str| {
            let at = (2..words.len()).step_by(2).find(|at| words.get(*at) == Some(keyword.as_bytes()))?;
            Some(words.text(at + 1))
        };
        let config = value("config")?;
        let before = config.strip_suffix(path)?;
        (before.is_empty() || before.ends_with('/')).then(|| Self { engine: value("engine"), line: words.line() })
    }
}

/// Whether a line that begins with `word` may be of interest.
fn is_about(word: &[u8]) -> bool {
    matches!(word, b"backend" | b"defaults" | b"filter" | b"frontend" | b"global" | b"listen" | b"mode")
}
