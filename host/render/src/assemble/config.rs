//! The text of `haproxy.cfg`: core, then profiles, then backends, each sorted by name.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use haptic_model::{CONFIG_PATH, Digest, Finding, FindingCode, Origin, SectionKind, SectionRecord, SourceSpan};

use super::{Backends, Profiles, backend_section, profile_section, section};
use crate::{
    RenderError,
    compile::Compiled,
    locate,
    records::{BackendSection, UnitOutput},
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

/// The written text with what is needed to change a backend in its place.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) text: Bytes,
    /// For the plan: core, profiles, backends, in the order of the text.
    pub(super) sections: Vec<SectionRecord>,
    /// Who wrote which lines; the backends' spans are the last ones.
    pub(super) spans: Arc<Vec<SourceSpan>>,
    /// Where the text of each backend begins, by name.
    pub(super) starts: Vec<usize>,
}

pub(super) fn write(core: &Core, profiles: &Profiles, backends: &Backends, units: &[Arc<UnitOutput>]) -> Written {
    let size = core.text.len()
        + profiles.values().map(|profile| profile.section.text.len() + 1).sum::<usize>()
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
        text.extend_from_slice(profile.section.text.as_bytes());
        spans.push(SourceSpan { first_line: line + 1, origin: origin_of(profile.owner) });
        line += 1 + lines(&profile.section.text);
        sections.push(profile_section(&profile.section.record));
    }
    let mut starts = Vec::with_capacity(backends.len());
    for (backend, unit) in backends.values() {
        text.extend_from_slice(b"\n");
        starts.push(text.len());
        text.extend_from_slice(backend.text.as_bytes());
        spans.push(SourceSpan { first_line: line + 1, origin: origin_of(*unit) });
        line += 1 + lines(&backend.text);
        sections.push(backend_section(&backend.record, backend.digest));
    }
    Written { text: text.freeze(), sections, spans: Arc::new(spans), starts }
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

// === impl Written ===

impl Written {
    /// Where a backend stands among the backends.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        let backends = &self.sections[self.sections.len() - self.starts.len()..];
        backends.binary_search_by(|section| section.name.as_ref().cmp(name)).ok()
    }

    /// Puts backends in the place of others: `(position, old text, new section)`, in the order of the positions.
    pub(super) fn replace(&mut self, replaced: &[(usize, Arc<str>, Arc<BackendSection>)]) {
        let grown = |(_, old, new): &(usize, Arc<str>, Arc<BackendSection>)| new.text.len().saturating_sub(old.len());
        let mut text = BytesMut::with_capacity(self.text.len() + replaced.iter().map(grown).sum::<usize>());
        let mut copied = 0;
        for (position, old, new) in replaced {
            text.extend_from_slice(&self.text[copied..self.starts[*position]]);
            text.extend_from_slice(new.text.as_bytes());
            copied = self.starts[*position] + old.len();
        }
        text.extend_from_slice(&self.text[copied..]);
        self.text = text.freeze();
        let first_backend = self.sections.len() - self.starts.len();
        for (position, old, new) in replaced {
            self.sections[first_backend + position] = backend_section(&new.record, new.digest);
            self.shift(*position, old, &new.text);
        }
    }

    /// Moves what stands behind a backend whose text was replaced.
    fn shift(&mut self, position: usize, old: &str, new: &str) {
        if old.len() != new.len() {
            for start in &mut self.starts[position + 1..] {
                *start = *start - old.len() + new.len();
            }
        }
        let (lines_before, lines_now) = (lines(old), lines(new));
        if lines_before != lines_now {
            let spans = Arc::make_mut(&mut self.spans);
            let behind = spans.len() - self.starts.len() + position + 1;
            for span in &mut spans[behind..] {
                span.first_line = span.first_line - lines_before + lines_now;
            }
        }
    }
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
