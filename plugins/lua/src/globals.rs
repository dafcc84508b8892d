//! Globals: those that no one defines, and those that requests share by accident.

use std::collections::BTreeSet;

use haptic_plugin_sdk::File;
use parts::Findings;

use crate::{Config, api, parser::Outcome, token::Place};

/// What Lua and HAProxy 3.0 to 3.4 define, printed by a script that HAProxy loaded.
const KNOWN: &str = "CertCache Map Regex _ENV _G _VERSION act assert collectgarbage core coroutine debug dofile error \
                     filter getmetatable io ipairs load loadfile math next os package pairs pcall print rawequal \
                     rawget rawlen rawset require select setmetatable string table tonumber tostring type utf8 warn \
                     xpcall";

/// Reports globals; `elsewhere` gives those of the other files, at a price.
pub(crate) fn check(
    config: &Config,
    file: &File,
    outcome: &Outcome<'_>,
    elsewhere: impl FnOnce() -> BTreeSet<Vec<u8>>,
    findings: &mut Findings,
) {
    let known: BTreeSet<&[u8]> =
        KNOWN.split(' ').map(str::as_bytes).chain(config.globals.iter().map(String::as_bytes)).collect();
    let is_known = |name: &[u8]| known.contains(name) || outcome.defined.contains_key(name);
    let mut unknown: Vec<(&[u8], Place)> =
        outcome.read.iter().filter(|(name, _)| !is_known(name)).map(|(name, place)| (*name, *place)).collect();
    if !unknown.is_empty() && !outcome.is_open_ended {
        let elsewhere = elsewhere();
        unknown.retain(|(name, _)| !elsewhere.contains(*name));
        unknown.sort_by_key(|(_, place)| (place.line, place.column));
        for (name, place) in unknown {
            let name = String::from_utf8_lossy(name);
            let message = format!(
                "`{name}` is defined nowhere, so it is nil when this runs; correct the name, or list it in `globals`"
            );
            findings.warn(place.position(file), message);
        }
    }
    let mut inside: Vec<(&[u8], Place)> = outcome
        .defined
        .iter()
        .filter(|(name, _)| !known.contains(*name))
        .filter_map(|(name, place)| place.map(|place| (*name, place)))
        .collect();
    inside.sort_by_key(|(_, place)| (place.line, place.column));
    for (name, place) in inside {
        let name = String::from_utf8_lossy(name);
        let message =
            format!("the global `{name}` is set in a function only, so all requests share it; write `local {name}`");
        findings.warn(place.position(file), message);
    }
    members(file, outcome, findings);
}

/// Reports members that the tables of Lua and HAProxy do not have.
fn members(file: &File, outcome: &Outcome<'_>, findings: &mut Findings) {
    let own: BTreeSet<_> = outcome.own_members.iter().copied().collect();
    for (path, place) in &outcome.members {
        let Some(member) = path.member else { continue };
        if own.contains(path) || outcome.defined.contains_key(path.base) || api::has_member(path.base, member) {
            continue;
        }
        let (base, member) = (String::from_utf8_lossy(path.base), String::from_utf8_lossy(member));
        let instead = match (&*base, &*member) {
            ("os", "sleep") => "; write `core.msleep`, which lets other connections go on",
            ("table", "getn") => "; write `#`",
            _ => "; correct the name",
        };
        findings
            .warn(place.position(file), format!("`{base}` has no `{member}`, so it is nil when this runs{instead}"));
    }
}
