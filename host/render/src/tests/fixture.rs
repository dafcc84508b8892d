//! Templates and objects for tests, from YAML text.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_api as api;
use haptic_model::{Rendered, ports::NoPlugins};
use haptic_store::{Store, WatchedResource};
use serde_json::Value;

use crate::{FileTemplate, Inputs, MapTemplate, Memo, RawText, Renderer, Template, TemplateSet};

pub(super) struct Fixture {
    pub(super) set: TemplateSet,
    pub(super) resources: Vec<WatchedResource>,
}

fn template(kind: &str, name: &str, text: &str) -> Template {
    Template { name: format!("{kind} {name}").into(), source: text.into() }
}

impl Fixture {
    /// A main template with the resources `things` (index: namespace, name), and snippets.
    pub(super) fn new(main: &str, snippets: &[(&str, &str)]) -> Self {
        let things = api::WatchedResource {
            api_version: Some("v1".to_owned()),
            resources: "things".to_owned(),
            kind: Some("Thing".to_owned()),
            ..Default::default()
        };
        Self {
            set: TemplateSet {
                config: template("config", "main", main),
                snippets: snippets.iter().map(|(n, s)| ((*n).to_owned(), template("snippet", n, s))).collect(),
                maps: BTreeMap::new(),
                files: BTreeMap::new(),
                certificates: BTreeMap::new(),
                crt_lists: BTreeMap::new(),
                extra_context: serde_json::json!({}),
                raw_text: RawText::Refused,
            },
            resources: vec![WatchedResource::new("things", &things, &[]).unwrap()],
        }
    }

    /// The libraries of `charts/libraries`.
    pub(super) fn libraries() -> Self {
        let mut fixture = Self::new("", &[]);
        fixture.resources.clear();
        let mut extra = serde_json::Map::new();
        for name in ["base", "ssl", "ingress"] {
            let path = format!("{}/../../charts/libraries/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            let library: api::HAProxyTemplateLibrary = serde_norway::from_str(&text).unwrap();
            let spec = library.spec;
            if let Some(config) = spec.haproxy_config {
                fixture.set.config = template("library", name, &config.template);
            }
            for (snippet, text) in spec.template_snippets {
                let display = format!("{name}, snippet {snippet}");
                fixture.set.snippets.insert(snippet, template("library", &display, &text.template));
            }
            for (resource, watched) in spec.watched_resources {
                fixture.resources.push(WatchedResource::new(&resource, &watched, &[]).unwrap());
            }
            extra.extend(spec.extra_context);
        }
        fixture.set.extra_context = Value::Object(extra);
        fixture
    }

    pub(super) fn context(mut self, values: Value) -> Self {
        let Value::Object(values) = values else { panic!("a map") };
        self.set.extra_context.as_object_mut().unwrap().extend(values);
        self
    }

    pub(super) fn map(mut self, name: &str, text: &str, ordered: bool) -> Self {
        self.set.maps.insert(name.to_owned(), MapTemplate { template: template("map", name, text), ordered });
        self
    }

    pub(super) fn file(mut self, name: &str, text: &str) -> Self {
        let file = FileTemplate { template: template("file", name, text), reload_on_change: true };
        self.set.files.insert(name.to_owned(), file);
        self
    }

    pub(super) fn renderer(&self) -> Renderer {
        Renderer::compile(self.set.clone(), Arc::new(NoPlugins)).unwrap()
    }

    pub(super) fn inputs(&self, objects: &str) -> Inputs {
        let objects: BTreeMap<String, Vec<Value>> = serde_norway::from_str(objects).unwrap();
        let (snapshot, findings) = Store::fixture(self.resources.clone(), &objects);
        assert_eq!(findings, [], "the fixtures are valid");
        Inputs { snapshot, quarantined: BTreeSet::new(), haproxy: (3, 4) }
    }

    /// A cold render.
    pub(super) fn render(&self, objects: &str) -> Rendered {
        self.renderer().render(&self.inputs(objects), &mut Memo::default()).unwrap()
    }

    /// The findings of a render that fails as a whole.
    pub(super) fn failure(&self, objects: &str) -> Vec<String> {
        let error = self.renderer().render(&self.inputs(objects), &mut Memo::default()).unwrap_err();
        error.findings.iter().map(ToString::to_string).collect()
    }
}

pub(super) fn text(rendered: &Rendered, path: &str) -> String {
    let file = rendered.files.get(path).unwrap_or_else(|| panic!("no file {path}"));
    String::from_utf8(file.content.to_vec()).unwrap()
}

pub(super) fn findings(rendered: &Rendered) -> Vec<String> {
    rendered.findings.iter().map(ToString::to_string).collect()
}
