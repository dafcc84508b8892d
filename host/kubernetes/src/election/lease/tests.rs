#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::jiff::Timestamp;

use super::*;

fn settings(identity: &str) -> ElectionSettings {
    ElectionSettings::new("haptic", "haptic", identity)
}

fn at(second: i64) -> MicroTime {
    MicroTime(Timestamp::from_second(second).unwrap())
}

fn annotation(lease: &Lease) -> Option<&str> {
    lease.metadata.annotations.as_ref()?.get(FENCING_EPOCH).map(String::as_str)
}

#[test]
fn the_first_term_makes_the_lease_with_its_epoch_in_it() {
    let Claim { lease, epoch } = Claim::new(None, &settings("a"), at(100), 0);
    let spec = lease.spec.as_ref().unwrap();
    assert_eq!((epoch, annotation(&lease)), (1, Some("1")));
    assert_eq!((lease.holder(), spec.lease_duration_seconds, spec.lease_transitions), (Some("a"), Some(30), Some(0)));
    assert_eq!((lease.acquired(), &spec.renew_time), (Some(&at(100)), &Some(at(100))));
    assert_eq!(lease.metadata.resource_version, None, "whoever makes it at the same time wins or loses");
}

#[test]
fn an_epoch_is_higher_than_all_that_was_recorded_or_seen() {
    let of = |annotation: Option<&str>, transitions: Option<i32>, seen: u64| {
        let mut lease = Claim::new(None, &settings("a"), at(1), 0).lease;
        lease.metadata.annotations = annotation.map(|text| [(FENCING_EPOCH.to_owned(), text.to_owned())].into());
        lease.spec.as_mut().unwrap().lease_transitions = transitions;
        let claim = Claim::new(Some(&lease), &settings("b"), at(2), seen);
        assert_eq!(super::tests::annotation(&claim.lease), Some(claim.epoch.to_string().as_str()));
        claim.epoch
    };
    assert_eq!(of(Some("7"), Some(3), 2), 8);
    assert_eq!(of(Some("7"), Some(9), 2), 10);
    assert_eq!(of(Some("7"), Some(3), 40), 41);
    assert_eq!(of(None, None, 0), 1);
    assert_eq!(of(Some("seven"), Some(-3), 0), 1, "what cannot be read is no epoch");
    assert_eq!(of(Some("18446744073709551614"), Some(0), 0), u64::MAX);
}

#[test]
fn a_change_of_hands_is_counted_and_a_successor_of_the_same_identity_is_none() {
    let mut lease = Claim::new(None, &settings("a"), at(100), 0).lease;
    lease.metadata.resource_version = Some("5".to_owned());
    let other = Claim::new(Some(&lease), &settings("b"), at(200), 0).lease;
    assert_eq!(other.spec.as_ref().unwrap().lease_transitions, Some(1));
    let same = Claim::new(Some(&lease), &settings("a"), at(200), 0);
    assert_eq!((same.lease.spec.as_ref().unwrap().lease_transitions, same.epoch), (Some(0), 2));
    assert_eq!(same.lease.metadata.resource_version.as_deref(), Some("5"), "the write is optimistic");
    assert_ne!(same.lease.acquired(), lease.acquired(), "but its term is another one");
}

#[test]
fn terms_begin_at_different_times_even_if_the_clock_goes_back() {
    let first = Claim::new(None, &settings("a"), at(100), 0).lease;
    let second = Claim::new(Some(&first), &settings("a"), at(40), 0).lease;
    let third = Claim::new(Some(&second), &settings("a"), at(40), 0).lease;
    assert!(first.acquired() < second.acquired() && second.acquired() < third.acquired());
}

#[test]
fn a_renewal_keeps_the_term_and_a_release_keeps_the_epoch() {
    let mut lease = Claim::new(None, &settings("a"), at(100), 6).lease;
    lease.metadata.annotations = None;
    let renewed = Claim::renewed(&lease, &settings("a"), at(105), 7).lease;
    assert_eq!((renewed.acquired(), annotation(&renewed)), (Some(&at(100)), Some("7")));
    assert_eq!(renewed.spec.as_ref().unwrap().renew_time, Some(at(105)));
    let released = Claim::released(&renewed, at(106), 7);
    assert_eq!((released.holder(), released.epoch()), (None, 7));
    assert_eq!(released.duration(), Some(Duration::from_secs(1)));
    let next = Claim::new(Some(&released), &settings("b"), at(107), 0);
    assert_eq!((next.epoch, next.lease.spec.unwrap().lease_transitions), (8, Some(1)));
}

#[test]
fn a_lease_that_is_made_anew_carries_nothing_of_the_deleted_one_but_the_term() {
    let mut lease = Claim::new(None, &settings("a"), at(100), 6).lease;
    lease.metadata.resource_version = Some("5".to_owned());
    lease.metadata.uid = Some("u".to_owned());
    let anew = Claim::renewed(&lease, &settings("a"), at(105), 7).anew().lease;
    assert_eq!((anew.metadata.resource_version.as_ref(), anew.metadata.uid.as_ref()), (None, None));
    assert_eq!((anew.metadata.name.as_deref(), annotation(&anew)), (Some("haptic"), Some("7")));
    assert_eq!(anew.acquired(), lease.acquired());
}
