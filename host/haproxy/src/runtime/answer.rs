//! What HAProxy answered: framing, severity and lists of names.

use haptic_model::FilePath;

use crate::runtime::RuntimeError;

/// One answer. HAProxy prefixes it with its syslog severity (`[3]: …`), which some answers lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub severity: Option<u8>,
    /// Without the severity prefix and the closing empty line; lines are joined by LF.
    pub text: String,
}

// === impl Answer ===

impl Answer {
    /// HAProxy says that the command failed: severity 0–3, or a command it does not know (which it marks as 6).
    pub fn failed(&self) -> bool {
        self.severity.is_some_and(|severity| severity <= 3) || self.text.starts_with("Unknown command")
    }

    /// An answer without text, which is how most commands succeed.
    pub fn is_silent(&self) -> bool {
        self.severity.is_none() && self.text.is_empty()
    }

    pub(crate) fn refused(&self, command: &str) -> RuntimeError {
        let answer = if self.text.is_empty() { "an empty answer".to_owned() } else { self.text.clone() };
        RuntimeError::Refused { command: command.to_owned(), answer: answer.chars().take(500).collect() }
    }
}

/// Splits what was read into answers: each ends with an empty line. What follows the last empty line was cut short
/// and is no answer.
pub(crate) fn frames(text: &str) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    for line in text.split_inclusive('\n') {
        match line.strip_suffix('\n') {
            Some("") => {
                answers.push(answer(&lines));
                lines.clear();
            }
            Some(line) => lines.push(line),
            None => {}
        }
    }
    answers
}

/// The file names of `show ssl …`: one a line, before ` - N certificate(s)` and the like; `#` opens a title.
pub(crate) fn names(text: &str) -> Vec<FilePath> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| FilePath::new(line.split_whitespace().next()?).ok()).collect()
}

/// The file names of `show map`: `4 (maps/m.map) pattern loaded from …`.
pub(crate) fn names_in_parentheses(text: &str) -> Vec<FilePath> {
    let between = |line: &str| {
        let (_, rest) = line.split_once(" (")?;
        let (name, _) = rest.split_once(')')?;
        FilePath::new(name).ok()
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(between).collect()
}

fn answer(lines: &[&str]) -> Answer {
    let text = lines.join("\n");
    let prefixed = text.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    match prefixed.and_then(|(number, rest)| Some((number.parse::<u8>().ok()?, rest))) {
        Some((severity, rest)) => Answer { severity: Some(severity), text: rest.to_owned() },
        None => Answer { severity: None, text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_silent_prefixed_and_long_answers() {
        let answers = frames("\n\n[6]: New server registered.\n\nCommitting ssl/x.pem..\nSuccess!\n\n[3]: cut sho");
        assert_eq!(answers.len(), 4);
        assert!(answers[0].is_silent() && answers[1].is_silent());
        assert_eq!(answers[2], Answer { severity: Some(6), text: "New server registered.".to_owned() });
        assert_eq!(answers[3].text, "Committing ssl/x.pem..\nSuccess!");
    }

    #[test]
    fn recognises_failure_by_number_and_unknown_commands_by_text() {
        assert!(frames("[3]: No such server.\n\n")[0].failed());
        assert!(frames("[6]: Unknown command: 'add', but maybe …\n\n")[0].failed());
        assert!(!frames("[4]: nothing changed\n\n")[0].failed());
    }

    #[test]
    fn lists_only_names_of_the_file_set() {
        let ca = names(
            "# filename\n@system-ca - 145 certificate(s)\n/abs/ca.pem - 1 certificate(s)\nssl/ca.pem - 1 certificate(s)",
        );
        assert_eq!(ca, [FilePath::new("ssl/ca.pem").expect("a path")]);
        let maps = names_in_parentheses(
            "# id (file) description\n4 (maps/m.map) pattern loaded from file 'maps/m.map' used by map at …\n5 (/x) …\n-1 () acl",
        );
        assert_eq!(maps, [FilePath::new("maps/m.map").expect("a path")]);
    }
}
