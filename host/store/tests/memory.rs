//! How much memory an object takes. Alone in its process, because it reads the size of the process.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{fs, sync::Arc};

use haptic_api as api;
use haptic_model::SourceLocation;
use haptic_store::{RawChange, RawObject, Store, WatchedResource};
use serde_json::{Value, json};

const OBJECTS: u32 = 20_000;

/// Objects of 1.2 KB of JSON take 3.6 KB of a process on x86-64 with glibc, what the allocator adds included.
const MOST_BYTES: u64 = 4_000;

#[test]
fn an_object_takes_less_than_four_kilobytes() {
    let file: Arc<str> = "dir/slices.yaml".into();
    let store_of = |count: u32| {
        let mut store = Store::new(vec![resource()]);
        // A scan delivers files, not single objects.
        for numbers in (0..count).collect::<Vec<_>>().chunks(500) {
            let object = |number: &u32| {
                let source = SourceLocation { file: Arc::clone(&file), line: *number, column: 1 };
                RawChange::Upsert(Arc::new(RawObject::new(&slice(*number), "shop", source).unwrap()))
            };
            store.sync(&numbers.iter().map(object).collect::<Vec<_>>());
        }
        store
    };
    let json = slice(OBJECTS).to_string().len();
    assert!((1000..1300).contains(&json), "the object is as large as the measured ones: {json}");
    let warm = store_of(100);
    let before = resident_bytes();
    let store = store_of(OBJECTS);
    let each = resident_bytes().saturating_sub(before) / u64::from(OBJECTS);
    assert_eq!(store.snapshot().len() + warm.snapshot().len(), OBJECTS as usize + 100);
    assert!(each > 0 && each <= MOST_BYTES, "{each} bytes an object of {json} bytes of JSON");
    // What is told leaves out the index and what the allocator adds, and nothing large.
    let told = store.snapshot().bytes("endpoints") as u64 / u64::from(OBJECTS);
    assert!(told * 2 > each && told <= each, "{told} bytes are told, {each} are taken");
}

fn resource() -> WatchedResource {
    let spec = api::WatchedResource {
        api_version: Some("discovery.k8s.io/v1".to_owned()),
        resources: "endpointslices".to_owned(),
        index_by: vec!["metadata.namespace".to_owned(), "metadata.labels['kubernetes.io/service-name']".to_owned()],
        ..api::WatchedResource::default()
    };
    WatchedResource::new("endpoints", &spec, &[]).unwrap()
}

fn slice(number: u32) -> Value {
    let endpoint = |last: u32| {
        json!({
            "addresses": [format!("10.{}.{}.{last}", number / 250, number % 250)],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "nodeName": format!("node-{}", number % 50),
            "targetRef": {
                "kind": "Pod", "namespace": "shop", "name": format!("service-{number:05}-{last}"),
                "uid": format!("6f1c54a8-0000-4000-8000-{number:010}{last:02}"),
            },
            "zone": "zone-a",
        })
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": format!("service-{number:05}-abcde"), "namespace": "shop",
            "uid": format!("6f1c54a8-0000-4000-9000-{number:012}"), "resourceVersion": number.to_string(),
            "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 3,
            "labels": {
                "kubernetes.io/service-name": format!("service-{number:05}"),
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "endpoints": [endpoint(1), endpoint(2), endpoint(3)],
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    })
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
