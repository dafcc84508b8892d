//! Answers about a render: which object and template line made a line of the configuration, and where a request for a
//! host and path goes.
//!
//! Both come from what the render declared: the map of sources and the records of the plan. HAProxy's text is searched
//! and shown, never parsed. Nothing secret is in an answer: passwords are masked *before* a text is searched, so that
//! nobody can guess them letter by letter, and files that hold keys or come from nowhere else but a template are not
//! searched at all. The status page, `/debug/explain` and `haptic explain` give the same answers.

mod lines;
mod route;
mod text;

use haptic_model::{ObjectRef, Rendered, SourceLocation};
use haptic_render::Renderer;
use haptic_store::Snapshot;
use serde::Serialize;

use crate::{config::TemplateSources, core::find};

pub use lines::{LineAnswer, LineMatch, MATCHES};
pub use route::{RouteAnswer, RouteQuery};

/// One render and what it was made of.
#[derive(Clone, Copy)]
pub struct Explained<'a> {
    pub rendered: &'a Rendered,
    pub snapshot: &'a Snapshot,
    pub renderer: &'a Renderer,
    pub sources: &'a TemplateSources,
}

/// Who wrote a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Author {
    /// E.g. `Ingress shop/web`; `None` = the line is about no single object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// File and line of its manifest, where it was read from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_at: Option<String>,
    /// Lines of templates that wrote it; several where one function is called on several lines.
    pub templates: Vec<TemplateLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateLine {
    /// As messages call it, e.g. `HAProxyTemplateLibrary ingress, snippet ingress`.
    pub template: String,
    /// 0 = unknown.
    pub line: u32,
    /// File and line of its manifest, where it was read from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Most template lines that an answer names.
const TEMPLATE_LINES: usize = 6;

// === impl Explained ===

impl Explained<'_> {
    /// Who wrote line `line` of `file`, which is `text`. `call` is what a template line holds that makes such lines, for
    /// lines of which a function writes every word.
    fn author(&self, file: &str, line: u32, text: &str, call: Option<&str>) -> Author {
        let Some(origin) = self.rendered.sources.origin(file, line) else {
            return Author { templates: self.anywhere(text), ..Author::default() };
        };
        let template = self.renderer.display(&origin.template);
        let mut lines = self.renderer.lines_like(&origin.template, text);
        if let Some(call) = call.filter(|_| lines.is_empty()) {
            lines = self.renderer.lines_with(&origin.template, call);
        }
        let mut templates: Vec<_> =
            lines.iter().take(TEMPLATE_LINES).map(|line| self.template_line(&template, *line)).collect();
        if templates.is_empty() {
            templates = self.anywhere(text);
        }
        if templates.is_empty() && origin.unit.is_some() {
            templates = vec![self.template_line(&template, 0)];
        }
        let object = origin.object.as_ref();
        Author {
            object: object.map(ToString::to_string),
            object_at: object.and_then(|object| self.manifest_of(object)),
            templates,
        }
    }

    /// Text outside of units can be of any snippet.
    fn anywhere(&self, text: &str) -> Vec<TemplateLine> {
        let found = self.renderer.locate(text);
        found.map(|(template, line)| self.template_line(&template, line)).into_iter().collect()
    }

    fn template_line(&self, template: &str, line: u32) -> TemplateLine {
        let at = self.sources.place(template, line.max(1)).map(file_and_line);
        TemplateLine { template: template.to_owned(), line, at }
    }

    fn manifest_of(&self, object: &ObjectRef) -> Option<String> {
        let place = find(self.snapshot, object)?.source().filter(|place| !place.file.is_empty())?;
        Some(file_and_line(place))
    }
}

/// Columns say nothing about a whole object or line.
fn file_and_line(place: SourceLocation) -> String {
    SourceLocation { column: 0, ..place }.to_string()
}

#[cfg(test)]
mod tests;
