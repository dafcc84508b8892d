//! `haptic plugin new`: a project whose build and test pass at once.

mod template;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use haptic_conformance::manifest::check_name;

use crate::{
    cli,
    plugin::new::template::{Part, Template},
};

#[derive(Args, Debug)]
pub(crate) struct NewOptions {
    /// What the plugin is called: lower-case letters, digits and `-`, starting with a letter
    name: String,
    #[arg(long, value_enum)]
    language: NewLanguage,
    /// What the plugin does first; more contracts can be added later
    #[arg(long, value_enum, default_value_t)]
    contract: NewContract,
    /// Where to write it, an empty or new folder [default: ./NAME]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NewLanguage {
    Rust,
    Python,
    #[value(name = "javascript")]
    JavaScript,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum NewContract {
    /// Check single rendered files: error pages, maps, certificates
    #[default]
    AuxiliaryFile,
    /// Check haproxy.cfg together with all rendered files
    RenderedOutput,
    /// Offer filters to templates
    Filters,
}

/// Names that cargo refuses for a package, or that hide a crate which the plugin needs.
const NAMES_TAKEN_IN_RUST: [&str; 61] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "serde-json",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
];

// === impl NewOptions ===

impl NewOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Self { name, language, contract, dir } = self;
        check_name(&name).with_context(|| format!("`{name}` cannot be used"))?;
        ensure!(
            language != NewLanguage::Rust
                || !(NAMES_TAKEN_IN_RUST.contains(&name.as_str()) || name == "haptic-plugin-sdk" || name == "yield"),
            "`{name}` cannot be the name of a crate: Rust or cargo uses it; choose another name, e.g. `{name}-check`"
        );
        let dir = dir.unwrap_or_else(|| PathBuf::from(&name));
        free(&dir)?;
        let template = Template { name: &name, language, contract };
        for Part { path, content } in template.parts() {
            let path = dir.join(path);
            let folder = path.parent().expect("it is below the project");
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        }
        cli::print(&format!(
            "wrote the plugin `{name}` to {}\nnext:\n  cd {}\n  haptic plugin build\n  haptic plugin test\n",
            dir.display(),
            dir.display()
        ));
        Ok(ExitCode::SUCCESS)
    }
}

/// Nothing that stands somewhere is ever overwritten.
fn free(dir: &Path) -> anyhow::Result<()> {
    match fs::read_dir(dir) {
        Ok(mut entries) => {
            ensure!(
                entries.next().is_none(),
                "{} is not empty; name another folder, or move what is there",
                dir.display()
            );
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            bail!("{} is a file; name another folder, or move it", dir.display())
        }
        Err(error) => Err(error).with_context(|| format!("looking into {}", dir.display())),
    }
}
