//! The sections of a configuration.

/// The kind of section that a line stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    None,
    Global,
    Defaults,
    Frontend,
    Backend,
    Listen,
    Other,
}

// === impl Section ===

impl Section {
    /// The section that a line with this first word begins.
    pub(crate) fn starting_with(word: &[u8]) -> Option<Self> {
        match word {
            b"global" => Some(Self::Global),
            b"defaults" => Some(Self::Defaults),
            b"frontend" => Some(Self::Frontend),
            b"backend" => Some(Self::Backend),
            b"listen" => Some(Self::Listen),
            b"acme" | b"cache" | b"crt-store" | b"fcgi-app" | b"haterm" | b"healthcheck" | b"http-errors"
            | b"log-forward" | b"log-profile" | b"mailers" | b"peers" | b"program" | b"resolvers" | b"ring"
            | b"traces" | b"userlist" => Some(Self::Other),
            _ => None,
        }
    }
}
