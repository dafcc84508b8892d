//! HAProxy's words as messages with a place, and without what must not leave the jail.

use std::{collections::BTreeSet, path::Path};

use haptic_model::{FileKind, FileSet};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckMessage {
    pub severity: CheckSeverity,
    /// The file of the set that is meant, if HAProxy names one.
    pub file: Option<String>,
    /// 1-based, 0 = unknown.
    pub line: u32,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckSeverity {
    Notice,
    Warning,
    Error,
}

/// What must not be seen.
pub(super) struct Redaction<'a> {
    /// The directory of the check.
    pub(super) tree: &'a Path,
    pub(super) files: &'a FileSet,
    /// Nothing outside of the set could be read, so nothing outside of it can be quoted.
    pub(super) confined: bool,
}

/// Shorter words say nothing about a key.
const SECRET_BYTES: usize = 16;

const WITHHELD: &str =
    "HAProxy refused this; its words are withheld, because this kernel could not keep it from reading other files";

pub(super) fn messages(output: &[u8], redaction: &Redaction<'_>) -> Vec<CheckMessage> {
    let output = String::from_utf8_lossy(output);
    let mut messages: Vec<CheckMessage> = Vec::new();
    for line in output.lines() {
        match message(line) {
            Some(message) => messages.push(message),
            // What follows belongs to the message above, e.g. a quoted line with a mark below the mistake.
            None => match messages.last_mut() {
                Some(last) if line.starts_with(char::is_whitespace) && !line.trim().is_empty() => {
                    last.text.push('\n');
                    last.text.push_str(line.trim_end());
                }
                _ => messages.extend(bare(line)),
            },
        }
    }
    messages.retain(|message| !is_noise(message));
    let tells = |message: &CheckMessage| message.severity == CheckSeverity::Error && !is_summary(&message.text);
    if messages.iter().any(tells) {
        messages.retain(|message| !is_summary(&message.text));
    }
    redaction.apply(&mut messages);
    messages
}

/// `[ALERT]    (4711) : config : parsing [./haproxy.cfg:12] : unknown keyword …`; the word `config :` is not always
/// there (haproxy-facts §2).
fn message(line: &str) -> Option<CheckMessage> {
    let (level, rest) = line.strip_prefix('[')?.split_once(']')?;
    let severity = match level {
        "ALERT" | "EMERG" | "CRIT" | "ERR" => CheckSeverity::Error,
        "WARNING" => CheckSeverity::Warning,
        "NOTICE" | "INFO" | "DEBUG" | "DIAG" => CheckSeverity::Notice,
        _ => return None,
    };
    let (_, text) = rest.split_once(" : ")?;
    let text = text.strip_prefix("config : ").unwrap_or(text);
    let Some((file, line, text)) = place(text) else {
        return Some(CheckMessage { severity, file: None, line: 0, text: text.to_owned() });
    };
    Some(CheckMessage { severity, file: Some(file.to_owned()), line, text })
}

/// Takes the first `[FILE:LINE]` out of the text.
fn place(text: &str) -> Option<(&str, u32, String)> {
    let mut from = 0;
    while let Some(open) = text[from..].find('[').map(|at| from + at) {
        let close = open + text[open..].find(']')?;
        if let Some((file, line)) = text[open + 1..close].rsplit_once(':')
            && let Ok(line) = line.parse()
        {
            let before = text[..open].trim_end();
            let before = before.strip_suffix("parsing").unwrap_or(before).trim_end();
            let after = text[close + 1..].trim_start_matches([' ', ':']);
            let joined = if before.is_empty() { after.to_owned() } else { format!("{before} {after}") };
            return Some((file.strip_prefix("./").unwrap_or(file), line, joined));
        }
        from = open + 1;
    }
    None
}

/// Lines without a level: a verdict that stands alone, or the words of a library.
fn bare(line: &str) -> Option<CheckMessage> {
    let text = line.trim();
    let silent = ["", "Warnings were found.", "Configuration file is valid"];
    let message = CheckMessage { severity: CheckSeverity::Notice, file: None, line: 0, text: text.to_owned() };
    if silent.contains(&text) {
        None
    } else if text.starts_with("Configuration file has no error but will not start") {
        Some(CheckMessage { severity: CheckSeverity::Error, ..message })
    } else {
        Some(message)
    }
}

fn is_noise(message: &CheckMessage) -> bool {
    let start = ["haproxy version is ", "path to executable is "];
    message.severity == CheckSeverity::Notice && start.iter().any(|start| message.text.starts_with(start))
}

fn is_summary(text: &str) -> bool {
    text.starts_with("Error(s) found in configuration file") || text.starts_with("Fatal errors found in configuration")
}

// === impl Redaction ===

impl Redaction<'_> {
    fn apply(&self, messages: &mut [CheckMessage]) {
        if messages.is_empty() {
            return;
        }
        let tree = format!("{}/", self.tree.display());
        let secrets = self.secret_lines();
        for message in messages {
            if !self.confined {
                WITHHELD.clone_into(&mut message.text);
                continue;
            }
            message.text = message.text.replace(&tree, "").replace("./haproxy.cfg", "haproxy.cfg");
            if let Some(file) = &mut message.file {
                *file = file.replace(&tree, "");
            }
            let separators = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`' | '<' | '>' | '(' | ')' | ',');
            let quoted: BTreeSet<String> = message
                .text
                .split(separators)
                .map(|word| word.trim_end_matches(['.', ':', '…']))
                .filter(|word| word.len() >= SECRET_BYTES && starts_any(&secrets, word))
                .map(str::to_owned)
                .collect();
            for word in quoted {
                message.text = message.text.replace(&word, "(withheld)");
            }
        }
    }

    /// A map or an ACL that is pointed to a certificate file makes HAProxy quote lines of a private key.
    fn secret_lines(&self) -> BTreeSet<&str> {
        self.files
            .values()
            .filter(|file| file.kind == FileKind::Cert)
            .filter_map(|file| std::str::from_utf8(&file.content).ok())
            .flat_map(str::lines)
            .filter(|line| line.len() >= SECRET_BYTES && !line.starts_with("-----"))
            .collect()
    }
}

fn starts_any(lines: &BTreeSet<&str>, word: &str) -> bool {
    lines.range(word..).next().is_some_and(|line| line.starts_with(word))
}
