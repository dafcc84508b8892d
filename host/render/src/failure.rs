//! From an engine error to what a person reads, and to the question whose fault it is.

use haptic_model::{Finding, FindingCode, ObjectRef};
use minijinja::{Error, ErrorKind};

use crate::compile::Names;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The object's: its unit is left out.
    Data,
    /// The template's, the store's or a plugin's: the render fails.
    System,
}

/// The cause that host functions attach to an engine error, so that nothing has to be read from message text.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Cause {
    pub(crate) fault: Fault,
    pub(crate) code: FindingCode,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

// === impl Cause ===

impl Cause {
    pub(crate) fn data(code: FindingCode, message: impl Into<String>) -> Self {
        Self { fault: Fault::Data, code, message: message.into(), hint: None }
    }

    pub(crate) fn system(code: FindingCode, message: impl Into<String>) -> Self {
        Self { fault: Fault::System, code, message: message.into(), hint: None }
    }

    /// A value that its sink refuses.
    pub(crate) fn unsafe_value(message: impl Into<String>) -> Self {
        Self::data(FindingCode::UnsafeValue, message).hint("change the value, or print it through another sink")
    }

    /// A mistake of the template's author that does not depend on any object.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::system(FindingCode::TemplateFailed, message)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        Error::new(ErrorKind::InvalidOperation, cause.message.clone()).with_source(cause)
    }
}

/// Whose fault `error` is: what the host said, or else a name that no object can put there.
pub(crate) fn fault(error: &Error) -> Fault {
    if let Some(cause) = cause(error) {
        return cause.fault;
    }
    match innermost(error).kind() {
        ErrorKind::SyntaxError
        | ErrorKind::TemplateNotFound
        | ErrorKind::UnknownFilter
        | ErrorKind::UnknownTest
        | ErrorKind::UnknownFunction
        | ErrorKind::UnknownMethod
        | ErrorKind::TooManyArguments
        | ErrorKind::MissingArgument
        | ErrorKind::OutOfFuel
        | ErrorKind::EvalBlock
        | ErrorKind::UnknownBlock => Fault::System,
        _ => Fault::Data,
    }
}

/// Never prints the variables that the template saw: they may be secrets.
pub(crate) fn finding(names: &Names, error: &Error, object: Option<ObjectRef>) -> Finding {
    let inner = innermost(error);
    let cause = cause(error);
    let (code, message, hint) = match cause {
        Some(cause) => (cause.code, cause.message.clone(), cause.hint.clone()),
        None => {
            let detail = inner.detail().map_or_else(|| inner.kind().to_string(), |d| format!("{}: {d}", inner.kind()));
            (FindingCode::TemplateFailed, detail, hint_for(inner.kind()).map(str::to_owned))
        }
    };
    let mut finding = Finding::error(code, message).about(object);
    finding.hint = hint;
    if let Some(name) = inner.name().or_else(|| error.name()) {
        let line = inner.line().or_else(|| error.line()).unwrap_or(0);
        finding = finding.at(names.display(name), u32::try_from(line).unwrap_or(0), 0);
    }
    finding
}

fn hint_for(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::UndefinedError => "check the spelling, or give a default with `| default(…)`",
        ErrorKind::SyntaxError => "mend the template at this line",
        ErrorKind::UnknownFunction | ErrorKind::UnknownFilter | ErrorKind::UnknownTest | ErrorKind::UnknownMethod => {
            "check the spelling; `haptic functions` lists what templates can call"
        }
        ErrorKind::TemplateNotFound => "declare the snippet in templateSnippets, or correct its name",
        ErrorKind::OutOfFuel => "the template does more work than one unit may; split it or loop over less",
        _ => return None,
    })
}

fn cause(error: &Error) -> Option<&Cause> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = source {
        if let Some(cause) = current.downcast_ref::<Cause>() {
            return Some(cause);
        }
        source = current.source();
    }
    None
}

/// An include wraps the error of the included template; the innermost one has the line to look at.
fn innermost(error: &Error) -> &Error {
    let mut current = error;
    while let Some(inner) = std::error::Error::source(current).and_then(|source| source.downcast_ref::<Error>()) {
        current = inner;
    }
    current
}
