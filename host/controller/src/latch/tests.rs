#![allow(clippy::unwrap_used, reason = "tests")]

use crate::{
    events::GateVerdict,
    latch::Latch,
    testing::{refused, render},
};

#[test]
fn the_first_render_of_a_term_waits_for_its_verdict() {
    let mut latch = Latch::of_a_new_term();
    let first = render(1, "a");
    assert!(latch.admit(first.clone()).is_none());
    let released = latch.judge(first.plan(), &GateVerdict::Passed, None).unwrap();
    assert_eq!(released.seq, 1);
    assert!(!latch.is_closed());
    assert!(latch.admit(render(2, "b")).is_some());
}

#[test]
fn a_refusal_holds_every_later_render_until_a_pass_names_the_held_one() {
    let mut latch = open();
    let (bad, later, latest) = (render(2, "bad"), render(3, "c"), render(4, "d"));
    let newest = latch.admit(bad.clone());
    assert!(latch.judge(bad.plan(), &refused(), newest.as_ref()).is_none());
    assert!(latch.admit(later.clone()).is_none());
    assert!(latch.admit(latest.clone()).is_none());
    assert!(latch.judge(later.plan(), &GateVerdict::Passed, None).is_none(), "a late pass releases nothing");
    assert_eq!(latch.held().unwrap().seq, 4);
    assert_eq!(latch.judge(latest.plan(), &GateVerdict::Passed, None).unwrap().seq, 4);
}

#[test]
fn a_refused_plan_is_held_whenever_it_comes_back() {
    let mut latch = open();
    let bad = render(2, "bad");
    latch.judge(bad.plan(), &refused(), None);
    let good = render(3, "good");
    assert!(latch.admit(good.clone()).is_none());
    assert!(latch.judge(good.plan(), &GateVerdict::Passed, None).is_some());
    assert!(latch.admit(render(4, "bad")).is_none());
    assert!(latch.is_closed());
}

#[test]
fn a_newer_render_that_went_out_before_the_refusal_opens_the_latch_by_its_own_pass() {
    let mut latch = open();
    let (old, new) = (render(2, "old"), render(3, "new"));
    latch.admit(old.clone());
    let newest = latch.admit(new.clone());
    latch.judge(old.plan(), &refused(), newest.as_ref());
    assert!(latch.is_closed());
    assert_eq!(latch.judge(new.plan(), &GateVerdict::Passed, None).unwrap().seq, 3);
}

fn open() -> Latch {
    let mut latch = Latch::of_a_new_term();
    let first = render(1, "first");
    latch.admit(first.clone());
    latch.judge(first.plan(), &GateVerdict::Passed, None).unwrap();
    latch
}
