use serde::{Deserialize, Serialize};

/// A validator's answer: what it found. The verdict follows from the findings, so the two cannot contradict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    warnings: Vec<Finding>,
    errors: Vec<Finding>,
}

/// What a report concludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing was found.
    Valid,
    /// There are warnings and no errors: publish, and show them.
    Warning,
    /// There are errors: do not publish.
    Error,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The file it stands in: one of the request's.
    pub path: String,
    /// Counted from 1; 0 = unknown.
    pub line: u32,
    /// In bytes from 1; 0 = unknown.
    pub column: u32,
    /// What is wrong and what to do about it.
    pub message: String,
}

/// A place in a file of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    path: String,
    line: u32,
    column: u32,
}

// === impl Report ===

impl Report {
    /// Adds something that must stop publication. The message says what is wrong and what to do.
    pub fn error(&mut self, position: Position, message: impl Into<String>) {
        self.errors.push(position.finding(message.into()));
    }

    /// Adds something that should be seen but stops nothing.
    pub fn warn(&mut self, position: Position, message: impl Into<String>) {
        self.warnings.push(position.finding(message.into()));
    }

    /// In the order in which they were added.
    pub fn errors(&self) -> &[Finding] {
        &self.errors
    }

    /// In the order in which they were added.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// What follows from the findings.
    pub fn verdict(&self) -> Verdict {
        match (self.errors.as_slice(), self.warnings.as_slice()) {
            ([], []) => Verdict::Valid,
            ([], _) => Verdict::Warning,
            _ => Verdict::Error,
        }
    }

    pub(crate) fn into_findings(self) -> (Vec<Finding>, Vec<Finding>) {
        (self.warnings, self.errors)
    }
}

// === impl Position ===

impl Position {
    /// The file as a whole.
    pub fn whole(path: &str) -> Self {
        Self::at(path, 0, 0)
    }

    /// A line and column, both counted from 1, columns in bytes.
    pub fn at(path: &str, line: u32, column: u32) -> Self {
        Self { path: path.to_owned(), line, column }
    }

    /// Line and column of the byte at `offset` of `content`. An offset past the end is the end.
    pub fn of_offset(path: &str, content: &[u8], offset: usize) -> Self {
        let before = &content[..offset.min(content.len())];
        let feeds = before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |feed| feed + 1);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Self::at(path, number(feeds + 1), number(before.len() - start + 1))
    }

    fn finding(self, message: String) -> Finding {
        let Self { path, line, column } = self;
        Finding { path, line, column, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_becomes_line_and_column() {
        let place = |offset| {
            let Position { line, column, .. } = Position::of_offset("f", b"ab\ncd\n", offset);
            (line, column)
        };
        assert_eq!(place(0), (1, 1));
        assert_eq!(place(2), (1, 3));
        assert_eq!(place(3), (2, 1));
        assert_eq!(place(6), (3, 1));
        assert_eq!(place(600), (3, 1));
    }

    #[test]
    fn the_verdict_follows_from_the_findings() {
        let mut report = Report::default();
        assert_eq!(report.verdict(), Verdict::Valid);
        report.warn(Position::whole("f"), "odd");
        assert_eq!(report.verdict(), Verdict::Warning);
        report.error(Position::whole("f"), "wrong");
        assert_eq!(report.verdict(), Verdict::Error);
    }
}
