//! Files that many units write into: maps and crt-lists merged entry by entry, other files by path.

mod follow;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use haptic_model::{
    CrtListEntry, Entries, File, FileKind, FilePath, FileRecord, Finding, FindingCode, MapEntry, Origin, SourceSpan,
};

use super::{conflict, record};
use crate::{
    RenderError,
    compile::FileSource,
    records::{CrtListClaim, MapClaim, MapDeclaration, UnitOutput},
    session::Outcome,
    sink,
};

/// The merged files, and what they were merged from besides the units.
#[derive(Clone)]
pub(super) struct SharedFiles {
    pub(super) outside: Outside,
    pub(super) files: BTreeMap<FilePath, SharedFile>,
    pub(super) sources: BTreeMap<FilePath, Arc<Vec<SourceSpan>>>,
    pub(super) findings: Vec<Finding>,
    /// Keys of maps that are claimed more than once.
    contested: BTreeSet<(FilePath, Arc<str>)>,
}

#[derive(Clone)]
pub(super) struct SharedFile {
    pub(super) file: File,
    pub(super) record: Arc<FileRecord>,
}

/// What the templates outside of units declared.
#[derive(Clone, PartialEq)]
pub(super) struct Outside {
    texts: Vec<(FilePath, String)>,
    kinds: Vec<(FileKind, bool, bool)>,
    maps: Vec<MapDeclaration>,
    map_entries: Vec<MapClaim>,
    crt_lists: Vec<FilePath>,
    crt_list_entries: Vec<CrtListClaim>,
    files: Vec<File>,
}

/// Who claims something: `None` = the templates outside of units, which win over every unit.
type Claimant<'a> = Option<&'a Arc<UnitOutput>>;

struct MergedMap<'a> {
    ordered: bool,
    entries: Vec<(&'a MapClaim, Claimant<'a>)>,
}

/// A line of a map, and who claims it.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) key: &'a Arc<str>,
    pub(super) value: &'a Arc<str>,
    pub(super) origin: &'a Arc<Origin>,
}

pub(super) fn shared_files(
    outside: Outside,
    units: &[Arc<UnitOutput>],
    earlier: Option<&SharedFiles>,
) -> Result<SharedFiles, RenderError> {
    let mut merged = SharedFiles {
        outside: outside.clone(),
        files: BTreeMap::new(),
        sources: BTreeMap::new(),
        findings: Vec::new(),
        contested: BTreeSet::new(),
    };
    let literal = literal_map_lines(&outside)?;
    for (path, map) in merge_maps(&outside, &literal, units, &mut merged.findings, &mut merged.contested) {
        let outside = Arc::new(Origin { template: path.as_str().into(), unit: None, object: None });
        let lines = map.entries.iter().map(|(claim, claimant)| Line {
            key: &claim.key,
            value: &claim.value,
            origin: claimant.map_or(&outside, |unit| &unit.origin),
        });
        merged.add_map(path, map.ordered, lines, earlier);
    }
    merge_crt_lists(&outside, units, &mut merged);
    merge_files(&outside, units, &mut merged);
    Ok(merged)
}

fn merge_maps<'a>(
    outside: &'a Outside,
    literal: &'a [MapClaim],
    units: &'a [Arc<UnitOutput>],
    findings: &mut Vec<Finding>,
    contested: &mut BTreeSet<(FilePath, Arc<str>)>,
) -> BTreeMap<&'a FilePath, MergedMap<'a>> {
    let mut maps: BTreeMap<&FilePath, MergedMap<'a>> = BTreeMap::new();
    let mut declare = |declaration: &'a MapDeclaration| {
        let map = maps.entry(&declaration.path).or_insert(MergedMap { ordered: false, entries: Vec::new() });
        map.ordered |= declaration.ordered;
    };
    outside.maps.iter().for_each(&mut declare);
    units.iter().flat_map(|unit| &unit.claims.maps).for_each(&mut declare);
    let outside_claims = literal.iter().chain(&outside.map_entries).map(|claim| (claim, None));
    let unit_claims =
        units.iter().flat_map(|unit| unit.claims.map_entries.iter().map(move |claim| (claim, Some(unit))));
    let mut winners: HashMap<(&FilePath, &str), (usize, Claimant<'a>)> = HashMap::new();
    for (claim, claimant) in outside_claims.chain(unit_claims) {
        let map = maps.entry(&claim.map).or_insert(MergedMap { ordered: false, entries: Vec::new() });
        match winners.get(&(&claim.map, claim.key.as_ref())) {
            None => {
                winners.insert((&claim.map, &claim.key), (map.entries.len(), claimant));
                map.entries.push((claim, claimant));
            }
            Some((index, holder)) => {
                let index = *index;
                contested.insert((claim.map.clone(), Arc::clone(&claim.key)));
                if map.entries[index].0.value == claim.value {
                    continue;
                }
                let newcomer_wins = wins(claimant, *holder);
                let (winner, loser) = if newcomer_wins { (claimant, *holder) } else { (*holder, claimant) };
                findings.push(conflict(loser, key_taken(claim, winner)));
                if newcomer_wins {
                    winners.insert((&claim.map, &claim.key), (index, claimant));
                    map.entries[index] = (claim, claimant);
                }
            }
        }
    }
    for map in maps.values_mut() {
        if map.ordered {
            // Stable: within one claimant, as declared.
            map.entries.sort_by(|a, b| a.1.map(|unit| &unit.precedence).cmp(&b.1.map(|unit| &unit.precedence)));
        } else {
            map.entries.sort_by(|a, b| a.0.key.cmp(&b.0.key));
        }
    }
    maps
}

/// The templates outside of units win, then the older object.
fn wins(newcomer: Claimant<'_>, holder: Claimant<'_>) -> bool {
    match (newcomer, holder) {
        (Some(newcomer), Some(holder)) => newcomer.precedence < holder.precedence,
        (newcomer, holder) => newcomer.is_none() && holder.is_some(),
    }
}

fn key_taken(claim: &MapClaim, winner: Claimant<'_>) -> String {
    let winner = winner.and_then(|unit| unit.origin.object.as_ref());
    let winner = winner.map_or_else(|| "the configuration itself".to_owned(), ToString::to_string);
    format!("{} of {} is already taken by {winner}", sink::shown(&claim.key), claim.map)
}

/// A map template's own lines are entries like any other.
fn literal_map_lines(outside: &Outside) -> Result<Vec<MapClaim>, RenderError> {
    let mut claims = Vec::new();
    for ((path, text), (kind, ..)) in outside.texts.iter().zip(&outside.kinds) {
        if *kind != FileKind::Map {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((key, value)) = line.split_once(char::is_whitespace) else {
                let finding = Finding::error(FindingCode::ConfigInvalid, format!("map line `{line}` has no value"));
                let line = u32::try_from(index + 1).unwrap_or(0);
                return Err(RenderError { findings: vec![finding.at(path.as_str(), line, 0)] });
            };
            claims.push(MapClaim { map: path.clone(), key: key.into(), value: value.trim().into() });
        }
    }
    Ok(claims)
}

fn merge_crt_lists(outside: &Outside, units: &[Arc<UnitOutput>], merged: &mut SharedFiles) {
    type Entry<'a> = (&'a FilePath, &'a Arc<str>);
    let mut lists: BTreeMap<&FilePath, BTreeMap<Entry<'_>, Vec<Arc<str>>>> = BTreeMap::new();
    let declared = outside.crt_lists.iter().chain(units.iter().flat_map(|unit| &unit.claims.crt_lists));
    for list in declared {
        lists.entry(list).or_default();
    }
    let outside_claims = outside.crt_list_entries.iter().map(|claim| (claim, None));
    let unit_claims =
        units.iter().flat_map(|unit| unit.claims.crt_list_entries.iter().map(move |claim| (claim, Some(unit))));
    let mut claims: Vec<(&CrtListClaim, Claimant<'_>)> = outside_claims.chain(unit_claims).collect();
    // `None` first, then the older object: whoever comes first has the name.
    claims.sort_by(|a, b| a.1.map(|unit| &unit.precedence).cmp(&b.1.map(|unit| &unit.precedence)));
    let mut holders: HashMap<(&FilePath, &str), (Entry<'_>, Claimant<'_>)> = HashMap::new();
    for (claim, claimant) in claims {
        let entry: Entry<'_> = (&claim.certificate, &claim.options);
        let names = lists.entry(&claim.list).or_default().entry(entry).or_default();
        for name in &claim.sni {
            match holders.get(&(&claim.list, name.as_ref())) {
                None => {
                    holders.insert((&claim.list, name), (entry, claimant));
                    names.push(Arc::clone(name));
                }
                Some((known, _)) if *known == entry => {}
                Some((known, holder)) => {
                    let winner = holder.and_then(|unit| unit.origin.object.as_ref());
                    let winner = winner.map_or_else(|| "the configuration itself".to_owned(), ToString::to_string);
                    let message = format!(
                        "the certificate for host `{name}` is already set by {winner} ({}), so {} is not used for it",
                        known.0, claim.certificate
                    );
                    merged.findings.push(conflict(claimant, message));
                }
            }
        }
    }
    for (list, entries) in lists {
        let entries: Vec<CrtListEntry> = entries
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|((certificate, options), mut sni)| {
                sni.sort();
                CrtListEntry { certificate: certificate.clone(), options: Arc::clone(options), sni }
            })
            .collect();
        let mut text = String::new();
        for entry in &entries {
            text.push_str(entry.certificate.as_str());
            if !entry.options.is_empty() {
                text.push_str(&format!(" [{}]", entry.options));
            }
            for name in &entry.sni {
                text.push(' ');
                text.push_str(name);
            }
            text.push('\n');
        }
        let file = File::new(list.clone(), FileKind::CrtList, text);
        merged.add(file, Entries::CrtList(entries.into()));
    }
}

fn merge_files(outside: &Outside, units: &[Arc<UnitOutput>], merged: &mut SharedFiles) {
    for ((path, text), (kind, reload_on_change, _)) in outside.texts.iter().zip(&outside.kinds) {
        if *kind != FileKind::Map {
            let mut file = File::new(path.clone(), *kind, text.clone());
            file.reload_on_change = *reload_on_change;
            merged.add(file, Entries::Opaque);
        }
    }
    for file in &outside.files {
        merged.add(file.clone(), Entries::Opaque);
    }
    let mut holders: HashMap<&FilePath, &Arc<UnitOutput>> = HashMap::new();
    for unit in units {
        for file in &unit.claims.files {
            let known = merged.files.get(&file.path).map(|known| known.file.digest);
            let holder = holders.get(&file.path).copied();
            if known.is_some_and(|digest| digest != file.digest) {
                let newcomer_wins = wins(Some(unit), holder);
                let loser = if newcomer_wins { holder } else { Some(unit) };
                let message = format!("`{}` is also declared by another object, with other content", file.path);
                merged.findings.push(conflict(loser, message));
                if !newcomer_wins {
                    continue;
                }
            }
            holders.insert(&file.path, unit);
            let span = SourceSpan { first_line: 1, origin: Arc::clone(&unit.origin) };
            merged.sources.insert(file.path.clone(), Arc::new(vec![span]));
            merged.add(file.clone(), Entries::Opaque);
        }
    }
}

// === impl SharedFiles ===

impl SharedFiles {
    fn add(&mut self, file: File, entries: Entries) {
        let record = Arc::new(record(&file, entries));
        self.files.insert(file.path.clone(), SharedFile { file, record });
    }

    /// Lines in their order; `earlier` is kept where nothing differs.
    pub(super) fn add_map<'a>(
        &mut self,
        path: &FilePath,
        ordered: bool,
        lines: impl Iterator<Item = Line<'a>> + Clone,
        earlier: Option<&Self>,
    ) {
        let mut text = String::with_capacity(lines.clone().map(|line| line.key.len() + line.value.len() + 2).sum());
        let mut spans: Vec<SourceSpan> = Vec::new();
        for (number, line) in (1..).zip(lines.clone()) {
            text.push_str(line.key);
            text.push(' ');
            text.push_str(line.value);
            text.push('\n');
            if spans.last().is_none_or(|last| !same_unit(&last.origin, line.origin)) {
                spans.push(SourceSpan { first_line: number, origin: Arc::clone(line.origin) });
            }
        }
        self.sources.insert(path.clone(), Arc::new(spans));
        let file = File::new(path.clone(), FileKind::Map, text);
        let kept = earlier.and_then(|earlier| earlier.files.get(path)).filter(|kept| {
            kept.file.digest == file.digest
                && matches!(&kept.record.entries, Entries::Map { ordered: was, .. } if *was == ordered)
        });
        if let Some(kept) = kept {
            self.files.insert(path.clone(), kept.clone());
            return;
        }
        let entry = |line: Line<'_>| MapEntry { key: Arc::clone(line.key), value: Arc::clone(line.value) };
        let entries = lines.map(entry).collect();
        self.add(file, Entries::Map { ordered, entries });
    }
}

fn same_unit(a: &Arc<Origin>, b: &Arc<Origin>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

// === impl Outside ===

impl Outside {
    pub(super) fn new(outcome: &Outcome) -> Self {
        let records = &outcome.records;
        let mut maps = records.maps.clone();
        for (source, _) in &outcome.files {
            if source.kind == FileKind::Map {
                maps.push(MapDeclaration { path: source.path.clone(), ordered: source.ordered });
            }
        }
        let kind = |source: &FileSource| (source.kind, source.reload_on_change, source.ordered);
        Self {
            texts: outcome.files.iter().map(|(source, text)| (source.path.clone(), text.clone())).collect(),
            kinds: outcome.files.iter().map(|(source, _)| kind(source)).collect(),
            maps,
            map_entries: records.map_entries.clone(),
            crt_lists: records.crt_lists.clone(),
            crt_list_entries: records.crt_list_entries.clone(),
            files: records.files.clone(),
        }
    }
}
