#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_store::{Extent, Transcript};

use super::*;

fn object(name: &str, version: &str, content: &str) -> RawObject {
    object_of("networking.k8s.io/v1", name, version, content)
}

fn object_of(api_version: &str, name: &str, version: &str, content: &str) -> RawObject {
    RawObject::transcribed(Transcript {
        api_version: api_version.into(),
        kind: "Ingress".into(),
        namespace: "shop".into(),
        name: name.into(),
        resource_version: version.into(),
        extent: Extent::Whole,
        json: format!("{{\"metadata\":{{\"name\":\"{name}\"}},\"spec\":\"{content}\"}}").into(),
    })
}

fn upsert(name: &str, version: &str, content: &str) -> Step {
    Step::Upsert(Arc::new(object(name, version, content)))
}

fn deletion(name: &str, version: &str) -> Step {
    Step::Delete(object(name, "", "").key(), version.into())
}

fn list(known: &mut Known, version: &str, objects: Vec<RawObject>) -> Result<Vec<String>, Trouble> {
    let mut listing = Listing::default();
    for object in objects {
        listing.add(object, known);
    }
    known.believe(&version.into())?;
    Ok(told(known.replace(listing, &version.into())))
}

fn told(changes: Changes) -> Vec<String> {
    let mut told: Vec<_> = changes
        .into_iter()
        .map(|(change, effect)| match change {
            RawChange::Upsert(object) => format!("{effect:?} {} {}", object.name, object.value()["spec"]),
            RawChange::Delete(key) => format!("{effect:?} {} of `{}`", key.name, key.group),
        })
        .collect();
    told.sort();
    told
}

#[test]
fn a_complete_list_says_how_it_differs_from_what_was_known() {
    let mut known = Known::default();
    let first = list(&mut known, "10", vec![object("a", "1", "x"), object("b", "2", "x")]);
    assert_eq!(first.unwrap(), [r#"Added a "x""#, r#"Added b "x""#]);
    let same = list(&mut known, "20", vec![object("b", "15", "x"), object("a", "1", "x")]);
    assert!(same.unwrap().is_empty(), "another version alone is no change");
    let other = list(&mut known, "30", vec![object("b", "25", "y"), object("c", "26", "x")]);
    assert_eq!(other.unwrap(), [r#"Added c "x""#, r#"Changed b "y""#, "Removed a of `networking.k8s.io`"]);
    assert_eq!(known.version().as_str(), "30");
}

#[test]
fn an_empty_list_is_believed_and_an_older_one_is_not() {
    let mut known = Known::default();
    list(&mut known, "10", vec![object("a", "1", "x")]).unwrap();
    assert!(matches!(list(&mut known, "9", vec![]), Err(Trouble::Older { .. })));
    assert_eq!(known.version().as_str(), "10");
    assert_eq!(list(&mut known, "10", vec![]).unwrap(), ["Removed a of `networking.k8s.io`"]);
    assert!(known.withdraw().is_empty());
}

#[test]
fn a_list_is_compared_with_the_last_event_too() {
    let mut known = Known::default();
    list(&mut known, "10", vec![]).unwrap();
    known.follow(vec![upsert("a", "12", "x"), Step::Advance("15".into())]);
    assert!(list(&mut known, "14", vec![]).is_err(), "it may be from before the event");
    assert_eq!(list(&mut known, "15", vec![]).unwrap().len(), 1);
}

#[test]
fn an_object_that_a_list_repeats_is_not_kept_by_the_list() {
    let mut known = Known::default();
    list(&mut known, "10", vec![object("a", "1", "x")]).unwrap();
    let mut listing = Listing::default();
    listing.add(object("a", "11", "x"), &known);
    listing.add(object("b", "11", "x"), &known);
    let kept: Vec<_> =
        listing.0.values().filter_map(|listed| listed.new.as_ref()).map(|object| &*object.name).collect();
    assert_eq!(kept, ["b"], "so the store has nothing to parse");
}

#[test]
fn events_are_taken_in_their_order_and_those_of_the_past_not_at_all() {
    let mut known = Known::default();
    list(&mut known, "10", vec![object("a", "5", "x")]).unwrap();
    let steps = vec![upsert("b", "11", "x"), upsert("b", "12", "y"), deletion("a", "13"), upsert("c", "14", "x")];
    let told_first = told(known.follow(steps));
    assert_eq!(
        told_first,
        [r#"Added b "x""#, r#"Added c "x""#, r#"Changed b "y""#, "Removed a of `networking.k8s.io`"]
    );
    let replayed = vec![upsert("a", "5", "x"), upsert("b", "11", "x"), deletion("c", "9"), Step::Advance("8".into())];
    assert!(known.follow(replayed).is_empty(), "a server that lags sends what was heard before");
    assert_eq!(known.version().as_str(), "14");
    assert!(known.follow(vec![upsert("b", "15", "y")]).is_empty(), "a write that is not seen is no change");
    assert!(known.follow(vec![deletion("unknown", "16")]).is_empty());
    assert_eq!(known.version().as_str(), "16");
}

#[test]
fn versions_without_an_order_are_taken_as_they_come() {
    let mut known = Known::default();
    list(&mut known, "opaque-b", vec![object("a", "z", "x")]).unwrap();
    assert_eq!(list(&mut known, "opaque-a", vec![]).unwrap().len(), 1);
    assert_eq!(known.follow(vec![upsert("a", "y", "x")]).len(), 1);
    assert_eq!(known.version().as_str(), "y");
}

#[test]
fn in_another_group_it_is_another_object() {
    let mut known = Known::default();
    list(&mut known, "10", vec![object("a", "5", "x")]).unwrap();
    let moved = list(&mut known, "11", vec![object_of("extensions/v1beta1", "a", "5", "z")]).unwrap();
    assert_eq!(moved, [r#"Changed a "z""#, "Removed a of `networking.k8s.io`"]);
    assert_eq!(told(known.withdraw()), ["Removed a of `extensions`"]);
}

#[test]
fn of_mere_metadata_the_version_alone_tells_that_the_rest_changed() {
    let of = |version: &str, extent: Extent| {
        let raw = RawObject::transcribed(Transcript {
            api_version: "v1".into(),
            kind: "Secret".into(),
            namespace: "shop".into(),
            name: "tls".into(),
            resource_version: version.into(),
            extent,
            json: r#"{"metadata":{"name":"tls"}}"#.into(),
        });
        Step::Upsert(Arc::new(raw))
    };
    for (extent, changes) in [(Extent::Whole, 0), (Extent::Metadata, 1)] {
        let mut known = Known::default();
        assert_eq!(known.follow(vec![of("1", extent)]).len(), 1);
        assert_eq!(known.follow(vec![of("2", extent)]).len(), changes, "{extent:?}");
    }
}
