//! Secrets are planted wherever haptic reads one, and looked for in everything that leaves it: logs, metrics, debug
//! answers, Events, statuses and published objects.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use haptic_e2e::{
    Connection, Scrape,
    cluster::{
        PodState,
        served::{HAPROXY, HAPTIC, HOSTS, HTTP, Served},
    },
    eventually, exclusive, ingress,
};
use serde_json::json;
use tokio::process::Command;

use crate::metrics::observed;

const PASSWORD: &str = "planted-password-7Qz";
const TOKEN: &str = "planted-token-4Xw";
/// All kinds that haptic writes, and what it writes statuses into.
const WRITTEN: &str = "haproxytemplateconfigs.haptic.rs,haproxyplugins.haptic.rs,haproxycfgs.haptic.rs,\
                       haproxymapfiles.haptic.rs,haproxygeneralfiles.haptic.rs,haproxycrtlistfiles.haptic.rs,\
                       ingresses.networking.k8s.io,leases.coordination.k8s.io,events,events.events.k8s.io";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_leaves_haptic() -> Result<()> {
    let _turn = exclusive().await;
    let served = Served::start("secrets", &observed).await?;
    plant(&served).await?;
    // Things go wrong with them, too: what is told then is where secrets get out.
    let hostile = [("haptic.rs/timeout-server", "evil\n  http-request deny")];
    served.room.apply_text(&ingress("hostile", "hostile.localhost", "/", &hostile, "web")).await?;
    eventually("an Event about the object", async || {
        served.room.events("Ingress", "hostile").await.ok()?.into_iter().next()
    })
    .await;
    let broken = served.configure(&json!({ "spec": { "haproxyConfig": { "template": "{{ broken" } } })).await?;
    assert!(served.judged(broken).await?.starts_with("False "));
    served.configure(&json!({ "spec": { "haproxyConfig": null } })).await?;
    served.add_route("after", "after.localhost").await?;

    let outputs = eventually("a published configuration with the userlist, and a warning", async || {
        let outputs = everything(&served).await.ok()?;
        let objects = outputs.get("objects")?;
        ["userlist staff", "HAProxyCfg", "Warning"].iter().all(|word| objects.contains(word)).then_some(outputs)
    })
    .await;
    assert!(outputs.values().all(|text| !text.is_empty()), "nothing is empty: {:?}", outputs.keys());
    for (what, secret) in planted(&served)? {
        for (place, text) in &outputs {
            let found = text.find(&secret).map(|at| &text[text.floor_char_boundary(at.saturating_sub(200))..at]);
            assert_eq!(found, None, "{what} is in {place}, after this text");
        }
    }
    served.room.close().await
}

/// A password of HAProxy's users and a token in a header, out of a Secret.
async fn plant(served: &Served) -> Result<()> {
    let shop = served.room.shop();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "planted", "namespace": shop },
        "stringData": { "password": PASSWORD, "token": TOKEN },
    });
    served.room.objects.apply(&secret).await?;
    let read = |key: &str| {
        format!(
            "resources.secrets.get_single(\"{shop}\", \"planted\") | dig(\"data\", \"{key}\") | default(\"bm9uZQ==\", true) | b64decode"
        )
    };
    let users = format!("userlist staff\n  user admin insecure-password {{{{ {} }}}}\n", read("password"));
    let guard = format!(
        "http-request auth realm staff if {{ path /staff }} !{{ http_auth(staff) }}\n\
         http-request set-header Authorization {{{{ {} }}}} if {{ path /staff }}\n",
        read("token")
    );
    let snippets = json!({ "sections/60-staff": { "template": users }, "frontend/45-staff": { "template": guard } });
    let generation = served.configure(&json!({ "spec": { "templateSnippets": snippets } })).await?;
    let verdict = served.judged(generation).await?;
    ensure!(verdict.starts_with("True "), "{verdict}");
    // They work, so they are really there.
    for (pod, door) in served.doors(HTTP).await? {
        eventually(&format!("{} to know the user", pod.name), async || {
            let credentials = STANDARD.encode(format!("admin:{PASSWORD}"));
            let request = |authorization: &str| {
                format!("GET /staff HTTP/1.1\r\nHost: {}\r\n{authorization}Connection: close\r\n\r\n", HOSTS[0].0)
            };
            let mut stranger = Connection::open(door.address()).await.ok()?;
            let refused = stranger.request(&request("")).await.ok()?.status == 401;
            let mut user = Connection::open(door.address()).await.ok()?;
            let with = request(&format!("Authorization: Basic {credentials}\r\n"));
            let taken = user.request(&with).await.ok()?.status == 200;
            (refused && taken).then_some(())
        })
        .await;
    }
    Ok(())
}

/// What must be nowhere, by what it is.
fn planted(served: &Served) -> Result<BTreeMap<&'static str, String>> {
    // The longest line of a key, which no other text has by chance.
    let key = |pem: &str| pem.lines().max_by_key(|line| line.len()).map(str::to_owned).context("a key has lines");
    Ok(BTreeMap::from([
        ("the password", PASSWORD.to_owned()),
        ("the password in Base64", STANDARD.encode(PASSWORD)),
        ("the token", TOKEN.to_owned()),
        ("the token in Base64", STANDARD.encode(TOKEN)),
        ("a private key", "PRIVATE KEY".to_owned()),
        ("the key of the shop's certificate", key(served.certificate.key())?),
        ("the key of the controller", key(&served.credentials.controller.key)?),
        ("the key of the agents", key(&served.credentials.agent.key)?),
    ]))
}

/// All that left haptic, by where it is.
async fn everything(served: &Served) -> Result<BTreeMap<String, String>> {
    let room = &served.room;
    let mut all = BTreeMap::new();
    for pod in room.pods(HAPTIC).await? {
        all.insert(format!("the log of {}", pod.name), room.log(&pod.name, "haptic"));
        for path in ["/debug/vars", "/debug/events", "/metrics", "/", "/debug/status", "/debug/explain?line=staff"] {
            all.insert(format!("{path} of {}", pod.name), on_loopback(served, &pod, path).await?);
        }
        let health = served.probe(&pod, "/healthz").await?;
        all.insert(format!("/healthz of {}", pod.name), health.body);
    }
    for pod in room.pods(HAPROXY).await? {
        all.insert(format!("the log of {}", pod.name), room.log(&pod.name, "haproxy"));
        for port in [5557, 8404] {
            let door = room.passage(&pod, port).await?;
            all.insert(format!("/metrics of {} at {port}", pod.name), Scrape::text(door.address()).await?);
        }
    }
    let mut objects = String::new();
    for namespace in [room.system(), room.shop()] {
        objects += &room.cluster().kubectl(&["get", WRITTEN, "-n", namespace, "-o", "yaml"]).await?;
    }
    all.insert("objects".to_owned(), objects);
    Ok(all)
}

/// Asks the debug server, which listens on the loopback of its pod only.
async fn on_loopback(served: &Served, pod: &PodState, path: &str) -> Result<String> {
    let processes = served.room.cluster().processes(served.room.system(), &pod.name).await?;
    let pid = processes.get("haptic").with_context(|| format!("haptic runs in {}", pod.name))?;
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/8081; printf 'GET {path} HTTP/1.0\\r\\nHost: 127.0.0.1:8081\\r\\n\\r\\n' >&3; cat <&3"
    );
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target", &pid.to_string(), "bash", "-c", &script]).kill_on_drop(true);
    let output = command.output().await.context("run nsenter")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(text.starts_with("HTTP/1.0 200"), "{path}: {text}");
    Ok(text)
}
