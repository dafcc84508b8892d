//! The oldest TLS version that a listener may speak.

use std::collections::BTreeMap;

use haptic_plugin_sdk::{File, Position};
use parts::{Findings, Words};
use serde::Deserialize;

use crate::{certificates, section::Section};

/// A version, as HAProxy writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum TlsVersion {
    #[serde(rename = "SSLv3")]
    Ssl3,
    #[serde(rename = "TLSv1.0")]
    Tls10,
    #[serde(rename = "TLSv1.1")]
    Tls11,
    #[serde(rename = "TLSv1.2")]
    Tls12,
    #[serde(rename = "TLSv1.3")]
    Tls13,
}

/// What HAProxy speaks at least where nothing is said.
const HAPROXY_DEFAULT: TlsVersion = TlsVersion::Tls12;

#[derive(Clone, Copy)]
pub(crate) struct TlsRule {
    minimum: TlsVersion,
}

/// The rule while a file is read. What says nothing itself is judged at the end, when the defaults are known.
pub(crate) struct TlsCheck<'a> {
    minimum: TlsVersion,
    file: &'a File,
    default: TlsVersion,
    silent: Vec<Position>,
    /// Each list of certificates with the first `bind` that names it.
    lists: BTreeMap<String, u32>,
}

// === impl TlsRule ===

impl TlsRule {
    pub(crate) fn new(minimum: TlsVersion) -> Self {
        Self { minimum }
    }

    pub(crate) fn check(self, file: &File) -> TlsCheck<'_> {
        TlsCheck { minimum: self.minimum, file, default: HAPROXY_DEFAULT, silent: Vec::new(), lists: BTreeMap::new() }
    }
}

// === impl TlsCheck ===

impl TlsCheck<'_> {
    pub(crate) fn see(&mut self, section: Section, words: &Words, findings: &mut Findings) {
        match words.get(0) {
            Some(b"ssl-default-bind-options") if section == Section::Global => {
                if let Some(stated) = stated(words, self.minimum, self.file, findings) {
                    self.default = stated;
                }
            }
            Some(b"bind") if words.iter().skip(2).any(|word| word == b"ssl") => {
                for (index, _) in words.iter().enumerate().filter(|(_, word)| *word == b"crt-list") {
                    self.lists.entry(words.text(index + 1)).or_insert(words.line());
                }
                if stated(words, self.minimum, self.file, findings).is_none() {
                    self.silent.push(words.position(0, self.file));
                }
            }
            // It gives the binds of its section one more certificate; where it says nothing, what they say counts.
            Some(b"ssl-f-use") => {
                stated(words, self.minimum, self.file, findings);
            }
            _ => {}
        }
    }

    /// Looks at what is left: listeners that say nothing, and the lists of certificates among `files`.
    pub(crate) fn finish(self, files: &[File], findings: &mut Findings) {
        let minimum = self.minimum.name();
        if self.default < self.minimum {
            let default = self.default.name();
            for position in self.silent {
                findings.error(
                    position,
                    format!(
                        "this listener speaks {default} and newer, but {minimum} is the oldest version allowed; write \
                         `ssl-min-ver {minimum}` here or in `ssl-default-bind-options`"
                    ),
                );
            }
        }
        for (list, bind) in self.lists {
            let named = |file: &&File| {
                list.strip_suffix(file.path()).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            };
            if let Some(file) = files.iter().find(named) {
                certificates::check(file, bind, self.minimum, findings);
            }
        }
    }
}

/// Whether a line that begins with `word` may be of interest.
pub(crate) fn is_about(word: &[u8]) -> bool {
    matches!(word, b"bind" | b"ssl-default-bind-options" | b"ssl-f-use")
}

/// The oldest version that the line allows in so many words; one that is too old is reported where it stands, and then
/// counts as the minimum, so that it is reported once.
fn stated(words: &Words, minimum: TlsVersion, file: &File, findings: &mut Findings) -> Option<TlsVersion> {
    let mut stated = None;
    for (index, word) in words.iter().enumerate() {
        let (place, version) = match word {
            b"ssl-min-ver" | b"ssl-max-ver" => (index + 1, words.get(index + 1).and_then(TlsVersion::named)),
            _ => (index, TlsVersion::forced(word)),
        };
        let Some(version) = version else { continue };
        // A newest version says nothing about the oldest, unless it is too old itself.
        if word != b"ssl-max-ver" {
            stated = Some(version.max(minimum));
        }
        if version < minimum {
            findings.error(words.position(place, file), version.too_old(minimum));
        }
    }
    stated
}

// === impl TlsVersion ===

impl TlsVersion {
    const ALL: [Self; 5] = [Self::Ssl3, Self::Tls10, Self::Tls11, Self::Tls12, Self::Tls13];

    /// What to say of a version that is older than `minimum`.
    pub(crate) fn too_old(self, minimum: Self) -> String {
        let (version, minimum) = (self.name(), minimum.name());
        format!("{version} is older than {minimum}, the oldest version allowed; write `ssl-min-ver {minimum}`")
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ssl3 => "SSLv3",
            Self::Tls10 => "TLSv1.0",
            Self::Tls11 => "TLSv1.1",
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }

    pub(crate) fn named(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.name().as_bytes() == word)
    }

    /// The only version that a `force-…` keyword leaves.
    fn forced(word: &[u8]) -> Option<Self> {
        match word.strip_prefix(b"force-")? {
            b"sslv3" => Some(Self::Ssl3),
            b"tlsv10" => Some(Self::Tls10),
            b"tlsv11" => Some(Self::Tls11),
            b"tlsv12" => Some(Self::Tls12),
            b"tlsv13" => Some(Self::Tls13),
            _ => None,
        }
    }
}
