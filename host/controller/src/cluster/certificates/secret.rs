//! A Secret as the API server has it: whose its contents are, and what it becomes. Nothing of it is ever printed.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{clock::Timestamp, cluster::certificates::Kept};

/// The whole object.
pub(super) struct Secret(Value);

/// What a Secret holds; `None` removes an entry.
pub(super) type Entries<'a> = &'a [(&'static str, Option<&'a str>)];
/// Moments that are noted at it; `None` removes one.
pub(super) type Moments<'a> = &'a [(&'static str, Option<u64>)];

pub(super) const CERTIFICATE: &str = "tls.crt";
pub(super) const KEY: &str = "tls.key";
pub(super) const CA: &str = "ca.crt";
pub(super) const CA_KEY: &str = "ca.key";
/// Of the authority that still signs, while all are told of its successor.
pub(super) const PREVIOUS_KEY: &str = "ca-previous.key";

/// Says that the contents are the keeper's, and of what kind.
pub(super) const MARK: &str = "haptic.rs/certificate";
/// When the newest authority begins to sign.
pub(super) const SIGNS_FROM: &str = "haptic.rs/authority-signs-from";
/// Until when the one before it is trusted.
pub(super) const PREVIOUS_UNTIL: &str = "haptic.rs/previous-authority-until";

// === impl Secret ===

impl Secret {
    pub(super) fn new(object: Value) -> Self {
        Self(object)
    }

    /// `None` = it is not there or empty, which is how a Secret of a type that demands it is made without contents.
    pub(super) fn entry(&self, name: &str) -> Option<Vec<u8>> {
        let encoded = self.0["data"][name].as_str()?;
        STANDARD.decode(encoded).ok().filter(|content| !content.is_empty())
    }

    /// It holds nothing that this keeper or another one would put there.
    pub(super) fn is_blank(&self) -> bool {
        [CERTIFICATE, KEY, CA, CA_KEY].iter().all(|name| self.entry(name).is_none())
    }

    /// Its contents are the keeper's, whatever became of them.
    pub(super) fn is_kept_as(&self, kept: Kept) -> bool {
        self.annotation(MARK) == Some(kept.name())
    }

    pub(super) fn moment(&self, name: &str) -> Option<u64> {
        self.annotation(name)?.parse::<Timestamp>().ok().map(|Timestamp(seconds)| seconds)
    }

    /// The whole object with this in it, to replace the state that was read.
    pub(super) fn with(&self, kept: Kept, entries: Entries<'_>, moments: Moments<'_>) -> Value {
        let mut object = self.0.clone();
        for (name, content) in entries {
            set(&mut object["data"], name, content.map(|content| STANDARD.encode(content)));
        }
        let annotations = &mut object["metadata"]["annotations"];
        set(annotations, MARK, Some(kept.name().to_owned()));
        for (name, moment) in moments {
            set(annotations, name, moment.map(|seconds| Timestamp(seconds).to_string()));
        }
        object
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.0["metadata"]["annotations"][name].as_str()
    }
}

fn set(map: &mut Value, name: &str, value: Option<String>) {
    if !map.is_object() {
        *map = json!({});
    }
    match (map.as_object_mut(), value) {
        (Some(map), Some(value)) => {
            map.insert(name.to_owned(), value.into());
        }
        (Some(map), None) => {
            map.shift_remove(name);
        }
        (None, _) => {}
    }
}
