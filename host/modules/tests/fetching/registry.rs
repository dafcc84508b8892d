//! A real registry: push, pull by tag and digest, passwords, limits.

use bytes::Bytes;
use haptic_e2e::{Doors, PASSWORD, USER, docker_config};
use haptic_model::Digest;
use haptic_modules::{ComponentNames, Credentials, DockerConfig, Fetcher, Reason, Source, Transport, push};

use crate::parts::{MODULE, Parts, fetcher, limits, oci, refused, transport, wanted};

#[tokio::test]
async fn what_was_pushed_is_pulled_by_tag_and_by_digest() {
    let parts = Parts::start(Doors::Open).await;
    let pushed = parts.push("acme/guard:1", MODULE, None).await;
    assert_eq!(pushed.module, Digest::of(MODULE));
    let fetcher = fetcher();
    assert_eq!(fetcher.fetch(&parts.image("acme/guard:1")).await.unwrap(), MODULE);
    assert_eq!(fetcher.fetch(&oci(&pushed.image.to_string())).await.unwrap(), MODULE);
    let again = parts.push("acme/guard:2", MODULE, None).await;
    assert_eq!(again.manifest, pushed.manifest, "the same module is the same manifest");
}

#[tokio::test]
async fn nothing_is_asked_for_without_a_pin() {
    // Nobody listens there: an attempt would be `Unreachable`.
    let parts = Parts::stopped(Doors::Open);
    let unpinned = haptic_modules::Wanted { pin: None, ..parts.image("acme/guard:1") };
    let error = refused(&fetcher(), &unpinned, Reason::NotPinned).await;
    assert!(error.next_step.contains("sha256"), "{}", error.next_step);
    refused(&fetcher(), &parts.image("acme/guard:1"), Reason::Unreachable).await;
}

#[tokio::test]
async fn another_module_than_the_pinned_one_is_refused() {
    let parts = Parts::start(Doors::Open).await;
    parts.push("acme/guard:1", b"\0asm another", None).await;
    let error = refused(&fetcher(), &parts.image("acme/guard:1"), Reason::DigestMismatch).await;
    assert!(error.to_string().contains(&Digest::of(MODULE).to_string()), "{error}");
}

#[tokio::test]
async fn a_registry_that_serves_other_bytes_is_found_out() {
    let parts = Parts::start(Doors::Open).await;
    parts.push("acme/guard:1", MODULE, None).await;
    let digest = Digest::of(MODULE).to_string();
    let blob = parts.folder.path().join(format!("data/docker/registry/v2/blobs/sha256/{}/{digest}/data", &digest[..2]));
    let mut bytes = std::fs::read(&blob).unwrap();
    bytes[6] ^= 1;
    std::fs::write(&blob, bytes).unwrap();
    refused(&fetcher(), &parts.image("acme/guard:1"), Reason::DigestMismatch).await;
}

#[tokio::test]
async fn missing_tags_and_repositories_are_named() {
    let parts = Parts::start(Doors::Open).await;
    parts.push("acme/guard:1", MODULE, None).await;
    for name in ["acme/guard:2", "acme/nobody:1"] {
        let error = refused(&fetcher(), &parts.image(name), Reason::NotFound).await;
        assert!(error.to_string().contains(name), "{error}");
    }
    let absent = format!("{}@sha256:{}", parts.folder.image("acme/guard"), Digest::of(b"absent"));
    refused(&fetcher(), &oci(&absent), Reason::NotFound).await;
}

#[tokio::test]
async fn a_module_over_the_limit_is_not_downloaded() {
    let parts = Parts::start(Doors::Open).await;
    let image = parts.folder.image("acme/large:1");
    let large = Bytes::from(vec![7; 3 << 20]);
    let pushed = push(&transport(), &image.parse().unwrap(), large.clone(), &ComponentNames::default(), None).await;
    let large_one = haptic_modules::Wanted { pin: Some(pushed.unwrap().module), ..oci(&image) };
    let error = refused(&fetcher(), &large_one, Reason::TooLarge).await;
    assert!(error.to_string().contains(&large.len().to_string()), "{error}");
    let patient = Transport::new(haptic_modules::Limits { module_bytes: 4 << 20, ..limits() }).unwrap();
    assert_eq!(Fetcher::new(patient, None).fetch(&large_one).await.unwrap(), large);
}

#[tokio::test]
async fn a_private_registry_takes_the_pull_secret_and_no_other() {
    let parts = Parts::start(Doors::Private).await;
    let credentials = Credentials::new(USER, PASSWORD);
    parts.push("acme/guard:1", MODULE, Some(&credentials)).await;
    let with = |config: String| {
        let pull_secret = Some(DockerConfig::parse(config.as_bytes()).unwrap());
        wanted(Source::Oci { image: parts.folder.image("acme/guard:1"), pull_secret })
    };
    let fetcher = fetcher();
    assert_eq!(fetcher.fetch(&with(docker_config(parts.address, PASSWORD))).await.unwrap(), MODULE);

    let error = refused(&fetcher, &with(docker_config(parts.address, "wrong horse")), Reason::Unauthorized).await;
    assert!(!format!("{error:?}").contains("wrong horse"), "{error:?}");
    refused(&fetcher, &parts.image("acme/guard:1"), Reason::Unauthorized).await;
    let elsewhere = with(docker_config(([127, 0, 0, 1], 5000).into(), PASSWORD));
    let error = refused(&fetcher, &elsewhere, Reason::Unauthorized).await;
    assert!(error.next_step.contains(&parts.address.to_string()), "{}", error.next_step);

    let image = parts.folder.image("acme/guard:2").parse().unwrap();
    let pushed = push(&transport(), &image, Bytes::from_static(MODULE), &ComponentNames::default(), None).await;
    let error = pushed.expect_err("nobody pushes without a password");
    assert_eq!(error.reason, Reason::Unauthorized);
    assert!(error.next_step.contains("push"), "{}", error.next_step);
}

#[tokio::test]
async fn what_is_no_image_reference_is_refused_without_a_request() {
    for image in ["https://ghcr.io/acme/p", "ghcr.io/ACME/p", "user:secret@ghcr.io/p"] {
        let error = refused(&fetcher(), &oci(image), Reason::InvalidSource).await;
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
