//! Public keys, of certificates and of private keys. A private key is read only to know its public half, and nothing of
//! it gets into a message.

use pkcs1::RsaPrivateKey;
use pkcs8::PrivateKeyInfoRef;
use sec1::{EcParameters, EcPrivateKey, der::Decode as _};
use x509_parser::{public_key::PublicKey as Parsed, x509::SubjectPublicKeyInfo};

use crate::pem::Block;

const RSA: &str = "1.2.840.113549.1.1.1";
const RSA_PSS: &str = "1.2.840.113549.1.1.10";
const EC: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";
const P256: &str = "1.2.840.10045.3.1.7";
const P384: &str = "1.3.132.0.34";
const P521: &str = "1.3.132.0.35";

/// A public key that can be compared. Integers are without leading zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    P256(p256::PublicKey),
    P384(p384::PublicKey),
    /// Compared by its point as it is written; none where a private key does not state it.
    OtherEc {
        curve: String,
        point: Option<Vec<u8>>,
    },
    Ed25519([u8; 32]),
    /// Not compared.
    Unknown {
        algorithm: String,
    },
}

/// Why a block gives no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    Encrypted,
    Malformed,
    /// The block was reported already.
    Damaged,
}

/// The key that a certificate is for.
pub(crate) fn of_certificate(info: &SubjectPublicKeyInfo<'_>) -> PublicKey {
    let algorithm = info.algorithm.algorithm.to_id_string();
    let unknown = || PublicKey::Unknown { algorithm: algorithm.clone() };
    match (algorithm.as_str(), info.parsed()) {
        (_, Ok(Parsed::RSA(key))) => PublicKey::rsa(key.modulus, key.exponent),
        (EC, _) => {
            let curve = info.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
            curve
                .map_or_else(unknown, |curve| PublicKey::ec(&curve.to_id_string(), Some(&info.subject_public_key.data)))
        }
        (ED25519, _) => info.subject_public_key.data.as_ref().try_into().map_or_else(|_| unknown(), PublicKey::Ed25519),
        _ => unknown(),
    }
}

/// The public half of the private key in a block.
pub(crate) fn of_private(block: &Block) -> Result<PublicKey, NoKey> {
    if block.encrypted || block.label == "ENCRYPTED PRIVATE KEY" {
        return Err(NoKey::Encrypted);
    }
    let der = block.der.as_deref().ok_or(NoKey::Damaged)?;
    match block.label.as_str() {
        "PRIVATE KEY" => {
            let info = PrivateKeyInfoRef::try_from(der).map_err(|_| NoKey::Malformed)?;
            let algorithm = info.algorithm.oid.to_string();
            let key = info.private_key.as_bytes();
            match algorithm.as_str() {
                RSA | RSA_PSS => rsa_private(key),
                EC => {
                    let curve = info.algorithm.parameters_oid().map_err(|_| NoKey::Malformed)?;
                    ec_private(key, Some(&curve.to_string()))
                }
                ED25519 => ed25519_private(key),
                _ => Ok(PublicKey::Unknown { algorithm }),
            }
        }
        "RSA PRIVATE KEY" => rsa_private(der),
        "EC PRIVATE KEY" => ec_private(der, None),
        other => Ok(PublicKey::Unknown { algorithm: other.to_owned() }),
    }
}

fn rsa_private(der: &[u8]) -> Result<PublicKey, NoKey> {
    let key = RsaPrivateKey::<pkcs1::UintRef<'_>>::from_der(der).map_err(|_| NoKey::Malformed)?;
    Ok(PublicKey::rsa(key.modulus.as_bytes(), key.public_exponent.as_bytes()))
}

fn ec_private(der: &[u8], curve: Option<&str>) -> Result<PublicKey, NoKey> {
    let key = EcPrivateKey::from_der(der).map_err(|_| NoKey::Malformed)?;
    let stated = key.parameters.and_then(EcParameters::named_curve).map(|curve| curve.to_string());
    let curve = curve.or(stated.as_deref()).ok_or(NoKey::Malformed)?;
    match curve {
        P256 => {
            let key = p256::SecretKey::from_slice(key.private_key).map_err(|_| NoKey::Malformed)?;
            Ok(PublicKey::P256(key.public_key()))
        }
        P384 => {
            let key = p384::SecretKey::from_slice(key.private_key).map_err(|_| NoKey::Malformed)?;
            Ok(PublicKey::P384(key.public_key()))
        }
        curve => Ok(PublicKey::OtherEc { curve: curve.to_owned(), point: key.public_key.map(<[u8]>::to_vec) }),
    }
}

fn ed25519_private(octets: &[u8]) -> Result<PublicKey, NoKey> {
    // An octet string of 32 bytes inside the octet string.
    let seed: [u8; 32] = octets.strip_prefix(&[4, 32]).and_then(|seed| seed.try_into().ok()).ok_or(NoKey::Malformed)?;
    Ok(PublicKey::Ed25519(ed25519_dalek::SigningKey::from_bytes(&seed).verifying_key().to_bytes()))
}

// === impl PublicKey ===

impl PublicKey {
    fn rsa(modulus: &[u8], exponent: &[u8]) -> Self {
        Self::Rsa { modulus: trimmed(modulus), exponent: trimmed(exponent) }
    }

    fn ec(curve: &str, point: Option<&[u8]>) -> Self {
        let other = || Self::OtherEc { curve: curve.to_owned(), point: point.map(<[u8]>::to_vec) };
        match (curve, point) {
            (P256, Some(point)) => p256::PublicKey::from_sec1_bytes(point).map_or_else(|_| other(), Self::P256),
            (P384, Some(point)) => p384::PublicKey::from_sec1_bytes(point).map_or_else(|_| other(), Self::P384),
            _ => other(),
        }
    }

    /// Whether the two are known to differ.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OtherEc { curve, point: None }, Self::OtherEc { curve: another, .. })
            | (Self::OtherEc { curve: another, .. }, Self::OtherEc { curve, point: None }) => curve != another,
            (Self::Unknown { .. }, _) | (_, Self::Unknown { .. }) => false,
            _ => self != other,
        }
    }

    pub(crate) fn rsa_bits(&self) -> Option<usize> {
        let Self::Rsa { modulus, .. } = self else { return None };
        Some(modulus.first().map_or(0, |first| modulus.len() * 8 - first.leading_zeros() as usize))
    }

    /// What kind it is, for messages.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Rsa { .. } => format!("RSA with {} bits", self.rsa_bits().unwrap_or_default()),
            Self::P256(_) => "EC on P-256".to_owned(),
            Self::P384(_) => "EC on P-384".to_owned(),
            Self::OtherEc { curve, .. } if curve == P521 => "EC on P-521".to_owned(),
            Self::OtherEc { curve, .. } => format!("EC on the curve {curve}"),
            Self::Ed25519(_) => "Ed25519".to_owned(),
            Self::Unknown { algorithm } => format!("of the kind {algorithm}"),
        }
    }
}

fn trimmed(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    bytes[start..].to_vec()
}
