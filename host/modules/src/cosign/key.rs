//! Public keys as `cosign generate-key-pair` and `openssl` write them.

use std::fmt;

use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, RSA_PKCS1_2048_8192_SHA256,
    UnparsedPublicKey, VerificationAlgorithm,
};
use rustls_pki_types::{SubjectPublicKeyInfoDer, pem::PemObject as _};
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};
use thiserror::Error;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// RSA keys that can be used, in bytes of the modulus' encoding: below 2048 bits no signature is taken.
const MIN_RSA_KEY_BYTES: usize = 256;

/// A key that verifies: ECDSA on P-256 (what cosign makes) or P-384, or RSA of 2048 bits and more. Not Ed25519: cosign
/// signs with its prehashed form, which ring does not verify.
#[derive(Clone)]
pub struct PublicKey {
    kind: Kind,
    /// As ring takes it: a point, or an `RSAPublicKey`.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    P256,
    P384,
    Rsa,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum InvalidKey {
    #[error("it is a private key; put the public one there, and make a new pair if others could read it")]
    Private,
    #[error("it is not a public key in PEM, which begins with -----BEGIN PUBLIC KEY-----")]
    NotPem,
    #[error("it is more than one public key in PEM")]
    Several,
    #[error("it is a key of a kind that is not verified: use ECDSA P-256 or P-384, or RSA from 2048 bits")]
    Kind,
}

// === impl PublicKey ===

impl PublicKey {
    pub fn from_pem(pem: &str) -> Result<Self, InvalidKey> {
        if pem.contains("PRIVATE KEY-----") {
            return Err(InvalidKey::Private);
        }
        if pem.matches("-----BEGIN ").count() > 1 {
            return Err(InvalidKey::Several);
        }
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).map_err(|_| InvalidKey::NotPem)?;
        let info = SubjectPublicKeyInfoRef::try_from(der.as_ref()).map_err(|_| InvalidKey::NotPem)?;
        let curve = || info.algorithm.parameters_oid().ok();
        let kind = match info.algorithm.oid {
            EC if curve() == Some(P256) => Kind::P256,
            EC if curve() == Some(P384) => Kind::P384,
            RSA => Kind::Rsa,
            _ => return Err(InvalidKey::Kind),
        };
        let bytes = info.subject_public_key.as_bytes().ok_or(InvalidKey::NotPem)?.to_vec();
        let fits = match kind {
            Kind::P256 => bytes.len() == 65,
            Kind::P384 => bytes.len() == 97,
            Kind::Rsa => bytes.len() > MIN_RSA_KEY_BYTES,
        };
        if fits { Ok(Self { kind, bytes }) } else { Err(InvalidKey::Kind) }
    }

    /// Whether this key signed `message`.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithms: &[&'static dyn VerificationAlgorithm] = match self.kind {
            Kind::P256 => &[&ECDSA_P256_SHA256_ASN1],
            // cosign hashes with SHA-256 for its older signatures, whatever the key.
            Kind::P384 => &[&ECDSA_P384_SHA384_ASN1, &ECDSA_P384_SHA256_ASN1],
            Kind::Rsa => &[&RSA_PKCS1_2048_8192_SHA256],
        };
        algorithms
            .iter()
            .any(|algorithm| UnparsedPublicKey::new(*algorithm, &self.bytes).verify(message, signature).is_ok())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?})", self.kind)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData as _};
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
    };

    use super::*;

    /// 2048 bits, made and used with openssl.
    const RSA_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAs+lJuO3MkXJhYtej3x5b\n\
        2CND7f6tFHubd5EY88B63KTpNZvK2p22ObdJY+Ihq1i8IJNiC4PUKkV3nZXlPsmM\n\
        aIr4p3LJC91rPetiGPFM/MVgTVLitGOfK/MoZDz/Fs+orAgFuQgX8Ff1KMPXZEXY\n\
        /eWklP3FZCWwQ/T5PaZWEyES+fu0/Sm9WGDiWjRYWbyAP1FQvEO5pQQyz1hcUYwX\n\
        +DeVFYNqaPrr12YOvJ/riZlglncyvmPu3/0tMWeNrE1OtsSlbY1mWQ5r/QTUHh7j\n\
        wVO80abyHWnNMeDapc20WhXvij91Wiznl19A25Ji9vbdm+8nPAboJ3wAVpGEFezM\n\
        QQIDAQAB\n\
        -----END PUBLIC KEY-----\n";
    const RSA_SIGNATURE_OF_WORDS: &str = "\
        AQYm2UxuRyMMRDi7BvkbgDoUfmSOXe1ojSxGtGPHXi9Tn+0xTbrJjiwnivYOFVVdqVwXu23Gq/6qBS1mdTmXR9N39XBUoncwaUhe\
        2fG4ASPYO6LVLtmSzpdKViw7slfCOjbDSi7pRmGhA/T3860a+Cdb6/5ShkPaZ9v92z3o3zq40d1AcRAUc3lnhZMfNsZ94fnY53s7\
        JXvlwnr/o+zdXgxon8SCMZXD7camIcBJE7aGAvMeycaO0trMpalwpP4rKQqqAngO2LhP5dj5Buy4eX9Vfnmu7vz/GtL8E8uo+jCz\
        1s+PMLMi5PfmNbgPEJAGpR0s+DdKNZi3rWBeJQ8KDQ==";
    /// 1024 bits.
    const SHORT_RSA_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDc/hZ7TCCYmBsLF+iDd8JAwFP4\n\
        imb/+D9EDSSAzDF/cNsunqY3v+coGdtdkR9JNWjWeFlVIrq3GShRHphabu2mIqrE\n\
        jrt4/ISDasaRXoq7KtFnlEIbbjay62wqBpOKS7RHCnEXeT08HsC2aT4eVLTYRb8D\n\
        fk04tk7oc+4/Jm3DhQIDAQAB\n\
        -----END PUBLIC KEY-----\n";

    fn pem(pair: &KeyPair) -> String {
        let der = BASE64_STANDARD.encode(pair.subject_public_key_info());
        format!("-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n")
    }

    #[test]
    fn verifies_what_the_key_signed_and_nothing_else() {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let random = SystemRandom::new();
        let signer = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pair.serialize_der(), &random).unwrap();
        let signature = signer.sign(&random, b"words").unwrap();
        let key = PublicKey::from_pem(&pem(&pair)).unwrap();
        assert!(key.verifies(b"words", signature.as_ref()));
        assert!(!key.verifies(b"other words", signature.as_ref()));
        let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        assert!(!PublicKey::from_pem(&pem(&other)).unwrap().verifies(b"words", signature.as_ref()));

        let key = PublicKey::from_pem(RSA_KEY).unwrap();
        let signature = BASE64_STANDARD.decode(RSA_SIGNATURE_OF_WORDS).unwrap();
        assert!(key.verifies(b"words", &signature));
        assert!(!key.verifies(b"other words", &signature));
        assert!(PublicKey::from_pem(&pem(&KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap())).is_ok());
    }

    #[test]
    fn refuses_what_is_no_public_key() {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let good = pem(&pair);
        assert_eq!(PublicKey::from_pem(&pair.serialize_pem()).unwrap_err(), InvalidKey::Private);
        assert_eq!(PublicKey::from_pem(&format!("{good}{good}")).unwrap_err(), InvalidKey::Several);
        assert_eq!(PublicKey::from_pem(SHORT_RSA_KEY).unwrap_err(), InvalidKey::Kind);
        let edwards = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        assert_eq!(PublicKey::from_pem(&pem(&edwards)).unwrap_err(), InvalidKey::Kind);
        for text in ["", "ssh-ed25519 AAAA", &good[..60], &good.replace('M', "N")] {
            assert!(PublicKey::from_pem(text).is_err(), "{text}");
        }
    }
}
