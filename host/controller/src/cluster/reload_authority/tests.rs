#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, pin::pin, task::Poll};

use super::*;

type Authority = ReloadAuthority<u32>;

fn reload(reasons: &[ReloadReason], snapshot: Option<u32>) -> Reload<u32> {
    Reload { reasons: reasons.iter().copied().collect(), snapshot: snapshot.map(Box::new) }
}

async fn nothing_is_pending(authority: &Authority) -> bool {
    let mut next = pin!(authority.next());
    std::future::poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn an_accepted_snapshot_is_handed_out_once() {
    let authority = Authority::default();
    authority.accepted(7);
    assert_eq!(authority.next().await, reload(&[ReloadReason::Config], Some(7)));
    assert!(nothing_is_pending(&authority).await);
    authority.schema_changed();
    assert_eq!(authority.next().await, reload(&[ReloadReason::Schema], None), "the next attempt takes live state");
}

#[tokio::test]
async fn the_newest_accepted_snapshot_counts() {
    let authority = Authority::default();
    authority.accepted(1);
    authority.accepted(2);
    assert_eq!(authority.next().await, reload(&[ReloadReason::Config], Some(2)));
}

#[tokio::test]
async fn a_newer_parsed_configuration_retires_the_older_candidate_and_nothing_else() {
    let authority = Authority::default();
    authority.accepted(1);
    authority.credentials_changed();
    authority.schema_changed();
    assert!(authority.parsed(), "there was a candidate");
    assert!(!authority.parsed());
    let pending = BTreeSet::from([ReloadReason::Credentials, ReloadReason::Schema]);
    assert_eq!(authority.next().await, Reload { reasons: pending, snapshot: None }, "these stay pending");
    assert!(nothing_is_pending(&authority).await);
}

#[tokio::test]
async fn a_retired_candidate_alone_is_no_reason() {
    let authority = Authority::default();
    authority.accepted(1);
    authority.parsed();
    assert!(nothing_is_pending(&authority).await);
    authority.accepted(2);
    assert_eq!(authority.next().await, reload(&[ReloadReason::Config], Some(2)));
}

#[tokio::test]
async fn what_was_resolved_with_another_schema_is_resolved_anew() {
    let authority = Authority::default();
    authority.accepted(1);
    authority.schema_changed();
    assert_eq!(authority.next().await, reload(&[ReloadReason::Config, ReloadReason::Schema], None));
}

#[tokio::test]
async fn a_reference_that_was_taken_back_is_no_reason_any_more() {
    let authority = Authority::default();
    authority.credentials_changed();
    authority.credentials_restored();
    assert!(nothing_is_pending(&authority).await);
}

#[tokio::test]
async fn everything_that_is_said_is_told_to_a_successor_that_is_built() {
    let authority = Authority::default();
    let mut news = authority.watch();
    for say in [Authority::parsed, |authority: &Authority| {
        authority.accepted(1);
        true
    }] {
        say(&authority);
        assert!(news.has_changed().unwrap());
        news.mark_unchanged();
    }
    authority.schema_changed();
    assert!(news.has_changed().unwrap());
    news.mark_unchanged();
    authority.schema_changed();
    assert!(!news.has_changed().unwrap(), "it is pending already");
}
