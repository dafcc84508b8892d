//! What a person puts among the manifests to use a component.

use std::fmt::Write as _;

use anyhow::Context as _;
use haptic_api::{HAProxyPlugin, HAProxyPluginSpec, PluginLimits, PluginModule};
use haptic_conformance::manifest::Manifest;
use haptic_model::ports::Contract;
use haptic_plugins::Inspection;

/// A component and where a controller finds it.
pub(crate) struct Snippet<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) inspection: &'a Inspection,
    pub(crate) module: PluginModule,
}

// === impl Snippet ===

impl Snippet<'_> {
    /// An HAProxyPlugin as YAML; what else there is to say stands above it, in comments.
    pub(crate) fn text(self) -> anyhow::Result<String> {
        let Self { manifest, inspection, module } = self;
        let name = &manifest.name;
        let contracts: Vec<String> = inspection.contracts.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "# {name}: {}, {} bytes\n# sha256 {}\n# In the HAProxyTemplateConfig:\n#   plugins: [{{name: {name}}}]\n",
            contracts.join(", "),
            inspection.size,
            inspection.sha256
        );
        for contract in &inspection.contracts {
            let _ = match contract {
                Contract::AuxiliaryFile => {
                    writeln!(text, "#   validators: [{{plugin: {name}, files: [\"general/*\"]}}]")
                }
                Contract::RenderedOutput => writeln!(text, "#   validators: [{{plugin: {name}}}]"),
                Contract::TemplateFilter => writeln!(text, "#   and in a template: {{{{ value | filter_name }}}}"),
            };
        }
        let default = PluginLimits::default();
        let limits = PluginLimits {
            timeout: manifest.limits.timeout.unwrap_or(default.timeout),
            memory: manifest.limits.memory.unwrap_or(default.memory),
            output_bytes: manifest.limits.output_bytes.unwrap_or(default.output_bytes),
        };
        let spec = HAProxyPluginSpec {
            module,
            sha256: Some(inspection.sha256.to_string()),
            config: manifest.config.clone(),
            limits,
            pure: manifest.pure,
            ..HAProxyPluginSpec::default()
        };
        let object = serde_norway::to_string(&HAProxyPlugin::new(name, spec)).context("writing the manifest")?;
        text.push_str(object.trim_end());
        text.push('\n');
        Ok(text)
    }
}
