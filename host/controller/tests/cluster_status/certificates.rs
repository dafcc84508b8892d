//! Certificates against a real API server: two replicas begin at once, with the permissions of the generated Role alone.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use haptic_controller::{
    clock::WallClock,
    cluster::{
        CertificateKeeper, CertificateMetrics, CertificateNames, CertificateSettings, ConfigStanding, Keys, Lifetimes,
        WebhookCertificate,
    },
};
use haptic_kubernetes::{Api, Jitter};
use haptic_wire::tls::{AGENT_NAME, CONTROLLER_NAME, Credentials};
use http::Method;
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use crate::{cluster::Room, permissions::account, scene::eventually};

const SECRETS: [&str; 4] = ["haptic-authority", "haptic-agent", "haptic-controller", "haptic-webhook"];

/// One replica.
struct Replica {
    standing: watch::Receiver<Arc<ConfigStanding>>,
    registry: Registry,
}

struct Place {
    room: Room,
    settings: CertificateSettings,
    /// Ends the replicas with it.
    replicas: JoinSet<()>,
}

// === impl Place ===

impl Place {
    async fn new(certificate: u64, authority: u64) -> Result<Self> {
        let room = Room::new().await?;
        let settings = CertificateSettings {
            namespace: room.namespace.as_str().into(),
            names: CertificateNames {
                authority_secret: SECRETS[0].to_owned(),
                agent_secret: SECRETS[1].to_owned(),
                controller_secret: SECRETS[2].to_owned(),
                webhook: Some(WebhookCertificate {
                    secret: SECRETS[3].to_owned(),
                    service: "haptic-webhook".to_owned(),
                    configuration: Some(format!("certificates-{}", room.namespace)),
                }),
            },
            lifetimes: Lifetimes::new(Duration::from_secs(certificate), Duration::from_secs(authority))?,
        };
        Ok(Self { room, settings, replicas: JoinSet::new() })
    }

    fn replica(&mut self, api: Api) -> Result<Replica> {
        let standing: Arc<watch::Sender<Arc<ConfigStanding>>> = Arc::default();
        let mut registry = Registry::default();
        let keeper = CertificateKeeper::start(
            api,
            self.settings.clone(),
            WallClock::system(),
            Keys::random(),
            Jitter::random(),
            CertificateMetrics::register(&mut registry),
            standing.clone(),
        );
        let keeper = keeper.map_err(|findings| anyhow::anyhow!("{findings:?}"))?;
        self.replicas.spawn(async move {
            let ended = keeper.run().await;
            panic!("{ended:?}");
        });
        Ok(Replica { standing: standing.subscribe(), registry })
    }

    async fn make_secret(&self, name: &str) -> Result<()> {
        let secret = json!({ "metadata": { "name": name, "labels": { "app": "haptic" } } });
        self.room.send(Method::POST, &self.room.path("api/v1", "secrets"), &secret).await.map(|_| ())
    }

    async fn secret(&self, name: &str) -> Result<Value> {
        let path = format!("{}/{name}", self.room.path("api/v1", "secrets"));
        self.room.send(Method::GET, &path, &Value::Null).await
    }

    async fn make_configuration(&self) -> Result<()> {
        let webhook = |name: &str| {
            let service = json!({ "namespace": self.room.namespace, "name": "haptic-webhook", "path": "/validate" });
            json!({
                "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": { "service": service },
            })
        };
        let object = json!({
            "metadata": { "name": self.configuration_name()? },
            "webhooks": [webhook("configs.haptic.rs"), webhook("ingresses.haptic.rs")],
        });
        self.room.send(Method::POST, CONFIGURATIONS, &object).await.map(|_| ())
    }

    async fn configuration(&self) -> Result<Value> {
        let path = format!("{CONFIGURATIONS}/{}", self.configuration_name()?);
        self.room.send(Method::GET, &path, &Value::Null).await
    }

    fn configuration_name(&self) -> Result<&str> {
        self.settings.names.webhook.as_ref().and_then(|it| it.configuration.as_deref()).context("it has one")
    }

    /// All four are filled, and the configuration trusts what they hold.
    async fn filled(&self) -> Result<Vec<Value>> {
        eventually("all certificates are there and trusted", || async {
            let mut secrets = Vec::new();
            for name in SECRETS {
                secrets.push(self.secret(name).await?);
            }
            let configuration = self.configuration().await?;
            let bundle = &secrets[0]["data"]["ca.crt"];
            let same = secrets.iter().all(|secret| secret["data"]["ca.crt"] == *bundle && bundle.is_string());
            let webhooks = configuration["webhooks"].as_array().cloned().unwrap_or_default();
            let told = webhooks.iter().all(|webhook| webhook["clientConfig"]["caBundle"] == *bundle);
            Ok((same && told && webhooks.len() == 2).then_some(secrets))
        })
        .await
    }
}

/// To the account of this namespace.
async fn allow_in_cluster(room: &Room, rule: Value) -> Result<()> {
    let rbac = |resources| format!("/apis/rbac.authorization.k8s.io/v1/{resources}");
    let named = json!({ "name": format!("certificates-{}", room.namespace) });
    let role = json!({ "metadata": named, "rules": [rule] });
    room.send(Method::POST, &rbac("clusterroles"), &role).await?;
    let binding = json!({
        "metadata": named,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": named["name"] },
        "subjects": [{ "kind": "ServiceAccount", "name": "haptic", "namespace": room.namespace }],
    });
    room.send(Method::POST, &rbac("clusterrolebindings"), &binding).await.map(|_| ())
}

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

fn credentials(secret: &Value) -> Result<Credentials> {
    let entry = |name: &str| {
        let encoded = secret["data"][name].as_str().with_context(|| format!("it has `{name}`"))?;
        BASE64_STANDARD.decode(encoded).context("it is base64")
    };
    Ok(Credentials::from_pem(&entry("tls.crt")?, &entry("tls.key")?, &entry("ca.crt")?)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_that_begin_at_once_make_one_authority_with_named_permissions_only() -> Result<()> {
    let mut place = Place::new(90 * 86_400, 3650 * 86_400).await?;
    let configuration = place.configuration_name()?.to_owned();
    let named = json!({
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": SECRETS,
        "verbs": ["get", "list", "watch", "update"],
    });
    let (api, _token) = account(&place.room, vec![named]).await?;
    let rule = json!({
        "apiGroups": ["admissionregistration.k8s.io"], "resources": ["validatingwebhookconfigurations"],
        "resourceNames": [configuration], "verbs": ["get", "patch"],
    });
    allow_in_cluster(&place.room, rule).await?;
    let (one, other) = (place.replica(api.clone())?, place.replica(api)?);
    let said = |replica: &Replica| -> Vec<String> {
        replica.standing.borrow().certificates.iter().map(ToString::to_string).collect()
    };
    eventually("both say what is missing", || async {
        let all = [said(&one), said(&other)];
        Ok(all
            .iter()
            .all(|said| said.len() == 1 && said[0].contains("haptic-authority: it is not there"))
            .then_some(()))
    })
    .await?;
    place.make_configuration().await?;
    for name in SECRETS {
        place.make_secret(name).await?;
    }
    let secrets = place.filled().await?;
    eventually("nothing is to be complained about", || async {
        Ok((said(&one).is_empty() && said(&other).is_empty()).then_some(()))
    })
    .await?;
    ensure!(secrets[1]["metadata"]["labels"]["app"] == "haptic", "the rest is as it was: {}", secrets[1]["metadata"]);
    credentials(&secrets[1])?.server_config(&CONTROLLER_NAME.parse()?)?;
    credentials(&secrets[2])?.client_config(&AGENT_NAME.parse()?)?;
    let authority = BASE64_STANDARD.decode(secrets[0]["data"]["ca.crt"].as_str().context("it is there")?)?;
    ensure!(String::from_utf8(authority)?.matches("BEGIN CERTIFICATE").count() == 1, "there is one authority");
    let mut issued = 0;
    for replica in [&one, &other] {
        let mut text = String::new();
        encode(&mut text, &replica.registry)?;
        ensure!(text.contains(r#"haptic_certificate_expiry_timestamp_seconds{certificate="webhook"}"#), "{text}");
        let counted = text.lines().filter(|line| line.contains(r#"result="issued"}"#));
        issued += counted.filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).sum::<u32>();
    }
    ensure!(issued == 4, "{issued} certificates were issued for four Secrets");

    // What somebody breaks is made right, and what they bring is theirs.
    let patch = json!({ "data": { "tls.key": BASE64_STANDARD.encode("broken") } });
    let path = format!("{}/haptic-agent", place.room.path("api/v1", "secrets"));
    place.room.send(Method::PATCH, &path, &patch).await?;
    eventually("the broken one is issued anew", || async {
        Ok(credentials(&place.secret("haptic-agent").await?).ok().map(drop))
    })
    .await?;
    let foreign = json!({ "metadata": { "annotations": { "haptic.rs/certificate": null } } });
    let before = place.room.send(Method::PATCH, &path, &foreign).await?;
    eventually("it is told that this one is someone else's", || async {
        Ok(said(&one).iter().any(|finding| finding.contains("someone else's")).then_some(()))
    })
    .await?;
    ensure!(place.secret("haptic-agent").await?["data"] == before["data"], "it is left alone");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forbidden_is_told_with_the_command_that_says_what_to_allow() -> Result<()> {
    let mut place = Place::new(90 * 86_400, 3650 * 86_400).await?;
    for name in SECRETS {
        place.make_secret(name).await?;
    }
    place.make_configuration().await?;
    let reads = json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"] });
    let (api, _token) = account(&place.room, vec![reads]).await?;
    let replica = place.replica(api)?;
    let finding = eventually("it says that it may not write", || async {
        let standing = replica.standing.borrow().clone();
        Ok(standing.certificates.iter().find(|finding| finding.message.contains("update")).cloned())
    })
    .await?;
    let hint = finding.hint.clone().unwrap_or_default();
    ensure!(hint.contains("haptic rbac --issue-certificates"), "{finding}");
    ensure!(finding.to_string().contains("haptic-authority"), "{finding}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_authorities_of_seconds_follow_each_other() -> Result<()> {
    let mut place = Place::new(12, 36).await?;
    for name in SECRETS {
        place.make_secret(name).await?;
    }
    place.make_configuration().await?;
    let api = place.room.api();
    let _replicas = [place.replica(api.clone())?, place.replica(api)?];
    let first = place.filled().await?;
    let known = first[0]["data"]["ca.crt"].as_str().context("it is there")?.to_owned();
    let known = String::from_utf8(BASE64_STANDARD.decode(known)?)?;
    eventually("the first authority is forgotten", || async {
        let secret = place.secret("haptic-agent").await?;
        credentials(&secret)?.server_config(&CONTROLLER_NAME.parse()?)?;
        let trusted = BASE64_STANDARD.decode(secret["data"]["ca.crt"].as_str().unwrap_or_default())?;
        Ok((!String::from_utf8(trusted)?.contains(&known)).then_some(()))
    })
    .await?;
    Ok(())
}
