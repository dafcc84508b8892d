//! The lines of `spoe-agent`.

use crate::{
    model::{Agent, Name},
    parse::{Line, meant},
};

const KEYWORDS: [&str; 11] = [
    "groups",
    "log",
    "max-frame-size",
    "max-waiting-frames",
    "maxconnrate",
    "maxerrrate",
    "messages",
    "option",
    "register-var-names",
    "timeout",
    "use-backend",
];

const OPTIONS: [&str; 10] = [
    "async",
    "continue-on-error",
    "dontlog-normal",
    "force-set-var",
    "pipelining",
    "send-frag-payload",
    "set-on-error",
    "set-process-time",
    "set-total-time",
    "var-prefix",
];

const MIN_FRAME_BYTES: u64 = 256;
/// What a frame's own length takes of the buffer.
const FRAME_LENGTH_BYTES: u64 = 4;
const MAX_TIMEOUT_MS: u64 = i32::MAX as u64;

/// Takes one line of the section.
pub(crate) fn line(line: &mut Line<'_>, agent: &mut Agent) {
    let keyword = line.words.text(usize::from(line.negated));
    if line.negated && !matches!(keyword.as_str(), "option" | "log") {
        return line.error(0, format!("`no` has no meaning before `{keyword}`; remove the line"));
    }
    match keyword.as_str() {
        "messages" => line.names(&mut agent.messages, "message"),
        "groups" => line.names(&mut agent.groups, "group"),
        "use-backend" => use_backend(line, agent),
        "timeout" => timeout(line, agent),
        "option" => option(line, agent),
        "max-frame-size" => frame_size(line),
        "maxconnrate" | "maxerrrate" | "max-waiting-frames" => {
            if number(line, &keyword).is_some() {
                without_effect(line, &keyword);
            }
        }
        "register-var-names" => variables(line),
        "log" => log(line),
        other => {
            let meant = meant(line.report, other, KEYWORDS.into_iter().chain(["spoe-group", "spoe-message"]));
            line.error(0, format!("`{other}` is no keyword of `spoe-agent`; remove it or correct it{meant}"));
        }
    }
}

fn use_backend(line: &mut Line<'_>, agent: &mut Agent) {
    if line.words.len() != 2 {
        return line.error(2, "name one backend of haproxy.cfg: `use-backend NAME`");
    }
    if let Some(earlier) = &agent.backend {
        let (name, number) = (&earlier.text, earlier.place.line());
        line.error(
            0,
            format!(
                "`use-backend {name}` in line {number} already says which; HAProxy takes the last, so leave one out"
            ),
        );
    }
    agent.backend = Some(Name::of(line.words, 1));
}

fn timeout(line: &mut Line<'_>, agent: &mut Agent) {
    let name = match line.words.get(1) {
        Some(b"hello") => "hello",
        Some(b"idle") => "idle",
        Some(b"processing") => "processing",
        _ => {
            let word = line.words.text(1);
            let meant = meant(line.report, &word, ["hello", "idle", "processing"]);
            return line.error(1, format!("`{word}` is no timeout here; write `hello`, `idle` or `processing`{meant}"));
        }
    };
    if line.words.len() != 3 {
        return line.error(3, format!("write one time: `timeout {name} 500ms`"));
    }
    match milliseconds(&line.words.text(2)) {
        Err(wrong) => line.error(2, format!("{wrong}; write digits and one of us, ms, s, m, h, d, e.g. `500ms`")),
        Ok(0) if name == "processing" => {
            line.warn(2, "0 means that HAProxy waits for an agent without end; write a time, e.g. `500ms`");
        }
        Ok(_) => {}
    }
    agent.timeouts.push(name);
    if name != "processing" {
        without_effect(line, &format!("timeout {name}"));
    }
}

/// A time as HAProxy writes it.
fn milliseconds(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is no time"))?;
    let milliseconds = match unit {
        "us" => number.div_ceil(1000),
        "" | "ms" => number,
        "s" => number.saturating_mul(1000),
        "m" => number.saturating_mul(60_000),
        "h" => number.saturating_mul(3_600_000),
        "d" => number.saturating_mul(86_400_000),
        _ => return Err(format!("`{text}` is no time")),
    };
    if milliseconds > MAX_TIMEOUT_MS {
        return Err(format!("`{text}` is more than HAProxy can count, 24 days"));
    }
    Ok(milliseconds)
}

fn option(line: &mut Line<'_>, agent: &mut Agent) {
    let at = 1 + usize::from(line.negated);
    let option = line.words.text(at);
    if !OPTIONS.contains(&option.as_str()) {
        let meant = meant(line.report, &option, OPTIONS);
        return line.error(at, format!("`{option}` is no option of `spoe-agent`; remove it or correct it{meant}"));
    }
    let switchable = matches!(option.as_str(), "async" | "dontlog-normal" | "pipelining" | "send-frag-payload");
    if line.negated && !switchable {
        return line.error(0, format!("`option {option}` cannot be negated; remove the line"));
    }
    let takes_name = matches!(option.as_str(), "set-on-error" | "set-process-time" | "set-total-time" | "var-prefix");
    let wanted = at + 1 + usize::from(takes_name);
    if line.words.len() != wanted {
        let shape = if takes_name { " NAME" } else { "" };
        return line.error(wanted, format!("write `option {option}{shape}` and nothing else"));
    }
    if takes_name {
        let name = Name::of(line.words, at + 1);
        variable(line, at + 1, &name.text);
        if option == "var-prefix" {
            agent.prefix = Some(name);
        }
    }
    if matches!(option.as_str(), "async" | "send-frag-payload") {
        without_effect(line, &format!("option {option}"));
    }
}

fn frame_size(line: &mut Line<'_>) {
    let Some(bytes) = number(line, "max-frame-size") else { return };
    let most = line.rules.buffer_bytes - FRAME_LENGTH_BYTES;
    if !(MIN_FRAME_BYTES..=most).contains(&bytes) {
        line.error(1, format!("{bytes} is out of range; write {MIN_FRAME_BYTES} to {most} (`tune.bufsize` less 4)"));
    }
}

/// The one number that the keyword takes. HAProxy reads as far as there are digits and ignores the rest.
fn number(line: &mut Line<'_>, keyword: &str) -> Option<u64> {
    let text = line.words.text(1);
    if line.words.len() != 2 || text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        line.error(1, format!("write one number in digits: `{keyword} 1000`"));
        return None;
    }
    let number = text.parse().ok();
    if number.is_none() {
        line.error(1, format!("`{text}` is too large; write a smaller number"));
    }
    number
}

fn variables(line: &mut Line<'_>) {
    if line.words.len() < 2 {
        line.error(0, "name the variables that the agent may set, or remove the line");
    }
    for index in 1..line.words.len() {
        let name = line.words.text(index);
        variable(line, index, &name);
    }
}

fn variable(line: &mut Line<'_>, index: usize, name: &str) {
    if let Some(bad) = name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.')) {
        line.error(index, format!("`{bad}` may not stand in a variable's name; use letters, digits, `_` and `.`"));
    }
}

fn log(line: &mut Line<'_>) {
    let enough = match line.words.get(1) {
        Some(b"global") => line.words.len() == 2,
        Some(_) if line.negated => line.words.len() == 2,
        Some(_) => line.words.len() >= 3,
        None => false,
    };
    if !enough {
        line.error(0, "write `log global` or `log ADDRESS FACILITY`, e.g. `log 127.0.0.1:514 local0`");
    }
}

fn without_effect(line: &mut Line<'_>, what: &str) {
    if line.rules.multiplexed == Some(true) {
        line.warn(0, format!("`{what}` has no effect since HAProxy 3.1, which says nothing about it; remove the line"));
    }
}
