//! What the example promises: everything gets ready, the shop answers, new objects arrive, bad files do not.

use anyhow::Result;
use haptic_e2e::{
    cluster::{HAPROXY_PLUGIN, reason_of},
    exclusive, get,
    tls::{self, Sni},
};
use serde_json::json;

use haptic_e2e::cluster::served::{HAPROXY, HAPTIC, HOSTS, HTTP, HTTPS, Served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_serves_takes_new_routes_and_refuses_bad_files() -> Result<()> {
    let _turn = exclusive().await;
    let served = Served::start("serving", &|_| {}).await?;
    served.check_routes().await?;
    for (pod, door) in served.doors(HTTPS).await? {
        let (host, served_by) = HOSTS[0];
        let (answer, leaf) = tls::get(door.address(), Sni::Name(host), host).await?;
        assert!(answer.pod().is_some_and(|name| name.starts_with(served_by)), "{}: {answer:?}", pod.name);
        assert_eq!(leaf, served.certificate.der, "{} shows the certificate of the Ingress", pod.name);
    }
    for number in 0..3 {
        served.add_route(&format!("more-{number}"), &format!("more-{number}.localhost")).await?;
    }

    // An error file that is no HTTP response: the plugin refuses it, and what served goes on.
    let file = |text: &str| json!({ "spec": { "files": { "503.http": { "template": text } } } });
    let refused = served.judged(served.configure(&file("The shop is closed.\n")).await?).await?;
    assert!(refused.starts_with("False ") && refused.contains("error-file"), "{refused}");
    assert!(refused.contains("general/503.http"), "the file is named: {refused}");
    served.check_routes().await?;
    served.add_route("meanwhile", "meanwhile.localhost").await?;
    let good = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 7\r\n\r\nclosed\n";
    let accepted = served.judged(served.configure(&file(good)).await?).await?;
    assert!(accepted.starts_with("True "), "{accepted}");
    served.check_routes().await?;

    let plugin = served.room.objects.get(HAPROXY_PLUGIN, served.room.system(), "error-file").await?;
    assert!(reason_of(&plugin, "Ready").starts_with("True "), "{}", plugin["status"]);
    for pod in served.room.pods(HAPTIC).await? {
        assert!(pod.ready, "{pod:?}");
        assert!(!served.room.log(&pod.name, "haptic").contains("PRIVATE KEY"), "no key is logged");
    }
    assert_eq!(served.room.pods(HAPROXY).await?.iter().filter(|pod| pod.ready).count(), 2);
    // Nothing that is unknown is served.
    for (_, door) in served.doors(HTTP).await? {
        assert_eq!(get(door.address(), "unknown.localhost", "/").await?.status, 404);
    }
    served.room.close().await
}
