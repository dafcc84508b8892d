//! From bytes to words, by the rules of Lua 5.3 and 5.4, which do not differ here.

use crate::token::{Place, SIGNS, SyntaxError, Token, Word};

/// Reads one word after the other.
pub(crate) struct Lexer<'a> {
    source: &'a [u8],
    offset: usize,
    line: u32,
    /// Where the current line starts.
    line_start: usize,
}

/// Whether this can be a name.
pub(crate) fn is_name(text: &[u8]) -> bool {
    text.first().is_some_and(|first| is_name_byte(*first) && !first.is_ascii_digit())
        && text.iter().all(|byte| is_name_byte(*byte))
        && Word::of(text).is_none()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

// === impl Lexer ===

impl<'a> Lexer<'a> {
    /// Starts behind what `lua-load` skips: a byte order mark, and a first line that begins with `#`.
    pub(crate) fn new(source: &'a [u8]) -> Result<Self, SyntaxError> {
        let mark = if source.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut lexer = Self { source, offset: mark, line: 1, line_start: 0 };
        if source[mark..].starts_with(b"\x1b") {
            return Err(
                lexer.error_here("the file is compiled Lua, which only fits one build of HAProxy; render its source")
            );
        }
        if source[mark..].starts_with(b"#") {
            lexer.skip_to_line_end();
        }
        Ok(lexer)
    }

    /// The next word and where it starts.
    pub(crate) fn next(&mut self) -> Result<(Token<'a>, Place), SyntaxError> {
        self.skip_blanks()?;
        let place = self.place();
        let Some(&first) = self.source.get(self.offset) else { return Ok((Token::End, place)) };
        let token = match first {
            b'"' | b'\'' => self.text(first)?,
            b'[' if self.long_bracket().is_some() => Token::Text(self.long_text("string")?),
            b'0'..=b'9' => self.number()?,
            b'.' if self.at(1).is_some_and(|byte| byte.is_ascii_digit()) => self.number()?,
            byte if is_name_byte(byte) => {
                let start = self.offset;
                self.skip_while(is_name_byte);
                let name = &self.source[start..self.offset];
                Word::of(name).map_or(Token::Name(name), Token::Word)
            }
            _ => {
                let rest = &self.source[self.offset..];
                let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(sign.as_bytes())) else {
                    let shown = if first.is_ascii_graphic() {
                        format!("`{}`", char::from(first))
                    } else {
                        format!("the byte {first:#04x}")
                    };
                    return Err(
                        self.error_here(&format!("{shown} has no meaning here; remove it, or write it in a string"))
                    );
                };
                self.offset += sign.len();
                Token::Sign(sign)
            }
        };
        Ok((token, place))
    }

    fn at(&self, ahead: usize) -> Option<u8> {
        self.source.get(self.offset + ahead).copied()
    }

    fn place(&self) -> Place {
        let column = u32::try_from(self.offset - self.line_start + 1).unwrap_or(u32::MAX);
        Place { line: self.line, column }
    }

    fn error_here(&self, message: &str) -> SyntaxError {
        SyntaxError { place: self.place(), message: message.to_owned() }
    }

    /// Steps over a line feed.
    fn next_line(&mut self) {
        self.offset += 1;
        self.line += 1;
        self.line_start = self.offset;
    }

    fn skip_while(&mut self, wanted: fn(u8) -> bool) {
        while self.at(0).is_some_and(wanted) {
            self.offset += 1;
        }
    }

    fn skip_to_line_end(&mut self) {
        self.skip_while(|byte| byte != b'\n');
    }

    fn skip_blanks(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.at(0) {
                Some(b'\n') => self.next_line(),
                Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c) => self.offset += 1,
                Some(b'-') if self.at(1) == Some(b'-') => {
                    self.offset += 2;
                    if self.long_bracket().is_some() {
                        self.long_text("comment")?;
                    } else {
                        self.skip_to_line_end();
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// The number of `=` of a long bracket that opens here.
    fn long_bracket(&self) -> Option<usize> {
        let inside = self.source.get(self.offset..)?.strip_prefix(b"[")?;
        let level = inside.iter().take_while(|byte| **byte == b'=').count();
        (inside.get(level) == Some(&b'[')).then_some(level)
    }

    fn long_text(&mut self, what: &str) -> Result<&'a [u8], SyntaxError> {
        let opened = self.place();
        let level = self.long_bracket().expect("the caller saw the bracket");
        self.offset += level + 2;
        let start = self.offset;
        while let Some(byte) = self.at(0) {
            match byte {
                b'\n' => self.next_line(),
                b']' => {
                    let closing = self.source[self.offset + 1..].iter().take_while(|byte| **byte == b'=').count();
                    if closing == level && self.at(closing + 1) == Some(b']') {
                        let text = &self.source[start..self.offset];
                        self.offset += level + 2;
                        return Ok(text);
                    }
                    // What follows the `=` may be the bracket that closes.
                    self.offset += closing + 1;
                }
                _ => self.offset += 1,
            }
        }
        let equals = "=".repeat(level.min(20));
        let message = format!("the {what} that starts here does not end; close it with `]{equals}]`");
        Err(SyntaxError { place: opened, message })
    }

    fn text(&mut self, quote: u8) -> Result<Token<'a>, SyntaxError> {
        let opened = self.place();
        self.offset += 1;
        let start = self.offset;
        loop {
            match self.at(0) {
                None | Some(b'\n' | b'\r') => {
                    let message = format!("the string does not end in its line; close it with `{}`", char::from(quote));
                    return Err(SyntaxError { place: opened, message });
                }
                Some(b'\\') => self.escape()?,
                Some(byte) if byte == quote => {
                    let text = &self.source[start..self.offset];
                    self.offset += 1;
                    return Ok(Token::Text(text));
                }
                Some(_) => self.offset += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        let invalid =
            |lexer: &Self| lexer.error_here("this is no escape of a string; a backslash itself is written `\\\\`");
        match self.at(1) {
            Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'\\' | b'"' | b'\'') => self.offset += 2,
            Some(b'\n') => {
                self.offset += 1;
                self.next_line();
            }
            Some(b'\r') => self.offset += 2,
            Some(b'z') => {
                self.offset += 2;
                while let Some(byte @ (b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)) = self.at(0) {
                    if byte == b'\n' {
                        self.next_line();
                    } else {
                        self.offset += 1;
                    }
                }
            }
            Some(b'x') => {
                if !(2..4).all(|ahead| self.at(ahead).is_some_and(|byte| byte.is_ascii_hexdigit())) {
                    return Err(invalid(self));
                }
                self.offset += 4;
            }
            Some(b'0'..=b'9') => {
                let digits = (1..4).map_while(|ahead| self.at(ahead).filter(u8::is_ascii_digit));
                let (value, count) =
                    digits.fold((0, 0), |(value, count), digit| (value * 10 + u32::from(digit - b'0'), count + 1));
                if value > 255 {
                    return Err(invalid(self));
                }
                self.offset += 1 + count;
            }
            Some(b'u') => {
                let digits: Vec<u8> = self.source[self.offset + 2..].iter().take(14).copied().collect();
                let inside = digits.strip_prefix(b"{").and_then(|rest| rest.split(|byte| *byte == b'}').next());
                let value = inside
                    .filter(|inside| inside.len() + 1 < digits.len() && inside.iter().all(u8::is_ascii_hexdigit))
                    .and_then(|inside| u64::from_str_radix(std::str::from_utf8(inside).ok()?, 16).ok());
                match (value, inside) {
                    (Some(value), Some(inside)) if value < 1 << 31 => self.offset += 4 + inside.len(),
                    _ => return Err(invalid(self)),
                }
            }
            _ => return Err(invalid(self)),
        }
        Ok(())
    }

    /// Takes what Lua takes, which is more than a number can have, and looks whether it is one.
    fn number(&mut self) -> Result<Token<'a>, SyntaxError> {
        let (place, start) = (self.place(), self.offset);
        let hex = self.at(0) == Some(b'0') && matches!(self.at(1), Some(b'x' | b'X'));
        if hex {
            self.offset += 2;
        }
        while let Some(byte) = self.at(0) {
            let exponent = if hex { matches!(byte, b'p' | b'P') } else { matches!(byte, b'e' | b'E') };
            if exponent && matches!(self.at(1), Some(b'+' | b'-')) {
                self.offset += 2;
            } else if is_name_byte(byte) || byte == b'.' {
                self.offset += 1;
            } else {
                break;
            }
        }
        let text = &self.source[start..self.offset];
        if is_number(text, hex) {
            return Ok(Token::Number);
        }
        let message = format!("`{}` is no number", String::from_utf8_lossy(&text[..text.len().min(40)]));
        Err(SyntaxError { place, message })
    }
}

fn is_number(text: &[u8], hex: bool) -> bool {
    let text = if hex { &text[2..] } else { text };
    let is_exponent = |byte: &u8| if hex { matches!(byte, b'p' | b'P') } else { matches!(byte, b'e' | b'E') };
    let is_digit = |byte: &u8| if hex { byte.is_ascii_hexdigit() } else { byte.is_ascii_digit() };
    let (mantissa, exponent) = match text.iter().position(is_exponent) {
        Some(index) => (&text[..index], Some(&text[index + 1..])),
        None => (text, None),
    };
    let dots = mantissa.iter().filter(|byte| **byte == b'.').count();
    let digits = mantissa.iter().filter(|byte| is_digit(byte)).count();
    let exponent_is_number = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    });
    dots <= 1 && digits >= 1 && digits + dots == mantissa.len() && exponent_is_number
}
