//! The load gate: what a configuration candidate must pass before it serves.
//!
//! A [`ConfigValidationRequest`] is scattered to the validators Basic, Template, JSONPath and validationTests and
//! their answers are gathered, so one attempt tells everything that is wrong. What passes is proved once more by the
//! strict path against the objects that are there: a candidate that HAProxy refuses for an object which serves today
//! does not replace what serves today. Blocks.

use std::{collections::BTreeSet, sync::Arc, thread};

use haptic_model::{Finding, FindingCode, ObjectRef, Severity, ports::Now};
use haptic_plugins::PluginSet;
use haptic_render::{Inputs, Memo, Renderer};
use haptic_store::{RawChange, Store, WatchedResource};
use parking_lot::Mutex;

use crate::{
    check::{Cancellation, ConfigCheck},
    config::Candidate,
    core::Core,
    pipeline::{Output, Pipeline},
    quarantine::RefusedUnit,
    validation_tests::{TestRun, TestSelection},
};

/// Findings that name what a candidate would lose; one mistake of a template has one for every object.
const SHOWN: usize = 5;

/// What the validators of the load gate are asked.
pub struct ConfigValidationRequest<'a> {
    pub candidate: &'a Candidate,
    pub check: &'a dyn ConfigCheck,
    pub haproxy: (u16, u16),
    pub now: Now,
    pub cancelled: &'a Cancellation,
}

/// What passed, ready to serve.
pub struct Accepted {
    pub core: Core,
    pub warnings: Vec<Finding>,
    /// Units that HAProxy refuses now.
    pub refused: Vec<RefusedUnit>,
}

/// The validators, by the names that findings and metrics use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigValidator {
    Basic,
    Template,
    JsonPath,
    ValidationTests,
}

/// What serves today, for comparison: a candidate may not lose an object that serves.
pub struct Serving {
    /// Units that HAProxy refuses today.
    pub quarantined: BTreeSet<Arc<str>>,
    pub core: Arc<Core>,
    pub haproxy: (u16, u16),
}

/// What the validators passed: it has yet to be proved against the objects that are there.
pub struct Vetted {
    pub renderer: Arc<Renderer>,
    pub resources: Vec<WatchedResource>,
    pub plugins: Arc<PluginSet>,
}

/// Runs the whole gate with the plugins of the candidate. `objects` is everything the source has; `serving` is what
/// serves today, if anything does.
///
/// # Errors
/// Everything that is wrong, located in manifests.
pub fn admit(
    request: &ConfigValidationRequest<'_>,
    plugins: Arc<PluginSet>,
    objects: &[RawChange],
    serving: Option<&Serving>,
) -> Result<Accepted, Vec<Finding>> {
    let vetted = request.vet(plugins)?;
    let mut store = Store::new(vetted.resources.clone());
    store.sync(objects);
    vetted.prove(request, store, serving)
}

// === impl Vetted ===

impl Vetted {
    /// The strict path with the objects of `store`. A candidate may not lose an object of `serving`.
    ///
    /// # Errors
    /// Everything that is wrong, located in manifests.
    pub fn prove(
        self,
        request: &ConfigValidationRequest<'_>,
        store: Store,
        serving: Option<&Serving>,
    ) -> Result<Accepted, Vec<Finding>> {
        let candidate = request.candidate;
        let located = |findings| candidate.sources.all_in_manifests(findings);
        let check = candidate.settings.check;
        let pipeline = Pipeline { renderer: self.renderer, validators: self.plugins.clone(), check };
        let snapshot = store.snapshot();
        // What the proof rendered is warm when it serves.
        let mut memo = Memo::default();
        let proof = pipeline
            .execute_strict(&snapshot, request.haproxy, request.check, request.now, &mut memo, request.cancelled)
            .map_err(|error| located(error.findings))?;
        let lost = lost(&proof, serving);
        if !lost.is_empty() {
            return Err(located(lost));
        }
        let core = Core {
            name: candidate.name.clone(),
            pipeline,
            plugins: self.plugins,
            memo: Mutex::new(memo),
            store: Mutex::new(store),
            settings: candidate.settings,
            reporting: candidate.reporting.clone(),
            sources: candidate.sources.clone(),
        };
        Ok(Accepted { core, warnings: located(proof.findings), refused: proof.refused })
    }
}

/// What the candidate does to objects that serve today: the findings of those it would lose. Without anything that
/// serves, a candidate under which every object fails is at fault itself.
fn lost(proof: &Output, serving: Option<&Serving>) -> Vec<Finding> {
    let rendered = &proof.rendered;
    let failures = || proof.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let Some(serving) = serving else {
        let all_fail = rendered.units > 1 && rendered.failed_units.len() == rendered.units;
        return if all_fail { failures().take(SHOWN).cloned().collect() } else { Vec::new() };
    };
    let refused = proof.refused.iter().filter(|refused| !serving.quarantined.contains(&refused.unit));
    let mut lost: Vec<Finding> = refused.map(|refused| refused.finding.clone()).collect();
    if !rendered.failed_units.is_empty() {
        let known = serving.failed_units();
        if !rendered.failed_units.is_subset(&known.units) {
            lost.extend(failures().filter(|finding| !known.objects.contains(&finding.object)).take(SHOWN).cloned());
        }
    }
    lost
}

struct Failing {
    units: BTreeSet<Arc<str>>,
    objects: BTreeSet<Option<ObjectRef>>,
}

// === impl Serving ===

impl Serving {
    /// What fails under the configuration that serves, with the objects of now. Its memo makes this cheap.
    fn failed_units(&self) -> Failing {
        let snapshot = self.core.store.lock().snapshot();
        let inputs = Inputs { snapshot, quarantined: self.quarantined.clone(), haproxy: self.haproxy };
        match self.core.pipeline.renderer.render(&inputs, &mut self.core.memo.lock()) {
            Ok(rendered) => Failing {
                units: rendered.failed_units,
                objects: rendered.findings.into_iter().map(|finding| finding.object).collect(),
            },
            Err(_) => Failing { units: BTreeSet::new(), objects: BTreeSet::new() },
        }
    }
}

// === impl ConfigValidationRequest ===

impl ConfigValidationRequest<'_> {
    /// Asks all validators, but proves nothing against objects.
    ///
    /// # Errors
    /// Everything that is wrong, located in manifests.
    pub fn vet(&self, plugins: Arc<PluginSet>) -> Result<Vetted, Vec<Finding>> {
        let (renderer, resources) =
            self.scatter(&plugins).map_err(|findings| self.candidate.sources.all_in_manifests(findings))?;
        Ok(Vetted { renderer, resources, plugins })
    }

    /// Asks all validators; the tests need what Template and JSONPath made, so they come second.
    fn scatter(&self, plugins: &Arc<PluginSet>) -> Result<(Arc<Renderer>, Vec<WatchedResource>), Vec<Finding>> {
        let candidate = self.candidate;
        let (basic, renderer, resources) = thread::scope(|scope| {
            let basic = scope.spawn(|| candidate.check_basics());
            let resources = scope.spawn(|| candidate.resources());
            let renderer = Renderer::compile(candidate.templates.clone(), plugins.clone());
            (basic.join(), renderer, resources.join())
        });
        let mut findings = basic.unwrap_or_else(|_| vec![ended_early(ConfigValidator::Basic)]);
        let resources = resources.unwrap_or_else(|_| Err(vec![ended_early(ConfigValidator::JsonPath)]));
        match (renderer, resources) {
            (Ok(renderer), Ok(resources)) if findings.is_empty() => {
                let renderer = Arc::new(renderer);
                self.run_tests(&renderer, &resources, plugins)?;
                Ok((renderer, resources))
            }
            (renderer, resources) => {
                findings.extend(renderer.err().into_iter().flatten());
                findings.extend(resources.err().into_iter().flatten());
                Err(findings)
            }
        }
    }

    fn run_tests(
        &self,
        renderer: &Arc<Renderer>,
        resources: &[WatchedResource],
        plugins: &Arc<PluginSet>,
    ) -> Result<(), Vec<Finding>> {
        let run = TestRun {
            candidate: self.candidate,
            renderer: renderer.clone(),
            resources,
            plugins: plugins.clone(),
            check: self.check,
            haproxy: self.haproxy,
            now: self.now,
            cancelled: self.cancelled,
        };
        let results = run.run(&TestSelection::All);
        let findings: Vec<_> = results.failures().collect();
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }
}

// === impl ConfigValidator ===

impl ConfigValidator {
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Template => "template",
            Self::JsonPath => "jsonpath",
            Self::ValidationTests => "validationtests",
        }
    }
}

fn ended_early(validator: ConfigValidator) -> Finding {
    Finding::error(FindingCode::ConfigInvalid, format!("the validator {} ended early", validator.name()))
        .hint("report this with the configuration that causes it")
}
