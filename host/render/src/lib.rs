//! Templates in, an immutable [`Rendered`] out: text and the records that explain it.
//!
//! What: the template engine and its functions, escaping by sink, per-object units with fault isolation, tracked
//! reads with a memo, and the assembly of configuration, files and plan. What not: no HAProxy process, no Kubernetes,
//! no input or output; plugins are called through a port of `haptic-model`. The pipeline of `haptic-controller` and
//! the commands `render` and `validate` call it.
//!
//! ```text
//! TemplateSet ─compile→ Renderer ─render(Snapshot, Memo)→ core text + units ─assemble→ Rendered
//! ```

mod align;
mod answers;
mod assemble;
mod blocks;
mod compile;
mod failure;
mod filters;
mod functions;
mod locate;
mod memo;
mod readers;
mod records;
mod resources;
mod session;
mod sink;
mod snippet;
mod unit;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_model::{Finding, Rendered, ports::TemplateFilters};
use haptic_store::Snapshot;

pub use memo::Memo;

/// Everything that is compiled together, already merged from libraries and configuration (later wins, the
/// configuration last). The keys are names of snippets or of files.
#[derive(Clone, Debug)]
pub struct TemplateSet {
    pub config: Template,
    pub snippets: BTreeMap<String, Template>,
    /// Rendered to `maps/NAME`.
    pub maps: BTreeMap<String, MapTemplate>,
    /// Rendered to `general/NAME`.
    pub files: BTreeMap<String, FileTemplate>,
    /// Rendered to `ssl/NAME`.
    pub certificates: BTreeMap<String, Template>,
    /// Rendered to `ssl/NAME`.
    pub crt_lists: BTreeMap<String, Template>,
    /// Every key is a variable of every template, and all of it is `extraContext`.
    pub extra_context: serde_json::Value,
    pub raw_text: RawText,
}

#[derive(Clone, Debug)]
pub struct Template {
    /// How messages call it, e.g. `HAProxyTemplateLibrary ingress, snippet ingress-unit`.
    pub name: Arc<str>,
    pub source: Arc<str>,
}

#[derive(Clone, Debug)]
pub struct MapTemplate {
    pub template: Template,
    /// The order of the entries matters to HAProxy (`map_reg`, `map_dom`, `map_sub`).
    pub ordered: bool,
}

#[derive(Clone, Debug)]
pub struct FileTemplate {
    pub template: Template,
    /// A change of the content needs a reload, because HAProxy reads the file only when it loads.
    pub reload_on_change: bool,
}

/// Whether `| raw` may put text of an object into the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawText {
    Refused,
    Allowed,
}

/// What a render reads besides its templates.
#[derive(Clone)]
pub struct Inputs {
    pub snapshot: Arc<Snapshot>,
    /// Unit keys (`Origin::unit`) that HAProxy refused: they are left out.
    pub quarantined: BTreeSet<Arc<str>>,
    /// The lowest HAProxy version among the pods: `haproxy.version` in templates.
    pub haproxy: (u16, u16),
}

/// Compiled templates. Cheap to share; replaced as a whole when the configuration changes.
pub struct Renderer {
    compiled: compile::Compiled,
}

/// The render failed as a whole and nothing was produced: a template, the store or a plugin is at fault, not one
/// object.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the render failed: {}", .findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct RenderError {
    pub findings: Vec<Finding>,
}

/// Every function of templates, with one line each.
pub fn functions() -> &'static [(&'static str, &'static str)] {
    functions::FUNCTIONS
}

/// Every filter besides the engine's own and those of plugins, with one line each.
pub fn filters() -> &'static [(&'static str, &'static str)] {
    filters::FILTERS
}

// === impl Renderer ===

impl Renderer {
    /// Compiles every template.
    ///
    /// # Errors
    /// One finding for each template that does not compile, with its line.
    pub fn compile(set: TemplateSet, filters: Arc<dyn TemplateFilters>) -> Result<Self, Vec<Finding>> {
        compile::compile(set, filters).map(|compiled| Self { compiled })
    }

    /// Renders everything. Blocks: call it on a blocking thread. A memo of earlier renders by this renderer saves the
    /// units whose inputs did not change; an empty one gives the same bytes.
    ///
    /// # Errors
    /// When the fault is not that of one object (see [`RenderError`]); faults of objects are in
    /// [`Rendered::findings`].
    pub fn render(&self, inputs: &Inputs, memo: &mut Memo) -> Result<Rendered, RenderError> {
        let outcome = session::run(&self.compiled, inputs, memo)?;
        assemble::assemble(&self.compiled, outcome, memo)
    }

    /// Names a template and its line for a line of rendered text: where an author has to look.
    pub fn locate(&self, text: &str) -> Option<(Arc<str>, u32)> {
        locate::locate(&self.compiled, text)
    }

    /// How messages call the template that an origin names.
    pub fn display(&self, template: &str) -> Arc<str> {
        self.compiled.names.display(template)
    }

    /// The lines of one template, named as origins name it, whose literal text covers a line of rendered text best.
    pub fn lines_like(&self, template: &str, text: &str) -> Vec<u32> {
        locate::lines_like(&self.compiled, template, text)
    }

    /// The lines of one template, named as origins name it, that hold `needle`, such as the call of a function.
    pub fn lines_with(&self, template: &str, needle: &str) -> Vec<u32> {
        locate::lines_with(&self.compiled, template, needle)
    }
}

#[cfg(test)]
mod tests;
