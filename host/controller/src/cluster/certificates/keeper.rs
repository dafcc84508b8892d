//! Reads what is there, writes what follows, and sleeps until something changes or is due.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use haptic_kubernetes::{
    Api, Backoff, Failures, Jitter, Objects, Source, SourceEnded, SourceSettings, Trouble, Wanted,
};
use haptic_model::{Finding, FindingCode, ObjectRef, Severity};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    clock::{Timestamp, WallClock},
    cluster::{
        Chain, ConfigStanding,
        certificates::{
            CertificateMetrics, CertificateSettings, Kept, Keys,
            metrics::Renewal,
            plan::{Configuration, Decision, Done, Observation, Policy, Seen, Step, What},
            secret::Secret,
        },
        config_watch::watched,
    },
};

/// Keeps certificates until it is dropped. One in each replica.
pub struct CertificateKeeper {
    api: Api,
    settings: CertificateSettings,
    clock: WallClock,
    keys: Keys,
    jitter: Jitter,
    share: f64,
    metrics: CertificateMetrics,
    standing: Arc<watch::Sender<Arc<ConfigStanding>>>,
    source: Source,
    /// When this replica issued what the last time.
    issued: BTreeMap<Kept, Instant>,
    told: BTreeSet<Finding>,
}

/// What one write came to.
enum Written {
    Done,
    /// It is too early.
    After(u64),
}

/// How often all is looked at whatever the watches say: the webhook configuration is not watched.
const AUDIT: u64 = 60;
/// And how often while something is wrong: what makes it right may not be heard of.
const LOOK_AGAIN: u64 = 10;
/// Between two certificates for the same Secret; who writes against this replica is not answered at once.
const PACE: u64 = 10;
/// Writes in a row; nothing that follows from itself takes more.
const STEPS: usize = 32;

// === impl CertificateKeeper ===

impl CertificateKeeper {
    /// Must be called in a Tokio runtime. What is wrong is told in the standing of the configuration, and becomes Events.
    ///
    /// # Errors
    /// When a name is none that an object can have.
    pub fn start(
        api: Api,
        settings: CertificateSettings,
        clock: WallClock,
        keys: Keys,
        jitter: Jitter,
        metrics: CertificateMetrics,
        standing: Arc<watch::Sender<Arc<ConfigStanding>>>,
    ) -> Result<Self, Vec<Finding>> {
        let mut wanted = Vec::new();
        for kept in settings.names.kept() {
            let (namespace, name) = (&settings.namespace, settings.names.secret(kept));
            let resource = format!("secrets {namespace}/{name}");
            wanted.push(Wanted::whole(watched(&resource, "v1", "secrets", "Secret", namespace, Some(name))?));
        }
        let source = Source::start(api.clone(), wanted, SourceSettings::new(jitter.clone()));
        let share = jitter.draw();
        let (issued, told) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { api, settings, clock, keys, jitter, share, metrics, standing, source, issued, told })
    }

    /// Never ends by itself.
    ///
    /// # Errors
    /// When a task of the source ended.
    pub async fn run(mut self) -> Result<Infallible, SourceEnded> {
        let mut failures = Failures::new(Backoff::default(), self.jitter.clone());
        loop {
            let pause = match self.pass().await {
                Ok(until) => {
                    failures.reset();
                    let now = self.clock.now().0;
                    let longest = if self.told.is_empty() { AUDIT } else { LOOK_AGAIN };
                    Duration::from_secs(until.unwrap_or(u64::MAX).saturating_sub(now).clamp(1, longest))
                }
                Err(trouble) => {
                    let pause = failures.pause(Some(&trouble));
                    tracing::debug!(target: TARGET, ?pause, "certificates are looked at again: {}", Chain(&trouble));
                    pause
                }
            };
            tokio::select! {
                update = self.source.next() => {
                    update?;
                }
                () = sleep(pause) => {}
            }
        }
    }

    /// Writes what is to be written now; when to look again.
    async fn pass(&mut self) -> Result<Option<u64>, Trouble> {
        for _ in 0..STEPS {
            let seen = self.observe().await?;
            let now = self.clock.now().0;
            let policy = Policy { settings: &self.settings, keys: &self.keys, share: self.share };
            let decision = match policy.decide(&seen, now) {
                Ok(decision) => decision,
                Err(error) => {
                    let message = format!("no certificate can be issued: {}", Chain(&error));
                    let hint = "empty the Secret of the authority to have a new one, or name another Secret";
                    self.tell(vec![self.finding(Kept::Authority, message).hint(hint)]);
                    return Ok(None);
                }
            };
            let Decision { step, until, findings, ends, .. } = decision;
            for (kept, end) in ends {
                self.metrics.ends(kept, end);
            }
            let Some(step) = step else {
                self.tell(findings);
                return Ok(until);
            };
            match self.write(step, findings, now).await? {
                Written::Done => {}
                Written::After(at) => return Ok(Some(at)),
            }
        }
        Ok(None)
    }

    async fn observe(&self) -> Result<Observation, Trouble> {
        let secrets = self.secrets();
        let mut found = BTreeMap::new();
        for kept in self.settings.names.kept() {
            let name = self.settings.names.secret(kept);
            let seen = match secrets.get(name).await {
                Ok(Some(object)) => Seen::Found(Secret::new(object)),
                Ok(None) => Seen::Missing,
                Err(trouble) if trouble.is_refused_for_good() => {
                    Seen::Unreadable(Box::new(self.refused(kept, "", &trouble)))
                }
                Err(trouble) => return Err(trouble),
            };
            found.insert(kept, seen);
        }
        let configuration = match self.settings.names.configuration() {
            None => None,
            Some(name) => Some(match self.configurations().get(name).await {
                Ok(Some(object)) => Configuration::Found(object),
                Ok(None) => Configuration::Missing,
                Err(trouble) if trouble.is_refused_for_good() => {
                    let what = format!("the ValidatingWebhookConfiguration `{name}` ");
                    Configuration::Unreadable(Box::new(self.refused(Kept::Webhook, &what, &trouble)))
                }
                Err(trouble) => return Err(trouble),
            }),
        };
        Ok(Observation { secrets: found, configuration })
    }

    async fn write(&mut self, step: Step, mut findings: Vec<Finding>, now: u64) -> Result<Written, Trouble> {
        let (kept, result) = match &step {
            Step::Write { kept, done, .. } if done.what == What::Issued && self.is_too_early(*kept) => {
                self.tell(findings);
                return Ok(Written::After(now + 1));
            }
            Step::Write { kept, object, .. } => {
                let name = self.settings.names.secret(*kept);
                (*kept, self.secrets().replace(name, object).await)
            }
            Step::Trust { patch } => {
                let name = self.settings.names.configuration().unwrap_or_default();
                (Kept::Webhook, self.configurations().merge_elements(name, patch).await)
            }
        };
        let issues = matches!(&step, Step::Write { done, .. } if done.what == What::Issued);
        match result {
            Ok(_) => {
                self.log(&step);
                if issues {
                    self.issued.insert(kept, Instant::now());
                    self.metrics.renewal(kept, Renewal::Issued);
                }
                Ok(Written::Done)
            }
            Err(trouble) if trouble.is_conflict() => {
                tracing::debug!(target: TARGET, certificate = kept.name(), "another replica wrote first");
                if issues {
                    self.metrics.renewal(kept, Renewal::Overtaken);
                }
                Ok(Written::Done)
            }
            Err(trouble) => {
                if issues {
                    self.metrics.renewal(kept, Renewal::Failed);
                }
                let what = match step {
                    Step::Write { .. } => String::new(),
                    Step::Trust { .. } => "the ValidatingWebhookConfiguration of its users ".to_owned(),
                };
                findings.push(self.refused(kept, &what, &trouble));
                self.tell(findings);
                Err(trouble)
            }
        }
    }

    /// Names, reasons and times; keys are in nothing that is printed.
    fn log(&self, step: &Step) {
        let namespace = &self.settings.namespace;
        match step {
            Step::Write { kept, done: Done { what, why, not_after }, .. } => {
                let (name, certificate) = (self.settings.names.secret(*kept), kept.name());
                let not_after = Timestamp(*not_after);
                match what {
                    What::Issued => {
                        tracing::info!(target: TARGET, %namespace, name, certificate, %not_after, why, "certificate issued");
                    }
                    What::Noted => {
                        tracing::info!(target: TARGET, %namespace, name, certificate, %not_after, why, "Secret updated");
                    }
                }
            }
            Step::Trust { .. } => {
                let name = self.settings.names.configuration().unwrap_or_default();
                tracing::info!(target: TARGET, name, "the webhook configuration trusts the authorities as they are now");
            }
        }
    }

    /// Logs what is new, and hands all on to who sends Events.
    fn tell(&mut self, findings: Vec<Finding>) {
        for finding in findings.iter().filter(|finding| !self.told.contains(*finding)) {
            match finding.severity {
                Severity::Error => tracing::error!(target: TARGET, code = %finding.code, "{finding}"),
                Severity::Warning => tracing::warn!(target: TARGET, code = %finding.code, "{finding}"),
            }
        }
        self.told = findings.iter().cloned().collect();
        let findings: Arc<[Finding]> = findings.into();
        self.standing.send_if_modified(|standing| {
            let differs = standing.certificates != findings;
            if differs {
                Arc::make_mut(standing).certificates = findings;
            }
            differs
        });
    }

    fn is_too_early(&self, kept: Kept) -> bool {
        let pace = Duration::from_secs(PACE.min(self.settings.lifetimes.distribution()));
        self.issued.get(&kept).is_some_and(|last| last.elapsed() < pace)
    }

    fn refused(&self, kept: Kept, what: &str, trouble: &Trouble) -> Finding {
        let hint = if trouble.is_forbidden() {
            "apply what `haptic rbac --issue-certificates` says for this configuration and these names"
        } else {
            "as the API server says; it is tried again"
        };
        let what = if what.is_empty() { "it " } else { what };
        self.finding(kept, format!("{what}cannot be read or written: {}", Chain(trouble))).hint(hint)
    }

    fn finding(&self, kept: Kept, message: String) -> Finding {
        let object = ObjectRef::new("Secret", &self.settings.namespace, self.settings.names.secret(kept));
        Finding::error(FindingCode::InvalidValue, message).about(Some(object))
    }

    fn secrets(&self) -> Objects {
        Objects::in_namespace(&self.api, "v1", "secrets", &self.settings.namespace)
    }

    fn configurations(&self) -> Objects {
        Objects::in_cluster(&self.api, "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations")
    }
}

const TARGET: &str = "haptic::certificates";
