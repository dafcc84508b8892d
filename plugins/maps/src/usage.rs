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
    let finder = Finder::new(path);
    let mut uses: Vec<Use> = Vec::new();
    let mut words = Words::default();
    let (mut done, mut places) = (0, 0);
    for at in finder.find_iter(&content) {
        if at < done {
            continue;
        }
        if places >= MOST_PLACES {
            break;
        }
        let from = memchr::memrchr(b'\n', &content[..at]).map_or(0, |feed| feed + 1);
        done = memchr::memchr(b'\n', &content[at..]).map_or(content.len(), |length| at + length);
        words.split(1, &content[from..done]);
        // Counted as well where the path stands in a comment alone.
        places += 1;
        for (index, word) in words.iter().enumerate() {
            for place in finder.find_iter(word).take(MOST_PLACES.saturating_sub(places)) {
                places += 1;
                if let Some(usage) = usage(&words, index, place, place + path.len())
                    && !uses.contains(&usage)
                {
                    uses.push(usage);
                }
            }
        }
    }
    uses
}

/// What the file is used as that the word at `index` names from `at` to `end`; `None` if that can't be told.
fn usage(words: &Words, index: usize, at: usize, end: usize) -> Option<Use> {
    let word = words.get(index)?;
    let before = word[..at].iter().rev().take_while(|byte| is_path(**byte)).count();
    let start = at - before;
    let prefix = &word[start..at];
    if !(prefix.is_empty() || prefix.ends_with(b"/") || prefix.ends_with(b"@")) {
        return None;
    }
    match (word[..start].last(), word.get(end)) {
        (Some(b'('), None | Some(b')' | b',')) => {
            let name = word[..start - 1].iter().rev().take_while(|byte| is_word(**byte)).count();
            map(std::str::from_utf8(&word[start - 1 - name..start - 1]).ok()?)
        }
        (None, None) => list(words, index),
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

/// `acl NAME FETCH [-m HOW] -f FILE`, or the same between braces; `at` is the file's word.
fn list(words: &Words, at: usize) -> Option<Use> {
    if words.get(at.checked_sub(1)?) != Some(b"-f") {
        return None;
    }
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
        assert_eq!(found("x %[src,map_str(\"maps/a.map\")]"), [map(Match::Str, Value::Str)]);
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
        let both = [list(Some(Match::Ip)), list(Some(Match::Beg))];
        assert_eq!(found("deny if { src -f maps/a.map } { path_beg -f maps/a.map }"), both);
    }

    #[test]
    fn comments_use_nothing() {
        let map = (Kind::Map, Some(Match::Beg), Value::Str);
        assert_eq!(found("# use_backend %[src,map_ip(maps/a.map)]"), []);
        assert_eq!(found("x %[path,map_beg(maps/a.map)] # %[src,map_ip(maps/a.map)]\n\t#map_ip(maps/a.map)"), [map]);
        assert_eq!(found(r"x \# %[path,map_beg(maps/a.map)]"), [map]);
        assert_eq!(found("x '# %[path,map_beg(maps/a.map)]'"), [map]);
    }

    #[test]
    fn no_more_than_a_thousand_places_are_looked_at() {
        let map = (Kind::Map, Some(Match::Str), Value::Str);
        let last = " %[src,map(maps/a.map)]";
        assert_eq!(found(&("x maps/a.map".repeat(400) + last)), [map]);
        assert_eq!(found(&("x maps/a.map".repeat(1000) + last)), []);
        assert_eq!(found(&("# maps/a.map\n".repeat(1000) + last)), []);
    }
}
