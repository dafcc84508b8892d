#![allow(clippy::unwrap_used, reason = "tests")]

use std::{collections::BTreeSet, path::Path, sync::Arc};

use haptic_model::{Rendered, ports::NoPlugins};
use haptic_render::{Inputs, Memo, Renderer};
use haptic_store::{DirectorySource, RawChange, Snapshot, Store};

use super::*;
use crate::config::ConfigObjects;
use crate::explain::route::By;

/// A render of the libraries with a configuration and objects of its own.
struct Scene {
    rendered: Rendered,
    snapshot: Arc<Snapshot>,
    renderer: Renderer,
    sources: TemplateSources,
}

const CONFIG: &str = r#"
apiVersion: haptic.rs/v1alpha1
kind: HAProxyTemplateConfig
metadata: {name: shop, namespace: default}
spec:
  podSelector: {matchLabels: {app: haproxy}}
  credentialsSecretRef: {name: credentials}
  libraryRefs:
    - {name: base, revision: "1"}
    - {name: ssl, revision: "1"}
    - {name: ingress, revision: "1"}
  templateSnippets:
    sections/10-people:
      template: |
        userlist people
          user bob insecure-password hunter2
"#;

const OBJECTS: &str = r#"
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: haptic}
spec: {controller: haptic.rs/ingress}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [192.0.2.1], conditions: {ready: true}, targetRef: {kind: Pod, name: web-a}}]
---
apiVersion: v1
kind: Secret
metadata: {name: tls, namespace: shop}
stringData:
  tls.crt: "-----BEGIN CERTIFICATE-----\nMIIBcertificate\n-----END CERTIFICATE-----\n"
  tls.key: "-----BEGIN PRIVATE KEY-----\nMIIBplanted\n-----END PRIVATE KEY-----\n"
"#;

fn ingress(name: &str, rules: &str) -> String {
    format!(
        "---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: {name}, namespace: shop}}\nspec:\n  \
         ingressClassName: haptic\n  tls: [{{hosts: [shop.example], secretName: tls}}]\n{rules}"
    )
}

/// One rule of the host, with a backend named after port number.
fn rule(host: &str, paths: &[(&str, &str, u16)]) -> String {
    let mut text =
        if host.is_empty() { "    - http:\n".to_owned() } else { format!("    - host: \"{host}\"\n      http:\n") };
    text.push_str("        paths:\n");
    for (path, kind, port) in paths {
        text.push_str(&format!(
            "          - {{path: {path}, pathType: {kind}, backend: {{service: {{name: web, port: {{number: {port}}}}}}}}}\n"
        ));
    }
    text
}

fn routes() -> String {
    let rules = [
        rule("shop.example", &[("/", "Prefix", 80), ("/cart", "Prefix", 81), ("/cart/pay", "Exact", 82)]),
        rule("*.example", &[("/", "Prefix", 83)]),
        rule("", &[("/any", "Prefix", 84)]),
    ];
    ingress("web", &format!("  rules:\n{}", rules.concat()))
}

impl Scene {
    fn new(config: &str, objects: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.yaml"), config).unwrap();
        std::fs::write(folder.path().join("objects.yaml"), objects).unwrap();
        let libraries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/libraries");
        let mut source = DirectorySource::open([libraries, folder.path().to_owned()]).unwrap();
        let scan = source.scan();
        assert_eq!(scan.findings, [], "the manifests are valid");
        let objects = scan.changes.iter().filter_map(|change| match change {
            RawChange::Upsert(object) => Some(Arc::clone(object)),
            RawChange::Delete(_) => None,
        });
        let candidate = ConfigObjects::pick(objects).candidate().unwrap();
        let renderer = Renderer::compile(candidate.templates.clone(), Arc::new(NoPlugins)).unwrap();
        let mut store = Store::new(candidate.resources().unwrap());
        store.sync(&scan.changes);
        let snapshot = store.snapshot();
        let inputs = Inputs { snapshot: snapshot.clone(), quarantined: BTreeSet::new(), haproxy: (3, 4) };
        let rendered = renderer.render(&inputs, &mut Memo::default()).unwrap();
        Self { rendered, snapshot, renderer, sources: candidate.sources }
    }

    fn shop() -> Self {
        Self::new(CONFIG, &format!("{OBJECTS}{}", routes()))
    }

    fn explained(&self) -> Explained<'_> {
        Explained {
            rendered: &self.rendered,
            snapshot: &self.snapshot,
            renderer: &self.renderer,
            sources: &self.sources,
        }
    }

    fn config(&self) -> String {
        String::from_utf8(self.rendered.files[haptic_model::CONFIG_PATH].content.to_vec()).unwrap()
    }

    /// The number of the line that has the text.
    fn line_of(&self, text: &str) -> usize {
        self.config().lines().position(|line| line.contains(text)).expect("a line with the text") + 1
    }

    fn route(&self, host: &str, path: &str) -> RouteAnswer {
        self.explained().route(&RouteQuery::new(host, path))
    }
}

/// The template line that an answer names stands in the manifest where the answer says.
fn assert_in_manifest(template: &TemplateLine, words: &str) {
    let (file, line) = template.at.as_deref().unwrap().rsplit_once(':').unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
    assert!(line.contains(words), "{} is `{line}`", template.at.as_deref().unwrap());
}

#[test]
fn a_server_line_is_the_object_s_and_of_the_calls_that_write_servers() {
    let scene = Scene::shop();
    let answer = scene.explained().lines(&scene.line_of("server web-a").to_string());
    let [found] = answer.matches.as_slice() else { panic!("{answer:?}") };
    assert_eq!(found.text, "server web-a 192.0.2.1:8080 weight 100");
    assert_eq!(found.section.as_deref().unwrap().split(' ').nth(1), Some("shop_web_web_80"));
    assert_eq!(found.author.object.as_deref(), Some("Ingress shop/web"));
    assert!(found.author.object_at.as_deref().unwrap().contains("objects.yaml:"), "{found:?}");
    assert!(!found.author.templates.is_empty(), "{found:?}");
    for template in &found.author.templates {
        assert_eq!(template.template, "HAProxyTemplateLibrary default/ingress, snippet ingress");
        assert_in_manifest(template, "server(");
    }
}

#[test]
fn a_line_of_the_main_template_is_of_no_object() {
    let scene = Scene::shop();
    let answer = scene.explained().lines(&scene.line_of("option redispatch").to_string());
    let author = &answer.matches[0].author;
    assert_eq!(author.object, None);
    assert_in_manifest(&author.templates[0], "option redispatch");
}

#[test]
fn a_text_is_found_in_the_configuration_and_in_maps_whatever_its_capitals() {
    let scene = Scene::shop();
    let answer = scene.explained().lines("SHOP.example/cart");
    let places: Vec<_> = answer.matches.iter().map(|found| format!("{}: {}", found.file, found.text)).collect();
    assert_eq!(
        places,
        [
            "maps/path-exact.map: shop.example/cart/pay shop_web_web_82",
            "maps/path-prefix-exact.map: shop.example/cart shop_web_web_81",
            "maps/path-prefix.map: shop.example/cart/ shop_web_web_81",
        ]
    );
    for found in &answer.matches {
        assert_eq!(found.author.object.as_deref(), Some("Ingress shop/web"));
        assert_in_manifest(&found.author.templates[0], "map_entry(");
    }
    let numbered = scene.explained().lines("maps/path-prefix.map:1");
    assert_eq!(numbered.total, 1);
    assert_eq!(scene.explained().lines("192.0.2.1:8080").total, 1, "an address with a port is a text");
    assert_eq!(scene.explained().lines("nothing has this").total, 0);
    assert_eq!(scene.explained().lines("  ").total, 0);
}

#[test]
fn an_answer_is_bounded_and_counts_all() {
    let paths: Vec<String> = (0..200).map(|number| format!("/p{number}")).collect();
    let paths: Vec<_> = paths.iter().map(|path| (path.as_str(), "Exact", 80)).collect();
    let rules = format!("  rules:\n{}", rule("shop.example", &paths));
    let scene = Scene::new(CONFIG, &format!("{OBJECTS}{}", ingress("web", &rules)));
    let answer = scene.explained().lines("shop.example/p");
    assert_eq!((answer.total, answer.matches.len()), (200, MATCHES));
}

#[test]
fn what_is_secret_is_neither_shown_nor_found() {
    let scene = Scene::shop();
    assert!(scene.config().contains("hunter2"), "it is there");
    let bob = scene.explained().lines("user bob");
    assert_eq!(bob.matches[0].text, "user bob insecure-password ***");
    let by_number = scene.explained().lines(&scene.line_of("hunter2").to_string());
    assert_eq!(by_number.matches[0].text, "user bob insecure-password ***");
    for secret in ["hunter2", "hunter", "h", "password h", "MIIBplanted", "PRIVATE KEY", "MIIBcertificate"] {
        let answer = scene.explained().lines(secret);
        let shown = serde_json::to_string(&answer.matches).unwrap();
        assert!(!shown.contains("hunter2") && !shown.contains("MIIB"), "{secret}: {shown}");
        assert!(answer.matches.iter().all(|found| !found.text.contains("***") || secret == "h"), "{secret}: {shown}");
    }
    let key = scene.rendered.files.keys().find(|path| path.as_str().ends_with("shop_tls.pem")).expect("a certificate");
    assert_eq!(scene.explained().lines(&format!("{key}:2")).total, 0);
}

#[test]
fn a_request_goes_where_the_frontend_would_send_it() {
    let scene = Scene::shop();
    let cases = [
        ("shop.example", "/", "80", By::Prefix),
        ("shop.example", "/cart", "81", By::PrefixItself),
        ("shop.example", "/cart/", "81", By::Prefix),
        ("shop.example", "/cart/pay", "82", By::Exact),
        ("shop.example", "/cart/pay/now", "81", By::Prefix),
        ("shop.example", "/cartoon", "80", By::Prefix),
        ("SHOP.example.:8080", "/cart?x=/cart/pay", "81", By::PrefixItself),
        ("http://shop.example:80/cart/pay#top", "", "82", By::Exact),
        ("other.example", "/cart", "83", By::Prefix),
        ("deep.other.example", "/any", "84", By::PrefixItself),
        ("elsewhere", "any/thing", "84", By::Prefix),
    ];
    for (host, path, port, by) in cases {
        let answer = scene.route(host, path);
        let entry = answer.entry.as_ref().unwrap_or_else(|| panic!("{host}{path}: {answer:?}"));
        assert_eq!(entry.value, format!("shop_web_web_{port}"), "{host}{path}");
        assert_eq!(answer.tried.last().unwrap().by, by, "{host}{path}");
        assert_eq!(entry.author.object.as_deref(), Some("Ingress shop/web"), "{host}{path}");
        let file = &scene.rendered.files[entry.map];
        let text = String::from_utf8(file.content.to_vec()).unwrap();
        let line = text.lines().nth(entry.line as usize - 1).unwrap();
        assert_eq!(line, format!("{} {}", entry.key, entry.value), "the line that is named");
    }
    let answer = scene.route("shop.example", "/");
    let backend = answer.backend.unwrap();
    assert_eq!((backend.servers[0].name.as_str(), backend.servers[0].address.as_str()), ("web-a", "192.0.2.1:8080"));
    // The Service has port 80 only.
    assert!(scene.route("shop.example", "/cart").summary.contains("has no server, so clients get 503"));
}

#[test]
fn a_request_without_a_route_gets_the_default_backend() {
    let answer = Scene::shop().route("elsewhere", "/");
    assert!(answer.entry.is_none() && answer.summary.contains("no route"), "{answer:?}");
    assert_eq!(answer.tried.len(), 12, "every map was asked for every host");
    assert!(answer.tried.iter().all(|lookup| !lookup.found));
}

#[test]
fn without_route_maps_nothing_is_guessed() {
    let config = CONFIG.split("  libraryRefs").next().unwrap().to_owned()
        + "  haproxyConfig: {template: \"global\\n\"}\n  watchedResources: {services: {apiVersion: v1, resources: services}}\n";
    let answer = Scene::new(&config, OBJECTS).route("shop.example", "/");
    assert!(answer.summary.contains("none of the route maps") && answer.tried.is_empty(), "{answer:?}");
}

#[test]
fn a_person_reads_the_answers_in_a_terminal() {
    let scene = Scene::shop();
    let route = scene.route("shop.example", "/cart/pay").to_string();
    for words in [
        "shop.example/cart/pay goes to backend shop_web_web_82",
        "entry     maps/path-exact.map:1  shop.example/cart/pay shop_web_web_82",
        "object    Ingress shop/web (",
        "template  HAProxyTemplateLibrary default/ingress, snippet ingress, line ",
        "by        the exact path",
    ] {
        assert!(route.contains(words), "{words}:\n{route}");
    }
    let line = scene.explained().lines("server web-a").to_string();
    assert!(line.contains("  in        backend shop_web_web_80"), "{line}");
    assert!(scene.explained().lines("none of it").to_string().starts_with("no line has `none of it`"));
}
