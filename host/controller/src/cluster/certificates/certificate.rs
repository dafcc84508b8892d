//! What a certificate says of itself: read, compared, and proved against an authority.

use std::{collections::BTreeSet, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{KeyPair, PublicKeyData as _};
use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject as _};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage};

/// A certificate and when it is valid, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Certificate {
    der: CertificateDer<'static>,
    pub(super) not_before: u64,
    pub(super) not_after: u64,
}

/// What a certificate is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    Server,
    Client,
}

/// `id-kp-serverAuth` and `id-kp-clientAuth` of RFC 5280, as encoded in a certificate.
const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
/// Of a line in PEM.
const LINE: usize = 64;

// === impl Certificate ===

impl Certificate {
    /// `None` = it is not a certificate.
    pub(super) fn read(der: CertificateDer<'static>) -> Option<Self> {
        let (not_before, not_after) = validity(&EndEntityCert::try_from(&der).ok()?)?;
        Some(Self { der, not_before, not_after })
    }

    /// All in a text of PEM, up to the first that is broken.
    pub(super) fn all_in(pem: &[u8]) -> Vec<Self> {
        CertificateDer::pem_slice_iter(pem).map_while(|der| Self::read(der.ok()?)).collect()
    }

    pub(super) fn pem(&self) -> String {
        let encoded = STANDARD.encode(&self.der);
        let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(LINE));
            pem.extend([line, "\n"]);
            rest = after;
        }
        pem.push_str("-----END CERTIFICATE-----\n");
        pem
    }

    /// Whether the authority vouches for it as one that is made for this. Time plays no part.
    pub(super) fn is_signed_by(&self, authority: &Self, usage: Usage) -> bool {
        let proved = || {
            let anchors = [webpki::anchor_from_trusted_cert(&authority.der).ok()?];
            let own = EndEntityCert::try_from(&self.der).ok()?;
            let then = seconds(self.not_before);
            own.verify_for_usage(ALL_VERIFICATION_ALGS, &anchors, &[], then, usage.required(), None, None)
                .ok()
                .map(drop)
        };
        proved().is_some()
    }

    pub(super) fn belongs_to(&self, key: &KeyPair) -> bool {
        let own = EndEntityCert::try_from(&self.der).map(|own| own.subject_public_key_info());
        own.is_ok_and(|own| *own == *key.subject_public_key_info())
    }

    pub(super) fn names(&self) -> BTreeSet<String> {
        let own = EndEntityCert::try_from(&self.der);
        own.iter().flat_map(|own| own.valid_dns_names()).map(str::to_owned).collect()
    }

    /// From when on it is to be renewed: two thirds of its time, and a little more by the replica's share of the spread.
    pub(super) fn due(&self, share: f64) -> u64 {
        let span = Duration::from_secs(self.not_after.saturating_sub(self.not_before));
        self.not_after - (span / 3).as_secs() + (span / SPREAD).mul_f64(share).as_secs()
    }
}

// === impl Usage ===

impl Usage {
    fn required(self) -> KeyUsage {
        KeyUsage::required(match self {
            Self::Server => SERVER_AUTH,
            Self::Client => CLIENT_AUTH,
        })
    }
}

/// Its end is said by the complaint that it has ended, its beginning by the one that it has not begun: validity is judged
/// before anything else.
fn validity(certificate: &EndEntityCert<'_>) -> Option<(u64, u64)> {
    let judged_at =
        |time| certificate.verify_for_usage(&[], &[], &[], seconds(time), Usage::Server.required(), None, None).err();
    let not_before = match judged_at(0)? {
        webpki::Error::CertNotValidYet { not_before, .. } => not_before.as_secs(),
        _ => 0,
    };
    match judged_at(u64::MAX)? {
        webpki::Error::CertExpired { not_after, .. } => Some((not_before, not_after.as_secs())),
        _ => None,
    }
}

fn seconds(since_1970: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(since_1970))
}

/// Replicas renew within this part of a lifetime, so that one is done before the next begins.
const SPREAD: u32 = 30;
