//! Statements. One pass, no tree: what later checks need is written down on the way, so that memory stays a small
//! multiple of the file's size, and nesting is bounded as in Lua itself.

use std::collections::BTreeMap;

use crate::{
    Version,
    lexer::Lexer,
    scope::{Body, Local, Scopes},
    token::{Place, SyntaxError, Token, Word},
};

/// Lua refuses about 200, counted a little differently for each kind of nesting.
const DEEPEST: usize = 190;

/// How many calls and members are written down. No program has more that matter.
const MOST_NOTES: usize = 20_000;

/// What a program does with names.
#[derive(Default)]
pub(crate) struct Outcome<'a> {
    /// Globals that are set, with where that is first done inside a function if it is done nowhere else.
    pub(crate) defined: BTreeMap<&'a [u8], Option<Place>>,
    /// Globals that are read, with where first.
    pub(crate) read: BTreeMap<&'a [u8], Place>,
    /// Members of global tables, `core.log`, that are read, with where.
    pub(crate) members: Vec<(Path<'a>, Place)>,
    /// Members of global tables that are set.
    pub(crate) own_members: Vec<Path<'a>>,
    /// Calls of globals and of members of global tables.
    pub(crate) calls: Vec<Call<'a>>,
    /// Whether globals may come into being in ways that cannot be seen.
    pub(crate) is_open_ended: bool,
}

/// A global, or a member of a global table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path<'a> {
    pub(crate) base: &'a [u8],
    pub(crate) member: Option<&'a [u8]>,
}

/// A call that is worth a look.
pub(crate) struct Call<'a> {
    pub(crate) path: Path<'a>,
    pub(crate) place: Place,
    pub(crate) arguments: Vec<(Shape<'a>, Place)>,
    pub(crate) in_function: bool,
}

/// What an expression is, as far as it can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape<'a> {
    Nil,
    Boolean,
    Number,
    Text(&'a [u8]),
    /// Its first items without a key.
    Table(Vec<Shape<'a>>),
    Function,
    /// Several values or none.
    Many,
    Other,
}

/// Reads a whole file.
pub(crate) fn parse(source: &[u8], version: Version) -> Result<Outcome<'_>, SyntaxError> {
    let mut lexer = Lexer::new(source)?;
    let (token, place) = lexer.next()?;
    let mut parser = Parser {
        lexer,
        token,
        place,
        ahead: None,
        depth: 0,
        version,
        scopes: Scopes::default(),
        outcome: Outcome::default(),
    };
    parser.scopes.open(Body::Function { variadic: true });
    parser.block()?;
    parser.expect_end()?;
    parser.scopes.close()?;
    Ok(parser.outcome)
}

pub(crate) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(crate) token: Token<'a>,
    pub(crate) place: Place,
    ahead: Option<(Token<'a>, Place)>,
    depth: usize,
    version: Version,
    pub(crate) scopes: Scopes<'a>,
    pub(crate) outcome: Outcome<'a>,
}

/// What stands left of an `=`, or alone as a call.
pub(crate) enum Target<'a> {
    Global(&'a [u8], Place),
    Local(&'a [u8], Local, Place),
    Member(Option<(Path<'a>, Place)>),
    Call,
    /// In parentheses, or no name at all.
    Value,
}

// === impl Parser ===

/// Words and errors.
impl<'a> Parser<'a> {
    pub(crate) fn advance(&mut self) -> Result<(), SyntaxError> {
        (self.token, self.place) = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.lexer.next()?,
        };
        Ok(())
    }

    /// The word after the current one.
    pub(crate) fn peek(&mut self) -> Result<Token<'a>, SyntaxError> {
        if self.ahead.is_none() {
            self.ahead = Some(self.lexer.next()?);
        }
        Ok(self.ahead.expect("it was just read").0)
    }

    pub(crate) fn take_sign(&mut self, sign: &str) -> Result<bool, SyntaxError> {
        let found = matches!(self.token, Token::Sign(found) if found == sign);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn take_word(&mut self, word: Word) -> Result<bool, SyntaxError> {
        let found = self.token == Token::Word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    pub(crate) fn need_sign(&mut self, sign: &str) -> Result<(), SyntaxError> {
        if self.take_sign(sign)? { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    fn need_word(&mut self, word: Word) -> Result<(), SyntaxError> {
        if self.take_word(word)? { Ok(()) } else { Err(self.expected(&format!("`{}`", word.text()))) }
    }

    /// The `end` or bracket of what began at `opened`.
    fn need_closing(&mut self, word: Word, what: &str, opened: Place) -> Result<(), SyntaxError> {
        if self.take_word(word)? {
            return Ok(());
        }
        let closing = word.text();
        Err(self.expected(&format!("`{closing}` to close the {what} of line {}", opened.line)))
    }

    pub(crate) fn need_closing_sign(&mut self, sign: &str, opened: Place) -> Result<(), SyntaxError> {
        if self.take_sign(sign)? {
            return Ok(());
        }
        Err(self.expected(&format!("`{sign}` to close the bracket of line {}", opened.line)))
    }

    pub(crate) fn need_name(&mut self) -> Result<(&'a [u8], Place), SyntaxError> {
        let (Token::Name(name), place) = (self.token, self.place) else { return Err(self.expected("a name")) };
        self.advance()?;
        Ok((name, place))
    }

    fn expect_end(&self) -> Result<(), SyntaxError> {
        if self.token == Token::End { Ok(()) } else { Err(self.expected("a statement")) }
    }

    pub(crate) fn expected(&self, what: &str) -> SyntaxError {
        SyntaxError { place: self.place, message: format!("expected {what}, not {}", self.token.shown()) }
    }

    /// Runs `inner` one level deeper.
    pub(crate) fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.depth >= DEEPEST {
            let message = format!("the program nests deeper than {DEEPEST} levels, which Lua does not load; split it");
            return Err(SyntaxError { place: self.place, message });
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }
}

/// Statements.
impl<'a> Parser<'a> {
    /// Statements up to a word that ends a block.
    pub(crate) fn block(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.token {
                Token::End | Token::Word(Word::End | Word::Else | Word::Elseif | Word::Until) => return Ok(()),
                Token::Word(Word::Return) => return self.deeper(Self::return_statement),
                _ => self.deeper(Self::statement)?,
            }
        }
    }

    fn scoped_block(&mut self, body: Body) -> Result<(), SyntaxError> {
        self.scopes.open(body);
        self.block()?;
        self.scopes.close()
    }

    fn return_statement(&mut self) -> Result<(), SyntaxError> {
        self.advance()?;
        let ends = |token: &Token<'_>| {
            matches!(token, Token::End | Token::Sign(";"))
                || matches!(token, Token::Word(Word::End | Word::Else | Word::Elseif | Word::Until))
        };
        if !ends(&self.token) {
            self.expressions()?;
        }
        self.take_sign(";")?;
        match self.token {
            Token::End | Token::Word(Word::End | Word::Else | Word::Elseif | Word::Until) => Ok(()),
            _ => Err(self.expected("the end of the block after `return`")),
        }
    }

    fn statement(&mut self) -> Result<(), SyntaxError> {
        let opened = self.place;
        match self.token {
            Token::Sign(";") => self.advance(),
            Token::Sign("::") => {
                self.advance()?;
                let (name, place) = self.need_name()?;
                self.scopes.label(name, place)?;
                self.need_sign("::")
            }
            Token::Word(Word::If) => self.if_statement(opened),
            Token::Word(Word::While) => {
                self.advance()?;
                self.expression()?;
                self.need_word(Word::Do)?;
                self.scoped_block(Body::Loop)?;
                self.need_closing(Word::End, "`while`", opened)
            }
            Token::Word(Word::Do) => {
                self.advance()?;
                self.scoped_block(Body::Plain)?;
                self.need_closing(Word::End, "`do`", opened)
            }
            Token::Word(Word::For) => self.for_statement(opened),
            Token::Word(Word::Repeat) => {
                self.advance()?;
                // The condition sees the block's names.
                self.scopes.open(Body::Loop);
                self.block()?;
                self.need_closing(Word::Until, "`repeat`", opened)?;
                self.expression()?;
                self.scopes.close()
            }
            Token::Word(Word::Function) => self.function_statement(opened),
            Token::Word(Word::Local) => {
                self.advance()?;
                if self.take_word(Word::Function)? {
                    let (name, place) = self.need_name()?;
                    self.scopes.declare(name, Local::Variable, place)?;
                    return self.function_body(opened, None);
                }
                self.local_statement()
            }
            Token::Word(Word::Break) => {
                if !self.scopes.in_loop() {
                    let message = "`break` stands outside of a loop".to_owned();
                    return Err(SyntaxError { place: self.place, message });
                }
                self.advance()
            }
            Token::Word(Word::Goto) => {
                self.advance()?;
                let (name, place) = self.need_name()?;
                self.scopes.jump(name, place);
                Ok(())
            }
            _ => self.expression_statement(),
        }
    }

    fn if_statement(&mut self, opened: Place) -> Result<(), SyntaxError> {
        loop {
            self.advance()?;
            self.expression()?;
            self.need_word(Word::Then)?;
            self.scoped_block(Body::Plain)?;
            if self.token != Token::Word(Word::Elseif) {
                break;
            }
        }
        if self.take_word(Word::Else)? {
            self.scoped_block(Body::Plain)?;
        }
        self.need_closing(Word::End, "`if`", opened)
    }

    fn for_statement(&mut self, opened: Place) -> Result<(), SyntaxError> {
        self.advance()?;
        let mut names = vec![self.need_name()?];
        if self.take_sign("=")? {
            self.expression()?;
            self.need_sign(",")?;
            self.expression()?;
            if self.take_sign(",")? {
                self.expression()?;
            }
        } else {
            while self.take_sign(",")? {
                names.push(self.need_name()?);
            }
            self.need_word(Word::In)?;
            self.expressions()?;
        }
        self.need_word(Word::Do)?;
        self.scopes.open(Body::Loop);
        for (name, place) in names {
            self.scopes.declare(name, Local::Variable, place)?;
        }
        self.block()?;
        self.scopes.close()?;
        self.need_closing(Word::End, "`for`", opened)
    }

    fn function_statement(&mut self, opened: Place) -> Result<(), SyntaxError> {
        self.advance()?;
        let (name, place) = self.need_name()?;
        let mut path = Path { base: name, member: None };
        let mut steps = 0;
        while self.take_sign(".")? {
            path.member = Some(self.need_name()?.0);
            steps += 1;
        }
        let method = self.take_sign(":")?;
        if method {
            self.need_name()?;
            steps += 1;
        }
        match (self.scopes.local(name), steps) {
            (Some(local), 0) => self.assign(Target::Local(name, local, place))?,
            (Some(_), _) => {}
            (None, 0) => self.assign(Target::Global(name, place))?,
            (None, steps) => {
                self.read_global(name, place);
                self.assign(Target::Member((steps == 1 && !method).then_some((path, place))))?;
            }
        }
        self.function_body(opened, method.then_some(b"self".as_slice()))
    }

    fn local_statement(&mut self) -> Result<(), SyntaxError> {
        let mut names = Vec::new();
        loop {
            let (name, place) = self.need_name()?;
            let local = if self.token == Token::Sign("<") { self.attribute()? } else { Local::Variable };
            names.push((name, local, place));
            if !self.take_sign(",")? {
                break;
            }
        }
        if self.take_sign("=")? {
            self.expressions()?;
        }
        for (name, local, place) in names {
            self.scopes.declare(name, local, place)?;
        }
        Ok(())
    }

    fn attribute(&mut self) -> Result<Local, SyntaxError> {
        let place = self.place;
        if self.version < Version::Lua54 {
            let message = "attributes of local variables come with Lua 5.4".to_owned();
            return Err(SyntaxError { place, message });
        }
        self.advance()?;
        let (name, place) = self.need_name()?;
        if !matches!(name, b"const" | b"close") {
            let name = String::from_utf8_lossy(name);
            let message = format!("`{name}` is no attribute; write `<const>` or `<close>`");
            return Err(SyntaxError { place, message });
        }
        self.need_sign(">")?;
        Ok(Local::Constant)
    }

    fn expression_statement(&mut self) -> Result<(), SyntaxError> {
        let place = self.place;
        let (_, target) = self.suffixed()?;
        if !matches!(self.token, Token::Sign("=" | ",")) {
            if matches!(target, Target::Call) {
                return Ok(());
            }
            if let Target::Global(name, place) = target {
                self.read_global(name, place);
            }
            return Err(self.expected("`=` or the arguments of a call"));
        }
        self.assignable(target, place)?;
        while self.take_sign(",")? {
            let place = self.place;
            let (_, target) = self.suffixed()?;
            self.assignable(target, place)?;
        }
        self.need_sign("=")?;
        self.expressions()?;
        Ok(())
    }

    fn assignable(&mut self, target: Target<'a>, place: Place) -> Result<(), SyntaxError> {
        if matches!(target, Target::Call | Target::Value) {
            let message = "this cannot be assigned to; only variables and fields can".to_owned();
            return Err(SyntaxError { place, message });
        }
        self.assign(target)
    }
}

/// What is written down.
impl<'a> Parser<'a> {
    fn assign(&mut self, target: Target<'a>) -> Result<(), SyntaxError> {
        match target {
            Target::Local(name, Local::Constant, place) => {
                let message = format!("`{}` is constant and cannot be assigned", String::from_utf8_lossy(name));
                return Err(SyntaxError { place, message });
            }
            Target::Global(name, place) => self.define(name, place),
            Target::Member(Some((path, place))) => {
                if let Path { base: b"_G", member: Some(name) } = path {
                    self.define(name, place);
                } else if self.outcome.own_members.len() < MOST_NOTES {
                    self.outcome.own_members.push(path);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn define(&mut self, name: &'a [u8], place: Place) {
        let inside = self.scopes.in_function().then_some(place);
        let first = self.outcome.defined.entry(name).or_insert(inside);
        if inside.is_none() {
            *first = None;
        }
    }

    pub(crate) fn read_global(&mut self, name: &'a [u8], place: Place) {
        self.outcome.is_open_ended |= matches!(name, b"_ENV" | b"dofile" | b"loadfile");
        self.outcome.read.entry(name).or_insert(place);
    }

    pub(crate) fn note_member(&mut self, path: Path<'a>, place: Place) {
        if self.outcome.members.len() < MOST_NOTES {
            self.outcome.members.push((path, place));
        }
    }

    pub(crate) fn note_call(&mut self, path: Path<'a>, place: Place, arguments: Vec<(Shape<'a>, Place)>) {
        if self.outcome.calls.len() < MOST_NOTES && matches!(path.base, b"core" | b"os" | b"io") {
            let in_function = self.scopes.in_function();
            self.outcome.calls.push(Call { path, place, arguments, in_function });
        }
    }
}
