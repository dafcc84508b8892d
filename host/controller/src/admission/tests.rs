#![allow(clippy::unwrap_used, reason = "tests")]

mod split;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use haptic_haproxy::check::{CheckLimits, Checker};
use haptic_model::FileSet;
use haptic_store::{RawObject, Read};
use serde_json::{Value, json};

use super::*;
use crate::{
    check::{Answer, CheckAsk, Checkers},
    config::ConfigObjects,
    core::Core,
    quarantine::RefusedUnit,
    testing::{core_of, raw},
};

const TEMPLATE: &str = "defaults
  mode http
  timeout connect 1s
  timeout client 1s
  timeout server 1s
frontend entry
  {{ bind('entry', 18080, address='127.0.0.1') }}
{{ render_each('app', resources.services.list()) }}
";

/// `action` is for HAProxy to judge, `secret` for the template.
const UNIT: &str = "{% set secret = resources.secrets.get_single(item.metadata.namespace, item.spec.secret) %}
listen {{ item.metadata.name }}
  http-request {{ item.spec.action }}
  # {{ secret.spec.action }}
{% if item.spec.note %}{{ warn(item.spec.note) }}{% endif %}
";

/// A real HAProxy, and how often it was asked.
struct Counted {
    check: Checkers,
    calls: AtomicUsize,
}

/// What the API server has and the store does not.
#[derive(Default)]
struct Elsewhere(Vec<Arc<RawObject>>);

struct Scene {
    admission: Admission,
    check: Arc<Counted>,
}

// === impl Scene ===

impl Scene {
    /// With these objects in the store.
    fn new(objects: &[Value]) -> Self {
        Self::with(objects, Elsewhere::default(), &[])
    }

    fn with(objects: &[Value], elsewhere: Elsewhere, quarantined: &[&str]) -> Self {
        let core = core(objects);
        let (check, haproxy) = real();
        let check = Arc::new(Counted { check, calls: AtomicUsize::new(0) });
        let quarantine = Arc::new(Quarantine::default());
        let snapshot = core.store.lock().snapshot();
        for name in quarantined {
            let object = ObjectRef::new("Service", "shop", name);
            let finding = Finding::error(haptic_model::FindingCode::RefusedByHAProxy, "refused");
            let unit = RefusedUnit { unit: format!("app/Service/shop/{name}").into(), object: Some(object), finding };
            quarantine.add([unit], |object| crate::core::fingerprint(&snapshot, object));
        }
        let active = ActiveCore::new(Arc::new(core));
        let admission = Admission::warm(
            active,
            quarantine,
            check.clone(),
            WallClock::fixed(0),
            move || haproxy,
            Arc::new(elsewhere),
        );
        Self { admission, check }
    }

    fn judge(&self, proposals: &[Proposal]) -> Vec<Opinion> {
        self.admission.judge(proposals, &Cancellation::new())
    }

    fn judge_one(&self, proposal: Proposal) -> Opinion {
        self.judge(&[proposal]).remove(0)
    }

    fn checks(&self) -> usize {
        self.check.calls.load(Ordering::SeqCst)
    }
}

impl ConfigCheck for Counted {
    fn check(&self, files: &FileSet, ask: CheckAsk, cancelled: &Cancellation) -> Answer {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.check.check(files, ask, cancelled)
    }
}

impl FreshObjects for Elsewhere {
    fn read(&self, missing: &[Read]) -> Vec<(Arc<str>, RawChange)> {
        let asked = |object: &&Arc<RawObject>| {
            missing.iter().any(|read| {
                let Read::Fetch { resource, keys } = read else { return false };
                **resource == *"secrets" && keys[..] == [object.namespace.clone(), object.name.clone()]
            })
        };
        self.0.iter().filter(asked).map(|object| ("secrets".into(), RawChange::Upsert(object.clone()))).collect()
    }
}

fn core(objects: &[Value]) -> Core {
    let config = json!({
        "apiVersion": "haptic.rs/v1alpha1", "kind": "HAProxyTemplateConfig",
        "metadata": { "namespace": "default", "name": "test" },
        "spec": {
            "watchedResources": {
                "services": { "apiVersion": "v1", "resources": "services", "enableValidationWebhook": true },
                "secrets": { "apiVersion": "v1", "resources": "secrets" },
            },
            "haproxyConfig": { "template": TEMPLATE },
            "templateSnippets": { "app": { "template": UNIT } },
        },
    });
    let core = core_of(&ConfigObjects::pick([raw(&config)]).candidate().unwrap());
    let changes: Vec<_> = objects.iter().map(|object| RawChange::Upsert(raw(object))).collect();
    core.store.lock().sync(&changes);
    core
}

fn real() -> (Checkers, (u16, u16)) {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let folder =
        std::env::var_os("HAPTIC_HAPROXY_DIR").map_or_else(|| home.join(".cache/haptic/haproxy/bin"), PathBuf::from);
    let checker = Checker::new(folder.join("haproxy-3.2"), CheckLimits::STANDARD).unwrap();
    let version = checker.minor();
    (Checkers::new([checker]), version)
}

fn service(name: &str, action: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "namespace": "shop", "name": name },
        "spec": { "action": action, "secret": "key" },
    })
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "shop", "name": name },
        "spec": { "action": "x" },
    })
}

fn with(mut object: Value, field: &str, value: &str) -> Value {
    let (parent, name) = field.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[name] = value.into();
    object
}

fn write(object: &Value) -> Proposal {
    let object = raw(object);
    let resource = if &*object.kind == "Secret" { "secrets" } else { "services" };
    Proposal { object: object.reference(), changes: vec![(resource.into(), RawChange::Upsert(object))] }
}

fn delete(object: &Value) -> Proposal {
    let object = raw(object);
    let resource = if &*object.kind == "Secret" { "secrets" } else { "services" };
    Proposal { object: object.reference(), changes: vec![(resource.into(), RawChange::Delete(object.key()))] }
}

fn allowed(opinion: &Opinion) -> &[Finding] {
    match opinion {
        Opinion::Allowed { warnings } => warnings,
        other => panic!("it is not allowed: {other:?}"),
    }
}

fn denied(opinion: &Opinion) -> String {
    match opinion {
        Opinion::Denied { causes } => causes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        other => panic!("it is not denied: {other:?}"),
    }
}

#[test]
fn what_haproxy_refuses_is_denied_with_object_template_line_and_next_step() {
    let scene = Scene::new(&[secret("key"), service("web", "deny")]);
    let reason = denied(&scene.judge_one(write(&service("bad", "nonsense"))));
    for words in ["Service shop/bad", "nonsense", "snippet app, line 3", "next step: correct Service shop/bad"] {
        assert!(reason.contains(words), "{words} is not in: {reason}");
    }
    assert!(allowed(&scene.judge_one(write(&service("good", "deny")))).is_empty());
}

#[test]
fn a_unit_that_fails_is_denied_without_asking_haproxy() {
    let scene = Scene::new(&[secret("key"), service("web", "deny")]);
    let reason = denied(&scene.judge_one(write(&with(service("bad", "deny"), "/spec/secret", "absent"))));
    for words in ["Service shop/bad", "snippet app, line 4", "next step"] {
        assert!(reason.contains(words), "{words} is not in: {reason}");
    }
    assert_eq!(scene.checks(), 0);
}

#[test]
fn what_is_missing_in_the_store_only_is_no_reason() {
    let elsewhere = Elsewhere(vec![raw(&secret("late"))]);
    let scene = Scene::with(&[secret("key"), service("web", "deny")], elsewhere, &[]);
    let late = with(service("bad", "deny"), "/spec/secret", "late");
    assert!(allowed(&scene.judge_one(write(&late))).is_empty());
    let absent = with(service("bad", "deny"), "/spec/secret", "absent");
    denied(&scene.judge_one(write(&absent)));
}

#[test]
fn who_breaks_another_objects_unit_is_denied_and_told_whose() {
    let scene = Scene::new(&[secret("key"), secret("unused"), service("web", "deny")]);
    let reason = denied(&scene.judge_one(delete(&secret("key"))));
    assert!(reason.contains("Service shop/web"), "{reason}");
    assert!(allowed(&scene.judge_one(delete(&secret("unused")))).is_empty());
    assert!(allowed(&scene.judge_one(delete(&service("web", "deny")))).is_empty());
}

#[test]
fn what_was_wrong_before_denies_nothing_else() {
    for quarantined in [&["bad"][..], &[]] {
        let objects = [
            secret("key"),
            service("bad", "nonsense"),
            with(service("failing", "deny"), "/spec/secret", "absent"),
            service("web", "deny"),
        ];
        let scene = Scene::with(&objects, Elsewhere::default(), quarantined);
        assert!(allowed(&scene.judge_one(write(&service("good", "deny")))).is_empty());
        denied(&scene.judge_one(write(&service("good", "rubbish"))));
        // It is mended, or goes.
        assert!(allowed(&scene.judge_one(write(&service("bad", "deny")))).is_empty());
        assert!(allowed(&scene.judge_one(delete(&service("bad", "nonsense")))).is_empty());
        assert!(allowed(&scene.judge_one(delete(&with(service("failing", ""), "/spec/secret", "absent")))).is_empty());
    }
}

#[test]
fn a_broken_object_may_change_in_what_breaks_nothing_and_in_nothing_else() {
    let failing = with(service("failing", "deny"), "/spec/secret", "absent");
    for quarantined in [&["bad"][..], &[]] {
        let objects = [secret("key"), service("bad", "nonsense"), failing.clone()];
        let scene = Scene::with(&objects, Elsewhere::default(), quarantined);
        let labelled = with(service("bad", "nonsense"), "/metadata/uid", "7");
        allowed(&scene.judge_one(write(&labelled)));
        let reason = denied(&scene.judge_one(write(&service("bad", "rubbish"))));
        assert!(reason.contains("rubbish"), "other bytes are another mistake: {reason}");
        let told = scene.judge_one(write(&with(failing.clone(), "/metadata/uid", "7")));
        assert!(allowed(&told).iter().any(|warning| warning.message.contains("undefined")), "{told:?}");
    }
}

#[test]
fn what_no_template_sees_is_allowed_without_asking_anybody() {
    let scene = Scene::new(&[secret("key"), service("web", "deny")]);
    let managed = with(service("web", "deny"), "/metadata/resourceVersion", "8");
    assert!(allowed(&scene.judge_one(write(&managed))).is_empty());
    assert!(allowed(&scene.judge_one(write(&secret("unused")))).is_empty(), "no byte of the output differs");
    assert_eq!(scene.checks(), 0);
}

#[test]
fn warnings_are_told_to_who_causes_them() {
    let scene = Scene::new(&[secret("key"), with(service("web", "deny"), "/spec/note", "an old one")]);
    let opinions = scene.judge(&[
        write(&with(service("a", "deny"), "/spec/note", "first")),
        write(&service("b", "deny")),
        write(&with(service("c", "deny"), "/spec/note", "third")),
    ]);
    let told: Vec<Vec<&str>> =
        opinions.iter().map(|it| allowed(it).iter().map(|warning| &*warning.message).collect()).collect();
    assert_eq!(told, [vec!["first"], vec![], vec!["third"]]);
    assert_eq!(scene.checks(), 1, "they were judged together");
}

#[test]
fn of_fifty_that_arrive_together_the_bad_ones_are_denied_by_name() {
    let scene = Scene::new(&[secret("key"), service("web", "deny")]);
    let bad = |number: usize| number % 10 == 3;
    let proposals: Vec<_> = (0..50)
        .map(|number| {
            let good = service(&format!("app-{number}"), "deny");
            match number {
                _ if !bad(number) => write(&good),
                13 => write(&with(good, "/spec/secret", "absent")),
                _ => write(&service(&format!("app-{number}"), "nonsense")),
            }
        })
        .collect();
    let opinions = scene.judge(&proposals);
    for (number, opinion) in opinions.iter().enumerate() {
        if bad(number) {
            let reason = denied(opinion);
            assert!(reason.contains(&format!("Service shop/app-{number}:")), "{reason}");
        } else {
            assert!(allowed(opinion).is_empty(), "{number}: {opinion:?}");
        }
    }
    assert!(scene.checks() < 16, "HAProxy was asked {} times", scene.checks());
}

#[test]
fn work_that_nobody_waits_for_is_never_a_verdict() {
    let scene = Scene::new(&[secret("key"), service("web", "deny")]);
    let cancelled = Cancellation::new();
    cancelled.cancel();
    let opinions = scene.admission.judge(&[write(&service("good", "deny"))], &cancelled);
    assert!(matches!(opinions[0], Opinion::Unjudged(_)), "{opinions:?}");
}

#[test]
fn without_a_haproxy_that_could_be_asked_there_is_no_verdict() {
    let core = ActiveCore::new(Arc::new(core(&[secret("key"), service("web", "deny")])));
    let check = Arc::new(Checkers::default());
    let admission =
        Admission::warm(core, Arc::default(), check, WallClock::fixed(0), || (3, 2), Arc::new(Elsewhere::default()));
    let opinions = admission.judge(&[write(&service("good", "deny"))], &Cancellation::new());
    let Opinion::Unjudged(finding) = &opinions[0] else { panic!("{opinions:?}") };
    assert!(finding.to_string().contains("NoCheckerForVersion") && finding.hint.is_some(), "{finding}");
}

#[test]
fn judging_leaves_the_renders_that_serve_alone() {
    let scene = Scene::new(&[secret("key"), service("web", "deny")]);
    let core = scene.admission.core.get();
    let before = core.store.lock().snapshot();
    denied(&scene.judge_one(write(&service("bad", "nonsense"))));
    assert!(core.store.lock().snapshot().changes_since(&before).is_empty());
}

#[test]
fn two_of_one_name_are_the_fault_of_who_came_second() {
    let scene = Scene::new(&[secret("key"), service("web", "deny")]);
    let reason = denied(&scene.judge_one(write(&service("entry", "deny"))));
    assert!(reason.contains("same name") && reason.contains("Service shop/entry"), "{reason}");
    // It is there all the same: others are not denied for it, wherever its line moved.
    let scene = Scene::new(&[secret("key"), service("entry", "deny"), service("web", "deny")]);
    allowed(&scene.judge_one(write(&service("a", "deny"))));
    allowed(&scene.judge_one(write(&service("z", "deny"))));
    denied(&scene.judge_one(write(&service("z", "nonsense"))));
}
