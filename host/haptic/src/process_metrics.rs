//! What the process itself uses, by the names that Prometheus clients agree on, and which build it is.
//!
//! Read from `/proc` when somebody asks. What cannot be read is left out: a metric that is missing is noticed, one that
//! is zero is believed.

use std::{
    fmt::{self, Debug, Formatter},
    fs,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::{MetricType, family::Family, gauge::Gauge},
    registry::Registry,
};

/// Of `/proc/PID/stat`, per second. The kernel gives this number to programs whatever its own clock does; the two old
/// architectures where it differs are none that haptic is built for.
const TICKS: f64 = 100.0;

#[derive(Debug)]
struct ProcessCollector;

/// Fields of `/proc/self/stat` after the name, which may hold spaces.
struct Stat(Vec<u64>);

pub(crate) fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(ProcessCollector));
    let build: Family<Vec<(&str, &str)>, Gauge> = Family::default();
    build.get_or_create(&vec![("version", env!("CARGO_PKG_VERSION"))]).set(1);
    registry.register("haptic_build_info", "The version that runs; always 1", build);
}

// === impl ProcessCollector ===

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let stat = Stat::read();
        let cpu = stat.as_ref().and_then(|stat| Some(seconds(stat.field(14)? + stat.field(15)?)));
        if let Some(cpu) = cpu {
            encoder
                .encode_descriptor("process_cpu_seconds", "Time on a processor", None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&cpu, None)?;
        }
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kibibytes = |name| Some(number_after(&status, name)? * 1024.0);
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let started = || Some(boot_time()? + seconds(stat.as_ref()?.field(22)?));
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Memory that is in use", kibibytes("VmRSS:")),
            ("process_virtual_memory_bytes", "Addresses that are in use", kibibytes("VmSize:")),
            ("process_threads", "Threads", number_after(&status, "Threads:")),
            ("process_open_fds", "Open file descriptors", open_descriptors()),
            ("process_max_fds", "The most file descriptors at a time", number_after(&limits, "Max open files")),
            ("process_start_time_seconds", "When it began, in seconds since 1970", started()),
        ] {
            if let Some(value) = value {
                encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)?;
            }
        }
        Ok(())
    }
}

// === impl Stat ===

impl Stat {
    fn read() -> Option<Self> {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        let (_, fields) = text.rsplit_once(") ")?;
        Some(Self(fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect()))
    }

    /// By the number that proc_pid_stat(5) gives it; the first after the name is 3.
    fn field(&self, number: usize) -> Option<u64> {
        self.0.get(number - 3).copied()
    }
}

impl Debug for Stat {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stat").finish_non_exhaustive()
    }
}

#[allow(clippy::cast_precision_loss, reason = "ticks of thousands of years fit")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / TICKS
}

/// When the machine started, in seconds since 1970.
fn boot_time() -> Option<f64> {
    number_after(&fs::read_to_string("/proc/stat").ok()?, "btime")
}

#[allow(clippy::cast_precision_loss, reason = "there are not that many")]
fn open_descriptors() -> Option<f64> {
    // The one that lists them is not counted.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

/// The first number of the line that begins with this name.
fn number_after(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
