//! Looking at `/proc`.

use std::path::Path;

/// Start time of a process in clock ticks since boot. `None` = it has ended, or is a zombie.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself hold spaces and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    // Field 22 of the line; `rest` starts at field 3, and one was taken.
    fields.nth(18)?.parse().ok()
}

/// Processes whose command line names this socket (`-S SOCKET,…`). The workers of a master have its command line.
pub(crate) fn processes_naming(socket: &Path) -> Vec<u32> {
    let socket = socket.as_os_str().as_encoded_bytes();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut arguments = line.split(|byte| *byte == 0);
            arguments.any(|argument| names_socket(argument, socket)) && start_ticks(*pid).is_some()
        })
        .collect()
}

/// Whether a process was started as `BINARY … CONFIG …`. A reload executes the master anew with the same first word.
pub(crate) fn runs(pid: u32, binary: &Path, config: &Path) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.next() == Some(binary.as_os_str().as_encoded_bytes())
        && arguments.any(|argument| argument == config.as_os_str().as_encoded_bytes())
}

fn names_socket(argument: &[u8], socket: &[u8]) -> bool {
    argument.strip_prefix(socket).is_some_and(|rest| rest.is_empty() || rest.starts_with(b","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_path_is_another_socket() {
        assert!(names_socket(b"/run/m.sock,mode,600", b"/run/m.sock"));
        assert!(names_socket(b"/run/m.sock", b"/run/m.sock"));
        assert!(!names_socket(b"/run/m.sock2", b"/run/m.sock"));
    }

    #[test]
    fn knows_its_own_start_and_no_start_of_what_is_not_there() {
        assert!(start_ticks(std::process::id()).is_some());
        assert_eq!(start_ticks(u32::MAX), None);
    }
}
