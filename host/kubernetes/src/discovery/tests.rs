#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_api as api;
use haptic_store::WatchedResource;

use super::*;

fn wanted(resources: &str, kind: Option<&str>) -> Wanted {
    let spec = api::WatchedResource {
        api_versions: vec!["example.com/v2".to_owned(), "example.com/v1".to_owned()],
        resources: resources.to_owned(),
        kind: kind.map(str::to_owned),
        ..api::WatchedResource::default()
    };
    Wanted::whole(WatchedResource::new("things", &spec, &[]).unwrap())
}

fn resource(name: &str, kind: &str, verbs: &[&str]) -> APIResource {
    APIResource {
        name: name.to_owned(),
        kind: kind.to_owned(),
        namespaced: true,
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..APIResource::default()
    }
}

#[test]
fn an_irregular_plural_names_the_kind_to_write() {
    let found = resource("foos", "BigFoo", &["list", "watch"]);
    let trouble = wanted("foos", None).check("example.com/v1", found.clone()).unwrap_err();
    assert_eq!(
        trouble.to_string(),
        "`foos` of example.com/v1 has the kind BigFoo, but one that its plural name tells is expected; \
         set `kind: BigFoo`"
    );
    let served = wanted("foos", Some("BigFoo")).check("example.com/v1", found).unwrap();
    assert_eq!((&*served.kind, served.group()), ("BigFoo", "example.com"));
    assert_eq!(served.path(Some("a")), "/apis/example.com/v1/namespaces/a/foos");
}

#[test]
fn what_cannot_be_watched_is_refused_by_name() {
    let trouble = wanted("foos", None).check("example.com/v1", resource("foos", "Foo", &["get", "list"])).unwrap_err();
    assert_eq!(trouble.to_string(), "`foos` of example.com/v1 cannot be watched; watch another resource");
    wanted("foos", None).check("example.com/v1", resource("foos", "Foo", &[])).unwrap();
}

#[test]
fn a_missing_resource_is_named_with_its_versions() {
    let missing = wanted("foos", None).missing();
    assert_eq!(
        missing.to_string(),
        "no version of `foos` is served (example.com/v2, example.com/v1); install its CRD, or set `optional: true`"
    );
    assert_eq!(group_path("v1"), "/api/v1");
}
