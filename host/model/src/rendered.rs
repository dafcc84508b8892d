use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{FilePath, FileSet, Finding, ObjectRef, Plan};

/// One immutable output of the pipeline: text, files, records and what went wrong on the way.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub plan: Arc<Plan>,
    pub files: Arc<FileSet>,
    pub sources: Arc<SourceMap>,
    /// Sorted; objects that were left out, conflicts, warnings.
    pub findings: Vec<Finding>,
    /// How many units there were.
    pub units: usize,
    /// Keys of the units that failed for a fault of their object, quarantined ones not among them.
    pub failed_units: BTreeSet<Arc<str>>,
}

/// Which unit, and so which object and template, wrote which lines of a rendered file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    /// Shared with the next render where it does not change.
    pub files: BTreeMap<FilePath, Arc<Vec<SourceSpan>>>,
}

/// Lines `first_line ..` up to the next span, 1-based.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    pub first_line: u32,
    pub origin: Arc<Origin>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The template or snippet whose code wrote this.
    pub template: Arc<str>,
    /// The unit's key: what is left out when HAProxy refuses its text. `None` = not per-object text.
    pub unit: Option<Arc<str>>,
    pub object: Option<ObjectRef>,
}

// === impl SourceMap ===

impl SourceMap {
    /// Who wrote line `line` (1-based) of `file`.
    pub fn origin(&self, file: &str, line: u32) -> Option<&Arc<Origin>> {
        let spans = self.files.get(file)?;
        let after = spans.partition_point(|span| span.first_line <= line);
        after.checked_sub(1).map(|index| &spans[index].origin)
    }
}
