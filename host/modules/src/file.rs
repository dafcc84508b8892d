//! Files of which nobody vouches for the size.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::Path,
};

#[derive(Debug)]
pub(crate) enum ReadError {
    /// A folder, a pipe or a device.
    NoFile,
    TooLarge,
    Failed(io::Error),
}

/// All of a file, if that is at most `limit` bytes. Not more than that is read, whatever size the file says it has.
pub(crate) fn read_at_most(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    // Opening a pipe would wait for somebody who writes.
    if !fs::metadata(path)?.is_file() {
        return Err(ReadError::NoFile);
    }
    let file = File::open(path)?;
    let said = file.metadata()?.len();
    if said > limit {
        return Err(ReadError::TooLarge);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(said).unwrap_or_default());
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(ReadError::TooLarge) } else { Ok(bytes) }
}

// === impl ReadError ===

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn reads_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m");
        fs::write(&path, b"0123").unwrap();
        assert_eq!(read_at_most(&path, 4).unwrap(), b"0123");
        assert!(matches!(read_at_most(&path, 3), Err(ReadError::TooLarge)));
        assert!(matches!(read_at_most(folder.path(), 4), Err(ReadError::NoFile)));
        assert!(matches!(read_at_most(&folder.path().join("absent"), 4), Err(ReadError::Failed(_))));
    }

    /// Files of /proc say that they have no bytes, as a file does that grows after its size was looked at.
    #[test]
    fn a_file_that_has_more_than_it_says_is_not_read_whole() {
        let path = Path::new("/proc/self/maps");
        assert_eq!(fs::metadata(path).unwrap().len(), 0);
        assert!(matches!(read_at_most(path, 16), Err(ReadError::TooLarge)));
    }
}
