//! The schema of the values follows the kinds of this source, and the reference follows the schema.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::helm::{expect, root};

/// What the chart itself says in the configuration.
const OF_THE_CHART: [&str; 2] = ["podSelector", "credentialsSecretRef"];
/// What a schema of values has no use for.
const OF_THE_SERVER: [&str; 3] = ["nullable", "format", "default"];

const HEAD: &str = "# haptic

Turns Kubernetes resources into HAProxy configuration through templates, proves it, and brings it to HAProxy without a reload
wherever HAProxy can take the change at run time. How to install, upgrade and remove it: [docs/install.md](docs/install.md).

# Values

Made from `values.schema.json` and `values.yaml`; a test compares. A value that is unknown or of another type is refused with
its path. `NAME` stands for a name of yours, `[]` for an entry of a list.
";

// === The schema ===

/// The schema of a kind's spec, as one for values: what it does not name is refused.
fn spec_schema(definition: &str, description: &str) -> Result<Value> {
    let path = root().join("crds").join(definition);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let definition: Value = serde_norway::from_str(&text).context("read a definition")?;
    let spec = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec").context("a spec")?;
    let mut schema = strict(spec);
    schema["description"] = description.into();
    Ok(schema)
}

fn strict(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => strict_object(fields),
        Value::Array(items) => items.iter().map(strict).collect(),
        other => other.clone(),
    }
}

fn strict_object(fields: &Map<String, Value>) -> Value {
    let mut strictly = Map::new();
    for (name, value) in fields {
        if name == "properties" {
            let properties = value.as_object().into_iter().flatten();
            let properties: Map<_, _> = properties.map(|(name, value)| (name.clone(), strict(value))).collect();
            strictly.insert(name.clone(), properties.into());
        } else if !name.starts_with("x-kubernetes-") && !OF_THE_SERVER.contains(&name.as_str()) {
            strictly.insert(name.clone(), strict(value));
        }
    }
    let says = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    if says("x-kubernetes-int-or-string") {
        strictly.insert("type".to_owned(), json!(["integer", "string"]));
    }
    let open = says("x-kubernetes-preserve-unknown-fields") || fields.contains_key("additionalProperties");
    if fields.contains_key("properties") && !open {
        strictly.insert("additionalProperties".to_owned(), false.into());
    }
    if says("nullable") && strictly.get("type").is_some_and(Value::is_string) {
        // `null` takes a default of the chart away.
        strictly["type"] = json!([strictly["type"], "null"]);
    }
    strictly.into()
}

fn values_schema() -> Result<Value> {
    let path = root().join("charts/haptic/values.schema.json");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))
}

#[test]
fn the_schema_of_the_values_knows_what_the_kinds_know() -> Result<()> {
    let mut schema = values_schema()?;
    let mut config = spec_schema(
        "haptic.rs_haproxytemplateconfigs.yaml",
        "The spec of the HAProxyTemplateConfig. The chart adds podSelector, credentialsSecretRef, its libraries, plugins and \
         validators.",
    )?;
    let properties = config["properties"].as_object_mut().context("a configuration has fields")?;
    for field in OF_THE_CHART {
        properties.shift_remove(field).with_context(|| format!("{field} is in the definition"))?;
    }
    let mut plugin = spec_schema(
        "haptic.rs_haproxyplugins.yaml",
        "The spec of the HAProxyPlugin. Without `module` it is the one of this name that is built in.",
    )?;
    plugin.as_object_mut().context("a plugin has fields")?.shift_remove("required");
    schema["properties"]["config"] = config;
    schema["$defs"]["pluginSpec"] = plugin;
    let text = serde_json::to_string_pretty(&schema).context("write the schema")?;
    expect(&root().join("charts/haptic/values.schema.json"), &format!("{text}\n"))
}

// === The reference ===

/// Rows of a table, in the order of the schema.
struct Reference<'a> {
    schema: &'a Value,
    rows: Vec<String>,
}

impl Reference<'_> {
    fn add(&mut self, path: &str, schema: &Value, default: &Value) {
        let named = schema["$ref"].as_str().and_then(|name| self.schema.pointer(name.strip_prefix('#')?)).cloned();
        let schema = &named.map_or_else(|| schema.clone(), |named| merged(named, schema));
        if let Some(properties) = schema["properties"].as_object() {
            for (name, property) in properties {
                self.add(&format!("{path}.{name}"), property, &default[name.as_str()]);
            }
            return;
        }
        let of_names = &schema["additionalProperties"];
        if of_names.is_object() && !of_names["type"].is_string() || of_names["properties"].is_object() {
            self.row(path, schema, default);
            self.add(&format!("{path}.NAME"), of_names, &Value::Null);
        } else if schema["items"]["properties"].is_object() {
            self.row(path, schema, default);
            self.add(&format!("{path}[]"), &schema["items"], &Value::Null);
        } else {
            self.row(path, schema, default);
        }
    }

    fn row(&mut self, path: &str, schema: &Value, default: &Value) {
        let description = schema["description"].as_str().unwrap_or_default().split_whitespace();
        let description = description.collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let default = if default.is_null() { String::new() } else { format!("`{default}`") };
        self.rows.push(format!("| `{path}` | {} | {default} | {description} |", kind(schema)));
    }
}

/// What is said where a definition is used wins over what it says itself.
fn merged(mut named: Value, used: &Value) -> Value {
    if used["description"].is_string() {
        named["description"] = used["description"].clone();
    }
    named
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.as_str().unwrap_or_default())).collect();
        return values.join(", ");
    }
    match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds: Vec<_> = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect();
            kinds.join(" or ")
        }
        _ if schema["anyOf"].is_array() => {
            let kinds: Vec<_> = schema["anyOf"].as_array().into_iter().flatten().map(kind).collect();
            kinds.join(" or ")
        }
        _ => "any".to_owned(),
    }
}

#[test]
fn the_reference_of_the_values_is_made_from_their_schema() -> Result<()> {
    let schema = values_schema()?;
    let path = root().join("charts/haptic/values.yaml");
    let values: Value = serde_norway::from_str(&fs::read_to_string(&path)?).context("read values.yaml")?;
    let mut text = HEAD.to_owned();
    let mut general = Reference { schema: &schema, rows: Vec::new() };
    let mut sections = String::new();
    for (name, property) in schema["properties"].as_object().context("values have properties")? {
        let structured = property["properties"].is_object() || property["additionalProperties"]["$ref"].is_string();
        if !structured {
            general.add(name, property, &values[name.as_str()]);
            continue;
        }
        let mut section = Reference { schema: &schema, rows: Vec::new() };
        section.add(name, property, &values[name.as_str()]);
        let description = property["description"].as_str().unwrap_or_default();
        sections += &format!("\n## {name}\n\n{description}\n\n{}", table(&section.rows));
    }
    text += &format!("\n## General\n\n{}{sections}", table(&general.rows));
    expect(&root().join("charts/haptic/README.md"), &text)
}

fn table(rows: &[String]) -> String {
    format!("| value | type | default | what |\n|---|---|---|---|\n{}\n", rows.join("\n"))
}

#[test]
fn every_default_is_a_value_that_the_schema_describes() -> Result<()> {
    let schema = values_schema()?;
    let path = root().join("charts/haptic/values.yaml");
    let values: Value = serde_norway::from_str(&fs::read_to_string(&path)?).context("read values.yaml")?;
    let described =
        |schema: &Value| schema["properties"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
    // `global` belongs to charts that have this one as a part.
    let names = described(&schema).context("values have properties")?;
    let missing: Vec<_> = names.iter().filter(|name| values[name.as_str()].is_null() && *name != "global").collect();
    assert!(missing.is_empty(), "values.yaml has no default of {missing:?}");
    for group in ["controller", "haproxy", "webhook", "certificates", "metrics", "networkPolicies", "ingressClass"] {
        let names = described(&schema["properties"][group]).context("a group has properties")?;
        let missing: Vec<_> = names.iter().filter(|name| values[group][name.as_str()].is_null()).collect();
        assert!(missing.is_empty(), "values.yaml has no default of {missing:?} in {group}");
    }
    Ok(())
}
