#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haptic_api::ConditionStatus;

use super::*;
use crate::{
    clock::Timestamp,
    cluster::standing::{Refused, Served},
    events::{Correlation, Event, GateOutcome},
    pipeline::PipelineError,
    testing::{pod, refused, render, trigger},
};

fn said(draft: &Draft) -> (ConditionStatus, &str) {
    (draft.status, draft.reason.as_str())
}

fn serving(generation: i64) -> Served {
    Served { generation, warnings: Arc::new([]) }
}

#[test]
fn a_refused_candidate_says_what_goes_on_serving_who_refused_it_and_what_to_do() {
    let finding = Finding::error(FindingCode::RefusedByValidator, "plugin `policy`: TLS 1.0 is allowed")
        .at("ssl.yaml", 7, 0)
        .hint("raise the minimum");
    let refused = Some(Refused { generation: 4, findings: Arc::new([finding]) });
    let draft = accepted(&ConfigStanding { serving: Some(serving(3)), refused, ..ConfigStanding::default() });
    assert_eq!(said(&draft), (False, "ValidatorRefused"));
    assert_eq!(draft.generation, Some(4));
    for words in
        ["generation 4 is refused", "generation 3 goes on serving", "ssl.yaml:7", "`policy`", "raise the minimum"]
    {
        assert!(draft.message.contains(words), "{}", draft.message);
    }
    let draft = accepted(&ConfigStanding { serving: Some(serving(4)), ..ConfigStanding::default() });
    assert_eq!((said(&draft), draft.generation), ((True, "Accepted"), Some(4)));
    let warnings: Arc<[Finding]> = Arc::new([Finding::warning(FindingCode::TemplateWarning, "old field")]);
    let standing = ConfigStanding { serving: Some(Served { generation: 4, warnings }), ..ConfigStanding::default() };
    assert_eq!(said(&accepted(&standing)), (True, "AcceptedWithWarnings"));
    assert_eq!(said(&accepted(&ConfigStanding::default())), (ConditionStatus::Unknown, "Pending"));
}

#[test]
fn every_kind_of_refusal_has_its_reason() {
    let cases = [
        (FindingCode::RefusedByHAProxy, "HAProxyValidationFailed"),
        (FindingCode::RefusedByValidator, "ValidatorRefused"),
        (FindingCode::PluginFailed, "PluginFailed"),
        (FindingCode::TemplateFailed, "TemplateInvalid"),
        (FindingCode::ConfigInvalid, "ConfigInvalid"),
    ];
    for (code, reason) in cases {
        let warning = Finding::warning(FindingCode::TemplateWarning, "not this one");
        let findings = [warning, Finding::error(code, "this one")];
        assert_eq!(refusal(&findings).to_string(), reason);
    }
}

fn outcome(seq: u64, verdict: GateVerdict) -> Event {
    let outcome = GateOutcome {
        seq,
        plan: render(seq, "a").plan(),
        verdict,
        passed_by: BTreeSet::new(),
        checked_by: vec!["3.2.26".to_owned()],
        duration: Duration::ZERO,
        quarantined: 0,
    };
    Event::RenderGateCompleted { correlation: Correlation(seq), outcome: Arc::new(outcome) }
}

#[tokio::test]
async fn a_refusal_by_haproxy_ends_with_the_next_pass_and_a_late_verdict_changes_nothing() {
    let mut picture = Picture::default();
    let mut after = |event| {
        picture.take(event, Timestamp(0));
        said(&validated(&picture, Gate::On, Some(1))).0
    };
    assert_eq!(after(outcome(2, refused())), False);
    assert_eq!(after(outcome(1, GateVerdict::Passed)), False, "it is older");
    assert_eq!(after(outcome(3, GateVerdict::Passed)), True);
    let error =
        PipelineError { phase: Phase::Render, findings: vec![Finding::error(FindingCode::TemplateFailed, "no")] };
    let failed =
        Event::ReconciliationFailed { correlation: Correlation(4), error: Arc::new(error), trigger: trigger() };
    assert_eq!(after(failed), False);
    assert_eq!(after(Event::TemplateRendered { correlation: Correlation(5), render: render(5, "a") }), True);
    assert_eq!(said(&validated(&picture, Gate::Off, None)), (ConditionStatus::Unknown, "CheckDisabled"));
}

#[tokio::test]
async fn deployed_names_the_pod_that_is_apart_and_the_next_step() {
    let mut picture = Picture::default();
    assert_eq!(deployed(&picture, None).status, ConditionStatus::Unknown);
    picture.take(Event::TemplateRendered { correlation: Correlation(1), render: render(1, "a") }, Timestamp(0));
    let found = |pods| Event::HAProxyPodsDiscovered { correlation: Correlation(1), pods };
    picture.take(found([].into()), Timestamp(0));
    assert_eq!(said(&deployed(&picture, None)), (False, "NoPods"));
    picture.take(found([pod("a")].into()), Timestamp(0));
    let draft = deployed(&picture, Some(3));
    assert_eq!((said(&draft), draft.generation), ((False, "Deploying"), Some(3)));
    assert!(draft.message.contains("pod a"), "{}", draft.message);
    assert_eq!(said(&degraded(&picture, None)), (False, "AllPodsAnswer"));
}

/// The table of reasons that users read is that of the code: a reason is added in both or in neither.
#[test]
fn the_documentation_names_every_reason_and_no_other() {
    let text = include_str!("../../../../docs/cluster-status.md");
    let rows_of = |head: &str| -> BTreeSet<String> {
        let (_, table) = text.split_once(head).unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        rows.filter_map(|row| Some(row.split('`').nth(1)?.to_owned())).collect()
    };
    let known: BTreeSet<String> = Reason::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(rows_of("| reason | condition | what it means | what to do |"), known);
    let known: BTreeSet<String> = haptic_api::OutputReason::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(rows_of("| reason of a HAProxyCfg | condition | what it means |"), known);
}
