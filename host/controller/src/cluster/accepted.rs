//! From a picture of the configuration to an accepted snapshot: decoded, its plugins loaded, passed by Basic, Template,
//! JSONPath and validationTests, its resources resolved and its credentials read. What is proved against live objects
//! comes later, in the successor that is built from it.

use std::sync::Arc;

use haptic_kubernetes::{Api, Trouble};
use haptic_model::{Finding, FindingCode};
use thiserror::Error;
use tokio::{
    task::{JoinError, spawn_blocking},
    time::Instant,
};

use crate::{
    check::CancelOnDrop,
    cluster::{
        config_watch::{ConfigName, ConfigPicture, CredentialsSecret},
        credentials::AgentCredentials,
        schema::{Resolution, Unresolved},
    },
    config::{Candidate, ConfigObjects},
    feed::GateParts,
    load_gate::Vetted,
    plugin_loader::Loading,
};

/// The exact configuration that passed, with all that was found out about it. It is moved to the one iteration that is
/// built from it.
pub(crate) struct AcceptedSnapshot {
    pub picture: Arc<ConfigPicture>,
    pub candidate: Candidate,
    pub vetted: Vetted,
    pub resolution: Resolution,
    pub credentials: AgentCredentials,
    pub warnings: Vec<Finding>,
    /// It was judged without modules that may still come.
    pub waits: bool,
}

/// How a load ended that did not pass.
#[derive(Debug, Error)]
pub(crate) enum NotAccepted {
    /// It is wrong, or names what is not there.
    #[error("the configuration is refused: {}", .findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Refused {
        findings: Vec<Finding>,
        /// It could pass without any change of it, because something else comes: a module, a CRD.
        waits: bool,
    },
    /// The API server could not be asked; nothing is known about the configuration.
    #[error("asking the API server how the watched resources are served failed")]
    Unresolved(#[source] Trouble),
    #[error("judging the configuration stopped unexpectedly")]
    Stopped(#[from] JoinError),
}

/// Who judges.
#[derive(Clone)]
pub(crate) struct Loader {
    pub api: Api,
    pub gate: GateParts,
    pub config: ConfigName,
}

// === impl Loader ===

impl Loader {
    /// Judges a picture. Dropping the future ends running checks too.
    pub(crate) async fn load(&self, picture: Arc<ConfigPicture>) -> Result<AcceptedSnapshot, NotAccepted> {
        let cancelled = CancelOnDrop::default();
        let refused = |findings| NotAccepted::Refused { findings, waits: false };
        if picture.objects.configs.is_empty() {
            return Err(refused(vec![self.missing()]));
        }
        let objects: ConfigObjects = picture.objects.clone();
        let candidate = spawn_blocking(move || objects.candidate()).await?.map_err(refused)?;
        let missing = missing_in_a_cluster(&candidate);
        if !missing.is_empty() {
            return Err(refused(missing));
        }
        let credentials = self.credentials(&picture).map_err(refused)?;
        self.gate.loader.want(&candidate, Instant::now() + self.gate.fetch_patience).await;
        let gate = self.gate.clone();
        let (candidate, loading) = spawn_blocking(move || {
            let loading = gate.loader.load(&candidate);
            (candidate, loading)
        })
        .await?;
        let Loading { set, warnings, states } = loading;
        let waits = states.iter().any(|state| state.missing.is_some());
        self.gate.plugins.send_replace(Arc::new(states));
        let (gate, cancelled) = (self.gate.clone(), cancelled.cancellation());
        let (candidate, vetted) = spawn_blocking(move || {
            let request = gate.request(&candidate, &cancelled);
            let vetted = set.and_then(|plugins| request.vet(plugins));
            (candidate, vetted)
        })
        .await?;
        // A filter is unknown because its plugin is left out: both are told.
        let vetted = vetted.map_err(|findings| NotAccepted::Refused {
            findings: findings.into_iter().chain(warnings.clone()).collect(),
            waits,
        })?;
        let resolution = match Resolution::of(&self.api, &vetted.resources).await {
            Ok(resolution) => resolution,
            Err(Unresolved::Refused(findings)) => return Err(NotAccepted::Refused { findings, waits: true }),
            Err(Unresolved::Trouble(trouble)) => return Err(NotAccepted::Unresolved(trouble)),
        };
        Ok(AcceptedSnapshot { picture, candidate, vetted, resolution, credentials, warnings, waits })
    }

    /// Without credentials no agent can be asked.
    fn credentials(&self, picture: &ConfigPicture) -> Result<AgentCredentials, Vec<Finding>> {
        let Some(CredentialsSecret { key, object }) = &picture.credentials else {
            let message = format!("{}: spec.credentialsSecretRef is not set", self.config);
            let finding = Finding::error(FindingCode::ConfigInvalid, message)
                .hint("name the Secret with the controller's certificate, its key and the CA of the agents");
            return Err(vec![finding]);
        };
        let mut credentials = AgentCredentials::new(&key.namespace, &key.name, self.gate.clock.clone());
        credentials.update(object.as_ref());
        if credentials.identity().is_some() { Ok(credentials) } else { Err(credentials.findings()) }
    }

    fn missing(&self) -> Finding {
        Finding::error(FindingCode::ConfigInvalid, format!("there is no {}", self.config))
            .hint("apply one of that name, or start haptic with --config and --namespace of the one that is there")
    }
}

/// What a directory of manifests does without.
fn missing_in_a_cluster(candidate: &Candidate) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |message: &str, hint: &str| {
        let message = format!("{}: {message}", candidate.name);
        findings.push(Finding::error(FindingCode::ConfigInvalid, message).hint(hint));
    };
    if !candidate.cluster.leader_election.enabled {
        report(
            "spec.controller.leaderElection.enabled is false, but agents are fenced by the epoch in the Lease",
            "leave it true, also with one replica",
        );
    }
    findings
}

impl std::fmt::Debug for AcceptedSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AcceptedSnapshot({} generation {})", self.candidate.name, self.picture.generation)
    }
}
