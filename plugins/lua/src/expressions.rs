//! Expressions.

use crate::{
    parser::{Parser, Path, Shape, Target},
    scope::{Body, Local},
    token::{Place, SyntaxError, Token, Word},
};

/// Binds stronger than every operator but `^`.
const UNARY_PRIORITY: u8 = 12;

/// How many items of a table are looked at.
const MOST_ITEMS: usize = 16;

/// How many arguments of a call are looked at.
const MOST_ARGUMENTS: usize = 8;

impl<'a> Parser<'a> {
    /// One or more, separated by commas.
    pub(crate) fn expressions(&mut self) -> Result<Vec<(Shape<'a>, Place)>, SyntaxError> {
        let mut shapes = Vec::new();
        loop {
            let place = self.place;
            let shape = self.expression()?;
            if shapes.len() < MOST_ARGUMENTS {
                shapes.push((shape, place));
            }
            if !self.take_sign(",")? {
                return Ok(shapes);
            }
        }
    }

    pub(crate) fn expression(&mut self) -> Result<Shape<'a>, SyntaxError> {
        self.operation(0)
    }

    /// An expression of operators that bind stronger than `limit`.
    fn operation(&mut self, limit: u8) -> Result<Shape<'a>, SyntaxError> {
        self.deeper(|parser| {
            let unary = matches!(parser.token, Token::Word(Word::Not) | Token::Sign("-" | "#" | "~"));
            let mut shape = if unary {
                parser.advance()?;
                match parser.operation(UNARY_PRIORITY)? {
                    Shape::Number => Shape::Number,
                    _ => Shape::Other,
                }
            } else {
                parser.simple()?
            };
            while let Some((_, right)) = priorities(parser.token).filter(|(left, _)| *left > limit) {
                parser.advance()?;
                parser.operation(right)?;
                shape = Shape::Other;
            }
            Ok(shape)
        })
    }

    fn simple(&mut self) -> Result<Shape<'a>, SyntaxError> {
        let opened = self.place;
        let shape = match self.token {
            Token::Number => Shape::Number,
            Token::Text(text) => Shape::Text(text),
            Token::Word(Word::Nil) => Shape::Nil,
            Token::Word(Word::True | Word::False) => Shape::Boolean,
            Token::Sign("...") => {
                if !self.scopes.is_variadic() {
                    let message = "`...` stands in a function without `...` among its parameters".to_owned();
                    return Err(SyntaxError { place: self.place, message });
                }
                Shape::Many
            }
            Token::Sign("{") => return self.table(),
            Token::Word(Word::Function) => {
                self.advance()?;
                self.function_body(opened, None)?;
                return Ok(Shape::Function);
            }
            _ => {
                let (shape, target) = self.suffixed()?;
                match target {
                    Target::Global(name, place) => {
                        // Who has the table of globals can add to it.
                        self.outcome.is_open_ended |= name == b"_G";
                        self.read_global(name, place);
                    }
                    Target::Member(Some((path, place))) => self.note_member(path, place),
                    _ => {}
                }
                return Ok(shape);
            }
        };
        self.advance()?;
        Ok(shape)
    }

    /// A name or parentheses, and all fields and calls behind it.
    pub(crate) fn suffixed(&mut self) -> Result<(Shape<'a>, Target<'a>), SyntaxError> {
        let start = self.place;
        let mut shape = Shape::Other;
        let mut path = None;
        let mut target = match self.token {
            Token::Name(name) => {
                self.advance()?;
                match self.scopes.local(name) {
                    Some(local) => Target::Local(name, local, start),
                    None => {
                        path = Some(Path { base: name, member: None });
                        Target::Global(name, start)
                    }
                }
            }
            Token::Sign("(") => {
                self.advance()?;
                let inner = self.expression()?;
                self.need_closing_sign(")", start)?;
                // Parentheses make one value of many.
                shape = if inner == Shape::Many { Shape::Other } else { inner };
                Target::Value
            }
            _ => return Err(self.expected("an expression")),
        };
        loop {
            let place = self.place;
            match self.token {
                Token::Sign("." | ":" | "[" | "(" | "{") | Token::Text(_) => {}
                _ => break,
            }
            if let Target::Global(name, place) = target {
                self.outcome.is_open_ended |= name == b"_G" && self.token == Token::Sign("[");
                self.read_global(name, place);
            }
            if let Target::Member(Some((member, place))) = target {
                self.note_member(member, place);
            }
            match self.token {
                Token::Sign(".") => {
                    self.advance()?;
                    let (name, _) = self.need_name()?;
                    path = path.take().filter(|path| path.member.is_none());
                    path = path.map(|path| Path { member: Some(name), ..path });
                    target = Target::Member(path.map(|path| (path, start)));
                }
                Token::Sign("[") => {
                    self.advance()?;
                    self.expression()?;
                    self.need_closing_sign("]", place)?;
                    path = None;
                    target = Target::Member(None);
                }
                Token::Sign(":") => {
                    self.advance()?;
                    self.need_name()?;
                    self.arguments()?;
                    path = None;
                    target = Target::Call;
                }
                _ => {
                    let arguments = self.arguments()?;
                    if let Some(path) = path.take() {
                        self.note_call(path, start, arguments);
                    }
                    target = Target::Call;
                }
            }
            shape = if matches!(target, Target::Call) { Shape::Many } else { Shape::Other };
        }
        Ok((shape, target))
    }

    fn arguments(&mut self) -> Result<Vec<(Shape<'a>, Place)>, SyntaxError> {
        let place = self.place;
        match self.token {
            Token::Text(text) => {
                self.advance()?;
                Ok(vec![(Shape::Text(text), place)])
            }
            Token::Sign("{") => Ok(vec![(self.table()?, place)]),
            Token::Sign("(") => {
                self.advance()?;
                if self.take_sign(")")? {
                    return Ok(Vec::new());
                }
                let arguments = self.expressions()?;
                self.need_closing_sign(")", place)?;
                Ok(arguments)
            }
            _ => Err(self.expected("the arguments of a call")),
        }
    }

    fn table(&mut self) -> Result<Shape<'a>, SyntaxError> {
        let opened = self.place;
        self.advance()?;
        let mut items = Vec::new();
        while !matches!(self.token, Token::Sign("}")) {
            if matches!(self.token, Token::Name(_)) && self.peek()? == Token::Sign("=") {
                self.advance()?;
                self.advance()?;
                self.expression()?;
            } else if matches!(self.token, Token::Sign("[")) {
                let bracket = self.place;
                self.advance()?;
                self.expression()?;
                self.need_closing_sign("]", bracket)?;
                self.need_sign("=")?;
                self.expression()?;
            } else {
                let item = self.expression()?;
                if items.len() < MOST_ITEMS {
                    items.push(item);
                }
            }
            if !self.take_sign(",")? && !self.take_sign(";")? {
                break;
            }
        }
        self.need_closing_sign("}", opened)?;
        Ok(Shape::Table(items))
    }

    /// Parameters and block of a function; `receiver` is what a method gets first.
    pub(crate) fn function_body(&mut self, opened: Place, receiver: Option<&'a [u8]>) -> Result<(), SyntaxError> {
        self.need_sign("(")?;
        let mut parameters = Vec::new();
        let mut variadic = false;
        if !matches!(self.token, Token::Sign(")")) {
            loop {
                if self.take_sign("...")? {
                    variadic = true;
                    break;
                }
                parameters.push(self.need_name()?);
                if !self.take_sign(",")? {
                    break;
                }
            }
        }
        self.need_sign(")")?;
        self.scopes.open(Body::Function { variadic });
        for (name, place) in receiver.map(|name| (name, opened)).into_iter().chain(parameters) {
            self.scopes.declare(name, Local::Variable, place)?;
        }
        self.block()?;
        self.scopes.close()?;
        if self.token == Token::Word(Word::End) {
            return self.advance();
        }
        Err(self.expected(&format!("`end` to close the `function` of line {}", opened.line)))
    }
}

/// How strongly a binary operator binds to its left and to its right.
fn priorities(token: Token<'_>) -> Option<(u8, u8)> {
    Some(match token {
        Token::Word(Word::Or) => (1, 1),
        Token::Word(Word::And) => (2, 2),
        Token::Sign("<" | ">" | "<=" | ">=" | "~=" | "==") => (3, 3),
        Token::Sign("|") => (4, 4),
        Token::Sign("~") => (5, 5),
        Token::Sign("&") => (6, 6),
        Token::Sign("<<" | ">>") => (7, 7),
        Token::Sign("..") => (9, 8),
        Token::Sign("+" | "-") => (10, 10),
        Token::Sign("*" | "/" | "//" | "%") => (11, 11),
        Token::Sign("^") => (14, 13),
        _ => return None,
    })
}
