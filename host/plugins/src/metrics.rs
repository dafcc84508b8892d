//! The totals as Prometheus metrics.

use std::{
    fmt::{self, Debug, Formatter},
    sync::Arc,
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet},
    metrics::MetricType,
};

use crate::totals::{AllTotals, BOUNDS_NANOS, CONTRACTS, OfContract, Totals};

/// All plugins of one [`crate::PluginHost`], for a registry. A plugin is in it from its first attempt to load.
#[derive(Clone)]
pub struct PluginMetrics(pub(crate) AllTotals);

type Labels<'a> = Vec<(&'static str, &'a str)>;

// === impl PluginMetrics ===

impl Collector for PluginMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let all = self.0.all();
        let mut counter = |name, help, values: &dyn Fn(&Totals) -> Vec<(Labels<'_>, u64)>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            each(&all, |totals| {
                for (labels, value) in values(totals) {
                    // What never happened is left out, or each plugin would have forty lines of zero.
                    if value > 0 {
                        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
                    }
                }
                Ok(())
            })
        };
        counter("haptic_plugin_calls", "Calls of plugins by how they ended", &calls)?;
        counter("haptic_plugin_failures", "Calls that a limit or a broken rule ended", &failures)?;
        counter("haptic_plugin_loads", "Loaded plugins by where the compiled module came from", &loads)?;
        counter("haptic_plugin_load_failures", "Plugins that could not be loaded", &load_failures)?;
        counter("haptic_plugin_notes_dropped", "Notes of plugins that were not written to the log", &|totals| {
            vec![(named(totals), totals.dropped())]
        })?;

        let mut histogram = encoder.encode_descriptor(
            "haptic_plugin_call_duration_seconds",
            "Making the instance to the believed answer",
            None,
            MetricType::Histogram,
        )?;
        each(&all, |totals| {
            of_contracts(totals, |labels, contract| encode_histogram(&mut histogram, &labels, contract))
        })?;

        gauge(
            &mut encoder,
            &all,
            "haptic_plugin_memory_peak_bytes",
            "The most that one instance has held",
            Totals::memory_peak,
        )?;
        gauge(
            &mut encoder,
            &all,
            "haptic_plugin_load_seconds",
            "The newest load, from bytes to a trial call",
            |totals| totals.load_time().as_secs_f64(),
        )?;
        gauge(
            &mut encoder,
            &all,
            "haptic_plugin_compile_seconds",
            "Of which compiling, or reading the cache",
            |totals| totals.compile_time().as_secs_f64(),
        )
    }
}

impl Debug for PluginMetrics {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PluginMetrics").finish_non_exhaustive()
    }
}

fn calls(totals: &Totals) -> Vec<(Labels<'_>, u64)> {
    by_contract(totals, "verdict", |contract| contract.verdicts().collect())
}

fn failures(totals: &Totals) -> Vec<(Labels<'_>, u64)> {
    by_contract(totals, "reason", |contract| contract.failures().collect())
}

fn loads(totals: &Totals) -> Vec<(Labels<'_>, u64)> {
    totals.loads().map(|(origin, count)| (with(named(totals), "module", origin), count)).collect()
}

fn load_failures(totals: &Totals) -> Vec<(Labels<'_>, u64)> {
    totals.load_failures().into_iter().map(|(reason, count)| (with(named(totals), "reason", reason), count)).collect()
}

fn by_contract<'a>(
    totals: &'a Totals,
    label: &'static str,
    counts: impl Fn(&OfContract) -> Vec<(&'static str, u64)>,
) -> Vec<(Labels<'a>, u64)> {
    let mut all = Vec::new();
    let done = of_contracts(totals, |labels, contract| {
        all.extend(counts(contract).into_iter().map(|(value, count)| (with(labels.clone(), label, value), count)));
        Ok(())
    });
    done.expect("nothing is written");
    all
}

/// The contracts of a plugin that were ever called.
fn of_contracts<'a>(
    totals: &'a Totals,
    mut work: impl FnMut(Labels<'a>, &'a OfContract) -> fmt::Result,
) -> fmt::Result {
    for (contract, label) in CONTRACTS.into_iter().zip(CONTRACT_LABELS) {
        let counted = totals.contract(contract);
        if counted.calls() > 0 {
            work(with(named(totals), "contract", label), counted)?;
        }
    }
    Ok(())
}

/// As `wit/` and reports name them, in the order of [`CONTRACTS`].
const CONTRACT_LABELS: [&str; CONTRACTS.len()] = ["auxiliary-file", "rendered-output", "template-filter"];

fn encode_histogram(family: &mut MetricEncoder<'_>, labels: &Labels<'_>, contract: &OfContract) -> fmt::Result {
    let bounds = BOUNDS_NANOS.into_iter().map(|nanos| Duration::from_nanos(nanos).as_secs_f64()).chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(contract.buckets()).collect();
    // Counted here and not taken from the verdicts, so that a call in between cannot make the two differ.
    let count = buckets.iter().map(|(_, count)| count).sum();
    let sum = contract.time().as_secs_f64();
    family.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}

fn gauge<V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[Arc<Totals>],
    name: &str,
    help: &str,
    value: impl Fn(&Totals) -> V,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    each(all, |totals| family.encode_family(&named(totals))?.encode_gauge(&value(totals)))
}

fn each(all: &[Arc<Totals>], mut work: impl FnMut(&Totals) -> fmt::Result) -> fmt::Result {
    all.iter().try_for_each(|totals| work(totals))
}

fn named(totals: &Totals) -> Labels<'_> {
    vec![("plugin", &totals.name)]
}

fn with<'a>(mut labels: Labels<'a>, name: &'static str, value: &'a str) -> Labels<'a> {
    labels.push((name, value));
    labels
}
