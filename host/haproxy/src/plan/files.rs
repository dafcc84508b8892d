//! Rule 7, and the way of each file to the rule of its kind.

use haptic_model::{CONFIG_PATH, FileKind, FilePath, FileRecord, ReasonCode};

use crate::plan::{Sides, backends::Referenced, certificates::Certificates, maps, script::Script};

pub(super) fn compare(sides: Sides<'_>, referenced: &Referenced, script: &mut Script) {
    let mut certificates = Certificates::new(sides, referenced);
    for (path, file) in &sides.next.files {
        match sides.old.files.get(path) {
            Some(old) if old.digest == file.digest && old.kind == file.kind => continue,
            Some(old) => changed(sides, path, old, file, &mut certificates, script),
            None => added(path, file, &mut certificates, script),
        }
        script.changed_files.push(path.clone());
    }
    for (path, file) in &sides.old.files {
        if !sides.next.files.contains_key(path) {
            removed(sides, path, file, &mut certificates, script);
            script.removed_files.push(path.clone());
        }
    }
    certificates.finish(script);
}

fn changed(
    sides: Sides<'_>,
    path: &FilePath,
    old: &FileRecord,
    file: &FileRecord,
    certificates: &mut Certificates<'_>,
    script: &mut Script,
) {
    // The sections have explained the configuration.
    if path.as_str() == CONFIG_PATH {
        return;
    }
    if old.kind != file.kind {
        let message = format!("{path} was a {} and is a {} now", old.kind, file.kind);
        return script.reload(ReasonCode::FileReloadsOnChange, message);
    }
    if file.reload_on_change {
        return script.reload(ReasonCode::FileReloadsOnChange, reads_once(path, file, "changed"));
    }
    match file.kind {
        FileKind::Map => maps::change(sides, path, old, file, script),
        FileKind::Cert | FileKind::Ca | FileKind::Crl => certificates.content(path, file, script),
        FileKind::CrtList => certificates.list(path, old, file, script),
        FileKind::General | FileKind::Config => {}
    }
}

fn added(path: &FilePath, file: &FileRecord, certificates: &mut Certificates<'_>, script: &mut Script) {
    if file.reload_on_change {
        return script.reload(ReasonCode::FileReloadsOnChange, reads_once(path, file, "is new"));
    }
    match file.kind {
        FileKind::Map => {
            let message = format!("map {path} is new and not loaded, so only its file is written");
            script.note(ReasonCode::MapNotLoaded, message);
        }
        FileKind::CrtList => {
            let message = format!("crt-list {path} is new, and HAProxy reads a new crt-list only when it loads");
            script.reload(ReasonCode::CrtListNotLoaded, message);
        }
        FileKind::Cert | FileKind::Ca | FileKind::Crl => certificates.new_file(path, file, script),
        FileKind::General | FileKind::Config => {}
    }
}

fn removed(
    sides: Sides<'_>,
    path: &FilePath,
    file: &FileRecord,
    certificates: &mut Certificates<'_>,
    script: &mut Script,
) {
    if file.reload_on_change {
        return script.reload(ReasonCode::FileRemoved, reads_once(path, file, "was removed"));
    }
    let inventory = sides.baseline.inventory;
    let loaded = match file.kind {
        FileKind::Map => inventory.maps.contains(path),
        FileKind::Cert => return certificates.removed(path, script),
        FileKind::Ca => inventory.ca_files.contains(path),
        FileKind::Crl => inventory.crl_files.contains(path),
        FileKind::CrtList => true,
        FileKind::General | FileKind::Config => false,
    };
    if loaded {
        let message = format!("{} {path} was removed, and the running HAProxy has it loaded", file.kind);
        script.reload(ReasonCode::FileRemoved, message);
    } else {
        script.note(ReasonCode::Note, format!("{} {path} was removed", file.kind));
    }
}

fn reads_once(path: &FilePath, file: &FileRecord, what: &str) -> String {
    format!("{} {path} {what}, and HAProxy reads it only when it loads", file.kind)
}
