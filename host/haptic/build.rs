//! Embeds the first-party plugins, so that `builtin` modules need nothing beside the binary. They are pinned by being
//! part of it. Without `HAPTIC_PLUGINS_DIR` the binary carries none and says so when one is asked for.
//!
//! Embeds the SDK, its templates and the text of the contract too: what `haptic plugin new` writes comes from the
//! binary alone.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// What `haptic plugin new` writes from, below the repository.
const AUTHORING: [&str; 5] =
    ["sdk/Cargo.toml", "sdk/Cargo.lock", "sdk/src", "sdk/templates", "wit/haptic-plugin-1.0.0"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    embed_plugins(&out);
    embed_authoring(&out);
}

fn embed_authoring(out: &Path) {
    let repository = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    let repository = repository.canonicalize().expect("this file is in the repository");
    let mut files = Vec::new();
    for part in AUTHORING {
        println!("cargo::rerun-if-changed={}", repository.join(part).display());
        collect(&repository.join(part), part, &mut files);
    }
    files.sort();
    let mut table = String::from("pub(crate) const AUTHORING: &[(&str, &[u8])] = &[\n");
    for (name, path) in files {
        writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.display().to_string()).expect("a String");
    }
    table.push_str("];\n");
    write(&out.join("authoring.rs"), &table);
}

/// Every file below `path`, links followed. Cases are the same for all languages and therefore links.
fn collect(path: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) {
    if !path.is_dir() {
        files.push((name.to_owned(), path.to_owned()));
        return;
    }
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()));
    for entry in entries {
        let entry = entry.expect("a folder of the repository can be listed");
        let below = entry.file_name().into_string().expect("names in the repository are plain text");
        if !matches!(below.as_str(), "target" | "__pycache__" | "node_modules") {
            collect(&entry.path(), &format!("{name}/{below}"), files);
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
}

fn embed_plugins(out: &Path) {
    println!("cargo::rerun-if-env-changed=HAPTIC_PLUGINS_DIR");
    let mut table = String::from("pub(crate) const EMBEDDED: &[(&str, &[u8])] = &[\n");
    if let Some(folder) = env::var_os("HAPTIC_PLUGINS_DIR").map(PathBuf::from) {
        println!("cargo::rerun-if-changed={}", folder.display());
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("reading {}: {error}", folder.display()));
        let mut modules: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        modules.retain(|path| path.extension().is_some_and(|extension| extension == "wasm"));
        modules.sort();
        for module in modules {
            println!("cargo::rerun-if-changed={}", module.display());
            let name = module.file_stem().expect("a .wasm file has a stem").to_string_lossy().into_owned();
            writeln!(table, "    ({name:?}, include_bytes!({:?})),", module.display().to_string()).expect("a String");
        }
    }
    table.push_str("];\n");
    write(&out.join("embedded.rs"), &table);
}
