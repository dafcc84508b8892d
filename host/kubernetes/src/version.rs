//! Resource versions: which of two states of the cluster is newer.

use std::{cmp::Ordering, fmt};

/// A `metadata.resourceVersion`. The API defines an order for those that are decimal numbers of any length; others
/// are opaque and only equal or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceVersion(Box<str>);

// === impl ResourceVersion ===

impl ResourceVersion {
    /// Nothing is known: any state is as good as another.
    pub fn unknown() -> Self {
        Self::default()
    }

    pub fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How the two states follow each other; `None` if the API gives no order for them.
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        if self == other {
            return Some(Ordering::Equal);
        }
        let (own, other) = (self.digits()?, other.digits()?);
        Some(own.len().cmp(&other.len()).then_with(|| own.cmp(other)))
    }

    /// Certainly older; what has no order is not.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Less)
    }

    /// Takes the other version unless it is older.
    pub fn advance(&mut self, other: &Self) {
        if !other.is_unknown() && !other.is_older_than(self) {
            self.0.clone_from(&other.0);
        }
    }

    /// `0` has a meaning of its own in requests and a leading zero none at all.
    fn digits(&self) -> Option<&str> {
        let numeric = self.0.bytes().all(|byte| byte.is_ascii_digit()) && !self.0.starts_with('0');
        (numeric && !self.is_unknown()).then_some(&*self.0)
    }
}

impl From<&str> for ResourceVersion {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(a: &str, b: &str) -> Option<Ordering> {
        ResourceVersion::from(a).compare(&b.into())
    }

    #[test]
    fn numbers_of_any_length_have_an_order_and_other_texts_have_none() {
        assert_eq!(compare("9", "10"), Some(Ordering::Less));
        assert_eq!(compare("100000000000000000000000001", "99999999999999999999999999"), Some(Ordering::Greater));
        assert_eq!(compare("abc", "abc"), Some(Ordering::Equal));
        assert_eq!(compare("abc", "10"), None);
        assert_eq!(compare("007", "8"), None);
        assert_eq!(compare("", "8"), None);
    }

    #[test]
    fn advances_to_what_is_newer_or_has_no_order_and_never_back() {
        let mut version = ResourceVersion::unknown();
        for (next, expected) in [("5", "5"), ("", "5"), ("4", "5"), ("12", "12"), ("opaque", "opaque"), ("3", "3")] {
            version.advance(&next.into());
            assert_eq!(version.as_str(), expected);
        }
    }
}
