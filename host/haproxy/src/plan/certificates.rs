//! Rule 6: certificates, CA files, CRL files and crt-lists.

use std::collections::BTreeSet;

use haptic_model::{CrtListEntry, Entries, FileKind, FilePath, FileRecord, Op, ReasonCode};

use crate::plan::{Sides, backends::Referenced, script::Script};

/// What one payload of the runtime client may hold, less room for the command.
const PAYLOAD_BYTES: u64 = crate::runtime::BATCH_BYTES as u64 - 512;

pub(super) struct Certificates<'a> {
    sides: Sides<'a>,
    /// Certificates that the worker must have after this diff, for entries and servers that it adds.
    needed: BTreeSet<FilePath>,
    /// Certificates whose crt-list entries this diff removes.
    released: BTreeSet<FilePath>,
    /// Loaded certificates that the next plan does not have.
    gone: BTreeSet<FilePath>,
}

/// How a crt-list gets from one state to another: these entries go, then those come at the end.
struct Replay<'a> {
    removed: Vec<&'a CrtListEntry>,
    appended: &'a [CrtListEntry],
}

// === impl Certificates ===

impl<'a> Certificates<'a> {
    pub(super) fn new(sides: Sides<'a>, referenced: &Referenced) -> Self {
        let needed = referenced.certificates.clone();
        Self { sides, needed, released: BTreeSet::new(), gone: BTreeSet::new() }
    }

    /// Certificate, CA or CRL with other content.
    pub(super) fn content(&mut self, path: &FilePath, file: &FileRecord, script: &mut Script) {
        let inventory = self.sides.baseline.inventory;
        let (loaded, op) = match file.kind {
            FileKind::Ca => (&inventory.ca_files, Op::CaSet { file: path.clone() }),
            FileKind::Crl => (&inventory.crl_files, Op::CrlSet { file: path.clone() }),
            _ => (&inventory.certificates, Op::CertSet { certificate: path.clone() }),
        };
        if !loaded.contains(path) {
            return script
                .note(ReasonCode::Note, format!("{} {path} is not loaded, so only its file changes", file.kind));
        }
        if Self::fits(path, file, script) {
            script.credentials.push(op);
        }
    }

    /// A file of this name may be in memory still, with what it held before it was removed.
    pub(super) fn new_file(&mut self, path: &FilePath, file: &FileRecord, script: &mut Script) {
        let inventory = self.sides.baseline.inventory;
        let loaded = match file.kind {
            FileKind::Ca => &inventory.ca_files,
            FileKind::Crl => &inventory.crl_files,
            _ => &inventory.certificates,
        };
        if loaded.contains(path) {
            self.content(path, file, script);
        }
    }

    pub(super) fn removed(&mut self, path: &FilePath, script: &mut Script) {
        if self.sides.baseline.inventory.certificates.contains(path) {
            self.gone.insert(path.clone());
        } else {
            script.note(ReasonCode::Note, format!("certificate {path} was removed"));
        }
    }

    /// A crt-list with other content.
    pub(super) fn list(&mut self, path: &FilePath, old: &FileRecord, next: &FileRecord, script: &mut Script) {
        if !self.sides.baseline.inventory.crt_lists.contains(path) {
            let message = format!("crt-list {path} is not loaded by the running HAProxy");
            return script.reload(ReasonCode::CrtListNotLoaded, message);
        }
        let (Entries::CrtList(before), Entries::CrtList(after)) = (&old.entries, &next.entries) else {
            let message = format!("crt-list {path} changed, and its entries are not declared");
            return script.reload(ReasonCode::CrtListNotLoaded, message);
        };
        match self.replay(before, after) {
            Ok(replay) => self.push(path, &replay, script),
            Err((code, message)) => script.reload(code, format!("crt-list {path}: {message}")),
        }
    }

    fn replay<'e>(
        &self,
        before: &'e [CrtListEntry],
        after: &'e [CrtListEntry],
    ) -> Result<Replay<'e>, (ReasonCode, String)> {
        let unordered = |message: String| Err((ReasonCode::CrtListNotLoaded, message));
        if before.first() != after.first() || before.is_empty() {
            return unordered("its first entry changed, which is the default certificate until a reload".to_owned());
        }
        let mut removed = Vec::new();
        let mut rest = after;
        for entry in before {
            match rest.split_first() {
                Some((first, others)) if first == entry => rest = others,
                _ => removed.push(entry),
            }
        }
        // Taken out only to stand further down again: its handshakes would fail meanwhile.
        if let Some(entry) = removed.iter().find(|entry| rest.contains(entry)) {
            let message =
                format!("an entry came before the one of {}, and HAProxy only adds at the end", entry.certificate);
            return unordered(message);
        }
        for entry in &removed {
            if before.iter().filter(|other| other.certificate == entry.certificate).count() > 1 {
                let message =
                    format!("{} stands in it twice, so its entries only change with a reload", entry.certificate);
                return unordered(message);
            }
        }
        for entry in rest {
            let files = &self.sides.next.files;
            let known = self.sides.baseline.inventory.certificates.contains(&entry.certificate)
                || files.get(&entry.certificate).is_some_and(|file| file.kind == FileKind::Cert);
            if !known {
                return unordered(format!("{} is not loaded and not in the file set", entry.certificate));
            }
            let texts = entry.sni.iter().chain([&entry.options]);
            if texts.into_iter().any(|text| text.chars().any(char::is_control)) {
                let message = format!("the entry of {} cannot stand in a runtime command", entry.certificate);
                return Err((ReasonCode::UnsafeToken, message));
            }
        }
        Ok(Replay { removed, appended: rest })
    }

    fn push(&mut self, path: &FilePath, replay: &Replay<'_>, script: &mut Script) {
        for entry in &replay.removed {
            let certificate = entry.certificate.clone();
            self.released.insert(certificate.clone());
            script.crt_lists.push(Op::CrtListDel { list: path.clone(), certificate });
        }
        for entry in replay.appended {
            self.needed.insert(entry.certificate.clone());
            script.crt_lists.push(Op::CrtListAdd { list: path.clone(), entry: entry.clone() });
        }
    }

    pub(super) fn finish(self, script: &mut Script) {
        let inventory = self.sides.baseline.inventory;
        let mut created = Vec::new();
        for path in self.needed.iter().filter(|path| !inventory.certificates.contains(*path)) {
            if let Some(file) = self.sides.next.files.get(path)
                && Self::fits(path, file, script)
            {
                created.push(Op::CertNew { certificate: path.clone() });
            }
        }
        script.credentials.extend(created);
        for path in &self.gone {
            if self.released.contains(path) {
                script.credential_deletes.push(Op::CertDel { certificate: path.clone() });
            } else {
                let message = format!("certificate {path} was removed, and the running HAProxy has it loaded");
                script.reload(ReasonCode::FileRemoved, message);
            }
        }
    }

    fn fits(path: &FilePath, file: &FileRecord, script: &mut Script) -> bool {
        let fits = file.size <= PAYLOAD_BYTES;
        if !fits {
            let size = file.size;
            let message =
                format!("{} {path} has {size} bytes, more than the {PAYLOAD_BYTES} of one runtime command", file.kind);
            script.reload(ReasonCode::FileReloadsOnChange, message);
        }
        fits
    }
}
