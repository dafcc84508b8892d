//! Blocks of PEM, each with its place. What stands between blocks is skipped by HAProxy, so a damaged first line makes
//! a whole block vanish without a word.

use base64::{
    DecodeError, Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use haptic_plugin_sdk::{File, Position};
use parts::Findings;

/// As OpenSSL reads it: padding is needed, unused bits may be set.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Pem {
    /// In their order.
    pub(crate) blocks: Vec<Block>,
    /// The first line outside blocks that is neither empty nor a `#` comment.
    pub(crate) first_text: Option<u32>,
    /// Whether something looks like the rest of a block: its certificate or key is not among the blocks.
    pub(crate) damaged: bool,
}

/// One block.
#[derive(Debug)]
pub(crate) struct Block {
    /// The line of `-----BEGIN`.
    pub(crate) line: u32,
    /// What stands after `BEGIN`.
    pub(crate) label: String,
    /// Whether its headers say that it is encrypted.
    pub(crate) encrypted: bool,
    /// What it decodes to; `None` where that was reported already.
    pub(crate) der: Option<Vec<u8>>,
}

/// A block whose end is still to come.
struct Open {
    line: u32,
    label: String,
    encrypted: bool,
    /// The base64 without line ends.
    text: Vec<u8>,
    /// Where each of its lines starts in `text`.
    starts: Vec<(usize, u32)>,
}

/// Reads all blocks and reports those that are damaged.
pub(crate) fn read(file: &File, content: &[u8], findings: &mut Findings) -> Pem {
    let mut pem = Pem::default();
    // A sequence of DER, two bytes of length following: what `openssl x509 -outform DER` writes.
    if content.starts_with(&[0x30, 0x82]) {
        let message = "the file is DER; HAProxy reads PEM: convert it with `openssl x509 -inform DER`";
        findings.error(file.whole(), message);
        pem.damaged = true;
        return pem;
    }
    let mut reader = Reader { file, findings, pem, open: None, last_damaged: 0 };
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    for (line, number) in content.split(|byte| *byte == b'\n').zip(1..) {
        reader.line(number, line.trim_ascii_end());
    }
    if let Some(open) = reader.open.take() {
        reader.unclosed(&open);
    }
    reader.pem
}

struct Reader<'a> {
    file: &'a File,
    findings: &'a mut Findings,
    pem: Pem,
    open: Option<Open>,
    /// The last line that was reported as one of a block that HAProxy does not see.
    last_damaged: u32,
}

// === impl Reader ===

impl Reader<'_> {
    fn line(&mut self, number: u32, text: &[u8]) {
        if let Some(label) = bracketed(text, b"-----BEGIN ") {
            if let Some(open) = self.open.take() {
                self.unclosed(&open);
            }
            let label = String::from_utf8_lossy(label).into_owned();
            self.open = Some(Open { line: number, label, encrypted: false, text: Vec::new(), starts: Vec::new() });
        } else if let Some(label) = bracketed(text, b"-----END ") {
            self.end(number, label);
        } else if let Some(open) = &mut self.open {
            open.take(number, text);
        } else {
            self.outside(number, text);
        }
    }

    fn end(&mut self, number: u32, label: &[u8]) {
        let Some(open) = self.open.take() else {
            self.damage(number, "a block ends here that does not begin; restore its `-----BEGIN …-----` line");
            return;
        };
        if open.label.as_bytes() != label {
            let (line, began) = (open.line, &open.label);
            let message = format!("the block that begins as `{began}` in line {line} ends as something else");
            self.findings.error(self.at(number, 1), message);
            self.pem.damaged = true;
        }
        let der = self.decode(&open);
        self.pem.blocks.push(Block { line: open.line, label: open.label, encrypted: open.encrypted, der });
    }

    fn decode(&mut self, open: &Open) -> Option<Vec<u8>> {
        if open.encrypted {
            return None;
        }
        if open.text.is_empty() {
            let message = format!("the block `{}` is empty; put its base64 back or remove it", open.label);
            self.findings.error(self.at(open.line, 1), message);
            return None;
        }
        match BASE64.decode(&open.text) {
            Ok(der) => Some(der),
            Err(error) => {
                let (offset, what) = match error {
                    // What the byte is stays untold: it may belong to a key.
                    DecodeError::InvalidByte(offset, _) => (offset, "a character that is no base64"),
                    DecodeError::InvalidLastSymbol { offset, .. } => (offset, "a last character that cannot be"),
                    DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => {
                        (open.text.len() - 1, "base64 that ends too early")
                    }
                };
                let position = self.position_in(open, offset);
                let message = format!("the block `{}` of line {} has {what}; copy it again", open.label, open.line);
                self.findings.error(position, message);
                None
            }
        }
    }

    /// The place in the file of a character of the block's base64.
    fn position_in(&self, open: &Open, offset: usize) -> Position {
        let index = open.starts.partition_point(|(start, _)| *start <= offset).saturating_sub(1);
        let (start, line) = open.starts[index];
        self.at(line, u32::try_from(offset - start + 1).unwrap_or(u32::MAX))
    }

    fn unclosed(&mut self, open: &Open) {
        let message = format!("the block `{}` has no `-----END {}-----` line; restore it", open.label, open.label);
        self.findings.error(self.at(open.line, 1), message);
        self.pem.damaged = true;
    }

    fn outside(&mut self, number: u32, text: &[u8]) {
        if text.is_empty() || text.starts_with(b"#") {
            return;
        }
        let upper = text.to_ascii_uppercase();
        let has = |wanted: &[u8]| upper.windows(wanted.len()).any(|window| window == wanted);
        if text.contains(&b'-') && (has(b"BEGIN ") || has(b"END ")) {
            self.damage(number, "this line is no `-----BEGIN …-----`, so its block is skipped; write five dashes each");
        } else if text.len() >= 60 && text.iter().all(|byte| is_base64(*byte)) {
            self.damage(number, "base64 that belongs to no block is skipped; restore its `-----BEGIN …-----` line");
        } else if self.last_damaged != 0 && self.last_damaged + 1 == number && text.iter().all(|byte| is_base64(*byte))
        {
            self.last_damaged = number;
        } else if self.pem.first_text.is_none() {
            self.pem.first_text = Some(number);
        }
    }

    /// Reports a line of a block that HAProxy does not see; the first of a run says enough.
    fn damage(&mut self, number: u32, message: &str) {
        self.pem.damaged = true;
        if self.last_damaged == 0 || self.last_damaged + 1 != number {
            self.findings.error(self.at(number, 1), message);
        }
        self.last_damaged = number;
    }

    fn at(&self, line: u32, column: u32) -> Position {
        Position::at(self.file.path(), line, column)
    }
}

// === impl Open ===

impl Open {
    fn take(&mut self, number: u32, text: &[u8]) {
        // Headers of the traditional format of encrypted keys.
        if self.text.is_empty() && text.contains(&b':') {
            self.encrypted |= text.starts_with(b"Proc-Type:") && text.ends_with(b"ENCRYPTED");
            return;
        }
        self.starts.push((self.text.len(), number));
        self.text.extend_from_slice(text);
    }
}

/// What stands between `start` and the five dashes at the end.
fn bracketed<'a>(text: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    text.strip_prefix(start)?.strip_suffix(b"-----")
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}
