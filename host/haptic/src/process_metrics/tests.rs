use std::collections::BTreeMap;

use prometheus_client::{encoding::text, registry::Registry};

use crate::process_metrics::{number_after, register};

#[test]
fn tells_of_this_process_what_the_kernel_says() {
    let mut registry = Registry::default();
    register(&mut registry);
    let mut encoded = String::new();
    text::encode(&mut encoded, &registry).unwrap();
    let values: BTreeMap<_, f64> = encoded
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect();
    // A page and more, descriptors of a test, a start after the year 2020.
    assert!(values["process_resident_memory_bytes"] > 4096.0, "{encoded}");
    assert!(values["process_virtual_memory_bytes"] >= values["process_resident_memory_bytes"], "{encoded}");
    assert!(values["process_open_fds"] >= 3.0 && values["process_open_fds"] <= values["process_max_fds"], "{encoded}");
    assert!(values["process_threads"] >= 1.0, "{encoded}");
    assert!(values["process_start_time_seconds"] > 1_577_836_800.0, "{encoded}");
    assert!(values.contains_key("process_cpu_seconds_total"), "{encoded}");
    let build = concat!("haptic_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1");
    assert!(encoded.lines().any(|line| line == build), "{encoded}");
}

#[test]
fn what_is_not_a_number_is_left_out() {
    assert_eq!(number_after("Max open files            unlimited            unlimited", "Max open files"), None);
    assert_eq!(number_after("VmRSS:\t    1234 kB\nVmSwap: 1 kB", "VmRSS:"), Some(1234.0));
    assert_eq!(number_after("", "btime"), None);
}
