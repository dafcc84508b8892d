//! From text and records to the configuration, the files and the plan. What did not change since the last render
//! keeps its pointers and digests.

mod config;
mod merge;

use std::{collections::BTreeMap, sync::Arc};

use haptic_model::{
    BackendRecord, CONFIG_PATH, Digest, Entries, File, FileKind, FilePath, FileRecord, FileSet, Finding, FindingCode,
    PLAN_SCHEMA_VERSION, Plan, ProfileRecord, Rendered, SectionKind, SectionRecord, SourceMap,
};

use crate::{
    Memo, RenderError,
    compile::Compiled,
    records::{BackendSection, Claims, ProfileSection, UnitOutput},
    session::Outcome,
};

/// What the last assembly made, to be kept where its inputs are the same.
pub(crate) struct Assembled {
    claims: Vec<Arc<Claims>>,
    shared: merge::SharedFiles,
    config: File,
    config_record: Arc<FileRecord>,
}

pub(crate) fn assemble(compiled: &Compiled, outcome: Outcome, memo: &mut Memo) -> Result<Rendered, RenderError> {
    let mut findings = outcome.records.findings.clone();
    for unit in &outcome.units {
        findings.extend(unit.findings.iter().cloned());
    }
    let core = config::core(compiled, &outcome)?;
    let profiles = profiles(&outcome);
    let backends = backends(&outcome, &mut findings);
    let claims: Vec<Arc<Claims>> = outcome.units.iter().map(|unit| Arc::clone(&unit.claims)).collect();
    let earlier = memo.assembled.take();
    let same_claims = |earlier: &Assembled| {
        earlier.claims.len() == claims.len()
            && earlier.claims.iter().zip(&claims).all(|(old, new)| Arc::ptr_eq(old, new))
    };
    let outside = merge::Outside::new(&outcome);
    let shared = match &earlier {
        Some(earlier) if same_claims(earlier) && earlier.shared.outside == outside => earlier.shared.clone(),
        _ => merge::shared_files(outside, &outcome.units, earlier.as_ref().map(|e| &e.shared))?,
    };
    findings.extend(shared.findings.iter().cloned());
    findings.sort();
    findings.dedup();

    let (text, sections, spans) = config::write(&core, &profiles, &backends, &outcome.units);
    let digest = Digest::of(&text);
    let (config, config_record) = match &earlier {
        Some(earlier) if earlier.config.digest == digest => {
            (earlier.config.clone(), Arc::clone(&earlier.config_record))
        }
        _ => {
            let path = FilePath::new(CONFIG_PATH).expect("the configuration's path is valid");
            let file = File { path, kind: FileKind::Config, content: text, digest, reload_on_change: false };
            let record = Arc::new(record(&file, Entries::Opaque));
            (file, record)
        }
    };
    let mut files: FileSet = shared.files.iter().map(|(path, shared)| (path.clone(), shared.file.clone())).collect();
    let mut records: BTreeMap<FilePath, Arc<FileRecord>> =
        shared.files.iter().map(|(path, shared)| (path.clone(), Arc::clone(&shared.record))).collect();
    files.insert(config.path.clone(), config.clone());
    records.insert(config.path.clone(), Arc::clone(&config_record));
    let mut sources = SourceMap { files: shared.sources.clone() };
    sources.files.insert(config.path.clone(), spans);

    let mut binds: Vec<_> = outcome.records.binds.iter().map(|bind| bind.record.clone()).collect();
    binds.extend(outcome.units.iter().flat_map(|unit| unit.binds.iter().map(|bind| bind.record.clone())));
    binds.sort();
    binds.dedup();
    let plan = Plan {
        schema_version: PLAN_SCHEMA_VERSION,
        id: Plan::identify(&sections, &records),
        sections,
        profiles: profiles.iter().map(|(name, profile)| (Arc::clone(name), profile.record.clone())).collect(),
        backends: backends.iter().map(|(name, (section, _))| (Arc::clone(name), Arc::clone(&section.record))).collect(),
        binds,
        files: records,
    };
    memo.assembled = Some(Assembled { claims, shared, config, config_record });
    let failed = outcome.units.iter().filter(|unit| unit.failed).filter_map(|unit| unit.origin.unit.clone());
    Ok(Rendered {
        plan: Arc::new(plan),
        files: Arc::new(files),
        sources: Arc::new(sources),
        findings,
        units: outcome.units.len(),
        failed_units: failed.collect(),
    })
}

/// Profiles by name. A name is the digest of the content, so equal names are equal profiles.
fn profiles(outcome: &Outcome) -> BTreeMap<Arc<str>, Arc<ProfileSection>> {
    let units = outcome.units.iter().flat_map(|unit| unit.profiles.iter());
    let all = outcome.records.profiles.iter().chain(units);
    let mut profiles = BTreeMap::new();
    for profile in all {
        if !profiles.contains_key(&profile.record.name) {
            profiles.insert(Arc::clone(&profile.record.name), Arc::clone(profile));
        }
    }
    profiles
}

/// A backend and the index of the unit that declared it.
type Backends = BTreeMap<Arc<str>, (Arc<BackendSection>, Option<usize>)>;

fn backends(outcome: &Outcome, findings: &mut Vec<Finding>) -> Backends {
    let mut backends: Backends = BTreeMap::new();
    for section in &outcome.records.backends {
        backends.insert(Arc::clone(&section.record.name), (Arc::clone(section), None));
    }
    for (index, unit) in outcome.units.iter().enumerate() {
        for section in unit.backends.iter() {
            let Some((known, owner)) = backends.get(&section.record.name) else {
                backends.insert(Arc::clone(&section.record.name), (Arc::clone(section), Some(index)));
                continue;
            };
            if known.digest == section.digest {
                continue;
            }
            let newcomer_wins = owner.is_some_and(|owner| unit.precedence < outcome.units[owner].precedence);
            let loser = if newcomer_wins { owner.map(|owner| &outcome.units[owner]) } else { Some(unit) };
            findings.push(conflict(
                loser,
                format!("backend `{}` is also declared by another object, with other content", section.record.name),
            ));
            if newcomer_wins {
                backends.insert(Arc::clone(&section.record.name), (Arc::clone(section), Some(index)));
            }
        }
    }
    backends
}

fn conflict(loser: Option<&Arc<UnitOutput>>, message: String) -> Finding {
    Finding::warning(FindingCode::RouteConflict, message)
        .about(loser.and_then(|unit| unit.origin.object.clone()))
        .hint("remove one of the two claims; the older object keeps it until then")
}

fn record(file: &File, entries: Entries) -> FileRecord {
    FileRecord {
        digest: file.digest,
        size: file.content.len() as u64,
        kind: file.kind,
        reload_on_change: file.reload_on_change,
        entries,
    }
}

/// For the plan, in the order of the text.
fn section(kind: SectionKind, name: &Arc<str>, text: Digest) -> SectionRecord {
    SectionRecord { kind, name: Arc::clone(name), text }
}

fn profile_section(profile: &ProfileRecord) -> SectionRecord {
    section(SectionKind::Profile, &profile.name, profile.text)
}

fn backend_section(record: &BackendRecord, digest: Digest) -> SectionRecord {
    section(SectionKind::Backend, &record.name, digest)
}
