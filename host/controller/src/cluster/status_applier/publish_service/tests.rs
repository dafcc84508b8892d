use super::*;

fn of(service: &Value) -> Vec<String> {
    of_service(service).iter().map(ToString::to_string).collect()
}

#[test]
fn a_load_balancer_comes_first_then_external_addresses_then_the_clusters_own() {
    let mut service = json!({
        "spec": { "type": "LoadBalancer", "clusterIP": "10.96.0.7", "externalIPs": ["192.0.2.9"] },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }, { "hostname": "lb.example.com" }] } },
    });
    assert_eq!(of(&service), ["192.0.2.1", "lb.example.com"]);
    service["status"] = json!({ "loadBalancer": {} });
    assert_eq!(of(&service), ["192.0.2.9"]);
    service["spec"]["externalIPs"] = Value::Null;
    assert_eq!(of(&service), [""; 0], "its load balancer is still to come");
    service["spec"]["type"] = json!("ClusterIP");
    assert_eq!(of(&service), ["10.96.0.7"]);
    service["spec"]["clusterIP"] = json!("None");
    assert_eq!(of(&service), [""; 0]);
}

#[test]
fn addresses_and_names_stand_in_fields_of_their_own() {
    assert_eq!(entry("2001:db8::1"), json!({ "ip": "2001:db8::1" }));
    assert_eq!(entry("lb.example.com"), json!({ "hostname": "lb.example.com" }));
    for text in ["192.0.2.1", "lb.example.com"] {
        assert_eq!(address(&entry(text)).as_deref(), Some(text));
    }
}
