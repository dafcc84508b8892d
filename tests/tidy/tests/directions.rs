//! Which room may depend on which: adding a forbidden dependency fails here with the rule.

use std::collections::BTreeMap;

use anyhow::Result;
use haptic_tidy::{cargo_tree, packages, root};

/// Room → the rooms it may name (DESIGN §1), and why there are no more.
const ROOMS: [(&str, &[&str], &str); 13] = [
    (
        "haptic-api",
        &["haptic-model"],
        "the CRD types are written once and know no stage, so that every stage can use them",
    ),
    ("haptic-model", &[], "the nouns are shared by all rooms, so they can depend on none of them"),
    (
        "haptic-wire",
        &["haptic-model"],
        "the messages are a contract between versions: they know what is said, not who says it",
    ),
    ("haptic-store", &["haptic-api", "haptic-model"], "the store says what is there and never what follows from it"),
    (
        "haptic-render",
        &["haptic-model", "haptic-store"],
        "templates read the store and call plugins through a trait of the model: rendering has no way to deploy",
    ),
    ("haptic-plugins", &["haptic-model"], "the sandbox host knows files and reports, not what they are for"),
    (
        "haptic-modules",
        &["haptic-model"],
        "fetching bytes and checking their signature knows neither what runs them nor the objects that ask for them",
    ),
    (
        "haptic-conformance",
        &["haptic-api", "haptic-model", "haptic-plugins"],
        "an author's plugin meets the same limits and the same host as in a controller, and nothing of the controller",
    ),
    (
        "haptic-haproxy",
        &["haptic-model"],
        "what knows HAProxy is used by controller and agent alike, so it belongs to neither",
    ),
    (
        "haptic-kubernetes",
        &["haptic-api", "haptic-model", "haptic-store"],
        "what talks to the API server delivers objects and a term of leadership and never knows what they are for",
    ),
    (
        "haptic-agent",
        &["haptic-model", "haptic-haproxy", "haptic-wire"],
        "the agent runs in every HAProxy pod: it stays small and decides nothing",
    ),
    (
        "haptic-controller",
        &[
            "haptic-api",
            "haptic-model",
            "haptic-wire",
            "haptic-store",
            "haptic-render",
            "haptic-plugins",
            "haptic-modules",
            "haptic-haproxy",
            "haptic-kubernetes",
        ],
        "controller and agent meet on the wire only, so that each can be of another version",
    ),
    (
        "haptic",
        &[
            "haptic-api",
            "haptic-model",
            "haptic-wire",
            "haptic-store",
            "haptic-render",
            "haptic-plugins",
            "haptic-modules",
            "haptic-conformance",
            "haptic-haproxy",
            "haptic-kubernetes",
            "haptic-agent",
            "haptic-controller",
        ],
        "the binary wires everything and nothing depends on it",
    ),
];

/// What an agent is built without, and why.
const NOT_IN_AGENT: [(&str, &str); 5] = [
    ("wasmtime", "plugins run in the controller"),
    ("minijinja", "rendering happens in the controller"),
    ("kube", "the agent has no access to the cluster"),
    ("kube-client", "the agent has no access to the cluster"),
    ("k8s-openapi", "the agent has no access to the cluster"),
];

#[test]
fn rooms_depend_only_on_the_rooms_below_them() -> Result<()> {
    let rules: BTreeMap<_, _> = ROOMS.iter().map(|(room, below, why)| (*room, (*below, *why))).collect();
    let mut broken = Vec::new();
    let mut seen = 0;
    for package in packages(&root())? {
        if !package.manifest_path.starts_with(root().join("host")) {
            continue;
        }
        let Some((below, why)) = rules.get(package.name.as_str()) else {
            broken.push(format!(
                "`{}` is no room of the house: add it to this test with what it may depend on",
                package.name
            ));
            continue;
        };
        seen += 1;
        for dependency in package.normal_dependencies().filter(|name| rules.contains_key(name)) {
            if !below.contains(&dependency) {
                broken.push(format!("`{}` must not depend on `{dependency}`: {why}", package.name));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert_eq!(seen, ROOMS.len(), "every room of the list is in the workspace");
    Ok(())
}

#[test]
fn agent_is_built_without_engine_sandbox_and_cluster() -> Result<()> {
    let tree = cargo_tree("haptic-agent")?;
    assert!(tree.iter().any(|name| name == "haptic-wire"), "the list is the agent's own: {tree:?}");
    let broken: Vec<_> = NOT_IN_AGENT
        .iter()
        .filter(|(name, _)| tree.iter().any(|found| found == name))
        .map(|(name, why)| {
            format!("the agent is built from `{name}`, but {why}: see `cargo tree -p haptic-agent -i {name}`")
        })
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

#[test]
fn plugins_never_name_a_host_crate() -> Result<()> {
    let host: Vec<_> = ROOMS.iter().map(|(room, ..)| *room).collect();
    let mut broken = Vec::new();
    for folder in ["plugins", "sdk", "tests/guests"] {
        let folder = root().join(folder);
        if !folder.join("Cargo.toml").exists() {
            continue;
        }
        for package in packages(&folder)? {
            for dependency in &package.dependencies {
                if host.contains(&dependency.name.as_str()) {
                    broken.push(format!(
                        "`{}` must not depend on `{}`: a plugin knows the contract in wit/ through the SDK and nothing else, \
                         or it would only work with the host it was built beside",
                        package.name, dependency.name
                    ));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}
