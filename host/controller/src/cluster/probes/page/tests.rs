#![allow(clippy::unwrap_used, reason = "tests")]

use std::{net::SocketAddr, sync::Arc};

use haptic_model::{Finding, FindingCode, ObjectRef};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use crate::{
    bus::EventBus,
    clock::WallClock,
    cluster::{DebugServer, Debugged, Health, SharedRegistry},
    commentator::History,
    core::ActiveCore,
    events::{Correlation, Event},
    overview::{IterationFacts, ProcessFacts},
    testing::{core, render_of, trigger},
};

/// A debug server with a render of `text`, in which `finding` is told.
struct Scene {
    address: SocketAddr,
    end: CancellationToken,
}

const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&";

impl Scene {
    async fn new(text: &str, finding: Finding) -> Self {
        let debugged = Debugged::default();
        let overview = debugged.overview();
        let (clock, bus) = (WallClock::fixed(60), EventBus::new());
        overview.begin(ProcessFacts {
            identity: "standalone".into(),
            clock: clock.clone(),
            manifests: watch::Sender::default().subscribe(),
            plugins: watch::Sender::default().subscribe(),
            standing: None,
        });
        let core = ActiveCore::new(Arc::new(core("global\n")));
        overview.serves(IterationFacts { number: 1, core, cluster: None });
        let observer = overview.observe(&bus, clock);
        let mut render = render_of(1, text, trigger());
        render.output.findings.push(finding);
        bus.start();
        bus.publish(Event::TemplateRendered { correlation: Correlation(1), render: Arc::new(render) });
        bus.close();
        observer.run().await;
        Self::serve(debugged).await
    }

    async fn serve(debugged: Debugged) -> Self {
        let local = "127.0.0.1:0".parse().unwrap();
        let (health, history) = (Health::default(), History::default());
        let server = DebugServer::bind(local, health, history, debugged, SharedRegistry::default()).await.unwrap();
        let (address, end) = (server.address(), CancellationToken::new());
        tokio::spawn(server.run(end.clone()));
        Self { address, end }
    }

    /// Status, head and body.
    async fn ask(&self, request: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
    }

    async fn get(&self, path: &str) -> (u16, String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:8081\r\n\r\n")).await
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

fn wrong(name: &str, message: &str) -> Finding {
    Finding::error(FindingCode::InvalidValue, message)
        .about(Some(ObjectRef::new("Ingress", "shop", name)))
        .at(format!("{message}.yaml"), 7, 0)
        .hint(message)
}

#[tokio::test]
async fn hostile_text_is_text_wherever_it_stands() {
    let scene = Scene::new(&format!("global\n  {HOSTILE}\n"), wrong(HOSTILE, HOSTILE)).await;
    let asked = "%3Cscript%3Ealert(1)%3C/script%3E%22'%3E";
    for path in
        ["/".to_owned(), format!("/?line={asked}"), format!("/?host={asked}&path={asked}"), "/?line=2".to_owned()]
    {
        let (status, head, body) = scene.get(&path).await;
        assert_eq!(status, 200, "{path}: {body}");
        assert!(head.contains("content-type: text/html; charset=utf-8"), "{head}");
        assert!(body.contains("&lt;script&gt;alert(1)"), "{path} shows it");
        assert!(!body.contains("<script>alert") && !body.contains("<img src=x"), "{path}:\n{body}");
        assert!(!body.contains("onerror=alert(2)>\""), "{path}:\n{body}");
        // The two tags of the page's own script, and nothing else that runs.
        assert_eq!(body.matches("<script").count(), 1, "{path}");
    }
}

#[tokio::test]
async fn browsers_are_told_to_load_nothing_else_and_to_keep_nothing() {
    let scene = Scene::new("global\n", wrong("web", "bad")).await;
    let (_, head, body) = scene.get("/").await;
    for words in [
        "content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'",
        "frame-ancestors 'none'",
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(head.contains(words), "{words}: {head}");
    }
    assert!(
        !body.contains("style=") && !body.contains("http://") && !body.contains("https://"),
        "nothing from elsewhere"
    );
    assert!(!body.contains(" onclick") && !body.contains("javascript:"));
    for (path, kind) in [("/status.css", "text/css"), ("/status.js", "text/javascript"), ("/icon.svg", "image/svg+xml")]
    {
        let (status, head, _) = scene.get(path).await;
        assert!(status == 200 && head.contains(kind), "{path}: {head}");
    }
}

#[tokio::test]
async fn only_loopback_names_are_answered_and_only_reading() {
    let scene = Scene::new("global\n", wrong("web", "bad")).await;
    for path in ["/", "/debug/status", "/debug/vars", "/debug/events", "/metrics", "/debug/explain?line=1"] {
        for host in ["rebound.example", "rebound.example:8081", "10.0.0.1", "localhost.example"] {
            let (status, _, body) = scene.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
            assert_eq!(status, 421, "{path} for {host}: {body}");
            assert!(!body.contains("global") && body.contains("kubectl port-forward"), "{body}");
        }
        for host in ["127.0.0.1:8081", "[::1]:8081", "localhost"] {
            let (status, ..) = scene.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
            assert_eq!(status, 200, "{path} for {host}");
        }
        let post = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(scene.ask(&post).await.0, 405, "{path}");
        let (status, _, body) = scene.ask(&format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        assert!(status == 200 && body.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn the_same_is_there_as_json() {
    let scene = Scene::new("global\n  user x password planted-secret\n", wrong("web", "bad")).await;
    let json = async |path: &str| -> Value { serde_json::from_str(&scene.get(path).await.2).unwrap() };
    let status = json("/debug/status").await;
    assert_eq!(status["objects"]["shown"][0]["name"], "Ingress shop/web");
    let lines = json("/debug/explain?line=2").await;
    assert_eq!(lines["lines"]["matches"][0]["text"], "user x password ***");
    let route = json("/debug/explain?host=shop.example&path=/").await;
    assert!(route["route"]["summary"].as_str().unwrap().contains("route maps"), "{route}");
    for path in ["/", "/?line=2", "/?line=planted", "/debug/status", "/debug/explain?line=user", "/debug/vars"] {
        let (_, _, body) = scene.get(path).await;
        assert!(!body.contains("planted-secret"), "{path}: {body}");
    }
    let (status, _, how) = scene.get("/debug/explain").await;
    assert!(status == 400 && how.contains("?host=HOST&path=PATH"), "{how}");
}

#[tokio::test]
async fn before_anything_is_rendered_the_page_says_so() {
    let scene = Scene::serve(Debugged::default()).await;
    let (status, _, body) = scene.get("/").await;
    assert!(status == 200 && body.contains("no configuration yet") && body.contains("starting"), "{body}");
    let (status, _, body) = scene.get("/?line=1").await;
    assert!(status == 200 && body.contains("Nothing is rendered yet"), "{body}");
    assert_eq!(scene.get("/debug/explain?line=1").await.0, 503);
}

#[tokio::test]
async fn the_page_has_what_assistive_technology_needs() {
    let scene = Scene::new("global\n", wrong("web", "bad")).await;
    let (_, _, body) = scene.get("/?line=global").await;
    for words in ["<html lang=\"en\">", "<main id=\"main\"", "<header>", "<nav ", "<footer>", "<h1", "Skip to content"]
    {
        assert!(body.contains(words), "{words}");
    }
    let ids: Vec<&str> = body.split("id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "no id is there twice: {ids:?}");
    for field in ["line", "host", "path"] {
        assert!(body.contains(&format!("for=\"{field}\"")) && ids.contains(&field), "{field} has a label");
    }
    assert_eq!(body.matches("<table").count(), body.matches("<caption").count(), "every table has a caption");
    for reference in body.split("aria-labelledby=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(ids.contains(&reference), "{reference} labels something");
    }
}
