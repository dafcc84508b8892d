//! The oldest TLS version that a listener may speak.

use haptic_plugin_sdk::{File, Position, Report};
use serde::Deserialize;

use crate::words::{Section, Words};

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

/// The rule while a file is read. A `bind` that says nothing is judged at the end, when the defaults are known.
pub(crate) struct TlsCheck<'a> {
    minimum: TlsVersion,
    file: &'a File,
    default: TlsVersion,
    silent: Vec<Position>,
}

// === impl TlsRule ===

impl TlsRule {
    pub(crate) fn new(minimum: TlsVersion) -> Self {
        Self { minimum }
    }

    pub(crate) fn check(self, file: &File) -> TlsCheck<'_> {
        TlsCheck { minimum: self.minimum, file, default: HAPROXY_DEFAULT, silent: Vec::new() }
    }
}

// === impl TlsCheck ===

impl TlsCheck<'_> {
    pub(crate) fn see(&mut self, section: Section, words: &Words, report: &mut Report) {
        match words.get(0) {
            Some(b"ssl-default-bind-options") if section == Section::Global => {
                if let Some(stated) = self.stated(words, report) {
                    self.default = stated;
                }
            }
            Some(b"bind") if words.iter().skip(2).any(|word| word == b"ssl") => {
                if self.stated(words, report).is_none() {
                    self.silent.push(words.position(0, self.file));
                }
            }
            _ => {}
        }
    }

    /// The oldest version that the line allows in so many words; one that is too old is reported where it stands, and
    /// then counts as the minimum, so that it is reported once.
    fn stated(&self, words: &Words, report: &mut Report) -> Option<TlsVersion> {
        let mut stated = None;
        for (index, word) in words.iter().enumerate() {
            let (place, version) = match word {
                b"ssl-min-ver" | b"ssl-max-ver" => (index + 1, words.get(index + 1).and_then(TlsVersion::named)),
                _ => (index, TlsVersion::forced(word)),
            };
            let Some(version) = version else { continue };
            // A newest version says nothing about the oldest, unless it is too old itself.
            if word != b"ssl-max-ver" {
                stated = Some(version.max(self.minimum));
            }
            if version < self.minimum {
                let message = format!(
                    "{} is older than {}, the oldest version allowed; write `ssl-min-ver {}`",
                    version.name(),
                    self.minimum.name(),
                    self.minimum.name()
                );
                report.error(words.position(place, self.file), message);
            }
        }
        stated
    }

    pub(crate) fn finish(self, report: &mut Report) {
        if self.default >= self.minimum {
            return;
        }
        for position in self.silent {
            let message = format!(
                "this listener speaks {} and newer, but {} is the oldest version allowed; write `ssl-min-ver {}` here \
                 or in `ssl-default-bind-options`",
                self.default.name(),
                self.minimum.name(),
                self.minimum.name()
            );
            report.error(position, message);
        }
    }
}

// === impl TlsVersion ===

impl TlsVersion {
    const ALL: [Self; 5] = [Self::Ssl3, Self::Tls10, Self::Tls11, Self::Tls12, Self::Tls13];

    fn name(self) -> &'static str {
        match self {
            Self::Ssl3 => "SSLv3",
            Self::Tls10 => "TLSv1.0",
            Self::Tls11 => "TLSv1.1",
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }

    fn named(word: &[u8]) -> Option<Self> {
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
