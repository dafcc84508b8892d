//! What real cosign writes is verified, in both of its formats; anything changed, missing or another's is not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use haptic_e2e::{Cosign, Doors, PASSWORD, SignatureFormat, USER, docker_config};
use haptic_model::Digest;
use haptic_modules::{ComponentNames, Credentials, DockerConfig, Reason, Source, Wanted, push};
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};
use serde_json::Value;

use crate::parts::{MODULE, Parts, caching, fetcher, refused, transport, wanted};

const FORMATS: [SignatureFormat; 2] = [SignatureFormat::Tag, SignatureFormat::Bundle];

fn with_key(wanted: &Wanted, cosign: &Cosign) -> Wanted {
    Wanted { cosign_key: Some(cosign.public_key().unwrap()), ..wanted.clone() }
}

/// The files of all blobs of the registry that hold `words`.
fn blobs_with(registry: &Path, words: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![registry.join("data/docker/registry/v2/blobs/sha256")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(words) {
                found.push(path);
            }
        }
    }
    found
}

/// What a kept file of signatures is believed for: base64 at a path, in it JSON and base64 again.
fn parts_of(format: SignatureFormat) -> &'static [&'static [&'static str]] {
    match format {
        SignatureFormat::Tag => {
            &[&["/manifest"], &["/evidence/0/simpleSigning/payload"], &["/evidence/0/simpleSigning/signature"]]
        }
        SignatureFormat::Bundle => &[
            &["/manifest"],
            &["/evidence/0/bundle/json", "/dsseEnvelope/payload"],
            &["/evidence/0/bundle/json", "/dsseEnvelope/signatures/0/sig"],
        ],
    }
}

fn flip_within(document: &mut Value, paths: &[&str], place: usize) {
    let value = document.pointer_mut(paths[0]).unwrap();
    if paths.len() == 1 {
        return flip_base64(value, place);
    }
    let mut inner: Value = serde_json::from_slice(&BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
    flip_within(&mut inner, &paths[1..], place);
    *value = BASE64_STANDARD.encode(inner.to_string()).into();
}

/// Flips a bit of what the base64 stands for: of its first byte, of one in the middle or of its last one.
fn flip_base64(text: &mut Value, place: usize) {
    let mut bytes = BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap();
    let place = (bytes.len() - 1) * place / 2;
    bytes[place] ^= 1;
    *text = BASE64_STANDARD.encode(bytes).into();
}

#[tokio::test]
async fn an_image_that_the_key_signed_is_taken() {
    let parts = Parts::start(Doors::Open).await;
    let cosign = Cosign::with_new_key().unwrap();
    for (format, name) in FORMATS.into_iter().zip(["acme/tag:1", "acme/bundle:1"]) {
        let pushed = parts.push(name, MODULE, None).await;
        let signed = with_key(&parts.image(name), &cosign);
        let error = refused(&fetcher(), &signed, Reason::SignatureMissing).await;
        assert!(
            error.next_step.contains(&format!("cosign sign --key cosign.key {}", pushed.image)),
            "{}",
            error.next_step
        );

        cosign.sign(&pushed.image.to_string(), format).unwrap();
        assert_eq!(fetcher().fetch(&signed).await.unwrap(), MODULE, "{format:?}");

        let other = Cosign::with_new_key().unwrap();
        let error = refused(&fetcher(), &with_key(&signed, &other), Reason::SignatureInvalid).await;
        assert!(error.to_string().contains("another key"), "{error}");
    }
}

#[tokio::test]
async fn a_key_on_another_curve_verifies_too() {
    let parts = Parts::start(Doors::Open).await;
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let cosign = Cosign::with_key(&pair.serialize_pem()).unwrap();
    for (format, name) in FORMATS.into_iter().zip(["acme/tag:1", "acme/bundle:1"]) {
        let pushed = parts.push(name, MODULE, None).await;
        cosign.sign(&pushed.image.to_string(), format).unwrap();
        assert_eq!(fetcher().fetch(&with_key(&parts.image(name), &cosign)).await.unwrap(), MODULE, "{format:?}");
    }
}

#[tokio::test]
async fn a_signature_of_another_image_counts_for_nothing() {
    let parts = Parts::start(Doors::Open).await;
    let cosign = Cosign::with_new_key().unwrap();
    for format in FORMATS {
        let other = parts.push("acme/other:1", b"\0asm another module", None).await;
        cosign.sign(&other.image.to_string(), format).unwrap();
    }
    let pushed = parts.push("acme/other:2", MODULE, None).await;
    // The signatures of the other image, under the names that those of this one would have.
    let links = parts.folder.path().join("data/docker/registry/v2/repositories/acme/other/_manifests/tags");
    let mut moved = 0;
    for entry in fs::read_dir(&links).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let suffix = name.strip_prefix("sha256-").map(|rest| rest[64..].to_owned());
        if let Some(suffix) = suffix {
            fs::rename(&path, links.join(format!("sha256-{}{suffix}", pushed.manifest))).unwrap();
            moved += 1;
        }
    }
    assert_eq!(moved, 2, "a tag of each format");
    let error = refused(&fetcher(), &with_key(&parts.image("acme/other:2"), &cosign), Reason::SignatureInvalid).await;
    assert!(error.to_string().contains("another image"), "{error}");
}

#[tokio::test]
async fn an_attestation_is_no_signature() {
    let parts = Parts::start(Doors::Open).await;
    let cosign = Cosign::with_new_key().unwrap();
    let pushed = parts.push("acme/attested:1", MODULE, None).await;
    cosign.attest(&pushed.image.to_string()).unwrap();
    let error =
        refused(&fetcher(), &with_key(&parts.image("acme/attested:1"), &cosign), Reason::SignatureInvalid).await;
    assert!(error.to_string().contains("https://example.com/scan"), "{error}");
}

#[tokio::test]
async fn signatures_in_a_private_registry_are_read_with_the_pull_secret() {
    let parts = Parts::start(Doors::Private).await;
    let cosign = Cosign::with_new_key().unwrap().signed_in(parts.address);
    let credentials = Credentials::new(USER, PASSWORD);
    let pull_secret = DockerConfig::parse(docker_config(parts.address, PASSWORD).as_bytes()).unwrap();
    for (format, name) in FORMATS.into_iter().zip(["acme/tag:1", "acme/bundle:1"]) {
        let pushed = parts.push(name, MODULE, Some(&credentials)).await;
        cosign.sign(&pushed.image.to_string(), format).unwrap();
        let source = Source::Oci { image: parts.folder.image(name), pull_secret: Some(pull_secret.clone()) };
        assert_eq!(fetcher().fetch(&with_key(&wanted(source), &cosign)).await.unwrap(), MODULE);
    }
}

#[tokio::test]
async fn a_changed_payload_or_bundle_is_found_out() {
    for (format, words) in FORMATS.into_iter().zip(["cosign container image signature", "dsseEnvelope"]) {
        let parts = Parts::start(Doors::Open).await;
        let cosign = Cosign::with_new_key().unwrap();
        let pushed = parts.push("acme/guard:1", MODULE, None).await;
        cosign.sign(&pushed.image.to_string(), format).unwrap();
        let blobs = blobs_with(parts.folder.path(), words);
        assert_eq!(blobs.len(), 1, "{format:?}");
        let mut bytes = fs::read(&blobs[0]).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&blobs[0], bytes).unwrap();
        // The registry serves other bytes than it says: that is found before any signature is looked at.
        refused(&fetcher(), &with_key(&parts.image("acme/guard:1"), &cosign), Reason::DigestMismatch).await;
    }
}

#[tokio::test]
async fn kept_signatures_are_verified_on_every_use() {
    for format in FORMATS {
        let mut parts = Parts::start(Doors::Open).await;
        let cosign = Cosign::with_new_key().unwrap();
        let pushed = parts.push("acme/guard:1", MODULE, None).await;
        cosign.sign(&pushed.image.to_string(), format).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let signed = with_key(&parts.image("acme/guard:1"), &cosign);
        let fetcher = caching(folder.path());
        fetcher.fetch(&signed).await.unwrap();
        parts.registry = None;
        assert_eq!(fetcher.open(&signed).unwrap(), MODULE, "what was kept proves itself without the registry");
        let other = Cosign::with_new_key().unwrap();
        assert_eq!(fetcher.open(&with_key(&signed, &other)), None, "another key takes no kept signature");

        let kept = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let kept: Vec<_> = kept.filter(|path| path.to_string_lossy().ends_with(".signatures.json")).collect();
        let [kept] = kept.as_slice() else { panic!("one file of signatures: {kept:?}") };
        let good: Value = serde_json::from_slice(&fs::read(kept).unwrap()).unwrap();
        for what in parts_of(format) {
            for place in [0, 1, 2] {
                let mut bad = good.clone();
                flip_within(&mut bad, what, place);
                assert_ne!(bad, good, "{what:?}");
                fs::write(kept, bad.to_string()).unwrap();
                assert_eq!(fetcher.open(&signed), None, "{what:?} at place {place}");
            }
        }
        fs::write(kept, good.to_string()).unwrap();
        assert_eq!(fetcher.open(&signed).unwrap(), MODULE, "the changes alone were the reason");
        fs::remove_file(kept).unwrap();
        assert_eq!(fetcher.open(&signed), None, "without its signature a kept module is none");
        assert_eq!(
            fetcher.open(&parts.image("acme/guard:1")).unwrap(),
            MODULE,
            "who asks for no key gets it by its pin"
        );
        refused(&fetcher, &signed, Reason::Unreachable).await;
    }
}

#[tokio::test]
async fn a_changed_signature_in_the_registry_is_refused() {
    let parts = Parts::start(Doors::Open).await;
    let cosign = Cosign::with_new_key().unwrap();
    let pushed = parts.push("acme/guard:1", MODULE, None).await;
    cosign.sign(&pushed.image.to_string(), SignatureFormat::Tag).unwrap();
    let tag = format!("sha256-{}.sig", pushed.manifest);
    let (good, mut bad) = (parts.manifest_at("acme/guard", &tag), parts.manifest_at("acme/guard", &tag));
    let annotation = &mut bad["layers"][0]["annotations"]["dev.cosignproject.cosign/signature"];
    flip_base64(annotation, 1);
    let signed = with_key(&parts.image("acme/guard:1"), &cosign);
    parts.put_manifest("acme/guard", &tag, &bad);
    refused(&fetcher(), &signed, Reason::SignatureInvalid).await;
    parts.put_manifest("acme/guard", &tag, &good);
    assert_eq!(fetcher().fetch(&signed).await.unwrap(), MODULE, "the change alone was the reason");
}

/// What is done to a file of the registry.
type Damage = fn(&Path);

#[tokio::test]
async fn evidence_that_is_missing_or_too_large_hides_no_signature() {
    let gone: Damage = |path| fs::remove_file(path).unwrap();
    let large: Damage = |path| fs::write(path, vec![b' '; 5 << 20]).unwrap();
    for (good, words, damage) in [
        (SignatureFormat::Tag, "dsseEnvelope", gone),
        (SignatureFormat::Tag, "dsseEnvelope", large),
        (SignatureFormat::Bundle, "dsseEnvelope", gone),
        (SignatureFormat::Bundle, "dsseEnvelope", large),
        // The manifest of the bundle.
        (SignatureFormat::Tag, "\"subject\"", gone),
        (SignatureFormat::Bundle, "\"subject\"", gone),
    ] {
        let parts = Parts::start(Doors::Open).await;
        let (cosign, other) = (Cosign::with_new_key().unwrap(), Cosign::with_new_key().unwrap());
        let pushed = parts.push("acme/guard:1", MODULE, None).await;
        other.sign(&pushed.image.to_string(), SignatureFormat::Bundle).unwrap();
        let damaged = blobs_with(parts.folder.path(), words);
        assert_eq!(damaged.len(), 1, "{words}");
        cosign.sign(&pushed.image.to_string(), good).unwrap();
        damage(&damaged[0]);
        let signed = with_key(&parts.image("acme/guard:1"), &cosign);
        assert_eq!(fetcher().fetch(&signed).await.unwrap(), MODULE, "{good:?} {words}");
    }
}

#[tokio::test]
async fn a_damaged_older_signature_hides_no_bundle() {
    let parts = Parts::start(Doors::Open).await;
    let cosign = Cosign::with_new_key().unwrap();
    let pushed = parts.push("acme/guard:1", MODULE, None).await;
    for format in FORMATS {
        cosign.sign(&pushed.image.to_string(), format).unwrap();
    }
    let payloads = blobs_with(parts.folder.path(), "cosign container image signature");
    let [payload] = payloads.as_slice() else { panic!("one payload: {payloads:?}") };
    fs::remove_file(payload).unwrap();
    assert_eq!(fetcher().fetch(&with_key(&parts.image("acme/guard:1"), &cosign)).await.unwrap(), MODULE);
}

#[tokio::test]
async fn many_referrers_hide_no_signature() {
    for format in FORMATS {
        let parts = Parts::start(Doors::Open).await;
        let (cosign, other) = (Cosign::with_new_key().unwrap(), Cosign::with_new_key().unwrap());
        let pushed = parts.push("acme/guard:1", MODULE, None).await;
        let tag = format!("sha256-{}", pushed.manifest);
        let signer = if format == SignatureFormat::Bundle { &cosign } else { &other };
        signer.sign(&pushed.image.to_string(), SignatureFormat::Bundle).unwrap();
        let mut index = parts.manifest_at("acme/guard", &tag);
        let mut crowd = vec![index["manifests"][0].clone(); 100];
        if format == SignatureFormat::Bundle {
            // Of another type, and before it.
            for referrer in &mut crowd {
                referrer["artifactType"] = "application/spdx+json".into();
            }
            crowd.push(index["manifests"][0].clone());
        } else {
            // More bundles than are looked at, of another key.
            cosign.sign(&pushed.image.to_string(), SignatureFormat::Tag).unwrap();
        }
        index["manifests"] = crowd.into();
        parts.put_manifest("acme/guard", &tag, &index);
        let signed = with_key(&parts.image("acme/guard:1"), &cosign);
        assert_eq!(fetcher().fetch(&signed).await.unwrap(), MODULE, "{format:?}");
    }
}

#[tokio::test]
async fn unusable_keys_are_named_without_a_request() {
    let parts = Parts::stopped(Doors::Open);
    let keys = ["", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "-----BEGIN PRIVATE KEY-----\n"];
    for key in keys {
        let wanted = Wanted { cosign_key: Some(key.to_owned()), ..parts.image("acme/guard:1") };
        refused(&fetcher(), &wanted, Reason::InvalidKey).await;
    }
}

#[tokio::test]
async fn a_signed_tag_that_moved_to_another_module_is_refused() {
    let parts = Parts::start(Doors::Open).await;
    let cosign = Cosign::with_new_key().unwrap();
    let pushed = parts.push("acme/guard:1", MODULE, None).await;
    cosign.sign(&pushed.image.to_string(), SignatureFormat::Bundle).unwrap();
    let image = parts.folder.image("acme/guard:1").parse().unwrap();
    let moved = Bytes::from_static(b"\0asm moved");
    push(&transport(), &image, moved.clone(), &ComponentNames::default(), None).await.unwrap();
    let signed = with_key(&parts.image("acme/guard:1"), &cosign);
    refused(&fetcher(), &signed, Reason::DigestMismatch).await;
    let repinned = Wanted { pin: Some(Digest::of(&moved)), ..signed };
    refused(&fetcher(), &repinned, Reason::SignatureMissing).await;
}
