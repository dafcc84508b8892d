//! From what HAProxy and validators say about rendered lines to findings about objects and template lines.

use std::sync::Arc;

use haptic_model::{
    Finding, FindingCode, Origin, Rendered, Severity,
    ports::{Diagnostic, FailurePolicy, PluginReport},
};
use haptic_render::Renderer;

use crate::{check::CheckMessage, quarantine::RefusedUnit};

/// What a refusal by HAProxy means.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    pub findings: Vec<Finding>,
    /// Units that wrote refused lines, each once.
    pub units: Vec<RefusedUnit>,
}

/// The warnings of reports that let the output pass.
///
/// # Errors
/// All findings, when one of the reports stops publication.
pub fn findings_of(
    reports: &[PluginReport],
    rendered: &Rendered,
    renderer: &Renderer,
) -> Result<Vec<Finding>, Vec<Finding>> {
    let findings: Vec<_> = reports.iter().flat_map(|report| from_report(report, rendered, renderer)).collect();
    if reports.iter().any(PluginReport::stops) { Err(findings) } else { Ok(findings) }
}

/// HAProxy's warnings; an output that passes can have some.
pub fn from_haproxy(messages: &[CheckMessage], rendered: &Rendered, renderer: &Renderer) -> Vec<Finding> {
    messages.iter().map(|message| about(message, Severity::Warning, rendered, renderer).0).collect()
}

pub fn refusal(messages: &[CheckMessage], rendered: &Rendered, renderer: &Renderer) -> Refusal {
    let mut refusal = Refusal::default();
    for message in telling(messages) {
        let (finding, origin) = about(message, Severity::Error, rendered, renderer);
        refusal.findings.push(finding.clone());
        let Some(origin) = origin else { continue };
        let Some(unit) = &origin.unit else { continue };
        if refusal.units.iter().all(|known| known.unit != *unit) {
            refusal.units.push(RefusedUnit { unit: unit.clone(), object: origin.object.clone(), finding });
        }
    }
    refusal
}

/// HAProxy closes with sentences such as `Fatal errors found in configuration.`: they say nothing where a line is named.
pub(crate) fn telling(messages: &[CheckMessage]) -> impl Iterator<Item = &CheckMessage> {
    let named = messages.iter().any(|message| message.line > 0);
    messages.iter().filter(move |message| message.line > 0 || !named)
}

/// In the order of its errors, its warnings and its failure.
pub(crate) fn from_report(report: &PluginReport, rendered: &Rendered, renderer: &Renderer) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (diagnostics, severity) in [(&report.errors, Severity::Error), (&report.warnings, Severity::Warning)] {
        findings
            .extend(diagnostics.iter().map(|diagnostic| diagnosed(report, diagnostic, severity, rendered, renderer)));
    }
    if let Some(failure) = &report.failure {
        let message = format!("{failure} while checking {}", report.path);
        let finding = match report.failure_policy {
            FailurePolicy::Fail => Finding::error(FindingCode::PluginFailed, message).hint(format!(
                "fix the plugin `{}`, raise its limits, or set its failurePolicy to Ignore",
                report.plugin
            )),
            FailurePolicy::Ignore => Finding::warning(FindingCode::PluginFailed, message)
                .hint(format!("fix the plugin `{}`: its check was skipped", report.plugin)),
        };
        findings.push(finding);
    }
    findings
}

fn diagnosed(
    report: &PluginReport,
    diagnostic: &Diagnostic,
    severity: Severity,
    rendered: &Rendered,
    renderer: &Renderer,
) -> Finding {
    let path = if diagnostic.path.is_empty() { report.path.as_str() } else { diagnostic.path.as_str() };
    let message = format!("plugin `{}`: {}", report.plugin, diagnostic.message);
    let place = Place::of(path, diagnostic.line, rendered, renderer);
    let finding = Finding { severity, ..Finding::error(FindingCode::RefusedByValidator, message) };
    place.give(finding, diagnostic.column)
}

fn about<'a>(
    message: &'a CheckMessage,
    severity: Severity,
    rendered: &'a Rendered,
    renderer: &Renderer,
) -> (Finding, Option<&'a Arc<Origin>>) {
    let place = Place::of(&message.file, message.line, rendered, renderer);
    let code = match severity {
        Severity::Error => FindingCode::RefusedByHAProxy,
        Severity::Warning => FindingCode::TemplateWarning,
    };
    let finding = Finding { severity, ..Finding::error(code, format!("HAProxy: {}", message.text)) };
    let origin = place.origin;
    (place.give(finding, 0), origin)
}

/// Where a rendered line comes from.
struct Place<'a> {
    file: &'a str,
    line: u32,
    text: Option<String>,
    origin: Option<&'a Arc<Origin>>,
    template: Option<(Arc<str>, u32)>,
}

// === impl Place ===

impl<'a> Place<'a> {
    fn of(file: &'a str, line: u32, rendered: &'a Rendered, renderer: &Renderer) -> Self {
        let text = (line > 0).then(|| line_of(file, line, rendered)).flatten();
        let origin = (line > 0).then(|| rendered.sources.origin(file, line)).flatten();
        let template = text.as_deref().and_then(|text| renderer.locate(text));
        Self { file, line, text, origin, template }
    }

    /// Names the template line where it is known, else the rendered line, and says what to look at.
    fn give(self, mut finding: Finding, column: u32) -> Finding {
        finding.object = self.origin.and_then(|origin| origin.object.clone());
        let rendered_at = format!("{}:{}", self.file, self.line);
        match (self.template, self.origin) {
            (Some((template, line)), _) => {
                finding = finding.at(template, line, 0);
                finding.message = format!("{} (rendered as {rendered_at})", finding.message);
            }
            (None, Some(origin)) => {
                finding = finding.at(origin.template.clone(), 0, 0);
                finding.message = format!("{} (rendered as {rendered_at})", finding.message);
            }
            (None, None) if !self.file.is_empty() => finding = finding.at(self.file, self.line, column),
            (None, None) => {}
        }
        let hint = match (&finding.object, &self.text) {
            (Some(object), _) => format!("correct {object}, or the template that prints it"),
            (None, Some(text)) => format!("correct the template line that writes `{}`", text.trim()),
            (None, None) if !self.file.is_empty() => format!("correct the template that renders {}", self.file),
            (None, None) => "look at the rendered configuration with `haptic render`".to_owned(),
        };
        finding.hint(hint)
    }
}

/// Secrets are in certificate files only, whose lines are never shown.
pub(crate) fn line_of(file: &str, line: u32, rendered: &Rendered) -> Option<String> {
    use haptic_model::FileKind::{Ca, Cert, Crl};
    let file = rendered.files.get(file)?;
    if matches!(file.kind, Cert | Ca | Crl) {
        return None;
    }
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    let text = String::from_utf8_lossy(file.content.split(|byte| *byte == b'\n').nth(index)?);
    Some(text.chars().take(200).collect())
}
