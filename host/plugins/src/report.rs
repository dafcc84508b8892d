//! What a report must be before anyone believes it.

use std::collections::BTreeMap;

use bytes::Bytes;
use haptic_model::ports::Diagnostic;

use crate::v1::types::{Finding, Report, Verdict};

/// A report that holds what its contract says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Believed {
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) errors: Vec<Diagnostic>,
}

/// Proves a report against the files of its request: the verdict follows from the lists, every path was in the
/// request, every position is in its file, every message says something. The error says which rule was broken.
pub(crate) fn believe(report: Report, files: &BTreeMap<&str, &Bytes>) -> Result<Believed, String> {
    let due = match (report.errors.as_slice(), report.warnings.as_slice()) {
        ([], []) => Verdict::Valid,
        ([], _) => Verdict::Warning,
        _ => Verdict::Error,
    };
    if report.verdict != due {
        return Err(format!(
            "the verdict `{}` contradicts {} errors and {} warnings, which make `{}`",
            name(report.verdict),
            report.errors.len(),
            report.warnings.len(),
            name(due),
        ));
    }
    let mut lines = LineIndex { files, starts: BTreeMap::new() };
    Ok(Believed { warnings: lines.prove(report.warnings)?, errors: lines.prove(report.errors)? })
}

/// Text of a plugin, fit for one line of a log, a status or a terminal: control characters become spaces, and what is
/// longer than `max_bytes` is cut with `…`.
pub(crate) fn printable(text: &str, max_bytes: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max_bytes));
    for character in text.trim().chars() {
        if out.len() + character.len_utf8() > max_bytes {
            out.push('…');
            break;
        }
        out.push(if character.is_control() { ' ' } else { character });
    }
    out
}

/// Where lines start in the files that findings point into; each file is scanned at most once.
struct LineIndex<'a> {
    files: &'a BTreeMap<&'a str, &'a Bytes>,
    starts: BTreeMap<&'a str, Vec<usize>>,
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid => "valid",
        Verdict::Warning => "warning",
        Verdict::Error => "error",
    }
}

// === impl LineIndex ===

impl LineIndex<'_> {
    fn prove(&mut self, findings: Vec<Finding>) -> Result<Vec<Diagnostic>, String> {
        findings.into_iter().map(|finding| self.prove_one(finding)).collect()
    }

    fn prove_one(&mut self, finding: Finding) -> Result<Diagnostic, String> {
        let Finding { path, line, column, message } = finding;
        let Some((&path, content)) = self.files.get_key_value(path.as_str()) else {
            return Err(format!("a finding names `{}`, which was not in the request", printable(&path, 200)));
        };
        if message.trim().is_empty() {
            return Err(format!("a finding in `{path}` line {line} has no message"));
        }
        if line == 0 && column != 0 {
            return Err(format!("a finding in `{path}` has column {column} but no line"));
        }
        if line != 0 {
            let starts = self.starts.entry(path).or_insert_with(|| line_starts(content));
            let index = line as usize - 1;
            let Some(&start) = starts.get(index) else {
                return Err(format!("a finding names line {line} of `{path}`, which ends at line {}", starts.len()));
            };
            // Without its line feed; the last line has none.
            let end = starts.get(index + 1).map_or(content.len(), |next| next - 1);
            if column as usize > end - start + 1 {
                let length = end - start;
                return Err(format!(
                    "a finding names column {column} of `{path}` line {line}, which has {length} bytes"
                ));
            }
        }
        let message = printable(&message, usize::MAX);
        Ok(Diagnostic { path: path.to_owned(), line, column, message })
    }
}

fn line_starts(content: &[u8]) -> Vec<usize> {
    let feeds = content.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    std::iter::once(0).chain(feeds.map(|(index, _)| index + 1)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn check(verdict: Verdict, errors: &[(&str, u32, u32)]) -> Result<Believed, String> {
        let content = Bytes::from_static(b"one\ntwo\n");
        let files = BTreeMap::from([("a.map", &content)]);
        let errors = errors
            .iter()
            .map(|&(path, line, column)| Finding { path: path.to_owned(), line, column, message: "wrong".to_owned() })
            .collect();
        believe(Report { verdict, warnings: Vec::new(), errors }, &files)
    }

    #[test]
    fn refuses_a_verdict_that_contradicts_the_lists() {
        assert!(check(Verdict::Valid, &[("a.map", 1, 1)]).unwrap_err().contains("`valid` contradicts 1 errors"));
        assert!(check(Verdict::Error, &[]).unwrap_err().contains("which make `valid`"));
        assert!(check(Verdict::Warning, &[]).is_err());
    }

    #[test]
    fn believes_positions_up_to_one_past_the_end() {
        for (line, column) in [(0, 0), (1, 0), (1, 1), (1, 4), (2, 4), (3, 0), (3, 1)] {
            assert!(check(Verdict::Error, &[("a.map", line, column)]).is_ok(), "{line}:{column}");
        }
    }

    #[test]
    fn refuses_positions_outside_the_file() {
        for (line, column) in [(0, 1), (1, 5), (3, 2), (4, 0), (u32::MAX, u32::MAX)] {
            assert!(check(Verdict::Error, &[("a.map", line, column)]).is_err(), "{line}:{column}");
        }
    }

    #[test]
    fn refuses_a_path_that_was_not_in_the_request() {
        let refused = check(Verdict::Error, &[("b.map", 1, 1)]).unwrap_err();
        assert_eq!(refused, "a finding names `b.map`, which was not in the request");
    }

    #[test]
    fn plugin_text_cannot_break_a_line_or_drive_a_terminal() {
        assert_eq!(printable("a\nb\u{1b}[31m", 100), "a b [31m");
        assert_eq!(printable("ääää", 5), "ää…");
    }
}
