//! How HAProxy cuts a line of configuration into words.
//!
//! It knows quotes, escapes and comments, and every blank that HAProxy knows. It does not expand `${VARIABLES}`: a plugin
//! has no environment, so such a word stays as it is written.

use haptic_plugin_sdk::{File, Position};

/// The words of one line, quotes and escapes resolved, without its comment. Kept between lines to save allocations.
#[derive(Debug, Default)]
pub struct Words {
    line: u32,
    bytes: Vec<u8>,
    words: Vec<Word>,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    /// In the line, from 1.
    column: u32,
    /// Range in `bytes`.
    start: usize,
    end: usize,
}

/// The first word of a line, where it can be told without resolving anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<'a> {
    /// Nothing but blanks and a comment.
    Nothing,
    /// The word as it stands.
    Plain(&'a [u8]),
    /// It has quotes or escapes: only [`Words::split`] can tell.
    Quoted,
}

/// The first word of a line. Reads no further than that word's end.
pub fn first(text: &[u8]) -> First<'_> {
    let Some(start) = text.iter().position(|byte| !is_blank(*byte)) else { return First::Nothing };
    let rest = &text[start..];
    for (index, byte) in rest.iter().enumerate() {
        match byte {
            b'\\' | b'"' | b'\'' => return First::Quoted,
            _ if ends_word(*byte) => {
                return if index == 0 { First::Nothing } else { First::Plain(&rest[..index]) };
            }
            _ => {}
        }
    }
    First::Plain(rest)
}

// === impl Words ===

impl Words {
    /// Takes the words of line `number`, given without its line end. As in HAProxy, an empty word ends the line, and so
    /// does a CR right behind a word.
    pub fn split(&mut self, number: u32, text: &[u8]) {
        self.line = number;
        self.bytes.clear();
        self.words.clear();
        let mut index = 0;
        while let Some(skip) = text[index..].iter().position(|byte| !is_blank(*byte)) {
            index += skip;
            if text[index] == b'#' {
                return;
            }
            index = self.word(text, index);
            if self.words.pop_if(|word| word.start == word.end).is_some() || text.get(index) == Some(&b'\r') {
                return;
            }
        }
    }

    /// Takes one word and returns where it ends.
    fn word(&mut self, text: &[u8], first: usize) -> usize {
        let start = self.bytes.len();
        let mut quote = None;
        let mut nul = None;
        let mut index = first;
        while let Some(&byte) = text.get(index) {
            match (byte, quote) {
                (byte, None) if ends_word(byte) => break,
                (b'\'' | b'"', None) => quote = Some(byte),
                (byte, Some(open)) if byte == open => quote = None,
                (b'\\', None | Some(b'"')) => {
                    let (meant, length) = escape(&text[index..], quote.is_some());
                    if meant == 0 {
                        nul.get_or_insert(self.bytes.len());
                    }
                    self.bytes.push(meant);
                    index += length;
                    continue;
                }
                _ => {
                    let plain = plain_bytes(&text[index..], quote.is_some());
                    self.bytes.extend_from_slice(&text[index..index + plain]);
                    index += plain;
                    continue;
                }
            }
            index += 1;
        }
        let column = u32::try_from(first + 1).unwrap_or(u32::MAX);
        // To HAProxy a word is a C string.
        self.words.push(Word { column, start, end: nul.unwrap_or(self.bytes.len()) });
        index
    }

    /// The word at `index`, counted from 0.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.words.get(index).map(|word| &self.bytes[word.start..word.end])
    }

    /// The word at `index` as text, what is not UTF-8 replaced; empty where there is none.
    pub fn text(&self, index: usize) -> String {
        String::from_utf8_lossy(self.get(index).unwrap_or_default()).into_owned()
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether the line holds no word.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All words.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.words.iter().map(|word| &self.bytes[word.start..word.end])
    }

    /// Whether the line begins with these words.
    pub fn begin_with(&self, words: &[String]) -> bool {
        words.len() <= self.words.len() && self.iter().zip(words).all(|(word, wanted)| word == wanted.as_bytes())
    }

    /// The number of the line.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// The column at which the word at `index` begins; that of the last word where there are fewer, so that what is
    /// missing is looked for at the end of its line.
    pub fn column(&self, index: usize) -> u32 {
        self.words.get(index).or(self.words.last()).map_or(1, |word| word.column)
    }

    /// Where the word at `index` begins, as [`Words::column`].
    pub fn position(&self, index: usize, file: &File) -> Position {
        Position::at(file.path(), self.line, self.column(index))
    }
}

/// The byte that the escape at the start of `text` means, and the length of the escape. A backslash that begins none
/// stands for itself; HAProxy refuses one whose two digits are not hexadecimal. Before another letter or digit it is left
/// out, which is stricter than HAProxy: that keeps it, and then knows no such keyword.
fn escape(text: &[u8], quoted: bool) -> (u8, usize) {
    match text.get(1) {
        Some(byte @ (b' ' | b'\\' | b'#' | b'\'' | b'"')) => (*byte, 2),
        Some(b'$') if quoted => (b'$', 2),
        Some(b't') => (b'\t', 2),
        Some(b'n') => (b'\n', 2),
        Some(b'r') => (b'\r', 2),
        Some(b'x') => hexadecimal(text).map_or((b'\\', 1), |byte| (byte, 4)),
        Some(byte) if byte.is_ascii_alphanumeric() => (*byte, 2),
        _ => (b'\\', 1),
    }
}

fn hexadecimal(escape: &[u8]) -> Option<u8> {
    let digits = escape.get(2..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// How many bytes from the start stand for themselves; at least one.
fn plain_bytes(text: &[u8], quoted: bool) -> usize {
    let special = |byte: &u8| matches!(byte, b'\'' | b'"' | b'\\') || (!quoted && ends_word(*byte));
    text.iter().skip(1).position(special).map_or(text.len(), |plain| plain + 1)
}

/// Outside quotes.
fn ends_word(byte: u8) -> bool {
    is_blank(byte) || byte == b'#'
}

/// Whether HAProxy takes the byte for a blank: C's `isspace`, but for the line feed, which no line has.
pub fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<(u32, String)> {
        let mut words = Words::default();
        words.split(1, text.as_bytes());
        (0..words.len()).map(|index| (words.column(index), words.text(index))).collect()
    }

    fn word(column: u32, text: &str) -> (u32, String) {
        (column, text.to_owned())
    }

    #[test]
    fn words_end_at_blanks_and_comments() {
        assert_eq!(split("  bind :80\tssl # x"), [word(3, "bind"), word(8, ":80"), word(12, "ssl")]);
        assert_eq!(split("a#b"), [word(1, "a")]);
        assert_eq!(split(" \t"), []);
        assert_eq!(split("a b\r"), [word(1, "a"), word(3, "b")]);
    }

    #[test]
    fn quotes_and_escapes_are_resolved() {
        assert_eq!(split(r#"a "b c"'d "e'f g\ h"#), [word(1, "a"), word(3, "b cd \"ef"), word(16, "g h")]);
        assert_eq!(split(r#"'a\b' "c\"d" \#e"#), [word(1, r"a\b"), word(7, "c\"d"), word(14, "#e")]);
        assert_eq!(split(r#""never closed #"#), [word(1, "never closed #")]);
    }

    #[test]
    fn every_blank_of_haproxy_parts_words() {
        assert_eq!(split("\x0b\x0cbind\x0b:80\x0c\r ssl"), [word(3, "bind"), word(8, ":80"), word(14, "ssl")]);
        assert_eq!(split("\rbind \r:80"), [word(2, "bind"), word(8, ":80")]);
        assert_eq!(split("'a\x0bb' \"c\x0cd\""), [word(1, "a\x0bb"), word(7, "c\x0cd")]);
        // A CR right behind a word ends the line.
        assert_eq!(split("bind\r:80"), [word(1, "bind")]);
    }

    #[test]
    fn escapes_mean_bytes_unless_in_single_quotes() {
        assert_eq!(
            split(r#"\x6daxconn "max\x63Onn" '\x6d'"#),
            [word(1, "maxconn"), word(12, "maxcOnn"), word(25, r"\x6d")]
        );
        assert_eq!(split(r#"a\tb "a\nb\rc" \\"#), [word(1, "a\tb"), word(6, "a\nb\rc"), word(16, "\\")]);
        assert_eq!(split(r#"\$a "\$a""#), [word(1, r"\$a"), word(5, "$a")]);
    }

    #[test]
    fn a_backslash_that_escapes_nothing_stands_for_itself() {
        assert_eq!(split(r#"b\.d "b\.d""#), [word(1, r"b\.d"), word(6, r"b\.d")]);
        assert_eq!(split(r"a\x6 a\x6g a\"), [word(1, r"a\x6"), word(6, r"a\x6g"), word(12, r"a\")]);
        assert_eq!(split("a\\\tb"), [word(1, "a\\"), word(4, "b")]);
    }

    #[test]
    fn a_backslash_before_a_letter_that_it_does_not_escape_is_left_out() {
        assert_eq!(split(r#"b\ind "b\ind" 'b\ind'"#), [word(1, "bind"), word(7, "bind"), word(15, r"b\ind")]);
    }

    #[test]
    fn words_end_at_nul_and_lines_at_an_empty_word() {
        assert_eq!(split(r"maxconn\x00x 1"), [word(1, "maxconn"), word(14, "1")]);
        assert_eq!(split(r#"a "" b"#), [word(1, "a")]);
        assert_eq!(split(r"a \x00b c"), [word(1, "a")]);
    }

    #[test]
    fn the_first_word_is_told_without_the_rest() {
        assert_eq!(first(b"  # x"), First::Nothing);
        assert_eq!(first(b"  \r"), First::Nothing);
        assert_eq!(first(b" bind :80"), First::Plain(b"bind"));
        assert_eq!(first(b"global#x"), First::Plain(b"global"));
        assert_eq!(first(b"global\r"), First::Plain(b"global"));
        assert_eq!(first(b"\x0b\x0c\rglobal\x0bx"), First::Plain(b"global"));
        assert_eq!(first(b"global\x0cx"), First::Plain(b"global"));
        assert_eq!(first(b"\x0b\x0c# x"), First::Nothing);
        assert_eq!(first(br"b\ind x"), First::Quoted);
    }
}
