//! Files that are replaced as a whole, and only when their text changes.

use std::{collections::HashMap, path::PathBuf};

use serde::Serialize;

pub(super) struct StatusFiles {
    folder: PathBuf,
    written: HashMap<&'static str, String>,
}

// === impl StatusFiles ===

impl StatusFiles {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, written: HashMap::new() }
    }

    /// What cannot be written is told and tried again with the next state: a full disk must not stop traffic.
    pub(super) async fn write(&mut self, name: &'static str, document: &impl Serialize) {
        let text = match serde_norway::to_string(document) {
            Ok(text) => text,
            Err(error) => {
                tracing::error!(%error, file = name, "could not write the status as YAML");
                return;
            }
        };
        if self.written.get(name) == Some(&text) {
            return;
        }
        match self.replace(name, &text).await {
            Ok(()) => {
                self.written.insert(name, text);
            }
            Err(error) => {
                tracing::warn!(%error, folder = %self.folder.display(), file = name, "could not replace the status file");
            }
        }
    }

    async fn replace(&self, name: &str, text: &str) -> std::io::Result<()> {
        tokio::fs::create_dir_all(&self.folder).await?;
        let temporary = self.folder.join(format!(".{name}.new"));
        tokio::fs::write(&temporary, text).await?;
        tokio::fs::rename(&temporary, self.folder.join(name)).await
    }
}
