//! What differs between two contents of a file, as one piece: a large configuration changes in one place at a time, and
//! what is sent costs both sides more than finding that place.

use bytes::Bytes;
use haptic_model::File;
use haptic_wire::FilePatch;

/// Compared as wholes first, which is many times faster than byte by byte.
const CHUNK: usize = 4096;

/// The difference between `old` and `new` and its content, if it is less than half of what `new` has.
pub(super) fn patch(old: &File, new: &File) -> Option<(FilePatch, Bytes)> {
    let (before, after) = (&*old.content, &*new.content);
    let offset = shared_start(before, after);
    let tail = shared_end(&before[offset..], &after[offset..]);
    let part = new.content.slice(offset..after.len() - tail);
    let patch = FilePatch {
        base: old.digest,
        offset: offset as u64,
        replaced: (before.len() - offset - tail) as u64,
        length: part.len() as u64,
    };
    (part.len() < after.len() / 2).then_some((patch, part))
}

fn shared_start(a: &[u8], b: &[u8]) -> usize {
    let whole: usize = a.chunks(CHUNK).zip(b.chunks(CHUNK)).take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
    whole + a[whole..].iter().zip(&b[whole..]).take_while(|(a, b)| a == b).count()
}

fn shared_end(a: &[u8], b: &[u8]) -> usize {
    let whole: usize = a.rchunks(CHUNK).zip(b.rchunks(CHUNK)).take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
    let (a, b) = (&a[..a.len() - whole], &b[..b.len() - whole]);
    whole + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests;
