use super::fixture::{Fixture, findings, text};

const SHOP: &str = r"
ingressclasses: [{metadata: {name: haptic}, spec: {controller: haptic.rs/ingress}}]
services:
- {metadata: {name: web, namespace: shop}, spec: {ports: [{name: http, port: 80, targetPort: 8080}]}}
endpointslices:
- metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
  addressType: IPv4
  ports: [{name: http, port: 9001}, {name: admin, port: 9}, {name: other, port: null}]
  endpoints:
  - {addresses: [10.0.0.1], conditions: {ready: true}, targetRef: {name: pod-a}}
  - {addresses: [10.0.0.2]}
  - {addresses: [10.0.0.3], conditions: {ready: false, serving: true, terminating: true}}
  - {addresses: [10.0.0.4], conditions: {ready: false}}
";

fn ingress(name: &str, spec: &str) -> String {
    format!("- {{metadata: {{name: {name}, namespace: shop}}, spec: {{ingressClassName: haptic, {spec}}}}}\n")
}

fn rule(host: &str, path: &str, path_type: &str) -> String {
    let backend = "backend: {service: {name: web, port: {name: http}}}";
    format!("rules: [{{host: '{host}', http: {{paths: [{{path: '{path}', pathType: {path_type}, {backend}}}]}}}}]")
}

#[test]
fn an_ingress_becomes_a_backend_servers_and_map_entries() {
    let rendered = Fixture::libraries()
        .render(&format!("{SHOP}ingresses:\n{}", ingress("web", &rule("shop.localhost", "/foo/", "Prefix"))));
    assert_eq!(findings(&rendered), [] as [&str; 0]);
    let config = text(&rendered, "haproxy.cfg");
    let backend = config.split("backend shop_web_web_http from ").nth(1).expect("the backend");
    let servers: Vec<_> = backend.lines().skip(1).map(str::trim).collect();
    assert_eq!(
        servers,
        [
            "server pod-a 10.0.0.1:9001 weight 100",
            "server 10.0.0.2-9001 10.0.0.2:9001 weight 100",
            "server 10.0.0.3-9001 10.0.0.3:9001 weight 100 disabled",
        ]
    );
    assert_eq!(text(&rendered, "maps/path-prefix-exact.map"), "shop.localhost/foo shop_web_web_http\n");
    assert_eq!(text(&rendered, "maps/path-prefix.map"), "shop.localhost/foo/ shop_web_web_http\n");
    assert_eq!(text(&rendered, "maps/path-exact.map"), "");
    assert!(rendered.plan.backends["shop_web_web_http"].body.is_empty(), "so it can be made at run time");
}

#[test]
fn a_backend_without_annotations_uses_the_profile_that_is_always_loaded() {
    let empty = Fixture::libraries().render(SHOP);
    let full =
        Fixture::libraries().render(&format!("{SHOP}ingresses:\n{}", ingress("web", &rule("a.b", "/", "Prefix"))));
    assert_eq!(empty.plan.profiles, full.plan.profiles);
    assert_eq!(empty.plan.profiles.len(), 1);
}

#[test]
fn hostile_objects_are_left_out_and_named_and_add_no_directive() {
    let good = ingress("good", &rule("good.example", "/", "Prefix"));
    let baseline = text(&Fixture::libraries().render(&format!("{SHOP}ingresses:\n{good}")), "haproxy.cfg");
    for hostile in [
        ingress("evil", &rule("good.example", r"/a b", "Exact")),
        ingress("evil", &rule("a.b c", "/", "Exact")),
        ingress("evil", &rule("A.b", "/", "Exact")),
        "- {metadata: {name: evil, namespace: shop}, spec: {ingressClassName: haptic, rules: [{host: \"a\\nb\"}]}}\n"
            .to_owned(),
        annotated("timeout-server", "30s\\n  http-request deny"),
        annotated("timeout-server", "30s # x"),
        annotated("load-balance", "roundrobin\\\""),
        annotated("request-header", "x\\n  http-request deny"),
        annotated("backend-snippet", "http-request deny"),
    ] {
        let rendered = Fixture::libraries().render(&format!("{SHOP}ingresses:\n{good}{hostile}"));
        let findings = findings(&rendered);
        assert_eq!(findings.len(), 1, "{hostile}: {findings:?}");
        assert!(findings[0].starts_with("Ingress shop/evil: "), "{findings:?}");
        assert!(findings[0].contains("next step"), "{findings:?}");
        assert_eq!(text(&rendered, "haproxy.cfg"), baseline, "{hostile}");
    }
}

fn annotated(name: &str, value: &str) -> String {
    let rule = rule("evil.example", "/", "Exact");
    format!(
        "- {{metadata: {{name: evil, namespace: shop, annotations: {{haptic.rs/{name}: \"{value}\"}}}}, \
         spec: {{ingressClassName: haptic, {rule}}}}}\n"
    )
}

#[test]
fn a_value_with_special_characters_stays_one_word() {
    let rendered = Fixture::libraries()
        .render(&format!("{SHOP}ingresses:\n{}", annotated("request-header", "a b#c%[env(HOME)]{")));
    assert_eq!(findings(&rendered), [] as [&str; 0]);
    assert!(text(&rendered, "haproxy.cfg").contains(r"set-header X-Haptic-Note a\ b\#c%%[env(HOME)]{"));
}

#[test]
fn an_ingress_of_another_class_is_not_ours() {
    let other = ingress("web", &rule("a.b", "/", "Prefix")).replace("haptic,", "nginx,");
    assert!(Fixture::libraries().render(&format!("{SHOP}ingresses:\n{other}")).plan.backends.is_empty());
}

#[test]
fn a_missing_service_or_port_gives_503_and_a_warning() {
    for (from, to) in [("name: web, port", "name: gone, port"), ("{name: http}", "{number: 81}")] {
        let one = ingress("web", &rule("a.b", "/", "Prefix")).replace(from, to);
        let rendered = Fixture::libraries().render(&format!("{SHOP}ingresses:\n{one}"));
        assert_eq!(rendered.plan.backends.len(), 1);
        assert!(rendered.plan.backends.values().next().unwrap().servers.is_empty());
        assert!(findings(&rendered)[0].starts_with("Ingress shop/web: Service shop/"), "{:?}", rendered.findings);
    }
}

#[test]
fn terminating_endpoints_serve_while_nothing_else_does() {
    let shop = SHOP.replace("ready: true", "ready: false").replace("  - {addresses: [10.0.0.2]}\n", "");
    let rendered =
        Fixture::libraries().render(&format!("{shop}ingresses:\n{}", ingress("web", &rule("a.b", "/", "Prefix"))));
    let servers = &rendered.plan.backends["shop_web_web_http"].servers;
    assert_eq!(servers.len(), 1);
    assert!(!servers[0].disabled);
}

#[test]
fn tls_hosts_get_their_certificates_and_the_default_one_is_first() {
    let pem = "\"-----BEGIN CERTIFICATE-----\\nx\\n-----END CERTIFICATE-----\"";
    let key = "\"-----BEGIN PRIVATE KEY-----\\nx\\n-----END PRIVATE KEY-----\"";
    let secret = |name: &str| {
        format!("- {{metadata: {{name: {name}, namespace: shop}}, stringData: {{tls.crt: {pem}, tls.key: {key}}}}}\n")
    };
    let tls = "tls: [{hosts: [b.example, '*.c.example'], secretName: one}, {hosts: [d.example], secretName: gone}]";
    let objects = format!(
        "{SHOP}secrets:\n{}{}ingresses:\n{}",
        secret("one"),
        secret("fallback"),
        ingress("web", &format!("{}, {tls}", rule("b.example", "/", "Prefix")))
    );
    let rendered = Fixture::libraries()
        .context(serde_json::json!({"default_certificate": {"namespace": "shop", "name": "fallback"}}))
        .render(&objects);
    assert_eq!(text(&rendered, "ssl/https.crtlist"), "ssl/shop_one.pem *.c.example b.example\n");
    let bind = "bind :8443 alpn h2,http/1.1 crt ssl/default.pem crt-list ssl/https.crtlist ssl\n";
    assert!(text(&rendered, "haproxy.cfg").contains(bind));
    assert!(findings(&rendered)[0].contains("Secret shop/gone does not exist"));
}

#[test]
fn a_line_that_was_hoisted_into_a_profile_is_still_its_objects() {
    let annotated = |name: &str, host: &str| {
        ingress(name, &rule(host, "/", "Prefix"))
            .replace("namespace: shop}", "namespace: shop, annotations: {haptic.rs/timeout-server: 999999999d}}")
    };
    let plain = ingress("plain", &rule("plain.localhost", "/", "Prefix"));
    let fixture = Fixture::libraries();
    let objects = format!(
        "{SHOP}ingresses:\n{plain}{}{}",
        annotated("late", "late.localhost"),
        annotated("early", "early.localhost"),
    );
    let mut inputs = fixture.inputs(&objects);
    // HAProxy refuses one line, and whoever it is of is left out; then the next one, and then nobody.
    for name in ["early", "late"] {
        let rendered = fixture.renderer().render(&inputs, &mut crate::Memo::default()).unwrap();
        let config = text(&rendered, "haproxy.cfg");
        let line = 1 + config.lines().position(|line| line.contains("999999999d")).expect("the profile");
        let origin = rendered.sources.origin("haproxy.cfg", u32::try_from(line).unwrap()).expect("somebody's");
        let object = origin.object.as_ref().map(ToString::to_string);
        assert_eq!(object, Some(format!("Ingress shop/{name}")));
        inputs.quarantined.extend(origin.unit.clone());
    }
    let rendered = fixture.renderer().render(&inputs, &mut crate::Memo::default()).unwrap();
    let config = text(&rendered, "haproxy.cfg");
    assert!(!config.contains("999999999d") && config.contains("backend shop_plain_web_http"), "{config}");
}
