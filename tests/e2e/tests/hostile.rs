//! What people write wrong, or on purpose: it harms nothing but itself, and is named.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink};

use anyhow::Result;
use haptic_e2e::{HaproxyBuild, Haptic, Shop, eventually, get, ingress, on_haproxy};

/// A text that must not reach any file that HAProxy loads.
const MARK: &str = "evilmark";

/// Suffixes that would end a token, a line or a string, start a comment, or be evaluated.
const PAYLOADS: [(&str, &str); 5] = [
    ("newline", "evilmark\n  http-request deny"),
    ("quote", "evilmark\" \"http-request deny"),
    ("comment", "evilmark# rest"),
    ("environment", "evilmark%[env(HOME)]"),
    ("brace", "evilmark{ always_true }"),
];

async fn hostile_ingress(haproxy: HaproxyBuild) -> Result<()> {
    let shop = Shop::open().await?;
    let haptic = Haptic::serve(&shop, &haproxy).await?;
    let before = haptic.file_set()?;
    let processes = haptic.processes()?;

    let mut names = Vec::new();
    for (kind, payload) in PAYLOADS {
        let good = format!("{kind}.shop.localhost");
        let path = format!("/{payload}");
        let host = format!("{payload}.shop.localhost");
        let annotation = [("haptic.rs/timeout-server", payload)];
        for (part, manifest) in [
            ("path", ingress(&format!("path-{kind}"), &good, &path, &[], "web")),
            ("host", ingress(&format!("host-{kind}"), &host, "/", &[], "web")),
            ("annotation", ingress(&format!("annotation-{kind}"), &good, "/", &annotation, "web")),
        ] {
            shop.write(&format!("common/hostile/{part}-{kind}.yaml"), &manifest)?;
            names.push(format!("{part}-{kind}"));
        }
    }
    for name in &names {
        eventually(&format!("the status of Ingress shop/{name}"), async || {
            haptic.status_text("objects").contains(name.as_str()).then_some(())
        })
        .await;
    }

    // A good object of the same time works.
    let host = "good.shop.localhost";
    assert_eq!(haptic.file_set()?, before, "hostile objects are left out, so nothing that HAProxy loads changed");
    shop.write("common/good.yaml", &ingress("good", host, "/", &[], "web"))?;
    eventually("the good route", async || get(shop.http(), host, "/").await.ok()?.served_by().map(|_| ())).await;
    for target in Shop::targets() {
        let answer = get(shop.http(), &target.host, "/").await?;
        assert!(answer.served_by().is_some(), "{}: {answer:?}", target.host);
    }
    let after = haptic.file_set()?;
    for (path, content) in &after {
        assert!(!String::from_utf8_lossy(content).contains(MARK), "{} holds a hostile value", path.display());
    }
    let old = directives(&String::from_utf8_lossy(&before["haproxy.cfg".as_ref() as &std::path::Path]));
    let new = directives(&haptic.config()?);
    assert_eq!(new.difference(&old).collect::<Vec<_>>(), Vec::<&String>::new(), "no new directive appears");
    if haproxy.has_dynamic_backends() {
        assert_eq!(haptic.processes()?, processes);
    }
    Ok(())
}

/// First words of the lines.
fn directives(config: &str) -> BTreeSet<String> {
    config.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

on_haproxy!(hostile_ingress:
    leaves_out_hostile_objects_on_3_0 = "3.0",
    leaves_out_hostile_objects_on_3_4 = "3.4",
);

async fn bad_manifests(haproxy: HaproxyBuild) -> Result<()> {
    let shop = Shop::open().await?;
    let folder = shop.manifests().join("common/bad");
    let haptic = Haptic::serve(&shop, &haproxy).await?;
    let processes = haptic.processes()?;

    shop.write("common/bad/syntax.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: [\n")?;
    haptic.said(0, &["syntax.yaml:"]).await;
    shop.write("common/bad/field.yaml", UNKNOWN_FIELD)?;
    let said = haptic.said(0, &["field.yaml:", "failurePolicyy"]).await;
    assert!(
        said.contains("failurePolicy`") || said.contains("failurePolicy "),
        "the nearest known name is told: {said}"
    );
    shop.write(
        "common/bad/kind.yaml",
        "apiVersion: haptic.rs/v1alpha1\nkind: HAProxyTemplateConfigg\nmetadata: {name: x}\n",
    )?;
    haptic.said(0, &["kind.yaml:", "HAProxyTemplateConfigg"]).await;
    // The same object in two files: the first one stays.
    shop.write("common/zz/twice.yaml", &ingress("web", "stolen.localhost", "/", &[], "api"))?;
    haptic.said(0, &["twice.yaml:", "web"]).await;
    assert_eq!(get(shop.http(), "stolen.localhost", "/").await?.status, 404);
    let big =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata:\n  text: {}\n", "x".repeat(10 << 20));
    shop.write("common/bad/big.yaml", &big)?;
    haptic.said(0, &["big.yaml"]).await;
    symlink(&folder, folder.join("loop"))?;
    haptic.said(0, &["loop"]).await;
    assert_eq!(haptic.processes()?, processes, "nothing of that reloads HAProxy");
    // Files that come and go while they are read. A backend that comes back before its old one is gone for good needs
    // a reload, so from here on reloads are no fault.
    for round in 0..50 {
        shop.write("common/bad/flicker.yaml", &shop.route("flicker", "flicker.localhost"))?;
        if round % 2 == 0 {
            shop.remove("common/bad/flicker.yaml")?;
        }
    }

    // All of that, and a change still arrives.
    shop.write("common/good.yaml", &ingress("good", "good.shop.localhost", "/", &[], "web"))?;
    eventually("the good route", async || {
        get(shop.http(), "good.shop.localhost", "/").await.ok()?.served_by().map(|_| ())
    })
    .await;
    eventually("the route that flickered", async || {
        get(shop.http(), "flicker.localhost", "/").await.ok()?.served_by().map(|_| ())
    })
    .await;
    for target in Shop::targets() {
        let answer = get(shop.http(), &target.host, "/").await?;
        assert!(answer.served_by().is_some(), "{}: {answer:?}", target.host);
    }
    fs::remove_file(folder.join("loop"))?;
    Ok(())
}

const UNKNOWN_FIELD: &str = "apiVersion: haptic.rs/v1alpha1
kind: HAProxyPlugin
metadata: {name: unknown-field, namespace: haptic}
spec:
  module: {builtin: {name: network}}
  failurePolicyy: Ignore
";

on_haproxy!(bad_manifests: reports_bad_manifests_and_goes_on = "3.4");
