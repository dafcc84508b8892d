//! What is filled, what is left alone, and what is made anew.

use haptic_model::Severity;
use serde_json::json;

use super::{DAY, settings, trust::handshake, world::World};
use crate::cluster::certificates::{
    Kept,
    plan::{Configuration, Seen},
};

/// Takes something away.
type Lose = fn(&mut World);

const NOW: u64 = 1_796_083_200;

fn filled() -> World {
    let mut world = World::new(settings(90 * DAY, 3650 * DAY), NOW);
    assert_eq!(world.pass(0.0).findings, []);
    world
}

fn meet(world: &World) -> bool {
    handshake((&world.secrets[&Kept::Agent], world.now), (&world.secrets[&Kept::Controller], world.now)).is_ok()
}

#[test]
fn empty_secrets_are_filled_and_then_at_rest() {
    let mut world = filled();
    assert!(meet(&world));
    assert_eq!(world.written.len(), 5);
    let decision = world.pass(0.0);
    assert_eq!(world.written.len(), 5, "{:?}", world.written);
    // Two thirds of 90 days; the certificate is said to be valid from five minutes before.
    assert_eq!(decision.until, Some(NOW + 60 * DAY - 100));
    assert_eq!(decision.ends[&Kept::Agent], NOW + 90 * DAY);
    assert_eq!(decision.ends[&Kept::Authority], NOW + 3650 * DAY);
    let configuration = world.configuration.as_ref().unwrap();
    let bundle = world.secrets[&Kept::Webhook]["data"]["ca.crt"].clone();
    for webhook in configuration["webhooks"].as_array().unwrap() {
        assert_eq!(webhook["clientConfig"]["caBundle"], bundle);
        assert_eq!(webhook["clientConfig"]["service"]["name"], "haptic-webhook", "the rest is as it was");
    }
    for secret in world.secrets.values() {
        assert_eq!(secret["type"], "Opaque");
    }
}

#[test]
fn of_two_that_begin_at_once_one_authority_remains() {
    let mut world = World::new(settings(90 * DAY, 3650 * DAY), NOW);
    let seen = world.observe();
    let (mut one, mut other) = (world.decide(&seen, 0.0), world.decide(&seen, 0.9));
    assert!(world.apply(one.step.take().unwrap()));
    let authority = world.entry(Kept::Authority, "ca.crt");
    assert!(!world.apply(other.step.take().unwrap()), "it is a conflict");
    world.pass(0.9);
    world.pass(0.0);
    assert_eq!(world.entry(Kept::Authority, "ca.crt"), authority);
    assert!(meet(&world));
}

#[test]
fn contents_of_someone_else_are_left_alone_and_told_of() {
    for kept in [Kept::Agent, Kept::Controller, Kept::Webhook, Kept::Authority] {
        let mut world = World::new(settings(90 * DAY, 3650 * DAY), NOW);
        let (entry, content) =
            if kept == Kept::Authority { ("ca.key", "their key") } else { ("tls.crt", "their certificate") };
        world.put(kept, entry, content);
        let before = world.secrets[&kept].clone();
        let decision = world.pass(0.0);
        assert_eq!(world.secrets[&kept], before);
        let [finding] = decision.findings.as_slice() else { panic!("{:?}", decision.findings) };
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.to_string().contains("someone else's") && finding.hint.is_some(), "{finding}");
        let others = world.written.iter().filter_map(|(_, written, _)| *written).count();
        assert_eq!(others, if kept == Kept::Authority { 0 } else { 3 });
        if kept == Kept::Webhook {
            let configuration = world.configuration.unwrap();
            assert!(configuration["webhooks"][0]["clientConfig"]["caBundle"].is_null(), "nor is that ours then");
        }
    }
}

#[test]
fn what_is_taken_over_by_someone_else_is_theirs() {
    let mut world = filled();
    let certificate = world.entry(Kept::Controller, "tls.crt");
    let secret = world.secrets.get_mut(&Kept::Agent).unwrap();
    secret["metadata"]["annotations"] = json!({});
    world.put(Kept::Agent, "tls.crt", &certificate);
    let before = world.secrets[&Kept::Agent].clone();
    assert_eq!(world.pass(0.0).findings.len(), 1);
    assert_eq!(world.secrets[&Kept::Agent], before);
}

#[test]
fn what_is_broken_of_its_own_is_issued_anew() {
    let cases: [(&str, &str, &str); 7] = [
        ("tls.crt", "", "a part of it is missing"),
        ("tls.key", "", "a part of it is missing"),
        ("ca.crt", "", "a part of it is missing"),
        ("tls.crt", "-----BEGIN CERTIFICATE-----\nMIIB", "its tls.crt is not complete"),
        ("tls.key", "-----BEGIN PRIVATE KEY-----\nMIIB", "its tls.key is not complete"),
        ("tls.key", "controller's", "its tls.key does not fit its tls.crt"),
        ("ca.crt", "none", "the authorities changed"),
    ];
    for (entry, content, why) in cases {
        let mut world = filled();
        let content = if content == "controller's" { world.entry(Kept::Controller, entry) } else { content.to_owned() };
        world.put(Kept::Agent, entry, &content);
        assert_eq!(world.pass(0.0).findings, []);
        assert_eq!(world.written[5..], [(NOW, Some(Kept::Agent), why)], "{entry}");
        assert!(meet(&world), "{entry}");
    }
}

#[test]
fn a_certificate_with_other_names_is_issued_anew() {
    let mut world = filled();
    for entry in ["tls.crt", "tls.key"] {
        let content = world.entry(Kept::Controller, entry);
        world.put(Kept::Agent, entry, &content);
    }
    world.pass(0.0);
    assert_eq!(world.written[5..], [(NOW, Some(Kept::Agent), "its tls.crt has other names")]);
    world.settings.names.webhook.as_mut().unwrap().service = "other".to_owned();
    world.pass(0.0);
    assert_eq!(world.written[6..], [(NOW, Some(Kept::Webhook), "its tls.crt has other names")]);
}

#[test]
fn an_authority_that_lost_its_key_is_trusted_until_its_successor_signed_all() {
    let lost: [(&str, Lose); 3] = [
        ("its ca.key is not complete", |world| world.put(Kept::Authority, "ca.key", "")),
        ("its ca.key does not fit its ca.crt", |world| {
            let other = world.entry(Kept::Agent, "tls.key");
            world.put(Kept::Authority, "ca.key", &other);
        }),
        // Of what is gone as a whole, others still know whom they trusted.
        ("it was empty", |world| world.secrets.get_mut(&Kept::Authority).unwrap()["data"] = json!({})),
    ];
    for (why, lose) in lost {
        let mut world = filled();
        let agent = world.secrets[&Kept::Agent].clone();
        lose(&mut world);
        assert_eq!(world.pass(0.0).findings, []);
        assert!(world.written.contains(&(NOW, Some(Kept::Authority), why)), "{:?}", world.written);
        assert_eq!(world.authorities(), 2, "{why}");
        let met = handshake((&agent, NOW), (&world.secrets[&Kept::Controller], NOW));
        assert!(met.is_ok(), "{why}: {met:?}");
        world.now += 600;
        world.pass(0.0);
        let signs = world.written.iter().filter(|(_, _, why)| *why == "a new authority signs").count();
        assert_eq!(signs, 3, "{why}: {:?}", world.written);
        assert!(meet(&world));
        world.now += 90 * DAY;
        world.pass(0.0);
        assert_eq!(world.authorities(), 1, "{why}");
    }
}

#[test]
fn what_is_missing_is_told_with_the_next_step_and_the_others_are_filled() {
    let mut world = World::new(settings(90 * DAY, 3650 * DAY), NOW);
    world.secrets.remove(&Kept::Webhook);
    let decision = world.pass(0.0);
    assert!(meet(&world));
    let [finding] = decision.findings.as_slice() else { panic!("{:?}", decision.findings) };
    let text = finding.to_string();
    assert!(text.starts_with("Secret edge/haptic-webhook: it is not there"), "{text}");
    assert!(finding.hint.as_ref().unwrap().contains("create it without contents"));

    let mut world = filled();
    world.configuration = None;
    let decision = world.pass(0.0);
    let text = decision.findings[0].to_string();
    assert!(text.contains("ValidatingWebhookConfiguration `haptic` is not there"), "{text}");
}

#[test]
fn a_change_waits_for_who_cannot_be_asked_but_not_for_ever() {
    let mut world = World::new(settings(90 * DAY, 270 * DAY), NOW);
    world.pass(0.0);
    let blind = |world: &World| {
        let mut seen = world.observe();
        let finding = haptic_model::Finding::error(haptic_model::FindingCode::InvalidValue, "it may not be read");
        seen.secrets.insert(Kept::Agent, Seen::Unreadable(Box::new(finding.clone())));
        seen.configuration = Some(Configuration::Unreadable(Box::new(finding)));
        seen
    };
    let pass = |world: &mut World| {
        loop {
            let mut decision = world.decide(&blind(world), 0.0);
            let Some(step) = decision.step.take() else { return decision };
            assert!(world.apply(step));
        }
    };
    world.now = NOW + 181 * DAY;
    let decision = pass(&mut world);
    assert_eq!((decision.findings.len(), world.authorities()), (2, 2));
    let told = "all are told of the new authority";
    assert!(!world.written.iter().any(|(_, _, why)| *why == told), "{:?}", world.written);
    world.now = NOW + 270 * DAY - 1200;
    pass(&mut world);
    assert!(world.written.iter().any(|(_, _, why)| *why == told), "{:?}", world.written);
}
