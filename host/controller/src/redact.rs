//! What of a rendered text is for everybody to read.

use std::{borrow::Cow, sync::LazyLock};

use regex::Regex;

/// What stands in place of a secret.
const MASK: &str = "***";

/// Passwords of userlists and of the statistics page, and values of headers that authorize.
static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    let patterns = [
        // user NAME password HASH | user NAME insecure-password TEXT
        "(?P<user>^GAP*userGAP+WORDGAP+(?:.*GAP)?(?:insecure-)?passwordGAP+)WORD",
        "(?P<auth>^GAP*statsGAP+authGAP+)WORD",
        "(?P<header>(?:set-header|add-header|hdr)GAP+(?:proxy-)?authorizationGAP+)WORD",
    ];
    // A word as HAProxy splits lines: plain characters, escapes, and quoted parts.
    let word = r#"(?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|[^\s\\"'])+"#;
    let pattern = patterns.map(|pattern| pattern.replace("WORD", word).replace("GAP", "[ \\t]")).join("|");
    Regex::new(&format!("(?mi){pattern}")).expect("the pattern is a constant")
});

/// The text with `***` in place of passwords.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    SECRETS.replace_all(text, format!("${{user}}${{auth}}${{header}}{MASK}"))
}

/// Whether a private key in PEM stands in it, whatever kind of file it is.
pub(crate) fn has_private_key(text: &str) -> bool {
    text.contains("PRIVATE KEY-----")
}

#[cfg(test)]
mod tests;
