//! The text of `haproxy.cfg`: core, then profiles, then backends, each sorted by name.

use std::{collections::BTreeMap, sync::Arc};

use bytes::{Bytes, BytesMut};
use haptic_model::{CONFIG_PATH, Digest, Finding, FindingCode, Origin, SectionKind, SectionRecord, SourceSpan};

use super::{Backends, backend_section, profile_section, section};
use crate::{
    RenderError,
    compile::Compiled,
    locate,
    records::{ProfileSection, UnitOutput},
    session::Outcome,
    sink::MARK,
};

/// First words that begin a section (HAProxy 3.4). Only for indentation and for names of parts.
const SECTIONS: &[&str] = &[
    "acme",
    "backend",
    "cache",
    "crt-store",
    "defaults",
    "fcgi-app",
    "frontend",
    "global",
    "healthcheck",
    "http-errors",
    "listen",
    "log-forward",
    "log-profile",
    "mailers",
    "peers",
    "program",
    "resolvers",
    "ring",
    "traces",
    "userlist",
];

/// The core text with the marks taken out.
pub(super) struct Core {
    text: String,
    /// First line (1-based) and unit index.
    spans: Vec<(u32, Option<usize>)>,
}

/// Takes the marks out of the main template's text and checks what only the whole text shows.
pub(super) fn core(compiled: &Compiled, outcome: &Outcome) -> Result<Core, RenderError> {
    let mut core = Core { text: String::with_capacity(outcome.core.len()), spans: vec![(1, None)] };
    let mut rest = outcome.core.as_str();
    let mut line = 1;
    while let Some(start) = rest.find(MARK) {
        core.append(&rest[..start], &mut line);
        let after = &rest[start + 1..];
        let parts = after.split_once(MARK).and_then(|(index, rest)| Some((index.parse::<usize>().ok()?, rest)));
        let Some((index, unit_and_rest)) = parts else { break };
        let end = unit_and_rest.find([MARK, MARK]).unwrap_or(unit_and_rest.len());
        core.end_line(&mut line);
        core.spans.push((line, Some(index)));
        core.append(&unit_and_rest[..end], &mut line);
        core.end_line(&mut line);
        core.spans.push((line, None));
        rest = unit_and_rest.get(end + 2 * MARK.len_utf8()..).unwrap_or_default();
    }
    core.append(rest, &mut line);
    core.end_line(&mut line);
    check_binds(compiled, outcome, &core.text)?;
    Ok(core)
}

/// An address that is bound outside of `bind()` would be unknown to the plan and to the test-bind before a reload.
fn check_binds(compiled: &Compiled, outcome: &Outcome, text: &str) -> Result<(), RenderError> {
    let units = outcome.units.iter().flat_map(|unit| unit.binds.iter());
    let declared: Vec<&str> = outcome.records.binds.iter().chain(units).map(|bind| bind.text.as_str()).collect();
    let undeclared = text
        .lines()
        .map(str::trim)
        .find(|line| line.split_whitespace().next() == Some("bind") && !declared.contains(line));
    let Some(line) = undeclared else { return Ok(()) };
    let mut finding = Finding::error(FindingCode::ConfigInvalid, format!("`{line}` is not written by bind(…)"))
        .hint("write it as {{ bind(frontend, port, address=…) }}, so that the address can be tested before a reload");
    if let Some((template, line)) = locate::locate(compiled, line) {
        finding = finding.at(template, line, 0);
    }
    Err(RenderError { findings: vec![finding] })
}

/// The text, the plan's sections in its order, and who wrote which lines.
pub(super) fn write(
    core: &Core,
    profiles: &BTreeMap<Arc<str>, Arc<ProfileSection>>,
    backends: &Backends,
    units: &[Arc<UnitOutput>],
) -> (Bytes, Vec<SectionRecord>, Vec<SourceSpan>) {
    let size = core.text.len()
        + profiles.values().map(|profile| profile.text.len() + 1).sum::<usize>()
        + backends.values().map(|(backend, _)| backend.text.len() + 1).sum::<usize>();
    let mut text = BytesMut::with_capacity(size);
    let mut sections = core_sections(&core.text);
    sections.reserve(profiles.len() + backends.len());
    let outside = Arc::new(Origin { template: CONFIG_PATH.into(), unit: None, object: None });
    let origin_of = |unit: Option<usize>| match unit.and_then(|index| units.get(index)) {
        Some(unit) => Arc::clone(&unit.origin),
        None => Arc::clone(&outside),
    };
    let mut spans: Vec<SourceSpan> = core
        .spans
        .iter()
        .map(|(first_line, unit)| SourceSpan { first_line: *first_line, origin: origin_of(*unit) })
        .collect();
    text.extend_from_slice(core.text.as_bytes());
    let mut line = 1 + lines(&core.text);
    spans.push(SourceSpan { first_line: line, origin: Arc::clone(&outside) });
    for profile in profiles.values() {
        text.extend_from_slice(b"\n");
        text.extend_from_slice(profile.text.as_bytes());
        line += 1 + lines(&profile.text);
        sections.push(profile_section(&profile.record));
    }
    for (backend, unit) in backends.values() {
        text.extend_from_slice(b"\n");
        text.extend_from_slice(backend.text.as_bytes());
        spans.push(SourceSpan { first_line: line + 1, origin: origin_of(*unit) });
        line += 1 + lines(&backend.text);
        sections.push(backend_section(&backend.record, backend.digest));
    }
    (text.freeze(), sections, spans)
}

/// Splits at section keywords, which only names parts for a person: every byte is in some section, and equality of
/// digests decides.
fn core_sections(text: &str) -> Vec<SectionRecord> {
    let mut sections = Vec::new();
    let mut name: Arc<str> = "preamble".into();
    let mut start = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if begins_section(line) {
            if offset > start {
                sections.push(section(SectionKind::Core, &name, Digest::of(&text.as_bytes()[start..offset])));
            }
            start = offset;
            let words: Vec<&str> = line.split_whitespace().take(2).collect();
            name = words.join(" ").into();
        }
        offset += line.len();
    }
    if text.len() > start {
        sections.push(section(SectionKind::Core, &name, Digest::of(&text.as_bytes()[start..])));
    }
    sections
}

fn begins_section(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| SECTIONS.contains(&word))
}

fn lines(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|b| *b == b'\n').count()).unwrap_or(u32::MAX)
}

// === impl Core ===

impl Core {
    /// Appends text: section lines at the first column, others indented, more than one blank line in a row is one.
    fn append(&mut self, text: &str, line: &mut u32) {
        for part in text.split_inclusive('\n') {
            let (content, ended) = part.strip_suffix('\n').map_or((part, false), |content| (content, true));
            let at_start = self.text.is_empty() || self.text.ends_with('\n');
            if at_start && content.trim().is_empty() {
                if ended && !self.text.is_empty() && !self.text.ends_with("\n\n") {
                    self.text.push('\n');
                    *line += 1;
                }
                continue;
            }
            if at_start {
                self.text.push_str(if begins_section(content) { "" } else { "  " });
                self.text.push_str(content.trim_start());
            } else {
                self.text.push_str(content);
            }
            if ended {
                self.text.push('\n');
                *line += 1;
            }
        }
    }

    fn end_line(&mut self, line: &mut u32) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
            *line += 1;
        }
    }
}
