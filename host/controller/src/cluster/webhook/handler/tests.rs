#![allow(clippy::unwrap_used, reason = "tests")]

use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::json;

use super::*;

fn handler() -> (Handler, Registry) {
    let mut registry = Registry::default();
    let metrics = WebhookMetrics::register(&mut registry);
    // Nobody serves: the sender is gone, and nobody ever will.
    let (_, serving) = watch::channel(None);
    (Handler::new(Desk::new(metrics.clone()), serving, metrics), registry)
}

async fn ask(handler: &Handler, body: &str) -> (StatusCode, String) {
    let response = handler.answer(Body::from(body.to_owned()), Duration::from_secs(9)).await;
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 16).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn the_time_of_an_api_server_is_read_as_go_writes_it() {
    assert_eq!(seconds("10s"), Some(Duration::from_secs(10)));
    assert_eq!(seconds("1m30s"), Some(Duration::from_secs(90)));
    assert_eq!(seconds("0.5s"), Some(Duration::from_millis(500)));
    for text in ["", "ten", "10", "-1s", "1h"] {
        assert_eq!(seconds(text), None, "{text}");
    }
}

#[tokio::test]
async fn without_an_iteration_there_is_no_verdict_but_a_reason() {
    let (handler, registry) = handler();
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "CREATE", "name": "x",
            "kind": { "group": "", "version": "v1", "kind": "Service" },
            "resource": { "group": "", "version": "v1", "resource": "services" },
        },
    });
    let (status, text) = ask(&handler, &review.to_string()).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text.contains("no configuration serves") && text.contains("try again"), "{text}");
    let (status, text) = ask(&handler, "nonsense").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.contains("no AdmissionReview"), "{text}");
    let (status, text) = ask(&handler, &" ".repeat(LARGEST_REVIEW + 1)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.contains("more than"), "{text}");
    let mut metrics = String::new();
    encode(&mut metrics, &registry).unwrap();
    for line in [
        r#"haptic_webhook_requests_total{gvk="unregistered",result="error"} 1"#,
        r#"haptic_webhook_requests_total{gvk="unregistered",result="malformed"} 2"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in:\n{metrics}");
    }
}
