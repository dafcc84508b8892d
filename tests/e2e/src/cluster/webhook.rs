//! The admission webhook in front of the example shop: its Secret, Service and ValidatingWebhookConfiguration.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::{
    Subject, Validity, binary,
    cluster::{Objects, SECRET, VALIDATING_WEBHOOK_CONFIGURATION, served::Served},
    eventually,
};

const SECRET_NAME: &str = "haptic-webhook";
const FOLDER: &str = "/webhook";

/// The controllers of a served shop, as webhooks.
pub struct Webhook<'a> {
    served: &'a Served,
    /// What the API server knows it by.
    pub name: String,
}

/// What one write came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub accepted: bool,
    /// Warnings, and why it was denied.
    pub said: String,
}

/// Switches the webhook on in an object of the example: use it in the change of [`Served::apply`].
pub fn switch_on(object: &mut Value) {
    if object["kind"] == "HAProxyTemplateConfig" {
        for resource in ["ingresses", "services", "secrets"] {
            object["spec"]["watchedResources"][resource]["enableValidationWebhook"] = true.into();
        }
    }
    if object["kind"] == "Deployment" && object["metadata"]["name"] == "haptic" {
        let pod = &mut object["spec"]["template"]["spec"];
        let container = &mut pod["containers"][0];
        push(&mut container["args"], ["--webhook-listen=0.0.0.0:9443", "--webhook-tls=/webhook"].map(Value::from));
        let metrics = Value::from("--metrics-listen=0.0.0.0:9090");
        if container["args"].as_array().is_some_and(|words| !words.contains(&metrics)) {
            push(&mut container["args"], [metrics]);
        }
        push(&mut container["volumeMounts"], [json!({ "name": "webhook", "mountPath": FOLDER })]);
        push(&mut container["ports"], [json!({ "name": "webhook", "containerPort": 9443 })]);
        push(&mut pod["volumes"], [json!({ "name": "webhook", "secret": { "secretName": SECRET_NAME } })]);
    }
}

// === impl Webhook ===

impl<'a> Webhook<'a> {
    /// The Service and the Secret, which is empty as the chart makes it.
    pub async fn prepare(served: &'a Served) -> Result<Self> {
        let system = served.room.system();
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": "haptic-webhook", "namespace": system },
            "spec": {
                "selector": { "app.kubernetes.io/name": "haptic" },
                "ports": [{ "name": "webhook", "port": 443, "targetPort": 9443 }],
            },
        });
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": SECRET_NAME, "namespace": system },
        });
        served.room.objects.apply(&service).await?;
        served.room.objects.apply(&secret).await?;
        Ok(Self { served, name: format!("haptic-{system}") })
    }

    /// A certificate for the Service, by the authority of the room; each call makes another one.
    pub async fn renew(&self) -> Result<()> {
        let system = self.served.room.system();
        let subject = Subject {
            // A test binary ends soon.
            name: format!("haptic-webhook.{system}.svc").leak(),
            usages: Subject::agent().usages,
            validity: Validity::Valid,
        };
        let pair = self.served.credentials.authority.issue(&subject).context("make the webhook's certificate")?;
        let entries = json!({ "stringData": { "tls.crt": pair.certificate, "tls.key": pair.key } });
        self.served.room.objects.merge(SECRET, system, SECRET_NAME, &entries).await.map(|_| ())
    }

    /// Has the API server ask, as `haptic webhook-configuration` prints it for the configuration that is applied.
    pub async fn register(&self, config: &Value, failure_policy: &str) -> Result<()> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let (ca, file) = (folder.path().join("ca.crt"), folder.path().join("config.yaml"));
        fs::write(&ca, self.served.credentials.authority.pem()).context("write the CA")?;
        fs::write(&file, config.to_string()).context("write the configuration")?;
        let mut command = Command::new(binary());
        command.args(["webhook-configuration", "--failure-policy", failure_policy, "--ca-file"]).arg(&ca);
        command.arg("--config-file").arg(&file);
        for library in self.libraries(folder.path())? {
            command.arg("--config-file").arg(library);
        }
        let output = command.output().context("run haptic webhook-configuration")?;
        ensure!(output.status.success(), "haptic: {}", String::from_utf8_lossy(&output.stderr));
        let manifest: Value = serde_norway::from_slice(&output.stdout).context("read what haptic printed")?;
        ensure!(manifest["metadata"]["name"] == *self.name, "{manifest}");
        self.served.room.objects.apply(&manifest).await.map(|_| ())
    }

    /// Waits until the API server asks: `bad` is denied from then on, and not by the server itself.
    pub async fn until_asked(&self, bad: &Value) -> Result<()> {
        let bad = std::slice::from_ref(bad);
        eventually("the API server to ask", async || {
            let written = self.kubectl(&["create", "--dry-run=server"], bad).await.ok()?;
            (!written.accepted && written.said.contains("would break")).then_some(())
        })
        .await;
        Ok(())
    }

    /// Nobody is asked any more.
    pub async fn unregister(&self) -> Result<()> {
        self.objects().delete(VALIDATING_WEBHOOK_CONFIGURATION, "", &self.name).await
    }

    /// What a user with kubectl sees: `words` such as `["create"]` or `["delete"]`, and objects.
    pub async fn kubectl(&self, words: &[&str], objects: &[Value]) -> Result<Written> {
        let folder = tempfile::tempdir().context("make a folder")?;
        let file = folder.path().join("objects.json");
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        fs::write(&file, list.to_string()).context("write objects")?;
        let mut command = tokio::process::Command::from(self.served.room.cluster().kubectl_command());
        command.args(words).arg("-f").arg(&file).kill_on_drop(true);
        let output = command.output().await.context("run kubectl")?;
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        Ok(Written { accepted: output.status.success(), said: String::from_utf8_lossy(&said).into_owned() })
    }

    fn objects(&self) -> &Objects {
        &self.served.room.objects
    }

    fn libraries(&self, folder: &std::path::Path) -> Result<Vec<std::path::PathBuf>> {
        let mut files = Vec::new();
        for part in ["common/libraries", "common/plugins.yaml"] {
            for object in self.served.room.example(part)? {
                let file = folder.join(format!("{}.yaml", files.len()));
                fs::write(&file, object.to_string()).context("write a library")?;
                files.push(file);
            }
        }
        Ok(files)
    }
}

fn push<const N: usize>(list: &mut Value, more: [Value; N]) {
    if let Some(list) = list.as_array_mut() {
        list.extend(more);
    }
}
