//! Embeds the first-party plugins, so that `builtin` modules need nothing beside the binary. They are pinned by being
//! part of it. Without `HAPTIC_PLUGINS_DIR` the binary carries none and says so when one is asked for.

use std::{env, fmt::Write as _, fs, path::PathBuf};

fn main() {
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
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("embedded.rs");
    fs::write(&out, table).unwrap_or_else(|error| panic!("writing {}: {error}", out.display()));
}
