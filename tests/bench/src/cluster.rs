//! Objects of a cluster with many routes: an Ingress, a Service and an EndpointSlice each.

use std::{fmt::Write as _, fs, os::unix::fs::symlink, path::Path};

use anyhow::{Context as _, Result};

/// Slices that are files of their own, so that a change of one is a change of a small file.
pub(crate) const ALONE: usize = 64;
/// Objects in one file; a file may have 8 MiB.
const CHUNK: usize = 1_000;

pub(crate) fn ingress(number: usize) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: app-{number}, namespace: bench, uid: 5f0f2d5e-0000-4000-8000-{number:012}, labels: {{app: app-{number}, tier: front}}}}
spec:
  ingressClassName: haptic
  rules:
  - host: app-{number}.example
    http:
      paths:
      - {{path: /, pathType: Prefix, backend: {{service: {{name: app-{number}, port: {{name: http}}}}}}}}
"
    )
}

pub(crate) fn service(number: usize) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: app-{number}, namespace: bench, labels: {{app: app-{number}}}}}
spec: {{selector: {{app: app-{number}}}, ports: [{{name: http, port: 80, targetPort: 8080, protocol: TCP}}]}}
"
    )
}

/// Two endpoints; the first one has the address `first`.
pub(crate) fn slice(number: usize, first: &str, port: u16) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: app-{number}-x, namespace: bench, labels: {{kubernetes.io/service-name: app-{number}}}}}
addressType: IPv4
ports: [{{name: http, port: {port}, protocol: TCP}}]
endpoints:
- {{addresses: [{first}], conditions: {{ready: true, serving: true, terminating: false}}, targetRef: {{kind: Pod, name: app-{number}-a}}}}
- {{addresses: [127.9.0.2], conditions: {{ready: true, serving: true, terminating: false}}, targetRef: {{kind: Pod, name: app-{number}-b}}}}
"
    )
}

/// Writes everything below `root`; `config` is the HAProxyTemplateConfig.
pub(crate) fn write(root: &Path, routes: usize, backend_port: u16, config: &str) -> Result<()> {
    let libraries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/libraries");
    let libraries = fs::canonicalize(&libraries).with_context(|| format!("resolving {}", libraries.display()))?;
    symlink(libraries, root.join("libraries"))?;
    fs::write(root.join("config.yaml"), config)?;
    let class = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: haptic}\n\
                 spec: {controller: haptic.rs/ingress}\n";
    fs::write(root.join("class.yaml"), class)?;
    for (file, numbers) in (0..routes).collect::<Vec<_>>().chunks(CHUNK).enumerate() {
        let mut text = String::new();
        for number in numbers {
            let _ = write!(text, "---\n{}---\n{}", ingress(*number), service(*number));
            if *number >= ALONE {
                let _ = write!(text, "---\n{}", slice(*number, "127.9.0.1", backend_port));
            }
        }
        fs::write(root.join(format!("objects-{file}.yaml")), text)?;
    }
    for number in 0..ALONE.min(routes) {
        fs::write(slice_file(root, number), slice(number, "127.9.0.1", backend_port))?;
    }
    Ok(())
}

pub(crate) fn slice_file(root: &Path, number: usize) -> std::path::PathBuf {
    root.join(format!("slice-{number}.yaml"))
}

/// With the policy plugin, or without any.
pub(crate) fn config(http_port: u16, policy: bool) -> String {
    let plugins = if policy { "  plugins: [{name: policy}]\n  validators: [{plugin: policy}]\n" } else { "" };
    let plugin = "---\napiVersion: haptic.rs/v1alpha1\nkind: HAProxyPlugin\nmetadata: {name: policy}\n\
                  spec: {module: {builtin: {name: policy}}, config: {forbidden: [{directive: external-check, reason: bench}]}}\n";
    format!(
        "apiVersion: haptic.rs/v1alpha1
kind: HAProxyTemplateConfig
metadata: {{name: bench}}
spec:
  podSelector: {{matchLabels: {{app: haproxy}}}}
  credentialsSecretRef: {{name: none}}
  libraryRefs: [{{name: base, revision: \"1\"}}, {{name: ssl, revision: \"1\"}}, {{name: ingress, revision: \"1\"}}]
{plugins}  extraContext: {{bind_address: 127.9.0.9, http_port: {http_port}, https_port: {}}}
{}",
        http_port + 1,
        if policy { plugin } else { "" }
    )
}
