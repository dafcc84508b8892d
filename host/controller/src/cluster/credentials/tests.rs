#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::Severity;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::json;

use super::*;
use crate::testing::raw;

/// 2031-12-31T00:00:00Z, the end of every certificate here.
const END: u64 = 1_956_441_600;
const DAY: u64 = 86_400;

struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Ca {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// `tls.crt`, `tls.key` and `ca.crt`.
    fn issue(&self, usage: ExtendedKeyUsagePurpose) -> [String; 3] {
        let mut params = CertificateParams::new(vec!["haptic-controller".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        params.not_after = date_time_ymd(2031, 12, 31);
        let key = KeyPair::generate().unwrap();
        [params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem(), self.pem.clone()]
    }

    fn client(&self) -> [String; 3] {
        self.issue(ExtendedKeyUsagePurpose::ClientAuth)
    }
}

fn secret(version: u32, [certificate, key, ca]: &[String; 3]) -> Arc<RawObject> {
    let encoded = |text: &String| STANDARD.encode(text);
    raw(&json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "namespace": "shop", "name": "credentials", "resourceVersion": version.to_string() },
        "data": { "tls.crt": encoded(certificate), "tls.key": encoded(key), "ca.crt": encoded(ca) },
    }))
}

fn credentials(now: u64) -> AgentCredentials {
    AgentCredentials::new("shop", "credentials", WallClock::fixed(now))
}

#[test]
fn a_renewed_secret_is_swapped_into_the_same_identity() {
    let ca = Ca::new();
    let mut credentials = credentials(0);
    assert!(credentials.identity().is_none());
    let first = ca.client();
    assert_eq!(credentials.update(Some(&secret(1, &first))), CredentialsChange::First);
    let identity = credentials.identity().unwrap();
    assert_eq!(credentials.update(Some(&secret(2, &first))), CredentialsChange::Unchanged, "a label has changed");
    assert_eq!(credentials.update(Some(&secret(3, &ca.client()))), CredentialsChange::Renewed);
    assert!(Arc::ptr_eq(&identity, &credentials.identity().unwrap()));
    assert_eq!(credentials.findings(), []);
    assert_eq!(credentials.not_after().unwrap().as_secs(), END);
}

#[test]
fn what_cannot_be_used_is_named_and_changes_nothing() {
    let ca = Ca::new();
    let good = ca.client();
    let other = ca.client();
    let server = ca.issue(ExtendedKeyUsagePurpose::ServerAuth);
    let with = |index: usize, text: &str| {
        let mut parts = good.clone();
        text.clone_into(&mut parts[index]);
        parts
    };
    let cases = [
        (with(0, "no PEM"), "its `tls.crt` cannot be used: the certificate holds no certificate in PEM"),
        (with(0, ""), "it has no `tls.crt`"),
        (with(1, ""), "it has no `tls.key`"),
        (with(2, ""), "it has no `ca.crt`"),
        (with(1, "no PEM"), "its `tls.key` cannot be used: the key is not complete PEM"),
        (with(1, &other[1]), "its `tls.key` cannot be used: the key does not fit the certificate"),
        (with(2, "no PEM"), "its `ca.crt` cannot be used: the CA holds no certificate in PEM"),
        (server, "its `tls.crt` cannot be used: the certificate is not made for a controller"),
    ];
    for (parts, expected) in cases {
        let mut credentials = credentials(0);
        assert_eq!(credentials.update(Some(&secret(1, &parts))), CredentialsChange::Refused, "{expected}");
        assert!(credentials.identity().is_none());
        assert_eq!(credentials.update(Some(&secret(2, &good))), CredentialsChange::First);
        let identity = credentials.identity().unwrap();
        assert_eq!(credentials.update(Some(&secret(3, &parts))), CredentialsChange::Refused, "{expected}");
        assert!(Arc::ptr_eq(&identity, &credentials.identity().unwrap()));

        let findings = credentials.findings();
        let [finding] = findings.as_slice() else { panic!("{findings:?}") };
        assert_eq!(finding.severity, Severity::Error);
        let text = finding.to_string();
        assert!(text.starts_with(&format!("Secret shop/credentials: {expected}")), "{text}");
        assert!(finding.hint.is_some(), "{text}");
        assert!(!text.contains("PRIVATE KEY") && !text.contains("MII"), "{text}");

        assert_eq!(credentials.update(Some(&secret(4, &good))), CredentialsChange::Unchanged, "it is in use");
        assert_eq!(credentials.findings(), []);
    }
}

#[test]
fn data_that_is_no_base64_is_named() {
    let mut object = secret(1, &Ca::new().client()).value();
    object["data"]["tls.key"] = json!("%%%");
    let mut credentials = credentials(0);
    assert_eq!(credentials.update(Some(&raw(&object))), CredentialsChange::Refused);
    assert!(credentials.findings()[0].message.contains("its `tls.key` is not base64"));
}

#[test]
fn a_secret_that_is_gone_leaves_the_identity() {
    let mut credentials = credentials(0);
    assert_eq!(credentials.update(None), CredentialsChange::Refused);
    assert_eq!(credentials.findings()[0].code, FindingCode::UnresolvedReference);
    credentials.update(Some(&secret(1, &Ca::new().client())));
    assert_eq!(credentials.update(None), CredentialsChange::Refused);
    assert!(credentials.identity().is_some());
    assert!(credentials.findings()[0].to_string().contains("(next step: create it, correct"));
}

#[test]
fn the_end_is_told_a_day_before_and_after_it() {
    let ca = Ca::new();
    let at = |now| {
        let mut credentials = credentials(now);
        credentials.update(Some(&secret(1, &ca.client())));
        credentials.findings()
    };
    assert_eq!(at(END - DAY), []);
    let soon = at(END - DAY + 1);
    assert_eq!(soon[0].severity, Severity::Warning);
    assert_eq!(at(END)[0].severity, Severity::Warning);
    let ended = at(END + 1);
    assert_eq!(ended[0].severity, Severity::Error);
    assert_eq!(
        ended[0].to_string(),
        "Secret shop/credentials: its `tls.crt` ended at 2031-12-31T00:00:00Z, so no agent takes what is deployed \
         (next step: renew `tls.crt` and `tls.key` in the Secret; they are taken without a restart)"
    );
}
