//! From the content of an author's case to content that nobody wrote. The same content gives the same variants in every
//! run, so that what a check finds can be found again.

/// A variant, and what was done, as in "case `x` with its last byte cut off".
pub(super) type Variant = (String, Vec<u8>);

/// Splitmix64: small, and good enough to choose bits.
struct Dice(u64);

/// A few variants that are close to what people write.
pub(super) fn near(content: &[u8]) -> Vec<Variant> {
    let mut variants = vec![
        ("with nothing in it".to_owned(), Vec::new()),
        ("cut in half".to_owned(), content[..content.len() / 2].to_vec()),
    ];
    variants.extend(line_ends(content));
    variants
}

pub(super) fn line_ends(content: &[u8]) -> Vec<Variant> {
    let lf = replace(content, b"\r\n", b"\n");
    let without_last = content.strip_suffix(b"\n").unwrap_or(content);
    vec![
        ("with LF for every line end".to_owned(), lf.clone()),
        ("with CR LF for every line end".to_owned(), replace(&lf, b"\n", b"\r\n")),
        ("with CR for every line end".to_owned(), replace(&lf, b"\n", b"\r")),
        ("with LF CR for every line end".to_owned(), replace(&lf, b"\n", b"\n\r")),
        ("without its last line feed".to_owned(), without_last.to_vec()),
        ("with three line feeds more".to_owned(), [content, b"\n\n\n"].concat()),
        ("of line feeds alone".to_owned(), b"\n".repeat(100)),
    ]
}

/// At most `count` cuts, spread over the content.
pub(super) fn truncated(content: &[u8], count: usize) -> Vec<Variant> {
    let length = content.len();
    let mut ends: Vec<usize> = if length <= count {
        (0..length).collect()
    } else {
        // The edges, where formats keep their counts and terminators, and steps between.
        let edges = [1, 2, length - 2, length - 1];
        (0..count.saturating_sub(edges.len())).map(|step| step * length / count).chain(edges).collect()
    };
    ends.sort_unstable();
    ends.dedup();
    ends.into_iter().map(|end| (format!("cut to {end} of its {length} bytes"), content[..end].to_vec())).collect()
}

/// `count` variants with one to four flipped bits.
pub(super) fn bit_flips(content: &[u8], count: usize) -> Vec<Variant> {
    if content.is_empty() {
        return Vec::new();
    }
    let mut dice = Dice::seeded(content);
    (0..count)
        .map(|_| {
            let mut changed = content.to_vec();
            let flips: Vec<String> = (0..=dice.below(4))
                .map(|_| {
                    let (byte, bit) = (dice.below(content.len()), dice.below(8));
                    changed[byte] ^= 1 << bit;
                    format!("bit {bit} of byte {byte}")
                })
                .collect();
            (format!("with {} flipped", flips.join(" and ")), changed)
        })
        .collect()
}

pub(super) fn duplicated(content: &[u8]) -> Vec<Variant> {
    let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
    let each_twice = lines.iter().flat_map(|line| [*line, *line]).collect::<Vec<_>>().concat();
    let reversed = lines.iter().rev().copied().collect::<Vec<_>>().concat();
    let mut variants = vec![
        ("twice".to_owned(), content.repeat(2)),
        ("with every line twice".to_owned(), each_twice),
        ("with its lines in reverse".to_owned(), reversed),
        ("a hundred times".to_owned(), content.repeat(100)),
    ];
    if let [first, .., last] = lines.as_slice() {
        variants.push(("with its first line again at the end".to_owned(), [content, first].concat()));
        variants.push(("with its last line in front".to_owned(), [last, content].concat()));
    }
    variants
}

pub(super) fn not_utf8(content: &[u8]) -> Vec<Variant> {
    let wrong: [(&str, &[u8]); 6] = [
        ("0xff 0xfe", b"\xff\xfe"),
        ("an overlong NUL", b"\xc0\x80"),
        ("a lone surrogate", b"\xed\xa0\x80"),
        ("a character without its end", b"\xe2\x82"),
        ("a continuation without its start", b"\x80"),
        ("a character past the last", b"\xf4\x90\x80\x80"),
    ];
    let mut variants: Vec<Variant> = wrong
        .iter()
        .flat_map(|(name, bytes)| inserted(content, bytes).map(move |(at, text)| (format!("with {name} {at}"), text)))
        .collect();
    variants.push(("as bytes of the upper half alone".to_owned(), content.iter().map(|byte| byte | 0x80).collect()));
    variants
}

pub(super) fn control_characters(content: &[u8]) -> Vec<Variant> {
    let all: Vec<u8> = (0..0x20).chain([0x7f]).collect();
    let wrong: [(&str, &[u8]); 5] = [
        ("NUL", b"\0"),
        ("every control character", &all),
        ("an escape sequence", b"\x1b[2J\x1b[31m"),
        ("a byte order mark", b"\xef\xbb\xbf"),
        ("a line separator", b"\xe2\x80\xa8"),
    ];
    let mut variants: Vec<Variant> = wrong
        .iter()
        .flat_map(|(name, bytes)| inserted(content, bytes).map(move |(at, text)| (format!("with {name} {at}"), text)))
        .collect();
    variants.push(("as NUL alone".to_owned(), vec![0; content.len().max(1)]));
    variants
}

/// Lines of about a megabyte.
pub(super) fn long_lines(content: &[u8]) -> Vec<Variant> {
    const LENGTH: usize = 1 << 20;
    let fill = |unit: &[u8]| {
        let unit = if unit.is_empty() { b"x" } else { unit };
        unit.iter().copied().cycle().take(LENGTH).collect::<Vec<u8>>()
    };
    let first = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let flat: Vec<u8> = content.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
    vec![
        ("as one line of a megabyte of `x`".to_owned(), fill(b"x")),
        ("as one line of a megabyte of spaces".to_owned(), fill(b" ")),
        ("as one line of a megabyte of `(`".to_owned(), fill(b"(")),
        ("as its first line repeated to a megabyte".to_owned(), fill(first)),
        ("as one line of its content repeated to a megabyte".to_owned(), fill(&flat)),
        ("with a line of a megabyte after it".to_owned(), [content, b"\n", &fill(b"a b")].concat()),
    ]
}

/// The content again and again, to exactly `length` bytes.
pub(crate) fn filled(content: &[u8], length: usize) -> Vec<u8> {
    let unit: &[u8] = if content.is_empty() { b"\n" } else { content };
    let mut filled = unit.repeat(length / unit.len() + 1);
    filled.truncate(length);
    filled
}

/// `bytes` at the start, in the middle and at the end.
fn inserted<'a>(content: &'a [u8], bytes: &'a [u8]) -> impl Iterator<Item = (&'static str, Vec<u8>)> + 'a {
    [("in front", 0), ("in the middle", content.len() / 2), ("at the end", content.len())]
        .into_iter()
        .map(move |(place, at)| (place, [&content[..at], bytes, &content[at..]].concat()))
}

fn replace(content: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    let mut rest = content;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = after;
        } else {
            out.push(rest[0]);
            rest = &rest[1..];
        }
    }
    out
}

// === impl Dice ===

impl Dice {
    /// The same content throws the same dice.
    fn seeded(content: &[u8]) -> Self {
        Self(
            content
                .iter()
                .fold(content.len() as u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(*byte))),
        )
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bound = bound as u64;
        usize::try_from((z ^ (z >> 31)) % bound).expect("it is below a usize")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"one\r\ntwo\nthree";

    #[test]
    fn variants_are_the_same_in_every_run_and_differ_from_the_content() {
        for variants in
            [bit_flips(TEXT, 50), truncated(TEXT, 8), not_utf8(TEXT), control_characters(TEXT), duplicated(TEXT)]
        {
            assert!(variants.iter().all(|(what, content)| content != TEXT && !what.is_empty()));
        }
        assert_eq!(bit_flips(TEXT, 50), bit_flips(TEXT, 50));
        assert_ne!(bit_flips(TEXT, 50), bit_flips(&TEXT[1..], 50));
    }

    #[test]
    fn line_ends_become_what_they_are_called() {
        let of = |what: &str| {
            let found = line_ends(TEXT).into_iter().find(|(name, _)| name.starts_with(what));
            String::from_utf8(found.map(|(_, content)| content).unwrap_or_default()).unwrap_or_default()
        };
        assert_eq!(of("with LF for"), "one\ntwo\nthree");
        assert_eq!(of("with CR LF"), "one\r\ntwo\r\nthree");
        assert_eq!(of("with CR for"), "one\rtwo\rthree");
    }

    #[test]
    fn cuts_reach_from_the_first_byte_to_the_last() {
        let long = vec![b'x'; 1000];
        let cuts: Vec<usize> = truncated(&long, 16).iter().map(|(_, content)| content.len()).collect();
        assert!(cuts.len() <= 16 && cuts.first() == Some(&0) && cuts.last() == Some(&999), "{cuts:?}");
        assert_eq!(truncated(TEXT, 100).len(), TEXT.len());
    }

    #[test]
    fn content_can_be_filled_to_any_length() {
        assert_eq!(filled(b"ab", 5), b"ababa");
        assert_eq!(filled(b"", 3), b"\n\n\n");
    }
}
