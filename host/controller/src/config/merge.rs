//! Later wins, the configuration last.

use std::{collections::BTreeMap, sync::Arc};

use haptic_api::{
    Bytes, HAProxyTemplateConfig, HAProxyTemplateConfigSpec, HAProxyTemplateLibrary, TemplateText, UnitFailure,
    ValidationTest, WatchedResource, yaml::Step,
};
use haptic_model::{Finding, FindingCode};
use haptic_render::{FileTemplate, MapTemplate, RawText, Template, TemplateSet};
use haptic_store::RawObject;
use serde_json::{Map, Value};

use crate::{
    check::CheckBounds,
    config::{Candidate, ClusterSettings, NamedPlugin, TemplateSources},
    core::{Reporting, Settings},
    pipeline::Pacing,
};

/// The test whose fixtures and assertions are added to every other; it accumulates instead of being replaced.
const GLOBAL_TEST: &str = "_global";

#[derive(Default)]
struct Merged {
    config: Option<Template>,
    snippets: BTreeMap<String, Template>,
    maps: BTreeMap<String, MapTemplate>,
    files: BTreeMap<String, FileTemplate>,
    certificates: BTreeMap<String, Template>,
    crt_lists: BTreeMap<String, Template>,
    extra_context: Map<String, Value>,
    watched: BTreeMap<String, WatchedResource>,
    /// With the object that brought it.
    tests: BTreeMap<String, (Arc<str>, ValidationTest)>,
    sources: TemplateSources,
    findings: Vec<Finding>,
}

/// Less memory than this starts no HAProxy.
const LEAST_MEMORY: u64 = 64 << 20;

/// What has a field in the API and cannot be done: said, instead of taken and ignored.
fn impossible(raw: &RawObject, spec: &HAProxyTemplateConfigSpec) -> Vec<Finding> {
    let (deployment, gate) = (&spec.deployment, &spec.render_gate);
    let wrong = [
        (spec.templating.unit_failure == UnitFailure::KeepLast)
            .then_some(("templating.unitFailure: KeepLast is not there yet", "remove the field")),
        deployment
            .deployment_timeout
            .get()
            .is_zero()
            .then_some(("deployment.deploymentTimeout is 0, in which nothing is deployed", "give it a longer time")),
        gate.timeout
            .get()
            .is_zero()
            .then_some(("renderGate.timeout is 0, in which nothing is checked", "give it a longer time")),
        (gate.memory.get() < LEAST_MEMORY)
            .then_some(("renderGate.memory is less than HAProxy needs to start", "give it 64Mi or more")),
    ];
    let finding = |(what, hint): (&str, &str)| {
        Finding::error(FindingCode::ConfigInvalid, format!("spec.{what}"))
            .about(Some(raw.reference()))
            .at(raw.source.file.clone(), raw.source.line, 0)
            .hint(hint)
    };
    wrong.into_iter().flatten().map(finding).collect()
}

/// One object that brings templates.
struct Layer<'a> {
    raw: &'a Arc<RawObject>,
    name: Arc<str>,
}

pub(super) fn candidate(
    raw: &Arc<RawObject>,
    config: HAProxyTemplateConfig,
    libraries: Vec<(Arc<RawObject>, HAProxyTemplateLibrary)>,
    plugins: Vec<NamedPlugin>,
) -> Result<Candidate, Vec<Finding>> {
    let mut merged = Merged::default();
    for (raw, library) in libraries {
        let spec = library.spec;
        let layer = Layer::of(&raw);
        merged.config(&layer, spec.haproxy_config);
        merged.templates(&layer, spec.template_snippets, spec.ssl_certificates, spec.crt_lists);
        merged.files(&layer, spec.maps, spec.files);
        merged.watched.extend(spec.watched_resources);
        merge_values(&mut merged.extra_context, spec.extra_context);
        merged.tests(&layer, spec.validation_tests);
    }
    let spec = config.spec;
    let impossible = impossible(raw, &spec);
    if !impossible.is_empty() {
        return Err(impossible);
    }
    let layer = Layer::of(raw);
    merged.config(&layer, spec.haproxy_config);
    merged.templates(&layer, spec.template_snippets, spec.ssl_certificates, spec.crt_lists);
    merged.files(&layer, spec.maps, spec.files);
    merged.watched.extend(spec.watched_resources);
    merge_values(&mut merged.extra_context, spec.extra_context);
    merged.tests(&layer, spec.validation_tests);
    let Some(config_template) = merged.config.take() else {
        let finding =
            Finding::error(FindingCode::ConfigInvalid, "neither it nor one of its libraries has haproxyConfig")
                .about(Some(raw.reference()))
                .at(raw.source.file.clone(), raw.source.line, 0)
                .hint("set spec.haproxyConfig.template, or refer to a library that brings one");
        return Err(vec![finding]);
    };
    if !merged.findings.is_empty() {
        return Err(merged.findings);
    }
    let templates = TemplateSet {
        config: config_template,
        snippets: merged.snippets,
        maps: merged.maps,
        files: merged.files,
        certificates: merged.certificates,
        crt_lists: merged.crt_lists,
        extra_context: Value::Object(merged.extra_context),
        raw_text: match spec.templating.raw_text {
            haptic_api::RawText::Refused => RawText::Refused,
            haptic_api::RawText::Allowed => RawText::Allowed,
        },
    };
    Ok(Candidate {
        name: layer.name,
        templates,
        watched: merged.watched,
        ignore_fields: spec.watched_resources_ignore_fields,
        tests: merged.tests.into_iter().map(|(name, (_, test))| (name, test)).collect(),
        plugins,
        attached: Vec::new(),
        validators: spec.validators,
        settings: Settings {
            pacing: Pacing {
                reload_interval: spec.deployment.min_deployment_interval.get(),
                timeout: spec.deployment.deployment_timeout.get(),
                most_at_once: spec.deployment.max_parallel,
            },
            drift_prevention_interval: spec.deployment.drift_prevention_interval.get(),
            gate_enabled: spec.render_gate.enabled,
            check: CheckBounds { time: spec.render_gate.timeout.get(), memory: spec.render_gate.memory.get() },
            ..Settings::default()
        },
        reporting: Arc::new(Reporting {
            compression_threshold: spec.controller.compression_threshold.map(Bytes::get),
            ingress_status: spec.controller.ingress_status,
        }),
        pure_plugins: spec.templating.pure_plugins,
        cluster: ClusterSettings {
            pod_labels: spec.pod_selector.match_labels,
            leader_election: spec.controller.leader_election,
        },
        sources: merged.sources,
    })
}

/// Objects merge field by field, everything else is replaced.
pub(crate) fn merge_values(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(value)) => merge_values(known, value),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

// === impl Layer ===

impl<'a> Layer<'a> {
    fn of(raw: &'a Arc<RawObject>) -> Self {
        Self { raw, name: raw.reference().to_string().into() }
    }

    /// `path` leads from `spec` to the field that holds the text.
    fn template(&self, text: String, label: &str, path: &[&str], sources: &mut TemplateSources) -> Template {
        let name: Arc<str> = format!("{}, {label}", self.name).into();
        let mut steps = vec![Step::Field("spec".to_owned())];
        steps.extend(path.iter().map(|step| Step::Field((*step).to_owned())));
        steps.push(Step::Field("template".to_owned()));
        sources.add(name.clone(), self.raw, steps);
        Template { name, source: text.into() }
    }
}

// === impl Merged ===

impl Merged {
    fn config(&mut self, layer: &Layer<'_>, text: Option<TemplateText>) {
        if let Some(text) = text {
            let template = layer.template(text.template, "haproxyConfig", &["haproxyConfig"], &mut self.sources);
            self.config = Some(template);
        }
    }

    fn templates(
        &mut self,
        layer: &Layer<'_>,
        snippets: BTreeMap<String, TemplateText>,
        certificates: BTreeMap<String, TemplateText>,
        crt_lists: BTreeMap<String, TemplateText>,
    ) {
        let groups = [
            ("snippet", "templateSnippets", snippets, &mut self.snippets),
            ("certificate", "sslCertificates", certificates, &mut self.certificates),
            ("crt-list", "crtLists", crt_lists, &mut self.crt_lists),
        ];
        for (label, field, texts, into) in groups {
            for (name, text) in texts {
                let path = [field, name.as_str()];
                let template = layer.template(text.template, &format!("{label} {name}"), &path, &mut self.sources);
                into.insert(name, template);
            }
        }
    }

    fn files(
        &mut self,
        layer: &Layer<'_>,
        maps: BTreeMap<String, haptic_api::MapTemplate>,
        files: BTreeMap<String, haptic_api::FileTemplate>,
    ) {
        for (name, map) in maps {
            let label = format!("map {name}");
            let template = layer.template(map.template, &label, &["maps", &name], &mut self.sources);
            self.maps.insert(name, MapTemplate { template, ordered: map.ordered });
        }
        for (name, file) in files {
            let label = format!("file {name}");
            let template = layer.template(file.template, &label, &["files", &name], &mut self.sources);
            self.files.insert(name, FileTemplate { template, reload_on_change: file.reload_on_change });
        }
    }

    /// A test of the same name in two objects would be a mixture of both, so it is a mistake.
    fn tests(&mut self, layer: &Layer<'_>, tests: BTreeMap<String, ValidationTest>) {
        for (name, test) in tests {
            match self.tests.get_mut(&name) {
                None => {
                    self.tests.insert(name, (layer.name.clone(), test));
                }
                Some((_, known)) if name == GLOBAL_TEST => {
                    for (resource, mut objects) in test.fixtures {
                        known.fixtures.entry(resource).or_default().append(&mut objects);
                    }
                    known.http_resources.extend(test.http_resources);
                    known.assertions.extend(test.assertions);
                    merge_values(&mut known.extra_context, test.extra_context);
                }
                Some((first, _)) => {
                    let message = format!("the validation test `{name}` is in {first} and in {}", layer.name);
                    let finding = Finding::error(FindingCode::ConfigInvalid, message)
                        .about(Some(layer.raw.reference()))
                        .at(layer.raw.source.file.clone(), layer.raw.source.line, 0)
                        .hint("rename one of them");
                    self.findings.push(finding);
                }
            }
        }
    }
}
