//! A hundred changes of the configuration, thirty of them invalid.

use anyhow::{Context as _, Result};
use haptic_e2e::{eventually, exclusive, get};
use serde_json::{Value, json};

use haptic_e2e::cluster::served::{HOSTS, HTTP, LEASE_NAME, Served, header};

/// Who must refuse a change, and what its refusal names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Basic,
    Template,
    JsonPath,
    ValidationTests,
}

const CHANGES: u32 = 100;
const INVALID: [Invalid; 4] = [Invalid::Basic, Invalid::Template, Invalid::JsonPath, Invalid::ValidationTests];

// === impl Invalid ===

impl Invalid {
    /// What is wrong, and how that is taken back.
    fn patches(self) -> (Value, Value) {
        match self {
            Self::Basic => (
                json!({ "validators": [{ "plugin": "nobody", "files": ["general/*.http"] }] }),
                json!({ "validators": [{ "plugin": "error-file", "files": ["general/*.http"] }, { "plugin": "policy" }] }),
            ),
            Self::Template => (
                json!({ "templateSnippets": { "frontend/95-broken": { "template": "{{ bind(" } } }),
                json!({ "templateSnippets": { "frontend/95-broken": null } }),
            ),
            Self::JsonPath => (
                json!({ "watchedResources": { "broken": {
                    "apiVersion": "v1", "resources": "configmaps", "indexBy": ["metadata.labels['"], "optional": true,
                } } }),
                json!({ "watchedResources": { "broken": null } }),
            ),
            Self::ValidationTests => (
                json!({ "validationTests": { "broken": { "fixtures": {}, "assertions": [{
                    "type": "contains", "target": "haproxy.cfg", "pattern": "never there",
                }] } } }),
                json!({ "validationTests": { "broken": null } }),
            ),
        }
    }

    /// Words of the refusal.
    fn names(self) -> &'static str {
        match self {
            Self::Basic => "nobody",
            Self::Template => "frontend/95-broken",
            Self::JsonPath => "broken",
            Self::ValidationTests => "never there",
        }
    }
}

/// The number stands in a map, so that a change of it is one at run time; a header of every answer says it.
fn revision(number: u32) -> Value {
    json!({ "maps": { "revision.map": { "template": format!("revision {number}\n") } } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_serves_is_always_the_last_accepted_one_and_the_lease_never_moves() -> Result<()> {
    let _turn = exclusive().await;
    let numbered = |object: &mut Value| {
        if object["kind"] == "HAProxyTemplateConfig" {
            let spec = &mut object["spec"];
            spec["maps"]["revision.map"] = revision(0)["maps"]["revision.map"].clone();
            spec["templateSnippets"]["frontend/90-revision"]["template"] =
                "http-response set-header X-Revision %[str(revision),map({{ map_file(\"revision.map\") }})]\n".into();
        }
    };
    let served = Served::start("changes", &numbered).await?;
    let doors = served.doors(HTTP).await?;
    let lease = served.room.watch_lease(LEASE_NAME);
    let holder = lease.until("a leader", |state| state.holder.clone()).await?;
    let mut accepted = 0;
    let mut refused: Vec<Invalid> = Vec::new();
    for number in 1..=CHANGES {
        let mut spec = revision(number);
        if let Some(last) = refused.last() {
            merge(&mut spec, last.patches().1);
        }
        let invalid = (number % 10 < 3).then(|| INVALID[refused.len() % INVALID.len()]);
        if let Some(invalid) = invalid {
            merge(&mut spec, invalid.patches().0);
        }
        let verdict = served.judged(served.configure(&json!({ "spec": spec })).await?).await?;
        match invalid {
            None => {
                assert!(verdict.starts_with("True "), "change {number}: {verdict}");
                accepted = number;
            }
            Some(invalid) => {
                let named = verdict.starts_with("False ") && verdict.contains(invalid.names());
                assert!(named, "change {number}, {invalid:?}: {verdict}");
                refused.push(invalid);
            }
        }
        for (pod, door) in &doors {
            let what = format!("revision {accepted} through {} after change {number}", pod.name);
            let expected = accepted.to_string();
            eventually(&what, async || {
                let answer = get(door.address(), HOSTS[0].0, "/").await.ok()?;
                (header(&answer, "x-revision")? == expected).then_some(())
            })
            .await;
        }
    }
    for invalid in INVALID {
        let count = refused.iter().filter(|one| **one == invalid).count();
        assert!(count >= 7, "{invalid:?} was refused {count} times only");
    }
    assert_eq!(refused.len(), 30);
    let states = lease.states();
    assert!(
        states.iter().all(|state| state.holder.as_deref() == Some(&*holder)),
        "the Lease is never vacant and never changes hands: {states:?}"
    );
    lease.check_epochs().context("of one holder")?;
    served.check_routes().await?;
    served.room.close().await
}

/// Adds the fields of one specification to another.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
