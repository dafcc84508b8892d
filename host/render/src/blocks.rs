//! `backend`, `profile` and `server`: sections that are records first and text second.

use std::{net::IpAddr, sync::Arc};

use haptic_model::{
    BackendRecord, Digest, FindingCode, Keyword, ProfileRecord, ProxyMode, ServerAddress, ServerRecord,
};
use minijinja::{
    Error, State, Value,
    value::{Kwargs, ValueKind},
};

use crate::{
    failure::Cause,
    records::{BackendSection, ProfileSection},
    session::{safe, try_with, with},
    sink,
};

/// First words that may stand in a `defaults` section, so that a line of a backend's body can be hoisted into its
/// profile. `default-server` is not among them: a backend made at run time does not take it from its profile
/// (haproxy-facts §5).
const HOISTABLE: &[&str] = &[
    "balance",
    "compression",
    "cookie",
    "errorfile",
    "errorfiles",
    "errorloc",
    "errorloc302",
    "errorloc303",
    "fullconn",
    "hash-balance-factor",
    "hash-type",
    "http-after-response",
    "http-check",
    "http-request",
    "http-response",
    "http-reuse",
    "http-send-name-header",
    "load-server-state-from-file",
    "log",
    "log-tag",
    "max-keep-alive-queue",
    "monitor-uri",
    "option",
    "retries",
    "retry-on",
    "source",
    "tcp-check",
    "timeout",
];

/// The backend whose body is being rendered.
#[derive(Debug, Default)]
pub(crate) struct OpenBackend {
    servers: Vec<ServerRecord>,
}

struct ProfileOptions {
    from: Option<String>,
    mode: ProxyMode,
    balance: Option<String>,
    hash_type: Option<String>,
    caller: Option<Value>,
}

/// `{% call backend(name, from=…, mode="http", balance="roundrobin", hash_type=…) %}body{% endcall %}`
pub(crate) fn backend(state: &mut State, name: &str, kwargs: Kwargs) -> Result<Value, Error> {
    sink::name(name).map_err(Cause::unsafe_value)?;
    let options = ProfileOptions::take(&kwargs)?;
    try_with(|session| {
        if session.frame().backend.is_some() {
            return Err(Cause::usage("`backend` may not be used inside another `backend`"));
        }
        session.frame().backend = Some(OpenBackend::default());
        Ok(())
    })?;
    let body = options.body(state);
    let open = with(|session| session.frame().backend.take())?.unwrap_or_default();
    let body = body?;
    let lines = body_lines(&body);
    let hoistable = lines.iter().all(|line| HOISTABLE.contains(&first_word(line)));
    let (profile_lines, own_lines): (&[&str], &[&str]) = if hoistable { (&lines, &[]) } else { (&[], &lines) };
    let profile = profile_section(&options, profile_lines)?;
    let record = BackendRecord {
        name: name.into(),
        profile: Arc::clone(&profile.record.name),
        mode: options.mode,
        body: own_lines.iter().fold(String::new(), |text, line| text + "  " + line + "\n").into(),
        dynamic_servers: profile.record.dynamic_servers,
        servers: open.servers,
    };
    let text: Arc<str> = backend_text(&record)?.into();
    let digest = Digest::of(text.as_bytes());
    let section = Arc::new(BackendSection { record: Arc::new(record), text, digest });
    try_with(|session| {
        let records = session.records();
        records.add_profile(&Arc::new(profile));
        records.add_backend(&section)
    })?;
    Ok(safe(""))
}

/// `{% call profile(from=…, mode="http", balance="roundrobin") %}body{% endcall %}`: a named `defaults` section that
/// is loaded even while no backend uses it, so that the first backend with this content needs no reload.
pub(crate) fn profile(state: &mut State, kwargs: Kwargs) -> Result<Value, Error> {
    let options = ProfileOptions::take(&kwargs)?;
    let body = options.body(state)?;
    let lines = body_lines(&body);
    if let Some(line) = lines.iter().find(|line| !HOISTABLE.contains(&first_word(line))) {
        return Err(Cause::usage(format!("`{line}` may not stand in a profile")).into());
    }
    let section = profile_section(&options, &lines)?;
    with(|session| session.records().add_profile(&Arc::new(section)))?;
    Ok(safe(""))
}

/// `server(name, address, port, weight=1, disabled=false, resolvers="haptic", keyword=value …)` inside a `backend`.
/// `_` in a keyword stands for `-`; `true` writes the keyword alone, `none` and `false` leave it out.
pub(crate) fn server(name: &str, address: &str, port: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    sink::name(name).map_err(Cause::unsafe_value)?;
    let weight: Option<u16> = kwargs.get("weight")?;
    let disabled: Option<bool> = kwargs.get("disabled")?;
    let resolvers: Option<String> = kwargs.get("resolvers")?;
    let mut keywords = keywords(&kwargs, &["weight", "disabled", "resolvers"])?;
    let address = match address.parse::<IpAddr>() {
        Ok(ip) => ServerAddress::Ip(ip),
        Err(_) => {
            host_name(address)?;
            // One bad name must not keep HAProxy from starting (DESIGN §5).
            keywords.push(Keyword::with("resolvers", resolvers.as_deref().unwrap_or("haptic")));
            keywords.push(Keyword::with("init-addr", "none"));
            ServerAddress::Host(address.into())
        }
    };
    let weight = weight.unwrap_or(1);
    if weight > 256 {
        return Err(Cause::data(FindingCode::InvalidValue, format!("server weight {weight} is over 256")).into());
    }
    let record = ServerRecord {
        name: name.into(),
        address,
        port: port_number(port)?,
        weight,
        disabled: disabled.unwrap_or(false),
        keywords,
    };
    try_with(|session| {
        let Some(open) = session.frame().backend.as_mut() else {
            return Err(Cause::usage("`server` works only inside `{% call backend(…) %}`"));
        };
        match open.servers.iter().find(|known| known.name == record.name) {
            // Two slices may list one endpoint while it moves between them.
            Some(known) if *known == record => Ok(()),
            Some(known) => Err(Cause::data(
                FindingCode::InvalidValue,
                format!("server `{}` is declared twice, for {} and {}", known.name, known.address, record.address),
            )),
            None => {
                open.servers.push(record);
                Ok(())
            }
        }
    })?;
    Ok(safe(""))
}

/// Every keyword argument but `known`, as keywords of a `server` or `bind` line, sorted by name.
pub(crate) fn keywords(kwargs: &Kwargs, known: &[&str]) -> Result<Vec<Keyword>, Error> {
    let mut names: Vec<String> = kwargs.args().filter(|name| !known.contains(name)).map(str::to_owned).collect();
    names.sort();
    let mut keywords = Vec::with_capacity(names.len());
    for name in names {
        let value: Value = kwargs.get(&name)?;
        let keyword = name.replace('_', "-");
        if keyword.is_empty() || !keyword.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
            return Err(Cause::usage(format!("`{name}` is not a keyword")).into());
        }
        match value.kind() {
            ValueKind::Undefined | ValueKind::None => {}
            ValueKind::Bool if value.is_true() => keywords.push(Keyword::flag(&keyword)),
            ValueKind::Bool => {}
            ValueKind::Number | ValueKind::String => {
                let text = value.to_string();
                sink::literal(&text).map_err(Cause::unsafe_value)?;
                keywords.push(Keyword::with(&keyword, &text));
            }
            kind => return Err(Cause::usage(format!("`{name}` takes text, a number or a boolean, not {kind}")).into()),
        }
    }
    kwargs.assert_all_used()?;
    Ok(keywords)
}

/// Writes keywords as words of a line, each with a space before it.
pub(crate) fn write_keywords(line: &mut String, keywords: &[Keyword]) -> Result<(), Cause> {
    for keyword in keywords {
        line.push(' ');
        line.push_str(&keyword.name);
        if let Some(value) = &keyword.value {
            line.push(' ');
            line.push_str(&sink::literal(value).map_err(Cause::unsafe_value)?);
        }
    }
    Ok(())
}

pub(crate) fn port_number(port: &Value) -> Result<u16, Error> {
    let number = port.as_i64().and_then(|number| u16::try_from(number).ok()).filter(|port| *port > 0);
    number.ok_or_else(|| {
        Cause::data(
            FindingCode::InvalidValue,
            format!("{} is not a port from 1 to 65535", sink::shown(&port.to_string())),
        )
        .into()
    })
}

fn host_name(name: &str) -> Result<(), Cause> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    let trimmed = name.strip_suffix('.').unwrap_or(name);
    if name.len() <= 253 && trimmed.split('.').all(label) {
        return Ok(());
    }
    Err(Cause::unsafe_value(format!("{} is neither an address nor a host name", sink::shown(name))))
}

fn profile_section(options: &ProfileOptions, lines: &[&str]) -> Result<ProfileSection, Error> {
    let mut content = format!("  mode {}\n", options.mode);
    for (keyword, value) in [("balance", &options.balance), ("hash-type", &options.hash_type)] {
        if let Some(value) = value {
            content.push_str("  ");
            content.push_str(keyword);
            for word in value.split_whitespace() {
                content.push(' ');
                content.push_str(&sink::token(word).map_err(Cause::unsafe_value)?);
            }
            content.push('\n');
        }
    }
    for line in lines {
        content.push_str("  ");
        content.push_str(line);
        content.push('\n');
    }
    let from = match &options.from {
        Some(from) => {
            sink::name(from).map_err(Cause::unsafe_value)?;
            format!(" from {from}")
        }
        None => String::new(),
    };
    let key = Digest::of(format!("{from}\n{content}").as_bytes());
    let name: Arc<str> = format!("profile-{}", &key.short()[..10]).into();
    let text: Arc<str> = format!("defaults {name}{from}\n{content}").into();
    let record = ProfileRecord {
        name,
        text: Digest::of(text.as_bytes()),
        mode: options.mode,
        dynamic_servers: options.dynamic_servers(),
    };
    Ok(ProfileSection { record, text })
}

fn backend_text(record: &BackendRecord) -> Result<String, Error> {
    let mut text = format!("backend {} from {}\n", record.name, record.profile);
    text.push_str(&record.body);
    for server in &record.servers {
        use std::fmt::Write as _;
        let _ = write!(text, "  server {} {}:{} weight {}", server.name, server.address, server.port, server.weight);
        write_keywords(&mut text, &server.keywords)?;
        if server.disabled {
            text.push_str(" disabled");
        }
        text.push('\n');
    }
    Ok(text)
}

/// Lines with something in them, comments left out. Trailing white space stays: it may be an escaped space.
fn body_lines(body: &str) -> Vec<&str> {
    body.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn first_word(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

// === impl ProfileOptions ===

impl ProfileOptions {
    fn take(kwargs: &Kwargs) -> Result<Self, Error> {
        let mode: Option<String> = kwargs.get("mode")?;
        let mode = match mode.as_deref() {
            None | Some("http") => ProxyMode::Http,
            Some("tcp") => ProxyMode::Tcp,
            Some(other) => {
                return Err(Cause::data(
                    FindingCode::InvalidValue,
                    format!("{} is not a mode: `http` or `tcp`", sink::shown(other)),
                )
                .into());
            }
        };
        let options = Self {
            from: kwargs.get("from")?,
            mode,
            balance: kwargs.get("balance")?,
            hash_type: kwargs.get("hash_type")?,
            caller: kwargs.get("caller")?,
        };
        kwargs.assert_all_used()?;
        Ok(options)
    }

    fn body(&self, state: &mut State) -> Result<String, Error> {
        match &self.caller {
            Some(caller) => Ok(caller.call(state, &[])?.to_string()),
            None => Ok(String::new()),
        }
    }

    /// haproxy-facts §5, "backend LB": these algorithms take servers at run time.
    fn dynamic_servers(&self) -> bool {
        let consistent =
            self.hash_type.as_deref().is_some_and(|hash| hash.split_whitespace().next() == Some("consistent"));
        let algorithm = self.balance.as_deref().unwrap_or("roundrobin");
        let algorithm = algorithm.split(['(', ' ']).next().unwrap_or_default();
        match algorithm {
            "roundrobin" | "leastconn" | "first" | "random" => true,
            "static-rr" => false,
            _ => consistent,
        }
    }
}
