//! What the words of a program are.

use haptic_plugin_sdk::{File, Position};

/// A place in the source: line and column in bytes, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Why a file is no program. The first one only: what follows is guesswork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) place: Place,
    pub(crate) message: String,
}

/// One word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Name(&'a [u8]),
    /// Without its quotes, escapes as they stand.
    Text(&'a [u8]),
    Number,
    /// A reserved word.
    Word(Word),
    /// An operator or bracket.
    Sign(&'static str),
    End,
}

macro_rules! words {
    ($($variant:ident = $text:literal),+ $(,)?) => {
        /// The reserved words.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Word { $($variant),+ }

        impl Word {
            pub(crate) fn of(name: &[u8]) -> Option<Self> {
                match std::str::from_utf8(name).ok()? { $($text => Some(Self::$variant),)+ _ => None }
            }

            pub(crate) fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

words! {
    And = "and", Break = "break", Do = "do", Else = "else", Elseif = "elseif", End = "end", False = "false", For = "for",
    Function = "function", Goto = "goto", If = "if", In = "in", Local = "local", Nil = "nil", Not = "not", Or = "or",
    Repeat = "repeat", Return = "return", Then = "then", True = "true", Until = "until", While = "while",
}

/// Signs, longest first.
pub(crate) const SIGNS: &[&str] = &[
    "...", "<<", ">>", "//", "==", "~=", "<=", ">=", "::", "..", "+", "-", "*", "/", "%", "^", "#", "&", "~", "|", "<",
    ">", "=", "(", ")", "{", "}", "[", "]", ";", ":", ",", ".",
];

// === impl Place ===

impl Place {
    pub(crate) fn position(self, file: &File) -> Position {
        Position::at(file.path(), self.line, self.column)
    }
}

// === impl Token ===

impl Token<'_> {
    /// As messages show it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Name(name) => format!("`{}`", String::from_utf8_lossy(name)),
            Self::Text(_) => "a string".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Word(word) => format!("`{}`", word.text()),
            Self::Sign(sign) => format!("`{sign}`"),
            Self::End => "the end of the file".to_owned(),
        }
    }
}
