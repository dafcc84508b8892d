//! Addresses and networks. HAProxy finds the smallest network that holds an address, and of two that are the same the
//! first.

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::{
    Check,
    config::{Kind, Severity},
    duplicates,
    entries::Entry,
};

/// How a pattern is read.
enum Pattern {
    Network(IpNet),
    /// An IPv4 mask whose ones do not stand together.
    Scattered,
    /// A name that HAProxy looks up when it loads a list.
    Name,
}

/// A network, ordered so that one that holds others stands before them.
type Ordered<N> = (N, Entry);

/// Reports what is no address, and networks that stand twice or say nothing new.
pub(crate) fn check(check: &mut Check<'_>) {
    let mut v4: Vec<Ordered<Ipv4Net>> = Vec::new();
    let mut v6: Vec<Ordered<Ipv6Net>> = Vec::new();
    for entry in check.entries.list() {
        match pattern(check.entries.key(*entry)) {
            Ok(Pattern::Network(network)) => {
                if network.trunc() != network {
                    host_bits(check, *entry, network);
                }
                match network {
                    IpNet::V4(network) => v4.push((network.trunc(), *entry)),
                    IpNet::V6(network) => v6.push((network.trunc(), *entry)),
                }
            }
            Ok(Pattern::Scattered) => {
                check.warn(*entry, "the ones of this mask do not stand together; write the network as `ADDRESS/BITS`");
            }
            Ok(Pattern::Name) if check.usage.kind == Kind::List => {
                let name = check.key_text(*entry);
                let advice = "looks it up once and does not start if it cannot; write its addresses";
                check.warn(*entry, format!("`{name}` is a name: HAProxy {advice}"));
            }
            Ok(Pattern::Name) => {
                let name = check.key_text(*entry);
                check.error(*entry, format!("`{name}` is no address; write one, e.g. 192.0.2.1 or 2001:db8::/32"));
            }
            Err(wrong) => {
                let message = format!("`{}` {wrong}", check.key_text(*entry));
                check.error(*entry, message);
            }
        }
    }
    v4.sort_by_key(|(network, entry)| (network.network(), network.prefix_len(), entry.line()));
    nested(check, &v4, |outer, inner| outer.contains(inner));
    v6.sort_by_key(|(network, entry)| (network.network(), network.prefix_len(), entry.line()));
    nested(check, &v6, |outer, inner| outer.contains(inner));
}

fn host_bits(check: &mut Check<'_>, entry: Entry, network: IpNet) {
    let (key, network) = (check.key_text(entry), network.trunc());
    check.warn(entry, format!("`{key}` means the whole network {network}; write that, or the address without `/`"));
}

/// Looks at each network beside those that hold it.
fn nested<N: PartialEq + Copy>(check: &mut Check<'_>, sorted: &[Ordered<N>], contains: impl Fn(&N, &N) -> bool) {
    let mut around: Vec<Ordered<N>> = Vec::new();
    for (network, entry) in sorted {
        while around.last().is_some_and(|(outer, _)| !contains(outer, network)) {
            around.pop();
        }
        match around.last() {
            Some((outer, first)) if outer == network => {
                duplicates::told(check, *entry, *first);
                continue;
            }
            Some((_, outer)) => redundant(check, *entry, *outer),
            None => {}
        }
        around.push((*network, *entry));
    }
}

/// A smaller network takes precedence, so it is at fault only if it says what the larger one says.
fn redundant(check: &mut Check<'_>, entry: Entry, outer: Entry) {
    let says_the_same = check.usage.kind == Kind::List || check.entries.value(entry) == check.entries.value(outer);
    if says_the_same && check.config.unreachable != Severity::Ignore {
        let (key, line, other) = (check.key_text(entry), outer.line(), check.key_text(outer));
        check.warn(entry, format!("`{key}` adds nothing to `{other}` in line {line}, which holds it; remove it"));
    }
}

fn pattern(key: &[u8]) -> Result<Pattern, &'static str> {
    let text = std::str::from_utf8(key).map_err(|_| "is no address; write one, e.g. 192.0.2.1 or 2001:db8::/32")?;
    let (address, mask) = text.split_once('/').map_or((text, None), |(address, mask)| (address, Some(mask)));
    if let Ok(address) = address.parse::<Ipv4Addr>() {
        return v4(address, mask);
    }
    if let Ok(address) = address.parse::<Ipv6Addr>() {
        let bits = mask.map_or(Some(128), |mask| bits(mask, 128));
        let bits = bits.ok_or("has no such length; write 0 to 128 after `/`")?;
        let network = Ipv6Net::new(address, bits).map_err(|_| "has no such length; write 0 to 128 after `/`")?;
        return Ok(Pattern::Network(network.into()));
    }
    let has_letter = address.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_name = address.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    if has_letter && is_name {
        return Ok(Pattern::Name);
    }
    Err("is no address; write one, e.g. 192.0.2.1 or 2001:db8::/32")
}

fn v4(address: Ipv4Addr, mask: Option<&str>) -> Result<Pattern, &'static str> {
    const WRONG: &str = "has no such length; write 0 to 32 after `/`";
    let bits = match mask {
        None => 32,
        Some(mask) => match mask.parse::<Ipv4Addr>() {
            Ok(mask) => match ipnet::ipv4_mask_to_prefix(mask) {
                Ok(bits) => bits,
                Err(_) => return Ok(Pattern::Scattered),
            },
            Err(_) => bits(mask, 32).ok_or(WRONG)?,
        },
    };
    Ok(Pattern::Network(Ipv4Net::new(address, bits).map_err(|_| WRONG)?.into()))
}

fn bits(text: &str, most: u8) -> Option<u8> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|bits| *bits <= most)
}
