//! Which program loader an ELF binary names.

use std::{
    ffi::OsStr,
    fs::File,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Path, PathBuf},
};

const PT_INTERP: u32 = 3;

/// `None` for a static binary, and for anything that is not a 64-bit little-endian ELF file.
pub(super) fn of(binary: &Path) -> Option<PathBuf> {
    let file = File::open(binary).ok()?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0).ok()?;
    if header[..6] != *b"\x7fELF\x02\x01" {
        return None;
    }
    let table = u64::from_le_bytes(header[32..40].try_into().ok()?);
    let size = u64::from(u16::from_le_bytes(header[54..56].try_into().ok()?));
    let count = u64::from(u16::from_le_bytes(header[56..58].try_into().ok()?));
    for index in 0..count {
        let mut entry = [0; 56];
        file.read_exact_at(&mut entry, table.checked_add(index * size)?).ok()?;
        if u32::from_le_bytes(entry[..4].try_into().ok()?) == PT_INTERP {
            let offset = u64::from_le_bytes(entry[8..16].try_into().ok()?);
            let length = usize::try_from(u64::from_le_bytes(entry[32..40].try_into().ok()?)).ok()?.min(4096);
            let mut path = vec![0; length];
            file.read_exact_at(&mut path, offset).ok()?;
            let end = path.iter().position(|&byte| byte == 0)?;
            return Some(PathBuf::from(OsStr::from_bytes(&path[..end])));
        }
    }
    None
}
