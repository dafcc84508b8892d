//! The base64 of crypt(3): its own alphabet, the lowest six bits first. bcrypt has another: see [`push_bcrypt`].

/// The alphabet of crypt(3).
pub(crate) const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The same characters in the order of bcrypt.
const BCRYPT_ALPHABET: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Appends `characters` times six bits of `bits`.
pub(crate) fn push(out: &mut String, mut bits: u32, characters: usize) {
    for _ in 0..characters {
        out.push(char::from(ALPHABET[(bits & 0x3f) as usize]));
        bits >>= 6;
    }
}

/// Appends three bytes, the last one's bits first.
pub(crate) fn push_three(out: &mut String, [first, second, third]: [u8; 3]) {
    push(out, u32::from(first) << 16 | u32::from(second) << 8 | u32::from(third), 4);
}

/// Appends bytes in their order, as yescrypt writes salts and hashes.
pub(crate) fn push_bytes(out: &mut String, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let bits = group.iter().rev().fold(0, |bits, byte| bits << 8 | u32::from(*byte));
        push(out, bits, group.len() + 1);
    }
}

/// Appends bytes as bcrypt does: the highest six bits first, no padding.
pub(crate) fn push_bcrypt(out: &mut String, bytes: &[u8]) {
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for character in 0..=group.len() {
            out.push(char::from(BCRYPT_ALPHABET[(bits >> (18 - 6 * character) & 0x3f) as usize]));
        }
    }
}
