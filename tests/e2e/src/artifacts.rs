//! What dashboards, alerts and the page about observability say of metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

/// What one query of a dashboard or an alert asks for: `tests/promql` parses them and keeps `selectors.json` right.
#[derive(Clone, Debug, Deserialize)]
pub struct Query {
    /// File and panel, or alert.
    pub place: String,
    pub selectors: Vec<Selector>,
}

/// One selector of a query, and the labels that are asked of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Selector {
    pub metric: String,
    pub labels: BTreeSet<String>,
    /// Of labels that must equal something: what.
    pub values: BTreeMap<String, String>,
}

/// A row of a table of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documented {
    pub kind: String,
    pub labels: BTreeSet<String>,
}

/// Every query of both dashboards and of all alerts.
pub fn queries() -> Result<Vec<Query>> {
    serde_json::from_str(&read("tests/promql/selectors.json")?).context("read selectors.json")
}

/// The names of the alerts; each has a severity and a runbook on the page.
pub fn alerts() -> Result<BTreeSet<String>> {
    let rules: Value = serde_norway::from_str(&read("charts/haptic/alerts/haptic.yaml")?)?;
    let mut names = BTreeSet::new();
    for group in rules["groups"].as_array().context("rules have groups")? {
        for rule in group["rules"].as_array().context("a group has rules")? {
            let name = rule["alert"].as_str().context("an alert has a name")?;
            let anchor = format!("host/controller/docs/observability.md#{}", name.to_lowercase());
            ensure!(rule["annotations"]["runbook"] == anchor, "the runbook of {name} is {anchor}");
            ensure!(rule["labels"]["severity"].is_string(), "{name} has a severity");
            ensure!(names.insert(name.to_owned()), "{name} is there twice");
        }
    }
    Ok(names)
}

/// The table of metrics below a heading of the page.
pub fn documented(heading: &str) -> Result<BTreeMap<String, Documented>> {
    let page = page()?;
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).with_context(|| format!("no heading {heading}"))?;
    let section = rest.split("\n## ").next().unwrap_or_default();
    let mut rows = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, ..] = cells.as_slice() else { anyhow::bail!("`{line}` has too few cells") };
        let labels = labels.split(", ").filter(|label| !label.is_empty()).map(str::to_owned).collect();
        let row = Documented { kind: (*kind).to_owned(), labels };
        ensure!(rows.insert(name.trim_matches('`').to_owned(), row).is_none(), "{name} is there twice");
    }
    Ok(rows)
}

/// `host/controller/docs/observability.md`.
pub fn page() -> Result<String> {
    read("host/controller/docs/observability.md")
}

fn read(path: &str) -> Result<String> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}
