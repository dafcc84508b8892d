//! What the conditions of the configuration object say. Plans are not named in them: a change that is served as
//! expected changes no condition.

use haptic_api::{
    ConditionStatus::{False, True, Unknown},
    ConfigConditionType as Kind, ConfigReason as Reason,
};
use haptic_model::{Finding, FindingCode, Severity};

use crate::{
    cluster::{
        condition::Draft,
        deployed::{Apart, Standing, Why},
        standing::ConfigStanding,
        status_applier::picture::Picture,
    },
    events::GateVerdict,
    pipeline::Phase,
    status::document::joined,
};

/// Findings and pods that one message names; the rest is counted.
const NAMED: usize = 5;

pub(in crate::cluster) fn accepted(standing: &ConfigStanding) -> Draft {
    let serving = standing.serving.as_ref();
    if let Some(refused) = &standing.refused {
        let goes_on = match serving {
            Some(serving) if serving.generation == refused.generation => {
                format!("generation {} goes on serving as it was accepted", serving.generation)
            }
            Some(serving) => format!("generation {} goes on serving", serving.generation),
            None => "nothing serves yet".to_owned(),
        };
        let message = format!("generation {} is refused, {goes_on}: {}", refused.generation, told(&refused.findings));
        return Draft::new(Kind::Accepted, False, refusal(&refused.findings), message, Some(refused.generation));
    }
    match serving {
        Some(serving) if serving.warnings.is_empty() => {
            let message = "the configuration passed the load gate and serves";
            Draft::new(Kind::Accepted, True, Reason::Accepted, message, Some(serving.generation))
        }
        Some(serving) => {
            let message = format!("the configuration serves, with warnings: {}", told(&serving.warnings));
            Draft::new(Kind::Accepted, True, Reason::AcceptedWithWarnings, message, Some(serving.generation))
        }
        None => Draft::pending(Kind::Accepted, Reason::Pending, "the load gate has not judged it yet", None),
    }
}

pub(super) fn validated(picture: &Picture, gate: Gate, generation: Option<i64>) -> Draft {
    let draft = |status, reason, message: String| Draft::new(Kind::Validated, status, reason, message, generation);
    if let Some(error) = &picture.failed {
        let reason = match error.phase {
            Phase::Render => Reason::RenderFailed,
            Phase::Auxiliary | Phase::External => Reason::ValidatorRefused,
            Phase::Semantic => Reason::HAProxyValidationFailed,
        };
        let message = format!(
            "the newest input stops in phase {}; what is deployed goes on serving: {}",
            error.phase,
            told(&error.findings)
        );
        return draft(False, reason, message);
    }
    if gate == Gate::Off {
        let message = "renderGate.enabled is false: HAProxy is not asked before it loads the output";
        return draft(Unknown, Reason::CheckDisabled, message.to_owned());
    }
    match picture.judged.as_ref().map(|outcome| (outcome, &outcome.verdict)) {
        None => Draft::pending(Kind::Validated, Reason::Pending, "no output has been checked yet", generation),
        Some((outcome, GateVerdict::Passed)) => {
            let builds = outcome.checked_by.join(", ");
            draft(True, Reason::ValidationSucceeded, format!("HAProxy {builds} accepts the newest output"))
        }
        Some((_, GateVerdict::Refused { findings })) => {
            let message = format!("HAProxy refuses the newest output, which no pod loads: {}", told(findings));
            draft(False, Reason::HAProxyValidationFailed, message)
        }
        Some((_, GateVerdict::Unknown { reason })) => draft(Unknown, Reason::NoCheckerForVersion, reason.to_string()),
    }
}

/// Whether HAProxy is asked about output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    On,
    Off,
}

pub(super) fn deployed(picture: &Picture, generation: Option<i64>) -> Draft {
    let draft = |status, reason, message: String| Draft::new(Kind::Deployed, status, reason, message, generation);
    let pending = |message| Draft::pending(Kind::Deployed, Reason::Pending, message, generation);
    let Some(newest) = &picture.newest else { return pending("nothing has been rendered yet") };
    let apart = match picture.deployed.of(newest.render.plan()) {
        Standing::Unknown => return pending("pods are being looked for"),
        Standing::NoPods => {
            let message = "no HAProxy pod is found; next step: compare podSelector with the labels of the pods in the \
                           namespace of this object, and see that they run";
            return draft(False, Reason::NoPods, message.to_owned());
        }
        Standing::Settled { pods: 1 } => {
            return draft(True, Reason::AllPodsServe, "the pod serves the newest output".to_owned());
        }
        Standing::Settled { pods } => {
            return draft(True, Reason::AllPodsServe, format!("all {pods} pods serve the newest output"));
        }
        Standing::Apart(apart) => apart,
    };
    let failed: Vec<_> = apart.iter().filter(|apart| matches!(apart.why, Why::Failed(_))).collect();
    if !failed.is_empty() {
        let message = format!(
            "{}; next step: read `haptic agent state` and the log of the agent in that pod; it is tried again meanwhile",
            named(&failed)
        );
        return draft(False, Reason::DeploymentFailed, message);
    }
    let scheduled: Vec<_> = apart.iter().filter(|apart| apart.why == Why::Scheduled).collect();
    if scheduled.len() == apart.len() {
        let message = format!("{}; deployment.minDeploymentInterval paces reloads", named(&scheduled));
        return draft(False, Reason::ReloadScheduled, message);
    }
    let silent: Vec<_> = apart.iter().filter(|apart| apart.why == Why::Silent).collect();
    draft(False, Reason::Deploying, named(&silent))
}

pub(super) fn degraded(picture: &Picture, generation: Option<i64>) -> Draft {
    let troubled = picture.deployed.troubled();
    let Some(first) = troubled.iter().find(|pod| !pod.answered).or(troubled.first()) else {
        if !picture.deployed.is_known() {
            return Draft::pending(Kind::Degraded, Reason::Pending, "pods are being looked for", generation);
        }
        return Draft::new(Kind::Degraded, False, Reason::AllPodsAnswer, "no pod fails again and again", generation);
    };
    let (reason, what, step) = if first.answered {
        (Reason::PodFailing, "fails again and again", "read the log of the agent in it")
    } else {
        let step = "see that the agent runs in it, that its port is reachable from here, and that the certificates of \
                    both sides are of one authority";
        (Reason::PodNeverAnswered, "never answered since it was found", step)
    };
    let more = match troubled.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let message = format!("pod {} {what}: {}{more}; next step: {step}", first.pod, first.error);
    Draft::new(Kind::Degraded, True, reason, message, generation)
}

/// The reason of a refusal is that of its first error.
pub(crate) fn refusal(findings: &[Finding]) -> Reason {
    let first = findings.iter().find(|finding| finding.severity == Severity::Error).or(findings.first());
    match first.map(|finding| finding.code) {
        Some(FindingCode::RefusedByHAProxy) => Reason::HAProxyValidationFailed,
        Some(FindingCode::RefusedByValidator) => Reason::ValidatorRefused,
        Some(FindingCode::PluginFailed) => Reason::PluginFailed,
        Some(FindingCode::TemplateFailed | FindingCode::UnsafeValue | FindingCode::TemplateWarning) => {
            Reason::TemplateInvalid
        }
        _ => Reason::ConfigInvalid,
    }
}

fn told(findings: &[Finding]) -> String {
    let shown = joined(&findings[..findings.len().min(NAMED)]);
    match findings.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

fn named(apart: &[&Apart]) -> String {
    let sentence = |apart: &&Apart| match &apart.why {
        Why::Silent => format!("pod {} has not answered about the newest output yet", apart.pod),
        Why::Scheduled => format!("pod {} loads the newest output with its next reload", apart.pod),
        Why::Failed(error) => format!("pod {} does not serve the newest output: {error}", apart.pod),
    };
    let mut sentences: Vec<_> = apart.iter().take(NAMED).map(sentence).collect();
    if apart.len() > NAMED {
        sentences.push(format!("and {} more", apart.len() - NAMED));
    }
    sentences.join("; ")
}

#[cfg(test)]
mod tests;
