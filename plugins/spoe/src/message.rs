//! The lines of `spoe-message`. HAProxy ignores those that it does not know, without a word.

use crate::{
    expression,
    model::{Event, Message, Name, Place},
    parse::{Line, bad_in_name, meant},
};

/// ACLs that every HAProxy knows.
const BUILT_IN_ACLS: [&str; 21] = [
    "FALSE",
    "HTTP",
    "HTTP_1.0",
    "HTTP_1.1",
    "HTTP_2.0",
    "HTTP_3.0",
    "HTTP_CONTENT",
    "HTTP_URL_ABS",
    "HTTP_URL_SLASH",
    "HTTP_URL_STAR",
    "LOCALHOST",
    "METH_CONNECT",
    "METH_DELETE",
    "METH_GET",
    "METH_HEAD",
    "METH_OPTIONS",
    "METH_POST",
    "METH_PUT",
    "METH_TRACE",
    "REQ_CONTENT",
    "TRUE",
];

/// Takes one line of the section.
pub(crate) fn line(line: &mut Line<'_>, message: &mut Message) {
    let keyword = line.words.text(0);
    match keyword.as_str() {
        "args" => arguments(line, message),
        "acl" => acl(line, message),
        "event" => event(line, message),
        other => {
            let meant = meant(line.report, other, ["args", "acl", "event", "spoe-agent", "spoe-group", "spoe-message"]);
            let advice = "remove it or correct it";
            line.error(0, format!("`{other}` is no keyword of `spoe-message` and HAProxy ignores it; {advice}{meant}"));
        }
    }
}

fn arguments(line: &mut Line<'_>, message: &mut Message) {
    if line.words.len() < 2 {
        line.warn(0, "no argument is named here; name one, e.g. `ip=src`, or remove the line");
    }
    for index in 1..line.words.len() {
        let word = Name::of(line.words, index);
        // As HAProxy does: the first `=`, even within parentheses.
        let (name, expression) = match word.text.split_once('=') {
            Some((name, expression)) => (Some(name), expression),
            None => (None, word.text.as_str()),
        };
        let start = name.map_or(0, |name| name.len() + 1);
        match name {
            Some("") => line.error(index, "give the argument a name before `=`, or leave the `=` out"),
            Some(name) => {
                if let Some(number) = message.argument_names.line_of(name) {
                    let advice = "the agent gets two of one name, so rename one";
                    line.warn(index, format!("`{name}` is already an argument, see line {number}; {advice}"));
                } else {
                    message.argument_names.add(Name { text: name.to_owned(), place: word.place });
                }
            }
            None => {}
        }
        match expression::check(expression) {
            // The word as it stands in the file may be longer than what its quotes hold: then its start must do.
            Err(wrong) => line.error_at(word.place.plus(start + wrong.offset), wrong.message),
            Ok(()) => {
                let text = expression::fetch(expression).to_owned();
                message.fetches.push(Name { text, place: word.place.plus(start) });
            }
        }
    }
}

fn acl(line: &mut Line<'_>, message: &mut Message) {
    let name = Name::of(line.words, 1);
    if line.words.len() < 3 {
        return line.error(1, "write a name and what it tests: `acl local src 127.0.0.1`");
    }
    if let Some(bad) = bad_in_name(&name.text) {
        return line.error(1, format!("`{bad}` may not stand in a name; use letters, digits, `_`, `-`, `.`, `:`"));
    }
    if name.text.eq_ignore_ascii_case("or") {
        return line.error(1, "`or` joins conditions and can name none; rename it");
    }
    let expression = Name::of(line.words, 2);
    if let Err(wrong) = expression::check(&expression.text) {
        return line.error_at(expression.place.plus(wrong.offset), wrong.message);
    }
    message.acls.add(name);
}

fn event(line: &mut Line<'_>, message: &mut Message) {
    if line.words.len() < 2 {
        return line.error(0, "name an event, e.g. `event on-frontend-http-request`");
    }
    let name = line.words.text(1);
    let Some(event) = Event::named(&name) else {
        let meant = meant(line.report, &name, Event::ALL.map(|(name, _)| name));
        let known = "write one such as `on-frontend-http-request`";
        return line.error(1, format!("`{name}` is no event; {known}{meant}"));
    };
    if let Some((earlier, place)) = message.event {
        let (earlier, number) = (earlier.name(), place.line());
        let advice = "HAProxy takes the last, so leave one out or write a second message";
        line.error(1, format!("line {number} already says `event {earlier}`; {advice}"));
    }
    message.event = Some((event, Place::of(line.words, 1)));
    match line.words.get(2) {
        None => {}
        Some(b"if" | b"unless") => condition(line, message, event),
        Some(_) => {
            let word = line.words.text(2);
            line.error(2, format!("a condition begins with `if` or `unless`, not with `{word}`"));
        }
    }
}

/// Terms joined by blanks and `or`. HAProxy takes an empty side of an `or` and then never finds it true.
fn condition(line: &mut Line<'_>, message: &mut Message, event: Event) {
    let mut terms = 0;
    let mut index = 3;
    while index < line.words.len() {
        let word = line.words.text(index);
        let term = word.trim_start_matches('!');
        if matches!(term, "or" | "OR" | "||") || term.is_empty() {
            if term.is_empty() {
                index += 1;
                continue;
            }
            if terms == 0 {
                line.error(index, format!("nothing stands before this `{word}`; write an ACL's name or remove it"));
            }
            terms = 0;
            index += 1;
            continue;
        }
        terms += 1;
        if term == "{" {
            let Some(end) = (index + 1..line.words.len()).find(|at| line.words.get(*at) == Some(b"}")) else {
                return line.error(index, "close this brace with a `}` that stands alone between blanks");
            };
            anonymous(line, index, end, event);
            index = end + 1;
            continue;
        }
        if message.acls.contains(term) {
            message.used_acls.insert(term.to_owned());
        } else if !BUILT_IN_ACLS.contains(&term) {
            undefined(line, index, term, message);
        } else if event == Event::ClientSession && (term.starts_with("METH_") || term.starts_with("HTTP")) {
            let name = event.name();
            let advice = "use a later event such as `on-frontend-http-request`";
            line.error(index, format!("`{term}` looks at the request, which has not come yet at `{name}`; {advice}"));
        }
        index += 1;
    }
    if terms == 0 {
        line.error(index, "the condition ends here and is never true; write an ACL's name, or remove the condition");
    }
}

fn anonymous(line: &mut Line<'_>, start: usize, end: usize, event: Event) {
    let expression = Name::of(line.words, start + 1);
    if end == start + 1 {
        return line.error(start, "nothing stands between the braces; write what is tested, e.g. `{ src 127.0.0.1 }`");
    }
    if let Err(wrong) = expression::check(&expression.text) {
        return line.error_at(expression.place.plus(wrong.offset), wrong.message);
    }
    let fetch = expression::fetch(&expression.text);
    if let Err(reads) = expression::available(fetch, event) {
        let name = event.name();
        line.warn_at(
            expression.place,
            format!("`{fetch}` reads {reads} at `{name}`, so the condition is never true; use another event"),
        );
    }
}

fn undefined(line: &mut Line<'_>, index: usize, term: &str, message: &Message) {
    if term.starts_with('{') {
        return line.error(index, "put a blank after `{` and before `}`");
    }
    if matches!(term, "&&" | "and") {
        return line.error(index, format!("remove `{term}`: conditions that stand side by side must all be true"));
    }
    let known = message.acls.texts().chain(BUILT_IN_ACLS);
    let meant = meant(line.report, term, known);
    let advice = "ACLs of haproxy.cfg are not known here, so declare it above in this message";
    line.error(index, format!("no `acl {term}` stands above; {advice}{meant}"));
}
