//! md5-crypt, for user lists that were made long ago.

use md5::{Digest as _, Md5};

use crate::encoding;

pub(crate) fn crypt(password: &[u8], salt: &str) -> String {
    let salt = salt.as_bytes();
    let inner: [u8; 16] = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize().into();
    let mut first = Md5::new().chain_update(password).chain_update(b"$1$").chain_update(salt);
    for (index, _) in password.iter().enumerate() {
        first.update([inner[index % 16]]);
    }
    let mut length = password.len();
    while length > 0 {
        first.update(if length & 1 == 1 { [0] } else { [password[0]] });
        length >>= 1;
    }
    let mut hash: [u8; 16] = first.finalize().into();
    for round in 0..1_000 {
        let (start, end): (&[u8], &[u8]) = if round % 2 == 1 { (password, &hash) } else { (&hash, password) };
        let mut next = Md5::new().chain_update(start);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        hash = next.chain_update(end).finalize().into();
    }
    let mut out = format!("$1${}$", String::from_utf8_lossy(salt));
    for [first, second, third] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        encoding::push_three(&mut out, [hash[first], hash[second], hash[third]]);
    }
    encoding::push(&mut out, u32::from(hash[11]), 2);
    out
}
