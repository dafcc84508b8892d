//! What templates declare, as host functions collect it.

use std::sync::Arc;

use haptic_model::{
    BackendRecord, BindRecord, Digest, File, FilePath, Finding, FindingCode, ObjectRef, Origin, ProfileRecord,
};
use minijinja::Value;

use crate::failure::Cause;

/// Who wins when two units claim one key: the older object, then the lower namespace and name (haptic-recent §2 F
/// 91). An object without a creation time is younger than any with one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Precedence {
    without_time: bool,
    created: Arc<str>,
    namespace: Arc<str>,
    name: Arc<str>,
}

/// Everything one unit, or the templates outside of units, declared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pub(crate) profiles: Vec<Arc<ProfileSection>>,
    pub(crate) backends: Vec<Arc<BackendSection>>,
    pub(crate) binds: Vec<BindLine>,
    pub(crate) maps: Vec<MapDeclaration>,
    pub(crate) map_entries: Vec<MapClaim>,
    pub(crate) crt_lists: Vec<FilePath>,
    pub(crate) crt_list_entries: Vec<CrtListClaim>,
    pub(crate) files: Vec<File>,
    pub(crate) findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProfileSection {
    pub(crate) record: ProfileRecord,
    pub(crate) text: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendSection {
    pub(crate) record: Arc<BackendRecord>,
    pub(crate) text: Arc<str>,
    pub(crate) digest: Digest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BindLine {
    pub(crate) record: BindRecord,
    pub(crate) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapDeclaration {
    pub(crate) path: FilePath,
    pub(crate) ordered: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapClaim {
    pub(crate) map: FilePath,
    pub(crate) key: Arc<str>,
    pub(crate) value: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CrtListClaim {
    pub(crate) list: FilePath,
    pub(crate) certificate: FilePath,
    pub(crate) options: Arc<str>,
    /// Empty = the certificate's own names.
    pub(crate) sni: Vec<Arc<str>>,
}

/// The finished output of one unit. Parts that did not change since the last render keep their pointers, so that
/// assembly sees at a glance what it can keep.
#[derive(Clone, Debug)]
pub(crate) struct UnitOutput {
    pub(crate) text: Arc<str>,
    pub(crate) origin: Arc<Origin>,
    pub(crate) precedence: Precedence,
    pub(crate) profiles: Arc<Vec<Arc<ProfileSection>>>,
    pub(crate) backends: Arc<Vec<Arc<BackendSection>>>,
    pub(crate) binds: Arc<Vec<BindLine>>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) findings: Arc<Vec<Finding>>,
    /// It failed for a fault of its object and is left out; its findings say why.
    pub(crate) failed: bool,
}

/// What a unit puts into files that other units share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    pub(crate) maps: Vec<MapDeclaration>,
    pub(crate) map_entries: Vec<MapClaim>,
    pub(crate) crt_lists: Vec<FilePath>,
    pub(crate) crt_list_entries: Vec<CrtListClaim>,
    pub(crate) files: Vec<File>,
}

// === impl Records ===

impl Records {
    /// Adds what was declared elsewhere.
    pub(crate) fn append(&mut self, other: &Self) -> Result<(), Cause> {
        for profile in &other.profiles {
            self.add_profile(profile);
        }
        for backend in &other.backends {
            self.add_backend(backend)?;
        }
        for file in &other.files {
            self.add_file(file)?;
        }
        self.binds.extend_from_slice(&other.binds);
        self.maps.extend(other.maps.iter().filter(|map| !self.maps.contains(map)).cloned().collect::<Vec<_>>());
        self.map_entries.extend_from_slice(&other.map_entries);
        let lists = other.crt_lists.iter().filter(|list| !self.crt_lists.contains(list));
        self.crt_lists.extend(lists.cloned().collect::<Vec<_>>());
        self.crt_list_entries.extend_from_slice(&other.crt_list_entries);
        self.findings.extend_from_slice(&other.findings);
        Ok(())
    }

    /// Whether both put the same into the configuration itself.
    pub(crate) fn same_configuration(&self, other: &Self) -> bool {
        self.profiles == other.profiles && self.backends == other.backends && self.binds == other.binds
    }

    pub(crate) fn add_profile(&mut self, section: &Arc<ProfileSection>) {
        if !self.profiles.iter().any(|known| known.record.name == section.record.name) {
            self.profiles.push(Arc::clone(section));
        }
    }

    pub(crate) fn add_backend(&mut self, section: &Arc<BackendSection>) -> Result<(), Cause> {
        match self.backends.iter().find(|known| known.record.name == section.record.name) {
            Some(known) if known.digest == section.digest => Ok(()),
            Some(_) => Err(declared_twice("backend", &section.record.name)),
            None => {
                self.backends.push(Arc::clone(section));
                Ok(())
            }
        }
    }

    pub(crate) fn add_file(&mut self, file: &File) -> Result<(), Cause> {
        match self.files.iter().find(|known| known.path == file.path) {
            Some(known) if known.digest == file.digest => Ok(()),
            Some(_) => Err(declared_twice("file", file.path.as_str())),
            None => {
                self.files.push(file.clone());
                Ok(())
            }
        }
    }
}

fn declared_twice(what: &str, name: &str) -> Cause {
    Cause::data(FindingCode::InvalidValue, format!("{what} `{name}` is declared twice with different content"))
}

// === impl Claims ===

impl Claims {
    /// Whether both claim the same but for entries of maps.
    pub(crate) fn only_map_entries_differ(&self, other: &Self) -> bool {
        self.maps == other.maps
            && self.crt_lists == other.crt_lists
            && self.crt_list_entries == other.crt_list_entries
            && self.files == other.files
    }
}

// === impl Precedence ===

impl Precedence {
    /// Of a unit's item.
    pub(crate) fn of(item: &Value, object: Option<&ObjectRef>) -> Self {
        let created = item
            .get_attr("metadata")
            .and_then(|metadata| metadata.get_attr("creationTimestamp"))
            .ok()
            .and_then(|value| value.to_str());
        Self {
            without_time: created.is_none(),
            created: created.unwrap_or_default(),
            namespace: object.map(|o| o.namespace.clone()).unwrap_or_default(),
            name: object.map(|o| o.name.clone()).unwrap_or_default(),
        }
    }
}

// === impl UnitOutput ===

impl UnitOutput {
    pub(crate) fn finish(text: String, origin: Arc<Origin>, precedence: Precedence, records: Records) -> Self {
        Self {
            text: text.into(),
            origin,
            precedence,
            profiles: Arc::new(records.profiles),
            backends: Arc::new(records.backends),
            binds: Arc::new(records.binds),
            claims: Arc::new(Claims {
                maps: records.maps,
                map_entries: records.map_entries,
                crt_lists: records.crt_lists,
                crt_list_entries: records.crt_list_entries,
                files: records.files,
            }),
            findings: Arc::new(records.findings),
            failed: false,
        }
    }

    pub(crate) fn failed(origin: Arc<Origin>, precedence: Precedence, finding: Finding) -> Self {
        let mut output = Self::finish(String::new(), origin, precedence, Records::default());
        output.findings = Arc::new(vec![finding]);
        output.failed = true;
        output
    }

    /// Takes over the pointers of `earlier` where the content is equal.
    pub(crate) fn share_with(mut self, earlier: &Self) -> Self {
        fn keep<T: PartialEq + ?Sized>(new: &mut Arc<T>, old: &Arc<T>) {
            if **new == **old {
                *new = Arc::clone(old);
            }
        }
        keep(&mut self.text, &earlier.text);
        keep(&mut self.profiles, &earlier.profiles);
        keep(&mut self.binds, &earlier.binds);
        keep(&mut self.claims, &earlier.claims);
        if *self.backends == *earlier.backends {
            self.backends = Arc::clone(&earlier.backends);
        } else {
            let kept = |section: &Arc<BackendSection>| {
                earlier.backends.iter().find(|old| ***old == **section).unwrap_or(section).clone()
            };
            self.backends = Arc::new(self.backends.iter().map(kept).collect());
        }
        self
    }
}
