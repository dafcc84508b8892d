//! Years in a moment: whatever happens when, both sides take each other with contents that are as old as they may be.

use proptest::prelude::*;
use serde_json::Value;

use super::{
    DAY, settings,
    trust::{handshake, is_taken_by_api_server},
    world::World,
};
use crate::cluster::certificates::Kept;

/// 2026-12-01T00:00:00Z.
const START: u64 = 1_796_083_200;
/// Of three replicas.
const SHARES: [f64; 3] = [0.0, 0.4, 0.999];
/// How far the clocks of two sides are apart.
const SKEW: u64 = 240;

/// Everything that somebody may have who hears of a change within `late`.
fn held(world: &World, kept: Option<Kept>, now: u64, late: u64) -> impl Iterator<Item = &Value> {
    let versions = &world.versions[&kept];
    let replaced = |index: usize| versions.get(index + 1).map_or(u64::MAX, |(at, _)| *at);
    let all = versions.iter().enumerate();
    all.filter(move |(index, (at, _))| *at <= now && replaced(*index).saturating_add(late) > now)
        .map(|(_, (_, value))| value)
}

fn check(world: &World, now: u64, skew: u64) {
    let late = world.settings.lifetimes.distribution() - 1;
    for agent in held(world, Some(Kept::Agent), now, late) {
        for controller in held(world, Some(Kept::Controller), now, late) {
            for (here, there) in [(now, now), (now - skew, now), (now, now - skew)] {
                let met = handshake((agent, here), (controller, there));
                assert!(met.is_ok(), "at {now} with clocks {here} and {there}: {met:?}");
            }
        }
    }
    for webhook in held(world, Some(Kept::Webhook), now, late) {
        for configuration in held(world, None, now, late) {
            assert!(is_taken_by_api_server(webhook, configuration, now), "at {now}");
        }
    }
}

/// Every replica looks when it says that it will; the time of the next look.
fn turn(world: &mut World, shares: &[f64]) -> u64 {
    let next = shares.iter().map(|share| {
        let decision = world.pass(*share);
        assert_eq!(decision.findings, []);
        decision.until.unwrap()
    });
    next.min().unwrap()
}

#[test]
fn changes_of_the_authority_break_no_handshake() {
    let mut world = World::new(settings(90 * DAY, 270 * DAY), START);
    let (mut changes, mut most) = (0, 0);
    while changes < 6 {
        let next = turn(&mut world, &SHARES);
        let late = world.settings.lifetimes.distribution() - 1;
        // Right after it, when the last one has heard of it, and right before the next.
        for moment in [world.now, (world.now + late).min(next - 1), next - 1] {
            check(&world, moment, SKEW);
        }
        most = most.max(world.authorities());
        world.now = next;
        changes = world.written.iter().filter(|(_, _, why)| *why == "the new authority signs").count();
    }
    assert_eq!(most, 2, "one is trusted no longer than needed");
    let renewals = |kept| world.written.iter().filter(|(_, written, _)| *written == Some(kept)).count();
    assert!(renewals(Kept::Agent) > 18 && renewals(Kept::Webhook) > 18, "{:?}", world.written);
    // The times are days apart, not moments.
    assert!(world.written.len() < 400, "{} writes", world.written.len());
}

#[test]
fn a_change_tells_first_signs_then_and_forgets_last() {
    let mut world = World::new(settings(90 * DAY, 270 * DAY), START);
    turn(&mut world, &[0.0]);
    let steps = |world: &World, from: usize| -> Vec<(u64, &'static str, &'static str)> {
        let written = world.written[from..].iter();
        written.map(|(at, kept, why)| (*at - START, kept.map_or("configuration", Kept::name), *why)).collect()
    };
    assert_eq!(steps(&world, 0).len(), 5, "{:?}", world.written);
    // Nothing else is due when the authority is.
    let due = 180 * DAY;
    for day in (30..180).step_by(30) {
        world.now = START + day * DAY;
        turn(&mut world, &[0.0]);
    }
    let before = world.written.len();
    let (agent, old) = (world.entry(Kept::Agent, "tls.crt"), world.entry(Kept::Authority, "ca.crt"));
    world.now = START + due;
    turn(&mut world, &[0.0]);
    let changed = "the authorities changed";
    assert_eq!(
        steps(&world, before)[..6],
        [
            (due, "authority", "two thirds of its time are over"),
            (due, "agent", "two thirds of its time are over"),
            (due, "controller", "two thirds of its time are over"),
            (due, "webhook", "two thirds of its time are over"),
            (due, "configuration", "told whom to trust"),
            (due, "authority", "all are told of the new authority"),
        ],
        "{changed}"
    );
    assert_ne!(world.entry(Kept::Agent, "tls.crt"), agent);
    let trusted = world.entry(Kept::Agent, "ca.crt");
    assert!(trusted.ends_with(&old) && trusted.len() > old.len(), "newest first");
    let before = world.written.len();
    world.now += 599;
    turn(&mut world, &[0.0]);
    assert_eq!(world.written.len(), before, "it does not sign yet");
    world.now += 1;
    turn(&mut world, &[0.0]);
    let signs = "a new authority signs";
    assert_eq!(
        steps(&world, before),
        [
            (due + 600, "agent", signs),
            (due + 600, "controller", signs),
            (due + 600, "webhook", signs),
            (due + 600, "authority", "the new authority signs"),
        ]
    );
    assert_eq!(world.entry(Kept::Authority, "ca-previous.key"), "", "a key that signs no more is gone");
    assert_eq!(world.authorities(), 2);
    world.now = START + due + 600 + 90 * DAY;
    turn(&mut world, &[0.0]);
    assert_eq!(world.authorities(), 1);
    assert!(!world.entry(Kept::Controller, "ca.crt").contains(&old));
}

/// What the pause before a new authority signs is for, and that a handshake here can fail.
#[test]
fn who_never_heard_of_a_change_is_lost() {
    let mut world = World::new(settings(90 * DAY, 270 * DAY), START);
    turn(&mut world, &[0.0]);
    let unaware = world.secrets[&Kept::Agent].clone();
    world.put(Kept::Authority, "ca.key", "");
    turn(&mut world, &[0.0]);
    let met = |world: &World| handshake((&unaware, world.now), (&world.secrets[&Kept::Controller], world.now));
    assert!(met(&world).is_ok(), "as long as the new one does not sign");
    world.now += 600;
    turn(&mut world, &[0.0]);
    assert!(met(&world).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Replicas that come, go and are late; nobody looks for a quarter of a lifetime at most.
    #[test]
    fn no_order_and_no_pause_breaks_a_handshake(
        looks in prop::collection::vec((1_u64..1_944_000, 0.0_f64..1.0), 20..40),
    ) {
        let mut world = World::new(settings(90 * DAY, 270 * DAY), START);
        turn(&mut world, &[0.5]);
        for (pause, share) in looks {
            let until = world.now + pause;
            check(&world, until - 1, 0);
            world.now = until;
            turn(&mut world, &[share]);
            check(&world, world.now, SKEW);
        }
    }
}
