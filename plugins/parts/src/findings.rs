//! Findings, bounded.

use haptic_plugin_sdk::{Position, Report};

/// Most findings of one severity that are listed. Nobody reads more, and a report has to fit the output limit.
const MOST: usize = 100;

/// Longest message in characters. What a message quotes comes from the input and may be of any length.
const LONGEST: usize = 400;

/// Collects the findings about one file: no more than a hundred errors and a hundred warnings, and then how many more
/// there are.
#[derive(Debug, Default)]
pub struct Findings {
    report: Report,
    more_errors: usize,
    more_warnings: usize,
}

// === impl Findings ===

impl Findings {
    /// Adds something that must stop publication.
    pub fn error(&mut self, position: Position, message: impl Into<String>) {
        if self.report.errors().len() < MOST {
            self.report.error(position, printable(message.into()));
        } else {
            self.more_errors += 1;
        }
    }

    /// Adds something that should be seen but stops nothing.
    pub fn warn(&mut self, position: Position, message: impl Into<String>) {
        if self.report.warnings().len() < MOST {
            self.report.warn(position, printable(message.into()));
        } else {
            self.more_warnings += 1;
        }
    }

    /// Whether another error would only be counted. Ask before costly words are looked for.
    pub fn is_full(&self) -> bool {
        self.report.errors().len() >= MOST
    }

    /// The report; what was only counted is told at `whole`.
    pub fn finish(mut self, whole: impl Fn() -> Position) -> Report {
        if self.more_errors > 0 {
            let more = self.more_errors;
            self.report.error(whole(), format!("{more} more errors are not listed; correct those above first"));
        }
        if self.more_warnings > 0 {
            let more = self.more_warnings;
            self.report.warn(whole(), format!("{more} more warnings are not listed; look at those above first"));
        }
        self.report
    }
}

/// What a log, a status and a terminal can show, and no longer than needed.
fn printable(message: String) -> String {
    let fine = |c: char| !c.is_control();
    if message.len() <= LONGEST && message.chars().all(fine) {
        return message;
    }
    let mut printable: String =
        message.chars().take(LONGEST).map(|c| if fine(c) { c } else { char::REPLACEMENT_CHARACTER }).collect();
    if message.chars().nth(LONGEST).is_some() {
        printable.push('…');
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Position {
        Position::whole("f")
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut findings = Findings::default();
        for index in 0..150 {
            findings.error(here(), format!("wrong {index}"));
        }
        let report = findings.finish(here);
        assert_eq!(report.errors().len(), 101);
        assert_eq!(report.errors()[99].message, "wrong 99");
        assert!(report.errors()[100].message.starts_with("50 more"));
        assert_eq!(report.warnings(), []);
    }

    #[test]
    fn messages_can_be_shown() {
        assert_eq!(printable("a\0b\n".to_owned()), "a\u{fffd}b\u{fffd}");
        let long = printable("ä".repeat(1000));
        assert_eq!(long.chars().count(), LONGEST + 1);
    }
}
