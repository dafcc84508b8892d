//! How `haproxy.cfg` uses a file, where it is among the data files.

use haptic_plugin_sdk::File;
use memchr::memmem::Finder;
use parts::Words;

use crate::config::{Kind, Match, Use, Value};

/// Where the configuration stands among the rendered files.
const CONFIG: &str = "haproxy.cfg";

/// Places that are looked at. A file that is named more often has shown all its uses.
const MOST_PLACES: usize = 1000;

/// Fetches of text, whose patterns are compared whole if nothing else is said.
const TEXT_FETCHES: [&str; 16] = [
    "base",
    "capture.req.hdr",
    "capture.req.uri",
    "cook",
    "fe_name",
    "hdr",
    "method",
    "path",
    "query",
    "req.cook",
    "req.fhdr",
    "req.hdr",
    "req.ssl_sni",
    "ssl_fc_sni",
    "url",
    "url_param",
];

/// Every different use, in order.
pub(crate) fn uses(path: &str, data_files: &[File]) -> Vec<Use> {
    let Some(config) = data_files.iter().find(|data| data.path() == CONFIG) else { return Vec::new() };
    let content = config.read_all();
    let mut uses: Vec<Use> = Vec::new();
    for at in Finder::new(path.as_bytes()).find_iter(&content).take(MOST_PLACES) {
        if let Some(usage) = usage(&content, at, at + path.len())
            && !uses.contains(&usage)
        {
            uses.push(usage);
        }
    }
    uses
}

/// What the file named from `at` to `end` is used as there; `None` if that can't be told.
fn usage(content: &[u8], at: usize, end: usize) -> Option<Use> {
    let goes_on =
        content.get(end).is_some_and(|byte| !matches!(byte, b')' | b',' | b' ' | b'\t' | b'\r' | b'\n' | b'"'));
    let before = content[..at].iter().rev().take_while(|byte| is_path(**byte)).count();
    let start = at - before;
    let prefix = &content[start..at];
    if goes_on || !(prefix.is_empty() || prefix.ends_with(b"/") || prefix.ends_with(b"@")) {
        return None;
    }
    match content[..start].last() {
        Some(b'(') => {
            let name = content[..start - 1].iter().rev().take_while(|byte| is_word(**byte)).count();
            map(std::str::from_utf8(&content[start - 1 - name..start - 1]).ok()?)
        }
        Some(b' ' | b'\t' | b'"') => {
            let from = memchr::memrchr(b'\n', &content[..at]).map_or(0, |feed| feed + 1);
            let to = memchr::memchr(b'\n', &content[at..]).map_or(content.len(), |length| at + length);
            let mut words = Words::default();
            words.split(1, &content[from..to]);
            list(&words, &content[start..end])
        }
        _ => None,
    }
}

/// `map`, `map_beg`, `map_str_int`, …
fn map(name: &str) -> Option<Use> {
    let mut parts = name.strip_prefix("map")?.split('_').skip(1);
    let matching = match parts.next() {
        None => Match::Str,
        Some(name) => Match::named(name)?,
    };
    let value = match parts.next() {
        None | Some("str") => Value::Str,
        Some("int") => Value::Int,
        Some("ip") => Value::Ip,
        Some(_) => return None,
    };
    Some(Use { kind: Kind::Map, matching: Some(matching), value, sorted: false })
}

/// `acl NAME FETCH [-m HOW] -f FILE`, or the same between braces.
fn list(words: &Words, file: &[u8]) -> Option<Use> {
    let at = (1..words.len()).find(|at| words.get(*at) == Some(file) && words.get(*at - 1) == Some(b"-f"))?;
    let brace = (0..at).rev().find(|index| words.get(*index).is_some_and(|word| word.ends_with(b"{")));
    let fetch_at = match brace {
        Some(brace) => brace + 1,
        None if words.get(0) == Some(b"acl") => 2,
        None => return None,
    };
    let said = (fetch_at..words.len() - 1).take_while(|index| words.get(*index) != Some(b"}"));
    let said = said.into_iter().find(|index| words.get(*index) == Some(b"-m")).map(|index| words.text(index + 1));
    let matching = match said {
        Some(name) => Match::named(&name),
        None => by_fetch(&words.text(fetch_at)),
    };
    Some(Use { kind: Kind::List, matching, value: Value::Str, sorted: false })
}

/// How HAProxy compares what an expression gives, if it is sure.
fn by_fetch(expression: &str) -> Option<Match> {
    let fetch = expression.split(['(', ',']).next().unwrap_or_default();
    if expression.contains("),") || (expression.contains(',') && !expression.contains('(')) {
        // A converter may make anything of it.
        return None;
    }
    let (name, suffix) = fetch.rsplit_once('_').unwrap_or((fetch, ""));
    match Match::named(suffix) {
        Some(matching) if TEXT_FETCHES.contains(&name) => Some(matching),
        _ if matches!(fetch, "src" | "dst" | "fc_src" | "fc_dst") => Some(Match::Ip),
        _ if matches!(fetch, "src_port" | "dst_port" | "status") => Some(Match::Int),
        _ if TEXT_FETCHES.contains(&fetch) => Some(Match::Str),
        _ => None,
    }
}

fn is_path(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'@')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use haptic_plugin_sdk::testing::file;

    use super::*;

    fn found(config: &str) -> Vec<(Kind, Option<Match>, Value)> {
        let uses = uses("maps/a.map", &[file("haproxy.cfg", config)]);
        uses.into_iter().map(|usage| (usage.kind, usage.matching, usage.value)).collect()
    }

    #[test]
    fn converters_tell_how_a_map_is_read() {
        let map = |matching, value| (Kind::Map, Some(matching), value);
        assert_eq!(found("use_backend %[path,map_beg(maps/a.map,none)]"), [map(Match::Beg, Value::Str)]);
        assert_eq!(found("x %[src,map_ip_int(/etc/haproxy/maps/a.map)]"), [map(Match::Ip, Value::Int)]);
        assert_eq!(found("x %[src,map(opt@maps/a.map)] %[src,map(maps/a.map)]"), [map(Match::Str, Value::Str)]);
        assert_eq!(found("x %[src,lower(maps/a.map)]"), []);
        assert_eq!(found("x %[src,map(other-maps/a.map)] %[src,map(maps/a.map2)]"), []);
    }

    #[test]
    fn conditions_tell_how_a_list_is_read() {
        let list = |matching| (Kind::List, matching, Value::Str);
        assert_eq!(found("acl x src -f maps/a.map"), [list(Some(Match::Ip))]);
        assert_eq!(found("acl x path_beg -i -f \"maps/a.map\""), [list(Some(Match::Beg))]);
        assert_eq!(found("acl x path,lower -m end -f maps/a.map"), [list(Some(Match::End))]);
        assert_eq!(found("acl x req.hdr(host),lower -f maps/a.map"), [list(None)]);
        assert_eq!(found("deny if { hdr(host) -f maps/a.map } { src -m reg x }"), [list(Some(Match::Str))]);
        assert_eq!(found("# -f maps/a.map"), []);
    }
}
