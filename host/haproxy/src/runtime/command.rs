//! Operations as command lines, and the only answers that count as success for each.

use std::fmt::Write as _;

use haptic_model::{FilePath, Keyword, Op, ServerState};

use crate::runtime::{Answer, RuntimeError, check_token};

/// One command line without payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) line: String,
    pub(crate) expect: Expect,
}

/// The answer that means success (haproxy-facts §4, §5; the texts are the same in 3.0, 3.2 and 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No text at all.
    Silent,
    /// The last line is or starts with this. Older log lines of the thread may come before it.
    LastLine(&'static str),
    /// `set server … addr` answers with a warning, success or not.
    AddressChanged,
    /// Success or `Key not found.`: the key is gone either way.
    KeyGone,
}

/// Where an operation stands in create → switch → remove. A batch never crosses a border, so that nothing is switched
/// or removed after a failed creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Create,
    Switch,
    Remove,
}

// === impl Command ===

impl Command {
    pub(crate) fn silent(line: String) -> Self {
        Self { line, expect: Expect::Silent }
    }

    pub(crate) fn says(line: String, text: &'static str) -> Self {
        Self { line, expect: Expect::LastLine(text) }
    }

    pub(crate) fn check(&self, answer: &Answer) -> Result<(), RuntimeError> {
        let fine = match self.expect {
            Expect::Silent => answer.is_silent(),
            Expect::LastLine(text) => !answer.failed() && last_line(&answer.text).starts_with(text),
            Expect::AddressChanged => {
                ["changed from ", "nothing changed", "no need to change"].iter().any(|text| answer.text.contains(text))
                    && !answer.failed()
            }
            Expect::KeyGone => answer.is_silent() || answer.text == "Key not found.",
        };
        if fine { Ok(()) } else { Err(answer.refused(&self.line)) }
    }
}

/// The commands of an operation that needs no payload and no dialogue; `None` for the others.
pub(crate) fn simple(op: &Op) -> Result<Option<Vec<Command>>, RuntimeError> {
    let commands = match op {
        Op::BackendAdd { name, profile, mode } => {
            let (name, profile) = (check_token(name)?, check_token(profile)?);
            vec![Command::says(format!("add backend {name} from {profile} mode {mode}"), "New backend registered")]
        }
        Op::BackendPublish { name } => {
            vec![Command::says(format!("publish backend {}", check_token(name)?), "Backend published.")]
        }
        Op::BackendUnpublish { name } => {
            vec![Command::says(format!("unpublish backend {}", check_token(name)?), "Backend unpublished.")]
        }
        Op::ServerAdd { backend, server, address, port, weight, keywords } => {
            let target = server_name(backend, server)?;
            let address = socket_address(*address, *port)?;
            let mut line = format!("add server {target} {address} weight {weight}");
            for keyword in keywords {
                push_keyword(&mut line, keyword)?;
            }
            vec![Command::says(line, "New server registered.")]
        }
        Op::ServerEnable { backend, server, health } => {
            let target = server_name(backend, server)?;
            let mut commands = Vec::with_capacity(2);
            if *health {
                commands.push(Command::silent(format!("enable health {target}")));
            }
            commands.push(Command::silent(format!("enable server {target}")));
            commands
        }
        Op::ServerSetAddr { backend, server, address, port } => {
            check_port(*port)?;
            let line = format!("set server {} addr {address} port {port}", server_name(backend, server)?);
            vec![Command { line, expect: Expect::AddressChanged }]
        }
        Op::ServerSetWeight { backend, server, weight } => {
            vec![Command::silent(format!("set server {} weight {weight}", server_name(backend, server)?))]
        }
        Op::ServerSetState { backend, server, state } => {
            vec![Command::silent(format!("set server {} state {}", server_name(backend, server)?, state_word(*state)))]
        }
        Op::ServerDel { backend, server } => {
            vec![Command::silent(format!("disable server {}", server_name(backend, server)?))]
        }
        Op::MapSet { map, key, value } => {
            vec![Command::silent(format!("set map {map} {} {}", check_token(key)?, check_token(value)?))]
        }
        Op::CertDel { certificate } => {
            vec![Command::says(format!("del ssl cert {certificate}"), deleted_certificate())]
        }
        Op::BackendDel { .. }
        | Op::MapAdd { .. }
        | Op::MapDel { .. }
        | Op::MapReplace { .. }
        | Op::CertNew { .. }
        | Op::CertSet { .. }
        | Op::CaSet { .. }
        | Op::CrlSet { .. }
        | Op::CrtListAdd { .. }
        | Op::CrtListDel { .. } => return Ok(None),
    };
    Ok(Some(commands))
}

pub(crate) fn phase(op: &Op) -> Phase {
    match op {
        Op::BackendAdd { .. }
        | Op::BackendPublish { .. }
        | Op::ServerAdd { .. }
        | Op::ServerEnable { .. }
        | Op::ServerSetAddr { .. }
        | Op::ServerSetWeight { .. }
        | Op::ServerSetState { .. }
        | Op::CertNew { .. }
        | Op::CertSet { .. }
        | Op::CaSet { .. }
        | Op::CrlSet { .. } => Phase::Create,
        Op::MapAdd { .. } | Op::MapSet { .. } | Op::MapReplace { .. } | Op::CrtListAdd { .. } => Phase::Switch,
        Op::MapDel { .. }
        | Op::CrtListDel { .. }
        | Op::CertDel { .. }
        | Op::BackendUnpublish { .. }
        | Op::ServerDel { .. }
        | Op::BackendDel { .. } => Phase::Remove,
    }
}

pub(crate) fn map_add(map: &FilePath, key: &str, value: &str) -> Result<Command, RuntimeError> {
    Ok(Command::silent(format!("add map {map} {} {}", check_token(key)?, check_token(value)?)))
}

pub(crate) fn map_del(map: &FilePath, key: &str) -> Result<Command, RuntimeError> {
    Ok(Command { line: format!("del map {map} {}", check_token(key)?), expect: Expect::KeyGone })
}

/// A mark that no line of the payload equals. HAProxy takes at most seven bytes and reads a longer mark as a payload
/// that never started (measured on 3.0, 3.2 and 3.4); a payload that fits a line cannot hold every mark up to `HEOPfff`.
pub(crate) fn free_mark(payload: &str) -> String {
    let mut mark = "HEOP".to_owned();
    let mut number = 0_u32;
    while payload.lines().any(|line| line == mark) {
        number += 1;
        mark = format!("HEOP{number:x}");
    }
    mark
}

fn server_name(backend: &str, server: &str) -> Result<String, RuntimeError> {
    Ok(format!("{}/{}", check_token(backend)?, check_token(server)?))
}

/// With brackets around IPv6: HAProxy reads it as a host name without (haproxy-facts §0 trap 11).
fn socket_address(address: std::net::IpAddr, port: u16) -> Result<std::net::SocketAddr, RuntimeError> {
    check_port(port)?;
    Ok(std::net::SocketAddr::new(address, port))
}

/// HAProxy takes port 0 without complaint.
fn check_port(port: u16) -> Result<(), RuntimeError> {
    if port == 0 { Err(RuntimeError::Port(port)) } else { Ok(()) }
}

fn push_keyword(line: &mut String, keyword: &Keyword) -> Result<(), RuntimeError> {
    line.push(' ');
    line.push_str(check_token(&keyword.name)?);
    if let Some(value) = &keyword.value {
        write!(line, " {}", check_token(value)?).expect("writing to a string does not fail");
    }
    Ok(())
}

fn state_word(state: ServerState) -> &'static str {
    match state {
        ServerState::Ready => "ready",
        ServerState::Drain => "drain",
        ServerState::Maint => "maint",
    }
}

/// `Certificate 'F' deleted!`: the start is enough, since a failure has severity 3.
fn deleted_certificate() -> &'static str {
    "Certificate '"
}

fn last_line(text: &str) -> &str {
    text.lines().next_back().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn line(op: &Op) -> String {
        simple(op).unwrap().unwrap().into_iter().map(|command| command.line).collect::<Vec<_>>().join(";")
    }

    #[test]
    fn brackets_ipv6_and_always_gives_the_weight() {
        let op = Op::ServerAdd {
            backend: "be".into(),
            server: "s1".into(),
            address: "2001:db8::1".parse().unwrap(),
            port: 80,
            weight: 0,
            keywords: vec![Keyword::flag("check"), Keyword::with("inter", "5s")],
        };
        assert_eq!(line(&op), "add server be/s1 [2001:db8::1]:80 weight 0 check inter 5s");
    }

    #[test]
    fn refuses_words_that_would_be_two_commands() {
        let op = Op::MapSet { map: FilePath::new("m").unwrap(), key: "a;shutdown".into(), value: "b".into() };
        assert!(matches!(simple(&op), Err(RuntimeError::UnsafeToken(_))));
    }

    #[test]
    fn refuses_port_zero() {
        let op = Op::ServerSetAddr { backend: "b".into(), server: "s".into(), address: [127, 0, 0, 1].into(), port: 0 };
        assert!(matches!(simple(&op), Err(RuntimeError::Port(0))));
    }

    #[test]
    fn takes_the_last_line_of_a_deletion() {
        let command = Command::says("del backend b".to_owned(), "Backend deleted.");
        let noisy = "Server b/s is going DOWN for maintenance.\nServer deleted.\nBackend deleted.";
        let answer = Answer { severity: Some(6), text: noisy.to_owned() };
        assert!(command.check(&answer).is_ok());
        let cut = Answer { severity: Some(6), text: "Server deleted.".to_owned() };
        assert!(command.check(&cut).is_err());
    }

    #[test]
    fn chooses_a_mark_that_is_not_in_the_payload() {
        assert_eq!(free_mark("a\nHEOP\nHEOP1\n"), "HEOP2");
        let every = (0..2500).map(|number| format!("HEOP{number:x}")).collect::<Vec<_>>().join("\n");
        assert!(free_mark(&every[..12_000]).len() <= 7);
    }
}
