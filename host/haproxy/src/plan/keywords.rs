//! Rule 4: which keywords a server may have that is added at run time (haproxy-facts §5, measured per version).

use haptic_model::Keyword;

/// Taken by `add server` of every supported version. What the measurement lists beyond this needs something that the
/// records do not say (`track` another server, `id` a free number), so it is left to a reload.
const ALWAYS: &[&str] = &[
    "addr",
    "agent-addr",
    "agent-check",
    "agent-inter",
    "agent-port",
    "agent-send",
    "allow-0rtt",
    "alpn",
    "backup",
    "ca-file",
    "check",
    "check-alpn",
    "check-proto",
    "check-send-proxy",
    "check-sni",
    "check-ssl",
    "ciphers",
    "ciphersuites",
    "cookie",
    "crl-file",
    "crt",
    "curves",
    "downinter",
    "error-limit",
    "fall",
    "fastinter",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "guid",
    "hash-key",
    "inter",
    "maxconn",
    "maxqueue",
    "minconn",
    "no-backup",
    "no-ssl-reuse",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "npn",
    "observe",
    "on-error",
    "on-marked-down",
    "on-marked-up",
    "pool-conn-name",
    "pool-low-conn",
    "pool-max-conn",
    "pool-purge-delay",
    "port",
    "proto",
    "proxy-v2-options",
    "rise",
    "send-proxy",
    "send-proxy-v2",
    "send-proxy-v2-ssl",
    "send-proxy-v2-ssl-cn",
    "set-proxy-v2-tlv-fmt",
    "shard",
    "sigalgs",
    "slowstart",
    "sni",
    "ssl",
    "ssl-max-ver",
    "ssl-min-ver",
    "tfo",
    "tls-tickets",
    "verify",
    "verifyhost",
    "ws",
];

const SINCE_3_2: &[&str] = &["check-pool-conn-name", "check-reuse-pool", "idle-ping", "init-state", "strict-maxconn"];

const SINCE_3_4: &[&str] = &["healthcheck", "no-sni-auto", "renegotiate"];

/// Whether `add server` of this version takes the keyword.
pub(super) fn is_dynamic(name: &str, haproxy: (u16, u16)) -> bool {
    ALWAYS.contains(&name)
        || (haproxy >= (3, 2) && SINCE_3_2.contains(&name))
        || (haproxy >= (3, 4) && SINCE_3_4.contains(&name))
}

pub(super) fn has(keywords: &[Keyword], name: &str) -> bool {
    keywords.iter().any(|keyword| &*keyword.name == name)
}

pub(super) fn value<'a>(keywords: &'a [Keyword], name: &str) -> Option<&'a str> {
    keywords.iter().find(|keyword| &*keyword.name == name)?.value.as_deref()
}
