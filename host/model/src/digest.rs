use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// A SHA-256 digest; the identity of content everywhere in haptic. Written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// What is left of hashing a content, so that another one that begins alike costs only what comes after that.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints {
    /// After each [`CHECKPOINT`] bytes.
    states: Vec<Sha256>,
}

const CHECKPOINT: usize = 32 << 10;

/// The identity of a whole render: every byte of every file of it, in canonical framing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Debug)]
#[serde(transparent)]
pub struct PlanId(pub Digest);

#[derive(Debug, Error)]
#[error("`{0}` is not a SHA-256 digest of 64 hex digits")]
pub struct InvalidDigest(String);

/// Hashes fields so that no two different field lists give the same bytes: each field is preceded by its length.
#[derive(Default)]
pub struct Framer(Sha256);

// === impl Digest ===

impl Digest {
    pub fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }

    /// As [`Self::of`]. The first `unchanged` bytes are those of the content that `checkpoints` were left by.
    pub fn again(content: &[u8], unchanged: usize, checkpoints: &mut Checkpoints) -> Self {
        let states = &mut checkpoints.states;
        states.truncate(unchanged.min(content.len()) / CHECKPOINT);
        let mut hasher = states.last().cloned().unwrap_or_default();
        for chunk in content[states.len() * CHECKPOINT..].chunks(CHECKPOINT) {
            hasher.update(chunk);
            if chunk.len() == CHECKPOINT {
                states.push(hasher.clone());
            }
        }
        Self(hasher.finalize().into())
    }

    /// Of the pieces one after the other.
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Sha256::new();
        pieces.into_iter().for_each(|piece| hasher.update(piece));
        Self(hasher.finalize().into())
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve hex digits: for people, never for comparison.
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidDigest(text.to_owned()))?;
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

// === impl PlanId ===

impl fmt::Display for PlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PlanId {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

// === impl Framer ===

impl Framer {
    pub fn field(&mut self, content: impl AsRef<[u8]>) -> &mut Self {
        let content = content.as_ref();
        self.0.update((content.len() as u64).to_be_bytes());
        self.0.update(content);
        self
    }

    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashing_again_from_a_checkpoint_is_hashing_all() {
        let mut content: Vec<u8> = b"haptic ".iter().copied().cycle().take(5 * CHECKPOINT + 17).collect();
        let mut checkpoints = Checkpoints::default();
        assert_eq!(Digest::again(&content, 0, &mut checkpoints), Digest::of(&content));
        // Wherever a change begins, and whatever becomes of the length.
        for (offset, removed, added) in [
            (content.len(), 0, 5),
            (0, 1, 0),
            (CHECKPOINT, 1, 1),
            (CHECKPOINT - 1, 2, CHECKPOINT),
            (3 * CHECKPOINT + 5, 2 * CHECKPOINT, 0),
            (2 * CHECKPOINT, 0, 3 * CHECKPOINT),
            (1, 4 * CHECKPOINT, 7),
        ] {
            content.splice(offset..offset + removed, std::iter::repeat_n(b'x', added));
            assert_eq!(Digest::again(&content, offset, &mut checkpoints), Digest::of(&content), "{offset}");
            assert_eq!(Digest::again(&content, content.len(), &mut checkpoints), Digest::of(&content), "{offset}");
        }
        assert_eq!(Digest::again(b"short", 5, &mut checkpoints), Digest::of(b"short"));
        assert_eq!(Digest::of_pieces([&b"sh"[..], b"", b"ort"]), Digest::of(b"short"));
    }
}
