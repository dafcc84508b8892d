//! The other functions that templates call: files of the set, binds, and messages.

use std::{net::IpAddr, sync::Arc};

use haptic_model::{BindRecord, File, FileKind, FilePath, Finding, FindingCode};
use minijinja::{
    Environment, Error, Value,
    value::{Kwargs, ValueKind},
};

use crate::{
    blocks,
    failure::Cause,
    records::{BindLine, CrtListClaim, MapClaim, MapDeclaration},
    session::{safe, try_with, with},
    sink, snippet, unit,
};

/// Every function a template can call, with one line for `haptic functions`.
pub(crate) const FUNCTIONS: &[(&str, &str)] = &[
    ("backend", "{% call backend(name, from=, mode=, balance=, hash_type=) %}…{% endcall %}: declares a backend"),
    ("bind", "bind(frontend, port, address=none, keyword=value …): writes and declares a bind line"),
    ("ca_file", "ca_file(name, pem): declares a CA file, gives its path"),
    ("certificate", "certificate(name, certificate, key): declares a certificate, gives its path"),
    ("crl_file", "crl_file(name, pem): declares a revocation list, gives its path"),
    ("crt_list_entry", "crt_list_entry(list, certificate, sni=[], options=\"\"): adds a line to a crt-list"),
    ("crt_list_file", "crt_list_file(name): declares a crt-list, gives its path"),
    ("fail", "fail(message, reason=): leaves the unit out with this message"),
    ("file", "file(name, content, reload_on_change=false): declares a general file, gives its path"),
    ("hook", "hook(name): renders every snippet whose name starts with `name/`, in the order of the names"),
    ("map_entry", "map_entry(map, key, value): adds a line to a map; a key may be a list of parts"),
    ("map_file", "map_file(name, ordered=false): declares a map, gives its path"),
    ("profile", "{% call profile(from=, mode=, balance=) %}…{% endcall %}: declares a loaded profile"),
    ("render_each", "render_each(snippet, items): renders the snippet once per item, each on its own"),
    ("server", "server(name, address, port, weight=1, disabled=false, keyword=value …): a server of the backend"),
    ("warn", "warn(message, reason=, hint=): reports a warning about the unit's object"),
];

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_function("backend", blocks::backend);
    env.add_function("profile", blocks::profile);
    env.add_function("server", blocks::server);
    env.add_function("render_each", unit::render_each);
    env.add_function("hook", snippet::hook);
    env.add_function("bind", bind);
    env.add_function("map_file", map_file);
    env.add_function("map_entry", map_entry);
    env.add_function("crt_list_file", crt_list_file);
    env.add_function("crt_list_entry", crt_list_entry);
    env.add_function("certificate", certificate);
    env.add_function("ca_file", |name: &str, pem: &str| pem_file(name, pem, FileKind::Ca, "CERTIFICATE"));
    env.add_function("crl_file", |name: &str, pem: &str| pem_file(name, pem, FileKind::Crl, "X509 CRL"));
    env.add_function("file", file);
    env.add_function("fail", fail);
    env.add_function("warn", warn);
}

fn bind(frontend: &str, port: &Value, kwargs: Kwargs) -> Result<Value, Error> {
    sink::name(frontend).map_err(Cause::unsafe_value)?;
    let address: Option<String> = kwargs.get("address")?;
    let address = match address.as_deref() {
        None | Some("" | "*") => None,
        Some(text) => Some(text.parse::<IpAddr>().map_err(|_| {
            Cause::data(FindingCode::InvalidValue, format!("{} is not an address to bind", sink::shown(text)))
        })?),
    };
    let port = blocks::port_number(port)?;
    let keywords = blocks::keywords(&kwargs, &["address"])?;
    let mut text = match address {
        None => format!("bind :{port}"),
        Some(IpAddr::V6(ip)) => format!("bind [{ip}]:{port}"),
        Some(IpAddr::V4(ip)) => format!("bind {ip}:{port}"),
    };
    blocks::write_keywords(&mut text, &keywords)?;
    let record = BindRecord { frontend: frontend.into(), address, port };
    with(|session| session.records().binds.push(BindLine { record, text: text.clone() }))?;
    Ok(safe(text))
}

fn map_file(name: &str, kwargs: Kwargs) -> Result<Value, Error> {
    let ordered: Option<bool> = kwargs.get("ordered")?;
    kwargs.assert_all_used()?;
    let path = path("maps", name)?;
    with(|session| session.declare_map(MapDeclaration { path: path.clone(), ordered: ordered.unwrap_or(false) }))?;
    Ok(safe(path.as_str()))
}

fn map_entry(map: &str, kwargs: Kwargs) -> Result<Value, Error> {
    let key: Value = kwargs.get("key")?;
    let value: Value = kwargs.get("value")?;
    kwargs.assert_all_used()?;
    let key = words(&key)?.concat();
    let value = words(&value)?.concat();
    sink::map_key(&key).map_err(Cause::unsafe_value)?;
    sink::map_value(&value).map_err(Cause::unsafe_value)?;
    let map = path("maps", map)?;
    with(|session| {
        session.records().map_entries.push(MapClaim { map, key: key.into(), value: value.into() });
    })?;
    Ok(safe(""))
}

fn crt_list_file(name: &str) -> Result<Value, Error> {
    let path = path("ssl", name)?;
    with(|session| session.declare_crt_list(path.clone()))?;
    Ok(safe(path.as_str()))
}

fn crt_list_entry(list: &str, certificate: &str, kwargs: Kwargs) -> Result<Value, Error> {
    let sni: Option<Value> = kwargs.get("sni")?;
    let options: Option<String> = kwargs.get("options")?;
    kwargs.assert_all_used()?;
    let mut names = Vec::new();
    for name in sni.map_or_else(|| Ok(Vec::new()), |sni| words(&sni))? {
        sink::crt_list_word(&name).map_err(Cause::unsafe_value)?;
        names.push(Arc::from(name));
    }
    names.sort();
    names.dedup();
    let options = options.unwrap_or_default();
    if options.contains(['[', ']', '#']) || options.contains(char::is_control) {
        return Err(Cause::unsafe_value(format!("{} are not crt-list options", sink::shown(&options))).into());
    }
    let claim = CrtListClaim {
        list: path("ssl", list)?,
        certificate: FilePath::new(certificate).map_err(|error| Cause::usage(error.to_string()))?,
        options: options.into(),
        sni: names,
    };
    with(|session| session.records().crt_list_entries.push(claim))?;
    Ok(safe(""))
}

fn certificate(name: &str, certificate: &str, key: &str) -> Result<Value, Error> {
    require_pem(name, certificate, "CERTIFICATE")?;
    require_pem(name, key, "PRIVATE KEY")?;
    let mut content = String::with_capacity(certificate.len() + key.len() + 2);
    for part in [certificate, key] {
        content.push_str(part.trim());
        content.push('\n');
    }
    declare(File::new(path("ssl", name)?, FileKind::Cert, content))
}

fn pem_file(name: &str, pem: &str, kind: FileKind, label: &str) -> Result<Value, Error> {
    require_pem(name, pem, label)?;
    declare(File::new(path("ssl", name)?, kind, format!("{}\n", pem.trim())))
}

fn file(name: &str, content: &str, kwargs: Kwargs) -> Result<Value, Error> {
    let reload: Option<bool> = kwargs.get("reload_on_change")?;
    kwargs.assert_all_used()?;
    let mut file = File::new(path("general", name)?, FileKind::General, content.to_owned());
    file.reload_on_change = reload.unwrap_or(false);
    declare(file)
}

fn fail(message: &str, kwargs: Kwargs) -> Result<Value, Error> {
    let (code, hint) = reason(&kwargs, FindingCode::InvalidValue)?;
    let mut cause = Cause::data(code, message);
    cause.hint = hint;
    Err(cause.into())
}

fn warn(message: &str, kwargs: Kwargs) -> Result<Value, Error> {
    let (code, hint) = reason(&kwargs, FindingCode::TemplateWarning)?;
    let mut finding = Finding::warning(code, message);
    finding.hint = hint;
    with(|session| session.report(finding))?;
    Ok(safe(""))
}

fn reason(kwargs: &Kwargs, default: FindingCode) -> Result<(FindingCode, Option<String>), Error> {
    let reason: Option<String> = kwargs.get("reason")?;
    let hint: Option<String> = kwargs.get("hint")?;
    kwargs.assert_all_used()?;
    let code = match reason.as_deref() {
        None => default,
        Some("UnresolvedReference") => FindingCode::UnresolvedReference,
        Some("InvalidValue") => FindingCode::InvalidValue,
        Some("RouteConflict") => FindingCode::RouteConflict,
        Some(other) => {
            return Err(Cause::usage(format!(
                "`{other}` is not a reason: UnresolvedReference, InvalidValue or RouteConflict"
            ))
            .into());
        }
    };
    Ok((code, hint))
}

fn declare(file: File) -> Result<Value, Error> {
    let path = safe(file.path.as_str());
    try_with(|session| session.records().add_file(&file))?;
    Ok(path)
}

/// `folder/NAME`, with every character that a path may not have replaced by `_`.
fn path(folder: &str, name: &str) -> Result<FilePath, Cause> {
    let name = name.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')).unwrap_or(name);
    let clean: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' }).collect();
    FilePath::new(&format!("{folder}/{clean}")).map_err(|error| Cause::unsafe_value(error.to_string()))
}

/// A text or number, or a list of them.
fn words(value: &Value) -> Result<Vec<String>, Error> {
    match value.kind() {
        ValueKind::String | ValueKind::Number => Ok(vec![value.to_string()]),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut parts = Vec::new();
            for part in value.try_iter()? {
                if !matches!(part.kind(), ValueKind::String | ValueKind::Number) {
                    return Err(not_text(&part));
                }
                parts.push(part.to_string());
            }
            Ok(parts)
        }
        _ => Err(not_text(value)),
    }
}

fn not_text(value: &Value) -> Error {
    Cause::data(FindingCode::InvalidValue, format!("text or a number is needed here, not {}", value.kind())).into()
}

fn require_pem(name: &str, pem: &str, label: &str) -> Result<(), Cause> {
    let complete = pem.contains("-----BEGIN ") && pem.contains(&format!("{label}-----")) && pem.contains("-----END ");
    if !complete {
        return Err(Cause::data(
            FindingCode::InvalidValue,
            format!("the PEM text for `{name}` holds no complete {label} block"),
        )
        .hint("store the certificate and its key as PEM under tls.crt and tls.key"));
    }
    if pem.chars().any(|c| c.is_control() && c != '\n' && c != '\r' && c != '\t') {
        return Err(Cause::data(FindingCode::InvalidValue, format!("the {label} block holds control characters")));
    }
    Ok(())
}
