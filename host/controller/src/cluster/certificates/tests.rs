#![allow(clippy::unwrap_used, reason = "tests")]

mod contents;
mod timeline;
mod trust;
mod world;

use super::*;

const DAY: u64 = 86_400;

fn lifetimes(certificate: u64, authority: u64) -> Result<Lifetimes, CertificateSettingsError> {
    Lifetimes::new(Duration::from_secs(certificate), Duration::from_secs(authority))
}

fn settings(certificate: u64, authority: u64) -> CertificateSettings {
    CertificateSettings {
        namespace: "edge".into(),
        names: CertificateNames {
            authority_secret: "haptic-authority".to_owned(),
            agent_secret: "haptic-agent".to_owned(),
            controller_secret: "haptic-controller".to_owned(),
            webhook: Some(WebhookCertificate {
                secret: "haptic-webhook".to_owned(),
                service: "haptic-webhook".to_owned(),
                configuration: Some("haptic".to_owned()),
            }),
        },
        lifetimes: lifetimes(certificate, authority).unwrap(),
    }
}

#[test]
fn lifetimes_leave_time_to_renew_and_to_tell() {
    assert_eq!(lifetimes(9, 100), Err(CertificateSettingsError::TooShort));
    assert_eq!(lifetimes(60, 179), Err(CertificateSettingsError::AuthorityTooShort));
    assert_eq!(lifetimes(60, MAX_LIFETIME + 1), Err(CertificateSettingsError::AuthorityTooLong));
    assert_eq!(lifetimes(60, 180).unwrap().distribution(), 5);
    assert_eq!(lifetimes(90 * DAY, 3650 * DAY).unwrap().distribution(), DISTRIBUTION);
}

#[test]
fn one_secret_holds_one_certificate() {
    let mut names = settings(60, 180).names;
    assert_eq!(names.check(), Ok(()));
    names.controller_secret.clone_from(&names.agent_secret);
    assert_eq!(names.check(), Err(CertificateSettingsError::SameSecret("haptic-agent".to_owned())));
}
