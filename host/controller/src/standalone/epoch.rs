//! The fencing epoch of standalone mode: a counter in the state folder, written before the first apply. A deleted file
//! never makes the agent refuse for ever, because what the agent has seen counts too.

use std::path::{Path, PathBuf};

use thiserror::Error;

#[derive(Debug, Error)]
#[error("could not {doing} the fencing epoch {path}; give haptic a state folder that it can write")]
pub struct EpochError {
    doing: &'static str,
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

/// Takes the next epoch: max(stored, `seen`) + 1.
pub(super) async fn take(folder: &Path, seen: u64) -> Result<u64, EpochError> {
    let path = folder.join("epoch");
    let failed = |doing: &'static str| {
        let path = path.clone();
        move |source| EpochError { doing, path, source }
    };
    let stored = match tokio::fs::read_to_string(&path).await {
        // What is not a number was cut short by a crash; the agent's memory makes up for it.
        Ok(text) => text.trim().parse().unwrap_or(0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(failed("read")(error)),
    };
    let epoch = seen.max(stored) + 1;
    tokio::fs::create_dir_all(folder).await.map_err(failed("write"))?;
    let temporary = folder.join(".epoch.new");
    tokio::fs::write(&temporary, format!("{epoch}\n")).await.map_err(failed("write"))?;
    tokio::fs::rename(&temporary, &path).await.map_err(failed("write"))?;
    Ok(epoch)
}

#[cfg(test)]
mod tests;
