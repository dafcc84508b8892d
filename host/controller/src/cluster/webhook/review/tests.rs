#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::{FindingCode, ObjectRef};
use serde_json::json;

use super::*;

fn finding(number: usize, message: &str) -> Finding {
    Finding::error(FindingCode::TemplateFailed, format!("{number}: {message}"))
        .about(Some(ObjectRef::new("Ingress", "shop", "web")))
        .at("snippet ingress", 7, 0)
        .hint("correct Ingress shop/web")
}

fn shown(answer: &Answer) -> Value {
    serde_json::to_value(answer).unwrap()
}

#[test]
fn a_denial_names_object_template_line_and_next_step() {
    let answer = shown(&Answer::denied("u-1".to_owned(), &[finding(1, "wrong\nword")]));
    assert_eq!(
        answer,
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": { "uid": "u-1", "allowed": false, "status": { "code": 422, "reason": "Invalid", "message":
                "HAProxy's configuration would break: Ingress shop/web: snippet ingress:7: 1: wrong word \
                 (next step: correct Ingress shop/web)" } },
        })
    );
}

#[test]
fn causes_and_warnings_are_bounded_in_number_and_length() {
    let many: Vec<_> = (0..25).map(|number| finding(number, &"long ".repeat(1000))).collect();
    let denied = shown(&Answer::denied(String::new(), &many));
    let message = denied["response"]["status"]["message"].as_str().unwrap();
    assert!(message.ends_with("(next step: correct Ingress shop/web); and 20 more"), "{message}");
    assert!(message.chars().count() < MOST_CAUSES * (CAUSE_LENGTH + 10) + 100);
    let allowed = shown(&Answer::allowed(String::new(), &many));
    let warnings = allowed["response"]["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), MOST_WARNINGS + 1);
    assert_eq!(warnings[MOST_WARNINGS], "15 more warnings are not shown");
    assert!(warnings.iter().all(|warning| warning.as_str().unwrap().chars().count() <= WARNING_LENGTH));
    // What an API server passes on of all warnings together.
    assert!(warnings.iter().map(|warning| warning.as_str().unwrap().len()).sum::<usize>() < 4_096);
    let eleven = shown(&Answer::allowed(String::new(), &many[..MOST_WARNINGS]));
    assert_eq!(eleven["response"]["warnings"].as_array().unwrap().len(), MOST_WARNINGS);
}

#[test]
fn an_answer_without_warnings_says_nothing_of_them() {
    let answer = shown(&Answer::allowed("u".to_owned(), &[]));
    assert_eq!(answer["response"], json!({ "uid": "u", "allowed": true }));
}

#[test]
fn what_is_no_review_of_version_1_is_told_so() {
    let parse = |value: &Value| Review::parse(value.to_string().as_bytes()).err().unwrap().to_string();
    let beta = json!({ "apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview" });
    assert!(parse(&beta).contains("list `v1`"));
    let empty = json!({ "apiVersion": API_VERSION, "kind": KIND });
    assert!(parse(&empty).contains("no request"));
    assert!(Review::parse(b"{").err().unwrap().to_string().contains("no AdmissionReview"));
}
