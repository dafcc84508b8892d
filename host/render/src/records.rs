//! What templates declare, as host functions collect it.

use std::sync::Arc;

use haptic_model::{BackendRecord, BindRecord, Digest, File, FilePath, Finding, ObjectRef, Origin, ProfileRecord};
use minijinja::Value;

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
