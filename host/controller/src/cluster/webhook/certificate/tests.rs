#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, sync::Arc};

use super::*;

fn pair() -> (String, String) {
    let params = rcgen::CertificateParams::new(vec!["haptic-webhook.haptic.svc".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn write(folder: &std::path::Path, (certificate, key): &(String, String)) {
    fs::write(folder.join("tls.crt"), certificate).unwrap();
    fs::write(folder.join("tls.key"), key).unwrap();
}

#[tokio::test]
async fn it_is_waited_for_taken_and_not_replaced_by_what_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let health = Health::default();
    health.iteration(1).serving();
    let certificate = WebhookCertificate::new(folder.path().to_owned(), health.clone(), WallClock::fixed(0));
    let mut seen = Seen::default();
    certificate.look(&mut seen).await;
    assert!(certificate.acceptor().is_none());
    let report = health.readyz();
    assert!(!report.ok && report.reason.contains("tls.crt"), "{report:?}");

    write(folder.path(), &pair());
    certificate.look(&mut seen).await;
    let first = certificate.acceptor().unwrap();
    assert!(health.readyz().ok, "{:?}", health.readyz());

    // A key of another certificate, as somebody sees it who reads between two writes.
    fs::write(folder.path().join("tls.key"), pair().1).unwrap();
    certificate.look(&mut seen).await;
    assert!(Arc::ptr_eq(first.config(), certificate.acceptor().unwrap().config()), "the present one stays");
    assert!(seen.complaint.as_ref().unwrap().contains("does not fit"), "{:?}", seen.complaint);
    assert!(health.readyz().ok);

    write(folder.path(), &pair());
    certificate.look(&mut seen).await;
    assert!(!Arc::ptr_eq(first.config(), certificate.acceptor().unwrap().config()), "a renewed one is taken");
}
