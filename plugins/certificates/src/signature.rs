//! Whether one certificate signed another.

use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use rsa::BoxedUint;
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use x509_parser::x509::AlgorithmIdentifier;

use crate::{certificate::Certificate, key::PublicKey};

/// How a certificate is signed, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rsa(Hash),
    Ecdsa(Hash),
    Ed25519,
    /// With a hash that can be forged.
    Weak(&'static str),
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

/// What a look at the signature gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signed {
    Yes,
    No,
    /// Keys and algorithms of this kind are not checked.
    Unknown,
}

/// Whether `issuer`'s key made the signature of `certificate`.
pub(crate) fn check(certificate: &Certificate<'_>, issuer: &PublicKey) -> Signed {
    let signed = certificate.x509.tbs_certificate.as_ref();
    let signature = certificate.x509.signature_value.data.as_ref();
    match (Algorithm::of(&certificate.x509.signature_algorithm), issuer) {
        (Algorithm::Rsa(hash), PublicKey::Rsa { modulus, exponent }) => {
            // The constructor bounds the sizes, and with them the time.
            let number = BoxedUint::from_be_slice_vartime;
            let Ok(key) = rsa::PublicKey::new(number(modulus), number(exponent)) else { return Signed::Unknown };
            match hash {
                Hash::Sha256 => key.pkcs1v15_verify::<Sha256>(signed, signature),
                Hash::Sha384 => key.pkcs1v15_verify::<Sha384>(signed, signature),
                Hash::Sha512 => key.pkcs1v15_verify::<Sha512>(signed, signature),
            }
            .is_ok()
            .into()
        }
        (Algorithm::Ecdsa(hash), PublicKey::P256(key)) => {
            let key = p256::ecdsa::VerifyingKey::from(key);
            p256::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify_prehash(&hash.of(signed), &signature).is_ok())
                .into()
        }
        (Algorithm::Ecdsa(hash), PublicKey::P384(key)) => {
            let key = p384::ecdsa::VerifyingKey::from(key);
            p384::ecdsa::Signature::from_der(signature)
                .is_ok_and(|signature| key.verify_prehash(&hash.of(signed), &signature).is_ok())
                .into()
        }
        (Algorithm::Ed25519, PublicKey::Ed25519(key)) => {
            let key = ed25519_dalek::VerifyingKey::from_bytes(key);
            let signature = ed25519_dalek::Signature::from_slice(signature);
            let (Ok(key), Ok(signature)) = (key, signature) else { return Signed::No };
            key.verify_strict(signed, &signature).is_ok().into()
        }
        // Signed by a key of another kind than the issuer has.
        (Algorithm::Rsa(_), PublicKey::P256(_) | PublicKey::P384(_) | PublicKey::Ed25519(_))
        | (Algorithm::Ecdsa(_), PublicKey::Rsa { .. } | PublicKey::Ed25519(_))
        | (Algorithm::Ed25519, PublicKey::Rsa { .. } | PublicKey::P256(_) | PublicKey::P384(_)) => Signed::No,
        _ => Signed::Unknown,
    }
}

// === impl Algorithm ===

impl Algorithm {
    pub(crate) fn of(identifier: &AlgorithmIdentifier<'_>) -> Self {
        match identifier.algorithm.to_id_string().as_str() {
            "1.2.840.113549.1.1.11" => Self::Rsa(Hash::Sha256),
            "1.2.840.113549.1.1.12" => Self::Rsa(Hash::Sha384),
            "1.2.840.113549.1.1.13" => Self::Rsa(Hash::Sha512),
            "1.2.840.10045.4.3.2" => Self::Ecdsa(Hash::Sha256),
            "1.2.840.10045.4.3.3" => Self::Ecdsa(Hash::Sha384),
            "1.2.840.10045.4.3.4" => Self::Ecdsa(Hash::Sha512),
            "1.3.101.112" => Self::Ed25519,
            "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" | "1.2.840.10040.4.3" => Self::Weak("SHA-1"),
            "1.2.840.113549.1.1.4" => Self::Weak("MD5"),
            "1.2.840.113549.1.1.2" => Self::Weak("MD2"),
            _ => Self::Other,
        }
    }
}

// === impl Hash ===

impl Hash {
    fn of(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha384 => Sha384::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }
}

// === impl Signed ===

impl From<bool> for Signed {
    fn from(verified: bool) -> Self {
        if verified { Self::Yes } else { Self::No }
    }
}
