//! From a line of the configuration, or a text in it, to who wrote it.

use haptic_model::{CONFIG_PATH, File, FileKind, FilePath, PlanId};
use serde::Serialize;

use crate::{
    explain::{Author, Explained},
    redact::{has_private_key, redacted},
};

/// Most lines that one answer shows; all are counted.
pub const MATCHES: usize = 25;
/// Bytes of a line that are shown.
const SHOWN: usize = 400;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineAnswer {
    pub query: String,
    /// The render that the answer is about.
    pub plan: PlanId,
    /// In the order of files and lines; at most [`MATCHES`].
    pub matches: Vec<LineMatch>,
    pub total: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LineMatch {
    pub file: FilePath,
    /// 1-based.
    pub line: u32,
    /// With `***` in place of passwords.
    pub text: String,
    /// The line above it that is not indented, e.g. `backend web`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    #[serde(flatten)]
    pub author: Author,
}

// === impl Explained ===

impl Explained<'_> {
    /// `query` is a line number of haproxy.cfg, `FILE:LINE` of another file of the set, or a text that stands in lines of
    /// the configuration, a map or a crt-list, in capitals or not.
    pub fn lines(&self, query: &str) -> LineAnswer {
        let query = query.trim();
        let mut answer =
            LineAnswer { query: query.to_owned(), plan: self.rendered.plan.id, matches: Vec::new(), total: 0 };
        if query.is_empty() {
            return answer;
        }
        if let Some((file, line)) = self.numbered(query)
            && let Some(found) = self.line(file, line)
        {
            (answer.matches, answer.total) = (vec![found], 1);
            return answer;
        }
        let needle = query.to_ascii_lowercase();
        let others = self.rendered.files.values().filter(|file| file.path.as_str() != CONFIG_PATH);
        let files = self.rendered.files.get(CONFIG_PATH).into_iter().chain(others);
        for file in files.filter(|file| is_searched(file)) {
            self.search(file, &needle, &mut answer);
        }
        answer
    }

    fn numbered<'q>(&self, query: &'q str) -> Option<(&'q str, u32)> {
        if let Ok(line) = query.parse() {
            return Some((CONFIG_PATH, line));
        }
        let (file, line) = query.rsplit_once(':')?;
        // An address with a port looks the same.
        self.rendered.files.get(file).and_then(|_| Some((file, line.parse().ok()?)))
    }

    fn line(&self, file: &str, line: u32) -> Option<LineMatch> {
        let file = self.rendered.files.get(file).filter(|file| is_searched(file))?;
        let content = String::from_utf8_lossy(&file.content);
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let mut section = None;
        for (number, text) in content.lines().enumerate().take(index + 1) {
            if number == index {
                return Some(self.found(file, line, &shown(file, text), section));
            }
            note_section(file, text, &mut section);
        }
        None
    }

    fn search(&self, file: &File, needle: &str, answer: &mut LineAnswer) {
        let content = String::from_utf8_lossy(&file.content);
        let mut section = None;
        for (line, text) in (1..).zip(content.lines()) {
            // What is masked is never found, or each letter of it could be asked for.
            if has(text, needle) {
                let text = shown(file, text);
                if has(&text, needle) {
                    answer.total += 1;
                    if answer.matches.len() < MATCHES {
                        answer.matches.push(self.found(file, line, &text, section));
                    }
                }
            }
            note_section(file, text, &mut section);
        }
    }

    fn found(&self, file: &File, line: u32, text: &str, section: Option<&str>) -> LineMatch {
        let call = call_of(file, text);
        LineMatch {
            file: file.path.clone(),
            line,
            text: cut(text.trim()),
            section: section.map(|section| cut(shown(file, section).trim())),
            author: self.author(file.path.as_str(), line, text, call.as_deref()),
        }
    }
}

/// Certificates hold keys, and of a general file it is not known what it holds.
fn is_searched(file: &File) -> bool {
    let known = matches!(file.kind, FileKind::Config | FileKind::Map | FileKind::CrtList);
    known && str::from_utf8(&file.content).is_ok_and(|text| !has_private_key(text))
}

fn shown(file: &File, text: &str) -> String {
    if file.kind == FileKind::Config { redacted(text).into_owned() } else { text.to_owned() }
}

fn has(text: &str, needle: &str) -> bool {
    text.to_ascii_lowercase().contains(needle)
}

fn note_section<'t>(file: &File, text: &'t str, section: &mut Option<&'t str>) {
    let begins = file.kind == FileKind::Config && text.starts_with(|first: char| first.is_ascii_alphabetic());
    if begins {
        *section = Some(text);
    }
}

/// The call in a template that writes whole lines of this kind.
pub(super) fn call_of(file: &File, text: &str) -> Option<String> {
    let path = file.path.as_str();
    let name = path.rsplit('/').next().unwrap_or(path);
    match file.kind {
        FileKind::Map => Some(format!("map_entry(\"{name}\"")),
        FileKind::CrtList => Some("crt_list_entry(".to_owned()),
        FileKind::Config => {
            let function = match text.split_whitespace().next()? {
                "server" => "server(",
                "backend" => "call backend(",
                "bind" => "bind(",
                "defaults" => "call profile(",
                _ => return None,
            };
            Some(function.to_owned())
        }
        _ => None,
    }
}

fn cut(text: &str) -> String {
    let end = text.floor_char_boundary(SHOWN);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}
