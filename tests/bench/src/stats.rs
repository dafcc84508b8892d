//! Medians and how they are printed.

use std::time::Duration;

/// Times of one thing, measured one after the other.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

// === impl Samples ===

impl Samples {
    pub(crate) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// The nearest rank: the least sample that so large a part of all does not exceed.
    fn at(&self, part: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index into few samples"
        )]
        let rank = (sorted.len() as f64 * part).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(0.5)
    }

    pub(crate) fn print(&self, what: &str, goal: &str) {
        let (median, slow, count) = (shown(self.median()), shown(self.at(0.99)), self.0.len());
        println!("{what:<62} {median:>10} {slow:>10} {goal:>10} {count:>6}");
    }
}

/// A single figure.
pub(crate) fn print(what: &str, value: &str, goal: &str) {
    println!("{what:<62} {value:>10} {:>10} {goal:>10}", "");
}

pub(crate) fn shown(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..10.0 => format!("{micros:.2} µs"),
        ..1_000.0 => format!("{micros:.1} µs"),
        _ => format!("{:.2} ms", micros / 1e3),
    }
}
