//! Which HAProxy: finding a binary, and reading what it is.

use std::{
    ffi::OsStr,
    fmt, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use thiserror::Error;

/// The oldest HAProxy that haptic drives: 3.0 brought `wait`, the custom payload mark and usable dynamic servers.
pub const OLDEST: MinorVersion = MinorVersion { major: 3, minor: 0 };
/// The first HAProxy that makes whole backends at run time.
pub const DYNAMIC_BACKENDS: MinorVersion = MinorVersion { major: 3, minor: 4 };

/// A HAProxy executable that serves: at least [`OLDEST`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaproxyBinary {
    pub path: PathBuf,
    /// As the binary says it, e.g. `3.2.26-1`.
    pub version: String,
    pub minor: MinorVersion,
}

/// Major and minor number: what decides which commands exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MinorVersion {
    pub major: u16,
    pub minor: u16,
}

#[derive(Debug, Error)]
pub enum VersionError {
    #[error("could not run `{path} -v`; check that the file exists and is executable")]
    Run {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{path} -v` did not answer as HAProxy does: `{answer}`; name a HAProxy binary with --haproxy")]
    NotHaproxy { path: PathBuf, answer: String },
    #[error("{path} is HAProxy {version}, but haptic needs {OLDEST} or newer; install one or name it with --haproxy")]
    TooOld { path: PathBuf, version: String },
    #[error("found no HAProxy {OLDEST} or newer in PATH{}; install one or name it with --haproxy", in_directory(.0.as_deref()))]
    NoneFound(Option<PathBuf>),
}

/// Where to look for a binary, in this order: `explicit` alone if given, then `search_path` (the value of `PATH`),
/// then the newest of `directory` (files named `haproxy-…`).
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    pub explicit: Option<&'a Path>,
    pub search_path: Option<&'a OsStr>,
    pub directory: Option<&'a Path>,
}

// === impl HaproxyBinary ===

impl HaproxyBinary {
    /// Runs `PATH -v` and reads its answer.
    pub fn probe(path: &Path) -> Result<Self, VersionError> {
        let output = Command::new(path)
            .arg("-v")
            .stdin(Stdio::null())
            .output()
            .map_err(|source| VersionError::Run { path: path.to_owned(), source })?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let Some((version, minor)) = parse_version(&answer) else {
            let answer = answer.lines().next().unwrap_or_default().chars().take(200).collect();
            return Err(VersionError::NotHaproxy { path: path.to_owned(), answer });
        };
        if minor < OLDEST {
            return Err(VersionError::TooOld { path: path.to_owned(), version });
        }
        Ok(Self { path: path.to_owned(), version, minor })
    }

    /// Finds a binary. A binary that was named by the user is used or refused, never replaced by another.
    pub fn find(search: Search<'_>) -> Result<Self, VersionError> {
        if let Some(path) = search.explicit {
            return Self::probe(path);
        }
        let in_path = search.search_path.map(std::env::split_paths).into_iter().flatten();
        let mut too_old = None;
        for candidate in in_path.map(|dir| dir.join("haproxy")).filter(|path| path.is_file()) {
            match Self::probe(&candidate) {
                Ok(binary) => return Ok(binary),
                Err(error @ VersionError::TooOld { .. }) => too_old = Some(error),
                Err(_) => {}
            }
        }
        if let Some(newest) = search.directory.map(Self::all_in).and_then(|mut all| all.pop()) {
            return Ok(newest);
        }
        Err(too_old.unwrap_or_else(|| VersionError::NoneFound(search.directory.map(Path::to_owned))))
    }

    /// Every usable binary `haproxy-…` of a directory, oldest first. What does not run or is too old is left out.
    pub fn all_in(directory: &Path) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
        let mut found: Vec<Self> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("haproxy-"))
            .filter_map(|entry| Self::probe(&entry.path()).ok())
            .collect();
        found.sort_by(|a, b| (a.minor, &a.version).cmp(&(b.minor, &b.version)));
        found
    }

    /// Whether it makes and deletes whole backends at run time.
    pub fn has_dynamic_backends(&self) -> bool {
        self.minor >= DYNAMIC_BACKENDS
    }
}

// === impl MinorVersion ===

impl MinorVersion {
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for MinorVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Reads `HAProxy version 3.2.26-1 2026/10/14 - https://haproxy.org/`.
fn parse_version(answer: &str) -> Option<(String, MinorVersion)> {
    let rest = answer
        .lines()
        .find_map(|line| line.strip_prefix("HAProxy version ").or_else(|| line.strip_prefix("HA-Proxy version ")))?;
    let version = rest.split_whitespace().next()?;
    let mut numbers = version.split(['.', '-', '+']);
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next().unwrap_or("0").parse().ok()?;
    Some((version.to_owned(), MinorVersion { major, minor }))
}

fn in_directory(directory: Option<&Path>) -> String {
    directory.map(|directory| format!(" or {}", directory.display())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_distribution_and_development_versions() {
        let parsed = |text| parse_version(text).map(|(version, minor)| (version, minor.major, minor.minor));
        let release = parsed("HAProxy version 3.0.11-1+deb13u4 2026/10/15 - https://haproxy.org/\nStatus: …");
        assert_eq!(release, Some(("3.0.11-1+deb13u4".to_owned(), 3, 0)));
        assert_eq!(parsed("HAProxy version 3.5-dev1-abc 2026/10/15"), Some(("3.5-dev1-abc".to_owned(), 3, 5)));
        assert_eq!(parsed("nginx version: nginx/1.2"), None);
    }

    #[test]
    fn names_the_missing_binary() {
        let error = HaproxyBinary::probe(Path::new("/nonexistent/haproxy")).expect_err("no such file");
        assert!(error.to_string().contains("/nonexistent/haproxy"), "{error}");
    }
}
