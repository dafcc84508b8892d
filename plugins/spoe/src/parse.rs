//! From lines to scopes. What is wrong with a line by itself is reported here.

use haptic_plugin_sdk::{File, Lines};
use parts::{Findings, Words};

use crate::{
    Rules, agent, message,
    model::{Agent, Group, Message, Name, Names, Place, Scope, Scopes},
};

const SECTIONS: [&str; 3] = ["spoe-agent", "spoe-group", "spoe-message"];

/// Names that are looked at for one that was meant.
const MOST_LOOKED_AT: usize = 200;

/// The line that is being read.
pub(crate) struct Line<'a> {
    pub(crate) words: &'a Words,
    /// Whether `no` stood before the first word, which is then word 1.
    pub(crate) negated: bool,
    pub(crate) file: &'a File,
    pub(crate) rules: &'a Rules,
    pub(crate) report: &'a mut Findings,
}

/// What the next line belongs to.
enum Section {
    None,
    /// One whose first line is wrong: its lines are not looked at.
    Skipped,
    Agent,
    Group(usize),
    Message(usize),
}

/// All scopes of the file, in order. The first has no name and may be empty.
pub(crate) fn scopes(file: &File, rules: &Rules, report: &mut Findings) -> Vec<Scope> {
    let mut scopes = Scopes::default();
    let mut scope = 0;
    let mut section = Section::None;
    let mut words = Words::default();
    let mut lines = Lines::of(file);
    while let Some(text) = lines.next_line() {
        words.split(text.number, text.text);
        let Some(first) = words.get(0) else { continue };
        let negated = first == b"no" && words.len() > 1;
        let is_scope = first.first() == Some(&b'[');
        let mut line = Line { words: &words, negated, file, rules, report };
        if is_scope {
            scope = line.scope(&mut scopes);
            section = Section::None;
            continue;
        }
        let scope = &mut scopes.list[scope];
        if SECTIONS.iter().any(|name| name.as_bytes() == first) {
            section = line.section(scope);
            continue;
        }
        match section {
            Section::None => line.outside(),
            Section::Skipped => {}
            Section::Agent => {
                if let Some(agent) = &mut scope.agent {
                    agent::line(&mut line, agent);
                }
            }
            Section::Group(index) => line.group(&mut scope.groups[index]),
            Section::Message(index) => message::line(&mut line, &mut scope.messages[index]),
        }
    }
    scopes.list
}

/// The known word that was most likely meant, as words for the end of an error; empty where none is near, and where
/// another error would only be counted: the search is costly.
pub(crate) fn meant<'a>(report: &Findings, word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    if report.is_full() {
        return String::new();
    }
    let near = |known: &&str| known.len().abs_diff(word.len()) <= 2 && word.len() <= 40 && distance(word, known) <= 2;
    let nearest = known.into_iter().take(MOST_LOOKED_AT).filter(near).min_by_key(|known| distance(word, known));
    nearest.map(|known| format!("; did you mean `{known}`?")).unwrap_or_default()
}

/// How many letters must be added, removed or changed.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let change = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The first character that HAProxy does not take in a name.
pub(crate) fn bad_in_name(name: &str) -> Option<char> {
    name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.' | ':'))
}

// === impl Line ===

impl Line<'_> {
    /// Reports an error at the word at `index`.
    pub(crate) fn error(&mut self, index: usize, message: impl Into<String>) {
        self.report.error(self.words.position(index, self.file), message);
    }

    pub(crate) fn warn(&mut self, index: usize, message: impl Into<String>) {
        self.report.warn(self.words.position(index, self.file), message);
    }

    pub(crate) fn error_at(&mut self, place: Place, message: impl Into<String>) {
        self.report.error(place.in_file(self.file), message);
    }

    pub(crate) fn warn_at(&mut self, place: Place, message: impl Into<String>) {
        self.report.warn(place.in_file(self.file), message);
    }

    /// Begins or continues the scope that the line names.
    fn scope(&mut self, scopes: &mut Scopes) -> usize {
        let text = self.words.text(0);
        let name = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or_default();
        if name.is_empty() || self.words.len() > 1 {
            self.error(0, "write the engine's name alone on its line and in brackets, e.g. `[waf]`");
        } else if let Some(bad) = bad_in_name(name) {
            self.error(
                0,
                format!("`{bad}` may not stand in an engine's name; use letters, digits, `_`, `-`, `.`, `:`"),
            );
        }
        scopes.named(Name { text: name.to_owned(), place: Place::of(self.words, 0) })
    }

    fn section(&mut self, scope: &mut Scope) -> Section {
        let kind = self.words.text(0);
        if self.words.len() < 2 {
            self.error(0, format!("give the section a name: `{kind} NAME`"));
            return Section::Skipped;
        }
        let name = Name::of(self.words, 1);
        if let Some(bad) = bad_in_name(&name.text) {
            self.error(1, format!("`{bad}` may not stand in a name; use letters, digits, `_`, `-`, `.`, `:`"));
        }
        if self.words.len() > 2 {
            self.error(2, format!("nothing may follow the name of `{kind}`; remove it or move it to a line below"));
        }
        let earlier = match kind.as_str() {
            "spoe-agent" => scope.agent.as_ref().map(|agent| agent.name.place.line()),
            "spoe-group" => scope.group_names.line_of(&name.text),
            _ => scope.message_names.line_of(&name.text),
        };
        if let Some(earlier) = earlier {
            let message = match kind.as_str() {
                "spoe-agent" => format!(
                    "an engine has one agent and line {earlier} declares it; remove one, or begin another engine with a \
                     line `[name]`"
                ),
                _ => format!("`{kind} {}` stands already in line {earlier}; remove or rename one of them", name.text),
            };
            self.error(1, message);
            return Section::Skipped;
        }
        match kind.as_str() {
            "spoe-agent" => {
                scope.agent = Some(Agent::new(name));
                Section::Agent
            }
            "spoe-group" => {
                scope.group_names.add(name.clone());
                scope.groups.push(Group { name, messages: Names::default() });
                Section::Group(scope.groups.len() - 1)
            }
            _ => {
                scope.message_names.add(name.clone());
                scope.messages.push(Message::new(name));
                Section::Message(scope.messages.len() - 1)
            }
        }
    }

    fn outside(&mut self) {
        let word = self.words.text(0);
        let meant = meant(self.report, &word, SECTIONS);
        self.error(
            0,
            format!(
                "`{word}` stands in no section; begin one with `spoe-agent`, `spoe-group` or `spoe-message`{meant}"
            ),
        );
    }

    fn group(&mut self, group: &mut Group) {
        let word = self.words.text(0);
        if word == "messages" {
            return self.names(&mut group.messages, "message");
        }
        let meant = meant(self.report, &word, ["messages"].into_iter().chain(SECTIONS));
        self.error(0, format!("`{word}` is no keyword of `spoe-group`; it takes `messages` alone{meant}"));
    }

    /// Adds the words after the first to a list that may hold each only once.
    pub(crate) fn names(&mut self, list: &mut Names, what: &str) {
        if self.words.len() < 2 {
            self.warn(0, format!("no {what} is named here; name one or remove the line"));
        }
        for index in 1..self.words.len() {
            let name = Name::of(self.words, index);
            match list.line_of(&name.text) {
                Some(line) => {
                    self.error(index, format!("`{}` is already named in line {line}; name it once", name.text));
                }
                None => list.add(name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use haptic_plugin_sdk::Position;

    use super::*;

    #[test]
    fn nothing_is_meant_where_errors_are_only_counted() {
        let mut report = Findings::default();
        assert_eq!(meant(&report, "mesages", ["groups", "messages"]), "; did you mean `messages`?");
        while !report.is_full() {
            report.error(Position::whole("f"), "wrong");
        }
        assert_eq!(meant(&report, "mesages", ["groups", "messages"]), "");
    }
}
