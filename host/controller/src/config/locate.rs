//! From a line of a template to the line of the manifest that holds it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, OnceLock},
};

use haptic_api::yaml::Step;
use haptic_model::{Finding, SourceLocation};
use haptic_store::RawObject;

/// Where each template of a candidate was read. The lines are looked up only when a message needs them.
#[derive(Clone, Default)]
pub struct TemplateSources(HashMap<Arc<str>, Arc<Place>>);

struct Place {
    raw: Arc<RawObject>,
    path: Vec<Step>,
    /// Line of the file on which the template's first line stands; 0 = unknown.
    first_line: OnceLock<u32>,
}

// === impl TemplateSources ===

impl TemplateSources {
    pub(super) fn add(&mut self, template: Arc<str>, raw: &Arc<RawObject>, path: Vec<Step>) {
        self.0.insert(template, Arc::new(Place { raw: raw.clone(), path, first_line: OnceLock::new() }));
    }

    /// Turns a location in a template into one in its manifest; the message keeps the template's name.
    #[must_use]
    pub fn in_manifest(&self, mut finding: Finding) -> Finding {
        let Some(location) = &finding.location else { return finding };
        let Some(place) = self.0.get(&location.file) else { return finding };
        let line = match place.first_line() {
            0 => place.raw.source.line,
            first => first + location.line.saturating_sub(1),
        };
        finding.message = match location.line {
            0 => format!("{}: {}", location.file, finding.message),
            line => format!("{}, line {line}: {}", location.file, finding.message),
        };
        // Columns count from the indentation of the text, which differs from the file's.
        finding.at(place.raw.source.file.clone(), line, 0)
    }

    /// Where the manifest holds a line of a template; `None` = the object did not come from a file.
    pub fn place(&self, template: &str, line: u32) -> Option<SourceLocation> {
        let place = self.0.get(template)?;
        let first = Some(place.first_line()).filter(|first| *first > 0)?;
        Some(SourceLocation { file: place.raw.source.file.clone(), line: first + line.saturating_sub(1), column: 0 })
    }

    #[must_use]
    pub fn all_in_manifests(&self, findings: Vec<Finding>) -> Vec<Finding> {
        findings.into_iter().map(|finding| self.in_manifest(finding)).collect()
    }
}

impl fmt::Debug for TemplateSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TemplateSources({})", self.0.len())
    }
}

// === impl Place ===

impl Place {
    fn first_line(&self) -> u32 {
        *self.first_line.get_or_init(|| self.find().unwrap_or(0))
    }

    fn find(&self) -> Option<u32> {
        let manifest = self.raw.manifest.as_ref()?;
        let field = manifest.position(&self.path)?;
        let index = usize::try_from(field.line).ok()?.checked_sub(1)?;
        let text = manifest.text.lines().nth(index)?;
        let value = text.split_once(':').map_or("", |(_, value)| value.trim_start());
        // A block scalar begins on the line after its indicator.
        Some(if value.starts_with(['|', '>']) { field.line + 1 } else { field.line })
    }
}
