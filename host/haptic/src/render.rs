//! `haptic render`.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context as _;
use clap::Args;
use haptic_model::FileKind;

use crate::{
    cli, exit,
    offline::{self, HaproxyChoice, Manifests},
};

#[derive(Args, Debug)]
pub(crate) struct RenderOptions {
    #[command(flatten)]
    manifests: Manifests,
    #[command(flatten)]
    haproxy: HaproxyChoice,
    /// Write the file set into this folder instead of printing haproxy.cfg
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print this file of the set, e.g. maps/path-prefix.map, instead of haproxy.cfg
    #[arg(long, value_name = "PATH", conflicts_with = "out")]
    file: Option<String>,
}

// === impl RenderOptions ===

impl RenderOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let binary = self.haproxy.find()?;
        let minor = (binary.minor.major, binary.minor.minor);
        let rendered = match self.manifests.load()? {
            Ok(loaded) => loaded.render(minor)?,
            Err(findings) => Err(findings),
        };
        let rendered = match rendered {
            Ok(rendered) => rendered,
            Err(findings) => {
                offline::complain_all(&findings);
                return Ok(ExitCode::from(exit::REFUSED));
            }
        };
        offline::complain_all(&rendered.findings);
        if let Some(folder) = &self.out {
            for file in rendered.files.values() {
                let path = folder.join(file.path.as_str());
                let parent = path.parent().unwrap_or(folder);
                fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
                // As the agent does: private keys are for their owner alone. A file that was there keeps no other mode.
                let mode = if file.kind == FileKind::Cert { 0o600 } else { 0o644 };
                let written = fs::remove_file(&path).or_else(absent_is_fine).and_then(|()| {
                    let mut options = fs::OpenOptions::new();
                    options.write(true).create_new(true).mode(mode).open(&path)?.write_all(&file.content)
                });
                written.with_context(|| format!("writing {}", path.display()))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let wanted = self.file.as_deref().unwrap_or(haptic_model::CONFIG_PATH);
        let Some(file) = rendered.files.get(wanted) else {
            let known: Vec<&str> = rendered.files.keys().map(haptic_model::FilePath::as_str).collect();
            anyhow::bail!("the set has no `{wanted}`; it has {}", known.join(", "));
        };
        // A terminal is no place for private keys.
        if file.kind == FileKind::Cert {
            anyhow::bail!("`{wanted}` holds a private key; use --out to write it to a folder");
        }
        cli::print(&String::from_utf8_lossy(&file.content));
        Ok(ExitCode::SUCCESS)
    }
}

fn absent_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
