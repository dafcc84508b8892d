//! The text of `haproxy.cfg`: core, then profiles, then backends, each sorted by name.

use std::{cmp::Ordering, sync::Arc};

use bytes::{Bytes, BytesMut};
use haptic_model::{
    CONFIG_PATH, Checkpoints, Digest, Finding, FindingCode, Origin, SectionKind, SectionRecord, SourceSpan,
};
use imbl::Vector;

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

/// The written text with what is needed to change backends in it.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) text: Bytes,
    /// For the plan: core, profiles, backends, in the order of the text.
    pub(super) sections: Vector<SectionRecord>,
    /// Who wrote which lines.
    pub(super) spans: Arc<Vec<SourceSpan>>,
    /// The index of the first backend's span; those of the others follow.
    first_span: usize,
    /// Of each backend, by name. Their text is the last part of all text.
    sizes: Vec<Size>,
    /// How much of the text's beginning the checkpoints know.
    hashed: usize,
    checkpoints: Checkpoints,
}

/// A change of one backend.
pub(super) enum Edit {
    Removed {
        section: Arc<BackendSection>,
    },
    Replaced {
        now: Arc<BackendSection>,
    },
    Inserted {
        section: Arc<BackendSection>,
        /// The index of the unit that declares it.
        unit: usize,
        origin: Arc<Origin>,
    },
}

/// Of a backend in the text, with the empty line before it.
#[derive(Clone, Copy)]
pub(super) struct Size {
    bytes: usize,
    lines: u32,
}

pub(super) fn write(core: &Core, profiles: &Profiles, backends: &Backends, units: &[Arc<UnitOutput>]) -> Written {
    let size = core.text.len()
        + profiles.values().map(|profile| profile.section.text.len() + 1).sum::<usize>()
        + backends.values().map(|(backend, _)| backend.text.len() + 1).sum::<usize>();
    let mut text = BytesMut::with_capacity(size);
    let mut sections: Vector<SectionRecord> = core_sections(&core.text).into();
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
        sections.push_back(profile_section(&profile.section.record));
    }
    let first_span = spans.len();
    let mut sizes = Vec::with_capacity(backends.len());
    for (backend, unit) in backends.values() {
        text.extend_from_slice(b"\n");
        text.extend_from_slice(backend.text.as_bytes());
        spans.push(SourceSpan { first_line: line + 1, origin: origin_of(*unit) });
        let size = Size::of(backend);
        line += size.lines;
        sizes.push(size);
        sections.push_back(backend_section(&backend.record, backend.digest));
    }
    let (hashed, checkpoints) = (0, Checkpoints::default());
    Written { text: text.freeze(), sections, spans: Arc::new(spans), first_span, sizes, hashed, checkpoints }
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
    newlines(text.bytes())
}

fn newlines(bytes: impl Iterator<Item = u8>) -> u32 {
    u32::try_from(bytes.filter(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX)
}

// === impl Edit ===

impl Edit {
    pub(super) fn name(&self) -> &Arc<str> {
        match self {
            Self::Removed { section } | Self::Inserted { section, .. } => &section.record.name,
            Self::Replaced { now } => &now.record.name,
        }
    }

    /// Whether one of this name was there.
    fn takes_a_place(&self) -> bool {
        !matches!(self, Self::Inserted { .. })
    }

    fn now(&self) -> Option<&BackendSection> {
        match self {
            Self::Removed { .. } => None,
            Self::Replaced { now } => Some(now),
            Self::Inserted { section, .. } => Some(section),
        }
    }
}

// === impl Size ===

impl Size {
    fn of(section: &BackendSection) -> Self {
        Self { bytes: section.text.len() + 1, lines: 1 + lines(&section.text) }
    }
}

// === impl Written ===

impl Written {
    /// Makes changes of backends, in the order of their names. A name is changed once at most.
    pub(super) fn edit(&mut self, edits: &[Edit]) {
        let first = self.sections.len() - self.sizes.len();
        let begin = self.text.len() - self.sizes.iter().map(|size| size.bytes).sum::<usize>();
        let order = |section: &SectionRecord, name: &Arc<str>| match section.kind {
            SectionKind::Core | SectionKind::Profile => Ordering::Less,
            SectionKind::Backend => section.name.cmp(name),
        };
        let place = |edit: &Edit| match self.sections.binary_search_by(|section| order(section, edit.name())) {
            Ok(place) | Err(place) => place - first,
        };
        let places: Vec<usize> = edits.iter().map(place).collect();
        let changes = || edits.iter().zip(&places);

        let mut offsets = Vec::with_capacity(self.sizes.len() + 1);
        offsets.push(begin);
        offsets.extend(self.sizes.iter().scan(begin, |end, size| {
            *end += size.bytes;
            Some(*end)
        }));
        let grown = edits.iter().filter_map(Edit::now).map(|section| section.text.len() + 1).sum::<usize>();
        let mut text = BytesMut::with_capacity(self.text.len() + grown);
        let mut copied = 0;
        for (edit, place) in changes() {
            text.extend_from_slice(&self.text[copied..offsets[*place]]);
            copied = offsets[*place + usize::from(edit.takes_a_place())];
            if let Some(section) = edit.now() {
                text.extend_from_slice(b"\n");
                text.extend_from_slice(section.text.as_bytes());
            }
        }
        text.extend_from_slice(&self.text[copied..]);
        self.text = text.freeze();
        self.hashed = self.hashed.min(places.first().map_or(usize::MAX, |place| offsets[*place]));

        let size = |(edit, place): (&Edit, &usize)| (*place, edit.takes_a_place(), edit.now().map(Size::of));
        let moves_lines = changes().any(|(edit, place)| {
            let lines = edit.now().map(|section| Size::of(section).lines);
            !edit.takes_a_place() || lines != Some(self.sizes[*place].lines)
        });
        self.sizes = spliced(std::mem::take(&mut self.sizes), changes().map(size));
        if moves_lines {
            self.move_spans(changes(), begin);
        }
        // From the end, so that the places before stay as they are.
        for (edit, place) in edits.iter().zip(&places).rev() {
            let section = edit.now().map(|now| backend_section(&now.record, now.digest));
            match (edit.takes_a_place(), section) {
                (true, Some(section)) => drop(self.sections.set(first + place, section)),
                (true, None) => drop(self.sections.remove(first + place)),
                (false, Some(section)) => self.sections.insert(first + place, section),
                (false, None) => {}
            }
        }
    }

    /// Costs what comes after the first change since the last time.
    pub(super) fn digest(&mut self) -> Digest {
        let digest = Digest::again(&self.text, self.hashed, &mut self.checkpoints);
        self.hashed = self.text.len();
        digest
    }

    /// Writes anew on which line each backend begins; the first one's text begins at byte `begin`.
    fn move_spans<'a>(&mut self, changes: impl Iterator<Item = (&'a Edit, &'a usize)>, begin: usize) {
        let mut spans = self.spans.to_vec();
        let backends = spans.split_off(self.first_span);
        let origins: Vec<Arc<Origin>> = backends.into_iter().map(|span| span.origin).collect();
        let changed = changes.map(|(edit, place)| {
            let origin = match edit {
                Edit::Removed { .. } => None,
                Edit::Replaced { .. } => Some(Arc::clone(&origins[*place])),
                Edit::Inserted { origin, .. } => Some(Arc::clone(origin)),
            };
            (*place, edit.takes_a_place(), origin)
        });
        let changed: Vec<_> = changed.collect();
        let mut line = 1 + newlines(self.text[..begin].iter().copied());
        for (origin, size) in spliced(origins, changed.into_iter()).into_iter().zip(&self.sizes) {
            spans.push(SourceSpan { first_line: line + 1, origin });
            line += size.lines;
        }
        self.spans = Arc::new(spans);
    }
}

/// `old` with changes in the order of their places: `(place among the old ones, whether that one goes, what comes before
/// the next one)`.
fn spliced<T>(old: Vec<T>, changes: impl Iterator<Item = (usize, bool, Option<T>)>) -> Vec<T> {
    let mut new = Vec::with_capacity(old.len() + changes.size_hint().0);
    let mut taken = 0;
    let mut rest = old.into_iter();
    for (place, goes, comes) in changes {
        new.extend(rest.by_ref().take(place - taken));
        taken = place + usize::from(goes);
        if goes {
            rest.next();
        }
        new.extend(comes);
    }
    new.extend(rest);
    new
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
