//! What the images of the manifests are on this machine: the binary under test and the installed HAProxies.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::{HaproxyBuild, binary, builds};

/// The builds that judge what is rendered, and the tags of the HAProxy image.
pub(super) const VERSIONS: [&str; 3] = ["3.0", "3.2", "3.4"];

/// Writes the table: `haptic` (the controller with every HAProxy below /opt/haproxy), `haptic-haproxy:VERSION` (the
/// same binary beside that HAProxy, which is in the PATH). `demo` is built in.
pub(super) fn write(path: &Path) -> Result<()> {
    let haptic = fs::canonicalize(binary())
        .with_context(|| format!("{} is missing: run `cargo build --workspace --all-targets`", binary().display()))?;
    let mut images = Map::new();
    let mut every = json!({ "/haptic": haptic });
    for build in builds(&VERSIONS) {
        let home = home(&build)?;
        let own = home.clone();
        let below = format!("/opt/haproxy/{}", build.version);
        // Its loader and libraries are found by their absolute path.
        every[&below] = json!(home);
        every[&own] = json!(home);
        images.insert(
            format!("haptic-haproxy:{}", build.version),
            json!({
                "entrypoint": ["/haptic"], "args": ["agent"], "user": 65532,
                "env": { "PATH": "/opt/haproxy:/usr/local/bin:/usr/bin:/bin" },
                "binds": { "/haptic": haptic, "/opt/haproxy": home, &own: home },
            }),
        );
    }
    let newest = images.get(&format!("haptic-haproxy:{}", VERSIONS[2])).cloned();
    images.insert("haptic-haproxy".to_owned(), newest.unwrap_or_default());
    images.insert("haptic".to_owned(), json!({ "entrypoint": ["/haptic"], "user": 65532, "binds": every }));
    fs::write(path, Value::Object(images).to_string()).with_context(|| format!("write {}", path.display()))
}

/// The folder with the binary and its libraries.
fn home(build: &HaproxyBuild) -> Result<String> {
    let real = fs::canonicalize(&build.path).with_context(|| format!("find {}", build.path.display()))?;
    let home = real.parent().context("a binary lies in a folder")?;
    Ok(home.to_string_lossy().into_owned())
}
