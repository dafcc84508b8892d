//! How verdicts about several become verdicts about each.

use std::{cell::RefCell, collections::BTreeSet};

use haptic_model::FindingCode;

use super::*;
use crate::admission::verdict::{Outcome, decide};

fn proposals(count: usize) -> Vec<Proposal> {
    (0..count).map(|number| Proposal { object: object(number), changes: Vec::new() }).collect()
}

fn object(number: usize) -> ObjectRef {
    ObjectRef::new("Service", "shop", &number.to_string())
}

fn error(about: Option<usize>) -> Finding {
    Finding::error(FindingCode::TemplateFailed, "wrong").about(about.map(object))
}

fn is_denied(opinions: &[Opinion]) -> Vec<usize> {
    let denied = opinions.iter().enumerate().filter(|(_, opinion)| matches!(opinion, Opinion::Denied { .. }));
    denied.map(|(index, _)| index).collect()
}

#[test]
fn those_that_are_named_are_judged_alone_and_the_others_together() {
    let bad = BTreeSet::from([3, 7]);
    let asked = RefCell::new(0);
    let opinions = decide(&proposals(40), |chosen| {
        *asked.borrow_mut() += 1;
        let caused: Vec<_> = chosen.iter().filter(|it| bad.contains(*it)).map(|it| error(Some(*it))).collect();
        if caused.is_empty() { Outcome::Accepted { warnings: Vec::new() } } else { Outcome::Refused { caused } }
    });
    assert_eq!(is_denied(&opinions), [3, 7]);
    assert_eq!(asked.into_inner(), 4, "all, the two, and the rest");
}

#[test]
fn who_is_not_named_is_found_by_halving() {
    for bad in 0..33 {
        let opinions = decide(&proposals(33), |chosen| {
            if chosen.contains(&bad) {
                Outcome::Refused { caused: vec![error(None)] }
            } else {
                Outcome::Accepted { warnings: Vec::new() }
            }
        });
        assert_eq!(is_denied(&opinions), [bad]);
    }
}

#[test]
fn who_is_named_for_the_fault_of_another_is_allowed() {
    // 1 is broken by 0, if both come.
    let opinions = decide(&proposals(3), |chosen| {
        if chosen.contains(&0) && chosen.contains(&1) {
            Outcome::Refused { caused: vec![error(Some(1))] }
        } else {
            Outcome::Accepted { warnings: Vec::new() }
        }
    });
    assert!(is_denied(&opinions).is_empty(), "each alone breaks nothing: {opinions:?}");
}

#[test]
fn nobody_is_told_what_another_ones_proposal_is_warned_about() {
    let warning = Finding::warning(FindingCode::TemplateWarning, "of 2").about(Some(object(99)));
    let opinions = decide(&proposals(4), |chosen| {
        let warnings = if chosen.contains(&2) { vec![warning.clone()] } else { Vec::new() };
        Outcome::Accepted { warnings }
    });
    let told: Vec<usize> = opinions.iter().map(|opinion| allowed(opinion).len()).collect();
    assert_eq!(told, [0, 0, 1, 0]);
}

#[test]
fn without_a_verdict_nobody_is_allowed() {
    let opinions = decide(&proposals(2), |_| Outcome::Unjudged(error(None)));
    assert!(opinions.iter().all(|opinion| matches!(opinion, Opinion::Unjudged(_))));
}
