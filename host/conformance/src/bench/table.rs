//! The cost table as text.

use std::{fmt::Write as _, time::Duration};

use crate::bench::{Cost, Costs};

pub(super) fn text(costs: &Costs) -> String {
    let Costs { plugin, haptic, runtime, module_bytes, timeout, rows } = costs;
    let mut text = format!("plugin {plugin}, {module_bytes} bytes, on haptic {haptic} with {runtime}\n\n");
    let width = rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
    let _ = writeln!(text, "{:<width$}      median         p99     n      memory  ended", "");
    for Cost { what, runs, median, p99, memory_bytes, ended } in rows {
        let memory = memory_bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
        let over = if ended.is_some() && median > timeout {
            format!(", over the timeout of {timeout:?}")
        } else {
            String::new()
        };
        let ended = ended.as_deref().unwrap_or("-");
        let (median, p99) = (duration(*median), duration(*p99));
        let _ = writeln!(text, "{what:<width$}  {median:>10}  {p99:>10}  {runs:>4}  {memory:>10}  {ended}{over}");
    }
    text
}

/// With three digits that count.
fn duration(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    let (number, unit) = match micros {
        micros if micros < 1e3 => (micros, "µs"),
        micros if micros < 1e6 => (micros / 1e3, "ms"),
        micros => (micros / 1e6, "s"),
    };
    let digits = match number {
        number if number < 10.0 => 2,
        number if number < 100.0 => 1,
        _ => 0,
    };
    format!("{number:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_under_their_titles() {
        let row = |what: &str, nanos, memory_bytes, ended: Option<&str>| Cost {
            what: what.to_owned(),
            runs: 5,
            median: Duration::from_nanos(nanos),
            p99: Duration::from_nanos(nanos * 2),
            memory_bytes,
            ended: ended.map(str::to_owned),
        };
        let costs = Costs {
            plugin: "maps".to_owned(),
            haptic: "0.1.0",
            runtime: "wasmtime 48.0.8",
            module_bytes: 1000,
            timeout: Duration::from_millis(100),
            rows: vec![
                row("compile", 44_000_000, None, None),
                row("check a file, 5 MiB", 123_456_789, Some(2 << 20), Some("error")),
                row("filter ip_version (a), again", 95, None, Some("answered")),
            ],
        };
        let expected = "\
plugin maps, 1000 bytes, on haptic 0.1.0 with wasmtime 48.0.8

                                  median         p99     n      memory  ended
compile                          44.0 ms     88.0 ms     5           -  -
check a file, 5 MiB               123 ms      247 ms     5    2048 KiB  error, over the timeout of 100ms
filter ip_version (a), again     0.10 µs     0.19 µs     5           -  answered
";
        assert_eq!(text(&costs), expected);
    }
}
