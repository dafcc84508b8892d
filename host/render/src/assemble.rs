//! From text and records to the configuration, the files and the plan. What did not change since the last render
//! keeps its pointers and digests.

mod config;
mod layout;
mod merge;

use std::{collections::BTreeMap, sync::Arc};

use haptic_model::{
    BackendRecord, CONFIG_PATH, Digest, Entries, File, FileKind, FilePath, FileRecord, FileSet, Finding, FindingCode,
    PLAN_SCHEMA_VERSION, Plan, ProfileRecord, Rendered, SectionKind, SectionRecord, SourceMap,
};

use crate::{Memo, RenderError, compile::Compiled, records::UnitOutput, session::Outcome};

use layout::{Backends, Layout, Profiles};

/// What the last assembly made, to be kept where its inputs are the same.
#[derive(Clone)]
pub(crate) struct Assembled {
    layout: Layout,
    shared: merge::SharedFiles,
    config: File,
    config_record: Arc<FileRecord>,
    plan: Arc<Plan>,
}

pub(crate) fn assemble(compiled: &Compiled, outcome: Outcome, memo: &mut Memo) -> Result<Rendered, RenderError> {
    let outside = merge::Outside::new(&outcome);
    let earlier = memo.assembled.take();
    let steps = earlier.as_ref().and_then(|earlier| earlier.layout.steps(&outcome.units));
    let followed = match (&earlier, &steps) {
        (Some(earlier), Some(steps)) => earlier.shared.follow(&outside, earlier.layout.units(), &outcome.units, steps),
        _ => None,
    };
    let shared = match followed {
        Some(shared) => shared,
        None => merge::shared_files(outside, &outcome.units, earlier.as_ref().map(|earlier| &earlier.shared))?,
    };
    let (layout, earlier) = match earlier {
        Some(Assembled { layout, config, config_record, plan, .. }) => {
            (Some(layout), Some((config, config_record, plan)))
        }
        None => (None, None),
    };
    let units = outcome.units.len();
    let failed = outcome.units.iter().filter(|unit| unit.failed);
    let failed_units = failed.filter_map(|unit| unit.origin.unit.clone()).collect();
    let mut findings = outcome.records.findings.clone();
    findings.extend(outcome.units.iter().flat_map(|unit| unit.findings.iter().cloned()));
    let followed = match (layout, steps) {
        (Some(layout), Some(steps)) => layout.follow(outcome, &steps),
        _ => Err(Box::new(outcome)),
    };
    let (mut layout, changed) = match followed {
        Ok((layout, changed)) => (layout, Some(changed)),
        Err(outcome) => (Layout::new(compiled, *outcome)?, None),
    };
    findings.extend(layout.conflicts.iter().chain(&shared.findings).cloned());
    findings.sort();
    findings.dedup();

    let digest = layout.written.digest();
    let (config, config_record) = match &earlier {
        Some((config, config_record, _)) if config.digest == digest => (config.clone(), Arc::clone(config_record)),
        _ => {
            let path = FilePath::new(CONFIG_PATH).expect("the configuration's path is valid");
            let content = layout.written.text.clone();
            let file = File { path, kind: FileKind::Config, content, digest, reload_on_change: false };
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
    sources.files.insert(config.path.clone(), Arc::clone(&layout.written.spans));
    let backends = match (&earlier, changed) {
        (Some((.., plan)), Some(changed)) => {
            let mut backends = plan.backends.clone();
            for record in changed.now {
                backends.insert(Arc::clone(&record.name), record);
            }
            for gone in &changed.gone {
                backends.remove(gone);
            }
            backends
        }
        _ => layout.backend_records(),
    };
    let plan = Arc::new(Plan {
        schema_version: PLAN_SCHEMA_VERSION,
        id: Plan::identify(&records),
        sections: layout.written.sections.clone(),
        profiles: layout.profile_records(),
        backends,
        binds: layout.binds.clone(),
        files: records,
    });
    memo.assembled = Some(Assembled { layout, shared, config, config_record, plan: Arc::clone(&plan) });
    Ok(Rendered { plan, files: Arc::new(files), sources: Arc::new(sources), findings, units, failed_units })
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
