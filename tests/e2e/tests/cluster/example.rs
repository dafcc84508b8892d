//! The files of the example, without a cluster.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::binary;
use serde::Deserialize as _;
use serde_json::Value;

fn documents(text: &str) -> Result<Vec<Value>> {
    let read = |document| Value::deserialize(document).context("read a manifest");
    let documents: Vec<Value> = serde_norway::Deserializer::from_str(text).map(read).collect::<Result<_>>()?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

#[test]
fn what_the_controller_may_do_is_what_haptic_rbac_says() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let access = root.join("tests/examples/shop/cluster/access.yaml");
    let mut command = Command::new(binary());
    command.current_dir(&root).args(["rbac", "--namespace", "haptic"]);
    command.args(["--config-file", "tests/examples/shop/cluster/config.yaml", "--config-dir", "charts/libraries"]);
    let output = command.args(["--config-file", "tests/examples/shop/common/plugins.yaml"]).output()?;
    ensure!(output.status.success(), "haptic rbac: {}", String::from_utf8_lossy(&output.stderr));
    let expected = documents(&String::from_utf8(output.stdout)?)?;
    let is = documents(&fs::read_to_string(&access).with_context(|| format!("read {}", access.display()))?)?;
    assert_eq!(is, expected, "make {} anew: its head says how", access.display());
    Ok(())
}
