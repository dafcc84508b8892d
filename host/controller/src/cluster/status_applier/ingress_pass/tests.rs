use super::*;

fn set(addresses: &[&str]) -> BTreeSet<Arc<str>> {
    addresses.iter().map(|address| Arc::from(*address)).collect()
}

#[test]
fn entries_of_others_stay_as_they_are_and_where_they_are() {
    let theirs = json!({ "ip": "198.51.100.1", "ports": [{ "port": 80, "protocol": "TCP" }] });
    let entries = [theirs.clone(), json!({ "ip": "192.0.2.1" })];
    let own = set(&["192.0.2.1", "192.0.2.2"]);
    assert_eq!(next(&entries, &own, &set(&["192.0.2.1"])), None);
    assert_eq!(next(&entries, &own, &set(&["192.0.2.2"])), Some(vec![theirs.clone(), json!({ "ip": "192.0.2.2" })]));
    assert_eq!(next(&entries, &own, &set(&[])), Some(vec![theirs.clone()]));
    assert_eq!(next(&[theirs], &own, &set(&[])), None);
}

#[test]
fn what_others_wrote_of_our_addresses_is_not_written_twice() {
    let entries = [json!({ "hostname": "lb.example.com" })];
    assert_eq!(next(&entries, &set(&[]), &set(&["lb.example.com"])), None);
    assert_eq!(
        next(&[], &set(&[]), &set(&["lb.example.com", "192.0.2.1"])),
        Some(vec![json!({ "ip": "192.0.2.1" }), json!({ "hostname": "lb.example.com" })])
    );
}
