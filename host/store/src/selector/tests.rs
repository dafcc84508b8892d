#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;

fn labelled(selector: &str) -> bool {
    let object = json!({ "metadata": { "labels": { "app": "shop", "example.com/tier": "web" } } });
    selector.parse::<LabelSelector>().unwrap().matches(&object)
}

#[test]
fn label_selectors_are_equality_and_set_based() {
    for selector in [
        "",
        "app=shop",
        "app==shop",
        "app = shop",
        "app!=x",
        "app",
        "!nothing",
        "app in (shop, x)",
        "app notin (x,y)",
        "missing notin (x)",
        "missing!=x",
        "app=shop,example.com/tier in (web,api)",
        "app in (shop),!nothing",
    ] {
        assert!(labelled(selector), "{selector}");
    }
    for selector in ["app=x", "app!=shop", "!app", "nothing", "app in (x)", "app notin (shop)", "app=shop,nothing"] {
        assert!(!labelled(selector), "{selector}");
    }
}

#[test]
fn a_selector_that_is_not_understood_is_an_error_and_never_wider() {
    for selector in ["app in shop", "app in (shop", "app > 3", "=x", "app=a b", ",", "a,,b", "app=a/b", "a/b/c=d", "!"]
    {
        assert!(selector.parse::<LabelSelector>().is_err(), "{selector}");
    }
    for selector in ["spec.a", "=x", "spec..a=x", ","] {
        assert!(selector.parse::<FieldSelector>().is_err(), "{selector}");
    }
}

#[test]
fn field_selectors_compare_values_as_text() {
    let object = json!({ "spec": { "ingressClassName": "haproxy", "n": 3, "flag": true } });
    let matches = |selector: &str| selector.parse::<FieldSelector>().unwrap().matches(&object);
    assert!(matches("spec.ingressClassName=haproxy"));
    assert!(matches("spec.ingressClassName==haproxy,spec.n=3,spec.flag=true"));
    assert!(matches("spec.ingressClassName!=nginx"));
    assert!(matches("spec.missing!=x"));
    assert!(!matches("spec.ingressClassName=nginx"));
    assert!(!matches("spec.ingressClassName!=haproxy"));
    assert!(!matches("spec.missing=x"));
}

#[test]
fn a_selector_is_told_to_the_server_in_its_own_notation() {
    let told = |selector: &str| selector.parse::<LabelSelector>().unwrap().to_string();
    assert_eq!(told(""), "");
    assert_eq!(told("app=shop,!x, y"), "app in (shop),!x,y");
    assert_eq!(told("app != shop,z notin (a, b)"), "app notin (shop),z notin (a,b)");
    let again: LabelSelector = told("a,b in (c,d),!e").parse().unwrap();
    assert_eq!(again, "a,b in (c,d),!e".parse().unwrap(), "what is told reads as what was written");
    let fields: FieldSelector =
        "$.metadata.name=a,spec.x!=b,spec.list[0]=c,metadata.labels['a.b/c']=d".parse().unwrap();
    let told: Vec<_> = fields.server_requirements().collect();
    let expected = [("metadata.name", "metadata.name=a"), ("spec.x", "spec.x!=b")];
    assert_eq!(told, expected.map(|(path, text)| (path.to_owned(), text.to_owned())), "no lists, no dots in names");
}
