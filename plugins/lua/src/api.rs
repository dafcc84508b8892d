//! HAProxy's functions: registrations with arguments that cannot be, and calls that stop all traffic.

use std::collections::BTreeMap;

use haptic_plugin_sdk::File;
use parts::Findings;

use crate::{
    Config,
    parser::{Call, Outcome, Shape},
    token::Place,
};

/// Members of HAProxy's and Lua's tables, of 3.0, 3.2 and 3.4 together, printed by a script that HAProxy loaded.
const MEMBERS: &[(&str, &str)] = &[
    (
        "core",
        "Alert Debug Info Warning add_acl alert asctime_date backends concat crit debug del_acl del_map \
         disable_legacy_mailers done emerg err event_sub frontends get_info get_patref get_var http_date httpclient \
         imf_date info log match_addr msleep notice now parse_addr proxies queue register_action register_cli \
         register_converters register_fetches register_filter register_init register_service register_task \
         rfc850_date set_map set_nice silent sleep tcp thread tokenize use_native_mailers_config wait warning yield",
    ),
    ("os", "clock date difftime execute exit getenv remove rename setlocale time tmpname"),
    ("io", "close flush input lines open output popen read stderr stdin stdout tmpfile type write"),
    ("table", "concat insert move pack remove sort unpack"),
    ("string", "byte char dump find format gmatch gsub len lower match pack packsize rep reverse sub unpack upper"),
    ("coroutine", "close create isyieldable resume running status wrap yield"),
    ("utf8", "char charpattern codepoint codes len offset"),
];

/// Calls during which the thread serves no one.
const BLOCKING: &[(&str, &str, &str)] = &[
    ("os", "execute", "it waits for another program"),
    ("io", "popen", "it starts another program"),
    ("io", "read", "it waits for standard input"),
    ("os", "exit", "it ends HAProxy"),
];

const ACTION_CONTEXTS: &[&str] = &["tcp-req", "tcp-res", "http-req", "http-res", "http-after-res"];
const SERVICE_MODES: &[&str] = &["tcp", "http"];

/// What a parameter of a registration takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameter {
    /// Text; HAProxy takes numbers for it.
    Name,
    Contexts,
    Mode,
    Words,
    Usage,
    Class,
    Function,
}

/// The registrations and their parameters.
const REGISTRATIONS: &[(&str, &[Parameter])] = &[
    ("register_action", &[Parameter::Name, Parameter::Contexts, Parameter::Function]),
    ("register_service", &[Parameter::Name, Parameter::Mode, Parameter::Function]),
    ("register_fetches", &[Parameter::Name, Parameter::Function]),
    ("register_converters", &[Parameter::Name, Parameter::Function]),
    ("register_cli", &[Parameter::Words, Parameter::Usage, Parameter::Function]),
    ("register_filter", &[Parameter::Name, Parameter::Class, Parameter::Function]),
    ("register_task", &[Parameter::Function]),
    ("register_init", &[Parameter::Function]),
];

/// Whether a table is one of [`MEMBERS`] and lacks this; of other tables nothing is known, so they have everything.
pub(crate) fn has_member(base: &[u8], member: &[u8]) -> bool {
    MEMBERS
        .iter()
        .find(|(table, _)| table.as_bytes() == base)
        .is_none_or(|(_, members)| members.split(' ').any(|known| known.as_bytes() == member))
}

pub(crate) fn blocking_calls() -> impl Iterator<Item = String> {
    BLOCKING.iter().map(|(table, name, _)| format!("{table}.{name}"))
}

pub(crate) fn is_blocking(call: &str) -> bool {
    blocking_calls().any(|known| known == call)
}

/// Reports calls.
pub(crate) fn check(config: &Config, file: &File, outcome: &Outcome<'_>, findings: &mut Findings) {
    let mut seen = BTreeMap::new();
    for call in &outcome.calls {
        if outcome.defined.contains_key(call.path.base) {
            continue;
        }
        let Some(member) = call.path.member.and_then(|member| std::str::from_utf8(member).ok()) else { continue };
        if call.path.base == b"core" {
            if let Some((name, parameters)) = REGISTRATIONS.iter().find(|(name, _)| *name == member) {
                arguments(file, name, parameters, call, findings);
                twice(file, name, call, &mut seen, findings);
            }
            continue;
        }
        let blocking = BLOCKING.iter().find(|(table, name, _)| table.as_bytes() == call.path.base && *name == member);
        if let Some((table, name, why)) = blocking
            && !config.allow_blocking.contains(&format!("{table}.{name}"))
        {
            let when = if call.in_function {
                "and meanwhile the thread serves no one"
            } else {
                "each time the configuration is loaded or checked"
            };
            let message = format!("`{table}.{name}`: {why}, {when}; leave it out, or list it in `allowBlocking`");
            findings.warn(call.place.position(file), message);
        }
    }
}

fn arguments(file: &File, name: &str, parameters: &[Parameter], call: &Call<'_>, findings: &mut Findings) {
    // The last argument may stand for several.
    let open = call.arguments.last().is_some_and(|(shape, _)| *shape == Shape::Many);
    if call.arguments.len() < parameters.len() && !open {
        let missing = parameters[call.arguments.len()].words();
        let message = format!("`core.{name}` lacks {missing}");
        findings.error(call.place.position(file), message);
    }
    for (parameter, (shape, place)) in parameters.iter().zip(&call.arguments) {
        if !parameter.may_be(shape) {
            let message = format!("`core.{name}` takes {} here", parameter.words());
            findings.error(place.position(file), message);
        }
        match (parameter, shape) {
            (Parameter::Contexts, Shape::Table(items)) if items.is_empty() => {
                let message =
                    format!("the action is registered for no context; write e.g. `{{\"{}\"}}`", ACTION_CONTEXTS[2]);
                findings.warn(place.position(file), message);
            }
            (Parameter::Contexts, Shape::Table(items)) => {
                for item in items {
                    word_of(file, "context", item, ACTION_CONTEXTS, *place, findings);
                }
            }
            (Parameter::Mode, mode) => word_of(file, "mode", mode, SERVICE_MODES, *place, findings),
            _ => {}
        }
    }
}

fn word_of(file: &File, what: &str, shape: &Shape<'_>, known: &[&str], place: Place, findings: &mut Findings) {
    if let Shape::Text(text) = shape
        && !known.iter().any(|known| known.as_bytes() == *text)
    {
        let text = String::from_utf8_lossy(text);
        let message = format!("there is no {what} `{text}`; known: `{}`", known.join("`, `"));
        findings.error(place.position(file), message);
    }
}

/// HAProxy keeps the first and only warns, so it is easy to edit the wrong one.
fn twice<'a>(
    file: &File,
    name: &'static str,
    call: &Call<'a>,
    seen: &mut BTreeMap<(&'static str, &'a [u8], Vec<u8>), u32>,
    findings: &mut Findings,
) {
    let Some((Shape::Text(text), _)) = call.arguments.first() else { return };
    let contexts: Vec<Vec<u8>> = match call.arguments.get(1) {
        Some((Shape::Table(items), _)) if name == "register_action" => items
            .iter()
            .filter_map(|item| if let Shape::Text(text) = item { Some(text.to_vec()) } else { None })
            .collect(),
        _ => vec![Vec::new()],
    };
    for context in contexts {
        if let Some(line) = seen.get(&(name, text, context.clone())) {
            let text = String::from_utf8_lossy(text);
            let message =
                format!("`{text}` is registered already, in line {line}; remove one, or give it another name");
            findings.warn(call.place.position(file), message);
            return;
        }
        seen.insert((name, text, context), call.place.line);
    }
}

// === impl Parameter ===

impl Parameter {
    fn words(self) -> &'static str {
        match self {
            Self::Name => "a name as text",
            Self::Contexts => "a table of contexts, e.g. `{\"http-req\"}`,",
            Self::Mode => "a mode, `\"tcp\"` or `\"http\"`,",
            Self::Words => "a table with the words of the command",
            Self::Usage => "a line of help as text",
            Self::Class => "the table of the filter's class",
            Self::Function => "a function",
        }
    }

    fn may_be(self, shape: &Shape<'_>) -> bool {
        match shape {
            Shape::Many | Shape::Other => true,
            Shape::Text(_) => matches!(self, Self::Name | Self::Mode | Self::Usage),
            Shape::Number => matches!(self, Self::Name | Self::Usage),
            Shape::Table(_) => matches!(self, Self::Contexts | Self::Words | Self::Class),
            Shape::Function => self == Self::Function,
            Shape::Nil | Shape::Boolean => false,
        }
    }
}
