//! What values render to.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{binary, builds};
use serde_json::Value;

use crate::helm::{Helm, chart, documents, expect, identity, root};

/// A folder of `cases/`.
pub(crate) struct Case {
    pub(crate) name: String,
    folder: PathBuf,
}

// === impl Case ===

impl Case {
    pub(crate) fn named(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts/cases").join(name);
        Self { name: name.to_owned(), folder }
    }

    /// All of them, `defaults` first.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let defaults = Self::named("defaults");
        let folder = defaults.folder.parent().context("cases have a folder")?.to_owned();
        let mut cases = Vec::new();
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let name = entry.context("list cases")?.file_name().to_string_lossy().into_owned();
            if name != defaults.name {
                cases.push(Self::named(&name));
            }
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        cases.insert(0, defaults);
        ensure!(cases.len() > 5, "the cases are found");
        Ok(cases)
    }

    pub(crate) fn values(&self) -> PathBuf {
        self.folder.join("values.yaml")
    }
}

/// Writes the objects of haptic's own kinds into a folder, as `haptic` reads them.
pub(crate) fn write_configuration(objects: &[Value], folder: &Path) -> Result<()> {
    for (number, object) in objects.iter().enumerate() {
        if object["apiVersion"] == "haptic.rs/v1alpha1" {
            // JSON is YAML.
            fs::write(folder.join(format!("{number}.yaml")), object.to_string()).context("write a manifest")?;
        }
    }
    Ok(())
}

/// Libraries, alerts and dashboards have files of their own, which other tests are about.
fn without_files(objects: Vec<Value>) -> Vec<Value> {
    let shorten = |mut object: Value| {
        match object["kind"].as_str() {
            Some("HAProxyTemplateLibrary") => object["spec"] = "that of charts/libraries".into(),
            Some("PrometheusRule") => object["spec"] = "that of charts/haptic/alerts".into(),
            Some("ConfigMap") => object["data"] = "that of charts/haptic/dashboards".into(),
            _ => {}
        }
        object
    };
    objects.into_iter().map(shorten).collect()
}

fn yaml(objects: &[Value]) -> Result<String> {
    let mut text = String::new();
    for object in objects {
        text += &format!("---\n{}", serde_norway::to_string(object).context("write an object")?);
    }
    Ok(text)
}

#[test]
fn both_helms_render_every_case_alike_and_as_written_down() -> Result<()> {
    let [three, four] = Helm::both()?;
    let mut defaults: Vec<Value> = Vec::new();
    for case in Case::all()? {
        let rendered = three.render(&case.values())?;
        assert_eq!(rendered, four.render(&case.values())?, "{}: the Helms differ", case.name);
        let rendered = without_files(rendered);
        let mut differs: Vec<Value> = rendered.iter().filter(|object| !defaults.contains(object)).cloned().collect();
        for object in &defaults {
            if !rendered.iter().any(|found| identity(found) == identity(object)) {
                differs.push(format!("there is no {}", identity(object).join(" ")).into());
            }
        }
        expect(&case.folder.join("rendered.yaml"), &yaml(&differs)?)?;
        if case.name == "defaults" {
            defaults = rendered;
        }
    }
    Ok(())
}

#[test]
fn what_is_rendered_is_a_configuration_that_every_haproxy_takes() -> Result<()> {
    let helm = Helm::three()?;
    for case in Case::all()? {
        let folder = tempfile::tempdir().context("make a folder")?;
        write_configuration(&helm.render(&case.values())?, folder.path())?;
        for haproxy in builds(&["3.0", "3.2", "3.4"]) {
            let mut command = Command::new(binary());
            command.args(["validate", "--standalone"]).arg(folder.path()).arg("--haproxy").arg(&haproxy.path);
            let output = command.output().context("run haptic validate")?;
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(output.status.success(), "{} on HAProxy {}: {said}", case.name, haproxy.version);
        }
    }
    Ok(())
}

#[test]
fn both_charts_pass_the_lint_of_both_helms() -> Result<()> {
    for helm in Helm::both()? {
        for name in ["haptic", "haptic-crds"] {
            helm.run(&["lint", "--strict", &chart(name)])?;
        }
    }
    Ok(())
}

#[test]
fn texts_of_templates_pass_helm_untouched() -> Result<()> {
    let values = tempfile::NamedTempFile::new().context("make a file")?;
    let text = "{{ hook(\"x\") }} {% if a %} {{- include \"haptic.fullname\" . }} %[src] ${HOME} \\ \"'\n";
    let config = serde_json::json!({ "config": { "templateSnippets": { "own": { "template": text } } } });
    fs::write(values.path(), config.to_string()).context("write values")?;
    for helm in Helm::both()? {
        let rendered = helm.render(values.path())?;
        let config = rendered.iter().find(|object| object["kind"] == "HAProxyTemplateConfig");
        assert_eq!(config.context("a configuration")?["spec"]["templateSnippets"]["own"]["template"], text);
    }
    Ok(())
}

/// Helm writes `1.0` as `1`.
fn numbers_alike(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.into_iter().map(numbers_alike).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, numbers_alike(value))).collect(),
        other => other,
    }
}

#[test]
fn the_charts_hold_the_kinds_and_libraries_of_this_source() -> Result<()> {
    let read = |folder: &str| -> Result<Vec<Value>> {
        let mut text = String::new();
        for entry in fs::read_dir(root().join(folder)).with_context(|| format!("list {folder}"))? {
            text += "\n---\n";
            text += &fs::read_to_string(entry.context("list files")?.path()).context("read a file")?;
        }
        documents(&text)
    };
    for helm in Helm::both()? {
        let mut kinds = documents(&helm.run(&["template", "crds", &chart("haptic-crds")])?)?;
        for kind in &mut kinds {
            let metadata = kind["metadata"].as_object_mut().context("metadata")?;
            let keep = metadata.remove("annotations").context("annotations")?;
            assert_eq!(keep["helm.sh/resource-policy"], "keep", "uninstalling deletes no object");
            metadata.remove("labels");
        }
        let alike = |objects: Vec<Value>| objects.into_iter().map(numbers_alike).collect::<Vec<_>>();
        assert_eq!(alike(kinds), alike(read("crds")?), "{}", helm.name);

        let rendered = helm.render(&Case::named("defaults").values())?;
        let libraries = rendered.iter().filter(|object| object["kind"] == "HAProxyTemplateLibrary");
        let sources = read("charts/libraries")?;
        for library in libraries {
            let name = &library["metadata"]["name"];
            let source = sources.iter().find(|source| source["metadata"]["name"] == *name);
            assert_eq!(library["spec"], source.context("a library of the source")?["spec"], "{name}");
        }
    }
    Ok(())
}
