#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_api as api;

use super::*;

fn scopes(spec: api::WatchedResource, namespaced: bool) -> Vec<Scope> {
    let spec = WatchedResource::new("things", &spec, &[]).unwrap();
    let served =
        Served { api_version: "example.com/v1".into(), resources: "things".into(), kind: "Thing".into(), namespaced };
    Wanted::whole(spec).scopes(&Arc::new(served))
}

fn spec() -> api::WatchedResource {
    api::WatchedResource {
        api_version: Some("example.com/v1".to_owned()),
        resources: "things".to_owned(),
        ..api::WatchedResource::default()
    }
}

#[test]
fn a_first_list_asks_for_the_newest_state_and_a_later_one_for_none_that_is_older() {
    let scope = scopes(spec(), true).remove(0);
    let unknown = ResourceVersion::unknown();
    assert_eq!(scope.page(&unknown, Some(500), None), "/apis/example.com/v1/things?limit=500");
    let later = "/apis/example.com/v1/things?limit=2&resourceVersion=7&resourceVersionMatch=NotOlderThan";
    assert_eq!(scope.page(&"7".into(), Some(2), None), later);
    let next = "/apis/example.com/v1/things?limit=2&continue=a%2Fb%3D%3D";
    assert_eq!(scope.page(&"7".into(), Some(2), Some("a/b==")), next, "the token has the version");
    let open_for = Duration::from_secs(9);
    assert_eq!(
        scope.streaming_list(&unknown, open_for),
        "/apis/example.com/v1/things?watch=true&allowWatchBookmarks=true&timeoutSeconds=9&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan&resourceVersion="
    );
    assert_eq!(
        scope.watch(&"7".into(), open_for),
        "/apis/example.com/v1/things?watch=true&allowWatchBookmarks=true&timeoutSeconds=9&resourceVersion=7"
    );
}

#[test]
fn selectors_are_told_to_the_server() {
    let mut scope = scopes(
        api::WatchedResource {
            label_selector: Some("app in (a,b),!old".to_owned()),
            field_selector: Some("metadata.name!=x,spec.list[0]=1,spec.class=haproxy".to_owned()),
            ..spec()
        },
        true,
    )
    .remove(0);
    let unknown = ResourceVersion::unknown();
    let asked = "/apis/example.com/v1/things?labelSelector=app%20in%20%28a%2Cb%29%2C%21old\
                 &fieldSelector=metadata.name%21%3Dx";
    assert_eq!(scope.page(&unknown, None, None), format!("{asked}%2Cspec.class%3Dhaproxy"));
    assert!(scope.ask_for_common_fields_only());
    assert_eq!(scope.page(&unknown, None, None), asked, "the store tests the others");
    assert!(!scope.ask_for_common_fields_only());
}

#[test]
fn each_namespace_has_a_list_of_its_own_if_the_kind_has_namespaces() {
    let narrow = || api::WatchedResource { namespaces: ["b", "a", "b"].map(str::to_owned).to_vec(), ..spec() };
    let paths = |scopes: Vec<Scope>| -> Vec<String> {
        scopes.iter().map(|scope| scope.page(&ResourceVersion::unknown(), None, None)).collect()
    };
    let own = ["/apis/example.com/v1/namespaces/a/things", "/apis/example.com/v1/namespaces/b/things"];
    assert_eq!(paths(scopes(narrow(), true)), own);
    assert_eq!(paths(scopes(narrow(), false)), ["/apis/example.com/v1/things"]);
    assert_eq!(paths(scopes(spec(), true)), ["/apis/example.com/v1/things"]);
}
