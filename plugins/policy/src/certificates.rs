//! Lists of certificates, as `bind … ssl crt-list FILE` loads them: what stands there in brackets takes the place of what
//! the `bind` says, for one certificate.

use haptic_plugin_sdk::{File, Lines, Position};
use parts::{Findings, is_blank};

use crate::tls::TlsVersion;

/// Reports versions older than `minimum` in a list that line `bind` of the configuration names.
pub(crate) fn check(file: &File, bind: u32, minimum: TlsVersion, findings: &mut Findings) {
    let mut lines = Lines::of(file);
    while let Some(line) = lines.next_line() {
        let Some((start, settings)) = settings(line.text) else { continue };
        let words: Vec<(usize, &[u8])> = words(settings).collect();
        for (index, (_, word)) in words.iter().enumerate() {
            if !matches!(*word, b"ssl-min-ver" | b"ssl-max-ver") {
                continue;
            }
            let Some((at, value)) = words.get(index + 1) else { continue };
            if let Some(version) = TlsVersion::named(value).filter(|version| *version < minimum) {
                let column = u32::try_from(start + at + 1).unwrap_or(u32::MAX);
                let message = format!("{}; line {bind} of haproxy.cfg loads this list", version.too_old(minimum));
                findings.error(Position::at(file.path(), line.number, column), message);
            }
        }
    }
}

/// What stands between the brackets of a line that has them, and where.
fn settings(text: &[u8]) -> Option<(usize, &[u8])> {
    let begin = text.iter().position(|byte| !is_blank(*byte))?;
    if text[begin] == b'#' {
        return None;
    }
    let open = text.iter().position(|byte| *byte == b'[')?;
    let end = text[open..].iter().position(|byte| *byte == b']').map_or(text.len(), |length| open + length);
    Some((open + 1, &text[open + 1..end]))
}

fn words(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut offset = 0;
    text.split(|byte| is_blank(*byte)).filter_map(move |word| {
        let at = offset;
        offset += word.len() + 1;
        (!word.is_empty()).then_some((at, word))
    })
}
