//! `hook`: snippets rendered by the name that others gave them, each remembered as a whole.

use std::sync::Arc;

use haptic_store::{Object, Read, Stamp};
use minijinja::{Error, State, Value};

use crate::{
    memo::UnitReads,
    readers::{Kept, Reader, Readers, number},
    records::{Records, UnitOutput},
    session::{self, Frame, safe, try_with, with},
    sink::MARK,
    unit::{self, Given},
};

/// What a snippet outside of units gave, and what it was made from.
#[derive(Clone)]
pub(crate) struct Played {
    /// The render that it belongs to.
    pub(crate) render: u64,
    pub(crate) reads: Vec<(Read, Stamp)>,
    /// Declared outside of its units.
    records: Records,
    /// With the texts of its units, marked by their indices.
    text: String,
    /// The index of its first unit in that text.
    first: usize,
    pub(crate) units: Vec<PlayedUnit>,
    pub(crate) readers: Readers,
    /// Units that were looked at one by one when it was taken over.
    pub(crate) looked_at: u64,
}

#[derive(Clone)]
pub(crate) struct PlayedUnit {
    pub(crate) given: Arc<Given>,
    pub(crate) output: Arc<UnitOutput>,
    /// What the output was made from.
    pub(crate) reads: UnitReads,
    /// Where the memo notes who gave it.
    pub(crate) owner: u32,
    /// Its text is more than white space.
    pub(crate) prints: bool,
}

/// What a snippet gave in the last render, while it runs again.
pub(crate) struct Earlier {
    /// Without those that were taken.
    units: Vec<Option<PlayedUnit>>,
    taken: Kept,
    readers: Readers,
    /// Units of which a read may have another answer now, in order; `None` = nobody knows.
    touched: Option<Vec<usize>>,
    /// Units before this one were looked at.
    next: usize,
}

/// So many units that are not given any more are passed over in the search for one that is.
const MOST_GONE: usize = 8;

/// Renders every snippet below `name`. Every variable is a global, so a snippet needs nothing of the context that calls
/// the hook.
pub(crate) fn hook(state: &mut State, name: &str) -> Result<Value, Error> {
    let mut text = String::new();
    for snippet in with(|session| session.names.below(name))? {
        let outermost = with(|session| session.is_outermost())?;
        text.push_str(&if outermost { play(state, &snippet)? } else { render(state, &snippet)? });
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(safe(text))
}

fn render(state: &mut State, snippet: &str) -> Result<String, Error> {
    state.env().get_template(snippet)?.render(())
}

/// Renders a snippet, or takes over what it gave in the last render.
fn play(state: &mut State, snippet: &Arc<str>) -> Result<String, Error> {
    if let Some(text) = replay(state, snippet)? {
        return Ok(text);
    }
    let first = with(|session| {
        let earlier = session.memo.earlier(snippet);
        session.push(Frame::of_snippet(snippet, earlier));
        session.units.len()
    })?;
    let rendered = render(state, snippet);
    let frame = with(session::Session::pop)?;
    let text = rendered?;
    try_with(|session| {
        session.records().append(&frame.records)?;
        let Some(reads) = frame.reads.complete() else { return Ok(()) };
        let Frame { records, played: units, earlier, .. } = frame;
        let readers = match earlier {
            Some(earlier) => earlier.readers.follow(&earlier.units, &earlier.taken, &units),
            None => Readers::new(&units),
        };
        let played = Played { render: 0, reads, records, text: text.clone(), first, units, readers, looked_at: 0 };
        session.memo.keep(snippet, played, false);
        Ok(())
    })?;
    Ok(text)
}

/// What the snippet would give if it ran now: the same as before, but for units whose own reads changed. `None` = it
/// must run.
fn replay(state: &mut State, snippet: &Arc<str>) -> Result<Option<String>, Error> {
    let replayable = with(|session| {
        let snapshot = Arc::clone(&session.inputs.snapshot);
        session.memo.replayable(snippet, &snapshot)
    })?;
    let Some((mut played, touched)) = replayable else { return Ok(None) };
    for index in &touched {
        let unit = &mut played.units[*index];
        let output = unit::evaluate(state, &unit.given)?;
        if output.text != unit.output.text {
            // Its text stands among the snippet's own, which may have done anything with it.
            return Ok(None);
        }
        if !Arc::ptr_eq(&output, &unit.output) {
            let reads = with(|session| session.memo.reads(&unit.given.key))?;
            played.readers.reads_instead(*index, &unit.reads, &reads);
            (unit.output, unit.reads) = (output, reads);
        }
    }
    played.looked_at = touched.len() as u64;
    try_with(|session| {
        session.records().append(&played.records)?;
        let first = session.units.len();
        if first != played.first {
            played.text = renumbered(&played.text, played.first, first);
            played.first = first;
        }
        session.units.extend(played.units.iter().map(|unit| Arc::clone(&unit.output)));
        let text = played.text.clone();
        session.memo.keep(snippet, played, true);
        Ok(Some(text))
    })
}

/// The text with the indices of its units counted from `to` instead of `from`.
fn renumbered(text: &str, from: usize, to: usize) -> String {
    let mut renumbered = String::with_capacity(text.len() + 16);
    let mut rest = text;
    // MARK index MARK text MARK MARK
    while let Some((before, marked)) = rest.split_once(MARK) {
        renumbered.push_str(before);
        let (index, unit) = marked.split_once(MARK).expect("an index is followed by a mark");
        let index: usize = index.parse().expect("a mark is followed by an index");
        let end = unit.find([MARK, MARK]).map_or(unit.len(), |end| end + 2 * MARK.len_utf8());
        renumbered.push_str(&format!("{MARK}{}{MARK}{}", index - from + to, &unit[..end]));
        rest = &unit[end..];
    }
    renumbered.push_str(rest);
    renumbered
}

// === impl Earlier ===

impl Earlier {
    pub(crate) fn new(played: Played, touched: Option<Vec<usize>>) -> Self {
        let units = played.units.into_iter().map(Some).collect();
        Self { units, taken: Kept::new(), readers: played.readers, touched, next: 0 }
    }

    /// Takes the unit of `object`, which is the one at `place` now, if nothing that it was made from has changed. Units are
    /// asked for in their order.
    pub(crate) fn take(&mut self, snippet: &str, object: &Object, place: usize) -> Option<PlayedUnit> {
        let touched = self.touched.as_ref()?;
        let is_it = |unit: &Option<PlayedUnit>| unit.as_ref().is_some_and(|unit| unit.given.is_of(snippet, object));
        let found = self.next + self.units[self.next..].iter().take(MOST_GONE).position(is_it)?;
        self.next = found + 1;
        if touched.binary_search(&found).is_ok() {
            return None;
        }
        self.taken.push((number(found), number(place)));
        self.units[found].take()
    }
}

// === impl PlayedUnit ===

impl Reader for PlayedUnit {
    fn reads(&self) -> &UnitReads {
        &self.reads
    }
}
