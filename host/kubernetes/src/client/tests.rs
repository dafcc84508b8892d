#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn pod(folder: &std::path::Path, host: &str) -> InCluster {
    InCluster { host: host.to_owned(), port: 443, folder: folder.to_owned() }
}

#[tokio::test]
async fn a_pod_is_its_service_account_whose_files_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("token", "t"), ("ca.crt", "c"), ("namespace", "haptic\n")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let config = pod(folder.path(), "fd00::1").config().await.unwrap();
    assert_eq!(config.cluster_url.to_string(), "https://[fd00::1]:443/");
    assert_eq!(config.default_namespace, "haptic");
    assert_eq!(config.root_cert_file.as_deref(), Some(&*folder.path().join("ca.crt")));
    assert_eq!(config.auth_info.token_file.as_deref(), folder.path().join("token").to_str());
    assert!(config.auth_info.token.is_none() && config.root_cert.is_none(), "nothing is kept that is renewed");
}

#[tokio::test]
async fn a_missing_file_and_a_bad_address_are_named_with_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let access = Access::InCluster(pod(folder.path(), "10.96.0.1"));
    let error = connect(&access, Duration::from_secs(1)).await.err().unwrap();
    let token = folder.path().join("token");
    let expected = format!(
        "reading `{}` of the service account failed; mount a service account token into the pod",
        token.display()
    );
    assert_eq!(error.to_string(), expected);
    let access = Access::Kubeconfig { path: folder.path().join("none"), context: None };
    let error = connect(&access, Duration::from_secs(1)).await.err().unwrap();
    assert!(matches!(error, ConnectError::Kubeconfig { .. }), "{error}");
    let access = Access::Plain { url: "http://a b".to_owned() };
    let error = connect(&access, Duration::from_secs(1)).await.err().unwrap();
    assert!(matches!(error, ConnectError::Url { .. }), "{error}");
}
