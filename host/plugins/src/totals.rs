//! What the plugins of a process have done so far, under their names.
//!
//! Every number is an atomic, because a render makes a hundred thousand calls. [`crate::PluginMetrics`] reads them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use haptic_model::ports::{Contract, PluginCounter, PluginFailureKind};
use parking_lot::Mutex;

use crate::{
    notes::{Bucket, Dropped},
    report::Believed,
};

/// Upper bounds of the histogram of calls in nanoseconds: from a filter that does nothing to a validator that reads
/// megabytes. Longer calls are in a bucket of their own.
pub(crate) const BOUNDS_NANOS: [u64; 12] = [
    1_000,
    5_000,
    25_000,
    100_000,
    500_000,
    2_500_000,
    10_000_000,
    50_000_000,
    250_000_000,
    1_000_000_000,
    5_000_000_000,
    25_000_000_000,
];

/// Every [`PluginFailureKind::reason`].
pub(crate) const REASONS: [&str; 11] = [
    "timeout",
    "memory_limit",
    "output_limit",
    "input_limit",
    "stack_limit",
    "handle_limit",
    "parts_limit",
    "trap",
    "contract",
    "reported",
    "not_loaded",
];

/// Names that are remembered though no plugin of that name is loaded. Names come from objects that users write, and
/// candidates that are refused have names too.
const MAX_NAMES: usize = 1000;

pub(crate) const CONTRACTS: [Contract; 3] =
    [Contract::AuxiliaryFile, Contract::RenderedOutput, Contract::TemplateFilter];

/// Everything counted under one name, whatever module and config it was loaded with: a counter that goes on over a
/// reload is what a rate is made of.
pub(crate) struct Totals {
    pub(crate) name: Arc<str>,
    contracts: [OfContract; CONTRACTS.len()],
    loads: [AtomicU64; Origin::ALL.len()],
    load_failures: Mutex<BTreeMap<&'static str, u64>>,
    memory_peak: AtomicU64,
    compile_nanos: AtomicU64,
    load_nanos: AtomicU64,
    notes: Mutex<Bucket>,
    dropped: Dropped,
    failures_told: Mutex<Bucket>,
}

/// What one contract of a plugin has done.
#[derive(Default)]
pub(crate) struct OfContract {
    verdicts: [AtomicU64; Verdict::ALL.len()],
    failures: [AtomicU64; REASONS.len()],
    nanos: AtomicU64,
    buckets: [AtomicU64; BOUNDS_NANOS.len() + 1],
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Valid,
    Warning,
    Error,
    /// A filter gave a value.
    Answered,
    /// A filter did not take its arguments.
    Refused,
    Failed,
}

/// Where a compiled module came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Compiled,
    /// The image on disk.
    Cache,
    /// Another plugin that is loaded.
    Shared,
}

/// An answer that was believed.
pub(crate) trait Judged {
    fn verdict(&self) -> Verdict;
}

/// The totals of a process by name.
#[derive(Clone, Default)]
pub(crate) struct AllTotals(Arc<Mutex<BTreeMap<Arc<str>, Arc<Totals>>>>);

// === impl AllTotals ===

impl AllTotals {
    pub(crate) fn of(&self, name: &Arc<str>) -> Arc<Totals> {
        let mut all = self.0.lock();
        if all.len() >= MAX_NAMES && !all.contains_key(name) {
            all.retain(|_, totals| Arc::strong_count(totals) > 1);
        }
        Arc::clone(all.entry(Arc::clone(name)).or_insert_with(|| Arc::new(Totals::new(Arc::clone(name)))))
    }

    /// All there are, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Totals>> {
        self.0.lock().values().cloned().collect()
    }
}

// === impl Totals ===

impl Totals {
    pub(crate) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            contracts: Default::default(),
            loads: Default::default(),
            load_failures: Mutex::default(),
            memory_peak: AtomicU64::new(0),
            compile_nanos: AtomicU64::new(0),
            load_nanos: AtomicU64::new(0),
            notes: Mutex::new(Bucket::of_notes()),
            dropped: Dropped::default(),
            failures_told: Mutex::new(Bucket::of_failures()),
        }
    }

    pub(crate) fn count<T: Judged>(
        &self,
        contract: Contract,
        elapsed: Duration,
        outcome: &Result<T, PluginFailureKind>,
    ) {
        let totals = self.contract(contract);
        let verdict = match outcome {
            Ok(answer) => answer.verdict(),
            Err(kind) => {
                let reason = REASONS.iter().position(|reason| *reason == kind.reason());
                totals.failures[reason.expect("every reason is in the list")].fetch_add(1, Relaxed);
                Verdict::Failed
            }
        };
        totals.verdicts[verdict as usize].fetch_add(1, Relaxed);
        let nanos = nanos(elapsed);
        totals.nanos.fetch_add(nanos, Relaxed);
        totals.buckets[BOUNDS_NANOS.partition_point(|bound| *bound < nanos)].fetch_add(1, Relaxed);
    }

    pub(crate) fn loaded(&self, origin: Origin, compile: Duration, load: Duration) {
        self.loads[origin as usize].fetch_add(1, Relaxed);
        self.compile_nanos.store(nanos(compile), Relaxed);
        self.load_nanos.store(nanos(load), Relaxed);
    }

    pub(crate) fn load_failed(&self, reason: &'static str) {
        *self.load_failures.lock().entry(reason).or_default() += 1;
    }

    /// Notes what an instance held at its end.
    pub(crate) fn held(&self, bytes: u64) {
        // Most instances hold less than the largest, and a read does not take the cache line from the others.
        if bytes > self.memory_peak.load(Relaxed) {
            self.memory_peak.fetch_max(bytes, Relaxed);
        }
    }

    /// Whether another note may be written now.
    pub(crate) fn may_note(&self) -> bool {
        self.notes.lock().take()
    }

    pub(crate) fn dropped_notes(&self, notes: u64) {
        self.dropped.add(&self.name, notes);
    }

    /// Whether another failure may be logged now. All of them are counted and reported.
    pub(crate) fn may_tell_failure(&self) -> bool {
        self.failures_told.lock().take()
    }

    pub(crate) fn contract(&self, contract: Contract) -> &OfContract {
        // In the order of `CONTRACTS`, which a test holds to that of the type.
        &self.contracts[contract as usize]
    }

    pub(crate) fn loads(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Origin::ALL.into_iter().map(|origin| (origin.label(), self.loads[origin as usize].load(Relaxed)))
    }

    pub(crate) fn load_failures(&self) -> BTreeMap<&'static str, u64> {
        self.load_failures.lock().clone()
    }

    pub(crate) fn memory_peak(&self) -> u64 {
        self.memory_peak.load(Relaxed)
    }

    /// Of the newest load.
    pub(crate) fn compile_time(&self) -> Duration {
        Duration::from_nanos(self.compile_nanos.load(Relaxed))
    }

    /// Of the newest load.
    pub(crate) fn load_time(&self) -> Duration {
        Duration::from_nanos(self.load_nanos.load(Relaxed))
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.count()
    }

    pub(crate) fn counter(&self) -> PluginCounter {
        let failures = |reason: &str| self.contracts.iter().map(|contract| contract.failures_for(reason)).sum::<u64>();
        PluginCounter {
            calls: self.contracts.iter().map(OfContract::calls).sum(),
            failures: REASONS.iter().map(|reason| failures(reason)).sum(),
            timeouts: failures("timeout"),
            memory_denials: failures("memory_limit"),
            traps: failures("trap") + failures("stack_limit"),
            nanos: self.contracts.iter().map(|contract| contract.nanos.load(Relaxed)).sum(),
            memory_peak_bytes: self.memory_peak(),
            dropped_notes: self.dropped(),
        }
    }
}

// === impl OfContract ===

impl OfContract {
    pub(crate) fn calls(&self) -> u64 {
        self.verdicts.iter().map(|verdict| verdict.load(Relaxed)).sum()
    }

    /// By verdict.
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Verdict::ALL.into_iter().map(|verdict| (verdict.label(), self.verdicts[verdict as usize].load(Relaxed)))
    }

    /// By [`PluginFailureKind::reason`].
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.into_iter().zip(self.failures.iter().map(|failures| failures.load(Relaxed)))
    }

    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Relaxed))
    }

    /// Calls by bucket of [`BOUNDS_NANOS`], not cumulated.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed))
    }

    fn failures_for(&self, reason: &str) -> u64 {
        self.failures().filter(|(other, _)| *other == reason).map(|(_, count)| count).sum()
    }
}

// === impl Verdict ===

impl Verdict {
    pub(crate) const ALL: [Self; 6] =
        [Self::Valid, Self::Warning, Self::Error, Self::Answered, Self::Refused, Self::Failed];

    fn label(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

// === impl Origin ===

impl Origin {
    pub(crate) const ALL: [Self; 3] = [Self::Compiled, Self::Cache, Self::Shared];

    fn label(self) -> &'static str {
        match self {
            Self::Compiled => "compiled",
            Self::Cache => "cache",
            Self::Shared => "shared",
        }
    }
}

// === impl Judged ===

impl Judged for Believed {
    fn verdict(&self) -> Verdict {
        match (self.errors.is_empty(), self.warnings.is_empty()) {
            (false, _) => Verdict::Error,
            (true, false) => Verdict::Warning,
            (true, true) => Verdict::Valid,
        }
    }
}

/// A filter's value, or why it does not take its arguments.
impl Judged for Result<String, String> {
    fn verdict(&self) -> Verdict {
        if self.is_ok() { Verdict::Answered } else { Verdict::Refused }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(answer: Result<&str, PluginFailureKind>) -> Result<Result<String, String>, PluginFailureKind> {
        answer.map(|text| Ok(text.to_owned()))
    }

    #[test]
    fn the_list_of_contracts_has_the_order_of_the_type() {
        assert_eq!(CONTRACTS.map(|contract| contract as usize), [0, 1, 2]);
    }

    #[test]
    fn counts_by_contract_verdict_and_reason() {
        let totals = Totals::new("p".into());
        totals.count(Contract::TemplateFilter, Duration::from_nanos(999), &outcome(Ok("1")));
        totals.count(Contract::TemplateFilter, Duration::from_hours(1), &outcome(Err(PluginFailureKind::StackLimit)));
        let filters = totals.contract(Contract::TemplateFilter);
        assert_eq!(
            filters.verdicts().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
            [("answered", 1), ("failed", 1)]
        );
        assert_eq!(filters.failures().find(|(_, count)| *count > 0), Some(("stack_limit", 1)));
        let buckets: Vec<_> = filters.buckets().collect();
        assert_eq!((buckets[0], buckets[BOUNDS_NANOS.len()], buckets.iter().sum()), (1, 1, 2_u64));
        assert_eq!(totals.contract(Contract::AuxiliaryFile).calls(), 0);
        let counter = totals.counter();
        assert_eq!((counter.calls, counter.failures, counter.traps), (2, 1, 1));
    }

    #[test]
    fn a_failure_has_one_name_in_metrics_and_in_status() {
        let (limit, limit_bytes, message) = (1, 1, String::new());
        let kinds = [
            PluginFailureKind::Timeout { limit_ms: 1 },
            PluginFailureKind::MemoryLimit { limit_bytes },
            PluginFailureKind::OutputLimit { limit_bytes },
            PluginFailureKind::InputLimit { limit_bytes, bytes: 2 },
            PluginFailureKind::StackLimit,
            PluginFailureKind::HandleLimit { limit },
            PluginFailureKind::PartsLimit { message: message.clone() },
            PluginFailureKind::Trap { message: message.clone() },
            PluginFailureKind::Contract { message: message.clone() },
            PluginFailureKind::Reported { message: message.clone() },
            PluginFailureKind::NotLoaded { message },
        ];
        assert_eq!(kinds.each_ref().map(PluginFailureKind::reason), REASONS);
        for kind in kinds {
            let written = serde_json::to_value(&kind).expect("it is plain data");
            assert_eq!(written["reason"], kind.reason());
        }
    }

    #[test]
    fn names_of_plugins_that_are_gone_are_forgotten_when_there_are_too_many() {
        let all = AllTotals::default();
        let kept = all.of(&"kept".into());
        kept.held(7);
        for number in 0..3 * MAX_NAMES {
            all.of(&format!("gone-{number}").into());
        }
        assert!(all.all().len() <= MAX_NAMES);
        assert_eq!(all.of(&"kept".into()).memory_peak(), 7);
    }

    #[test]
    fn the_peak_is_the_most_that_one_instance_held() {
        let totals = Totals::new("p".into());
        for held in [1, 3, 2] {
            totals.held(held);
        }
        assert_eq!(totals.counter().memory_peak_bytes, 3);
    }
}
