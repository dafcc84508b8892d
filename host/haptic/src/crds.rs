//! `haptic crds`.

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Args;

use crate::cli;

#[derive(Args, Debug)]
pub(crate) struct CrdsOptions {
    /// Write one file a kind into this folder instead of printing them all
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

// === impl CrdsOptions ===

impl CrdsOptions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        for (name, text) in haptic_api::manifests() {
            match &self.out {
                None => cli::print(&format!("---\n{text}")),
                Some(folder) => {
                    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
                    let path = folder.join(name);
                    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
