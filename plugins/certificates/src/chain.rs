//! The chain: the server's certificate, then the issuer of each before it.

use haptic_plugin_sdk::Position;
use parts::Findings;

use crate::{
    Config,
    certificate::Certificate,
    signature::{self, Signed},
};

/// Longer chains do not exist; what comes after is not looked at, since every signature takes its time.
const LONGEST: usize = 10;

/// Reports what keeps `certificates`, of which none is there twice, from being a chain.
pub(crate) fn check(config: &Config, certificates: &[Certificate<'_>], findings: &mut Findings) {
    let mut report = |position: Position, message: String| {
        if config.require_chain {
            findings.error(position, message);
        } else {
            findings.warn(position, message);
        }
    };
    let [leaf, rest @ ..] = certificates else { return };
    if rest.is_empty() && !leaf.is_self_issued() {
        let issuer = leaf.x509.issuer().to_string();
        let message = format!(
            "the issuer of `{}` is not in the file, and clients that do not have it refuse the connection; append the \
             certificate of `{issuer}`",
            leaf.name()
        );
        report(leaf.position(), message);
    }
    if certificates.len() > LONGEST {
        let message = format!(
            "the file has {} certificates; a chain has {LONGEST} at most: remove the others",
            certificates.len()
        );
        report(certificates[LONGEST].position(), message);
    }
    for (index, pair) in certificates.windows(2).take(LONGEST).enumerate() {
        let [current, next] = pair else { continue };
        let (name, next_name) = (current.name(), next.name());
        if current.names_as_issuer(next) {
            if signature::check(current, &next.key) == Signed::No {
                let message = format!(
                    "`{next_name}` has the name of the issuer of `{name}` but did not sign it; append the issuer with \
                     the right key"
                );
                report(next.position(), message);
            }
            if !next.may_issue() {
                let message = format!("`{next_name}` may not issue certificates (CA:FALSE) but stands as an issuer");
                report(next.position(), message);
            }
            continue;
        }
        let later = certificates[index + 2..].iter().take(LONGEST).find(|later| current.names_as_issuer(later));
        let message = match later {
            Some(issuer) => format!(
                "the chain is in the wrong order: after `{name}` comes its issuer `{}`, now in line {}",
                issuer.name(),
                issuer.line
            ),
            None if current.is_self_issued() => {
                format!("`{name}` ends the chain, so nothing follows it; remove `{next_name}`")
            }
            None => format!(
                "`{next_name}` did not issue `{name}`, and no other certificate in the file did; append `{}` instead",
                current.x509.issuer()
            ),
        };
        report(next.position(), message);
        // What follows hangs on this one.
        return;
    }
}
