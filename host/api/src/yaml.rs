//! A YAML reader that knows where every value stands.
//!
//! It reads YAML 1.2 (core schema) and so JSON too: `yes` and `on` are texts, as are numbers with leading zeros.
//! Anchors, aliases and merge keys (`<<`) work; what they expand to is bounded. A field that stands twice in one
//! object is an error, because which of the two is meant nobody can tell.

use std::{borrow::Cow, collections::HashMap};

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::{Map, Number, Value};
use thiserror::Error;

/// One document of a file.
#[derive(Clone, Debug)]
pub struct Document {
    root: Node,
}

/// Where something stands; both are 1-based.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

/// One step from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The field of an object.
    Field(String),
    /// The item of a list, counted from 0.
    Item(usize),
}

/// The text is not YAML.
#[derive(Debug, Error)]
#[error("not valid YAML: {message}")]
pub struct InvalidYaml {
    /// Where reading stopped.
    pub position: Position,
    message: String,
}

/// Nodes that all aliases of a file may expand to together.
const MAX_ALIASED_NODES: usize = 100_000;
const MAX_DEPTH: usize = 100;

/// Reads all documents of a text. Empty documents are left out.
pub fn read(text: &str) -> Result<Vec<Document>, InvalidYaml> {
    let mut reader = Reader { parser: Parser::new_from_str(text), anchors: HashMap::new(), aliased: 0 };
    let mut documents = Vec::new();
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(_) | Event::DocumentEnd | Event::StreamStart | Event::Nothing => {}
            event => {
                let root = reader.node(event, span, 0)?;
                if !matches!(root.content, Content::Scalar(Value::Null)) {
                    documents.push(Document { root });
                }
                reader.anchors.clear();
            }
        }
    }
}

// === impl Document ===

impl Document {
    /// Where the document's first value stands.
    pub fn start(&self) -> Position {
        self.root.position
    }

    /// Where the value at the end of `path` stands: of a field its name, of an item its first character. If the path
    /// leads nowhere, the last value on the way.
    pub fn position(&self, path: &[Step]) -> Position {
        let mut node = &self.root;
        let mut position = node.position;
        for step in path {
            let next = match (step, &node.content) {
                (Step::Field(name), Content::Map(fields)) => {
                    fields.iter().find(|field| field.name == *name).map(|field| (field.position, &field.value))
                }
                (Step::Item(index), Content::List(items)) => items.get(*index).map(|item| (item.position, item)),
                _ => None,
            };
            let Some((found, inner)) = next else { break };
            (position, node) = (found, inner);
        }
        position
    }

    /// The document without positions.
    pub fn into_value(self) -> Value {
        self.root.into_value()
    }
}

#[derive(Clone, Debug)]
struct Node {
    position: Position,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Field>),
}

#[derive(Clone, Debug)]
struct Field {
    name: String,
    position: Position,
    value: Node,
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    aliased: usize,
}

// === impl Node ===

impl Node {
    fn into_value(self) -> Value {
        match self.content {
            Content::Scalar(value) => value,
            Content::List(items) => Value::Array(items.into_iter().map(Self::into_value).collect()),
            Content::Map(fields) => {
                Value::Object(fields.into_iter().map(|f| (f.name, f.value.into_value())).collect::<Map<_, _>>())
            }
        }
    }

    fn count(&self) -> usize {
        1 + match &self.content {
            Content::Scalar(_) => 0,
            Content::List(items) => items.iter().map(Self::count).sum(),
            Content::Map(fields) => fields.iter().map(|field| field.value.count()).sum(),
        }
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), InvalidYaml> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(error.into()),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, InvalidYaml> {
        let position = Position::from(span.start);
        if depth > MAX_DEPTH {
            return Err(InvalidYaml::new(position, format!("nested more than {MAX_DEPTH} levels deep")));
        }
        let (anchor, content) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (anchor, Content::Scalar(scalar(&text, style, tag.as_deref(), position)?))
            }
            Event::SequenceStart(anchor, _) => (anchor, Content::List(self.list(depth)?)),
            Event::MappingStart(anchor, _) => (anchor, Content::Map(self.map(depth)?)),
            Event::Alias(id) => return self.alias(id, position),
            other => return Err(InvalidYaml::new(position, format!("unexpected {other:?}"))),
        };
        let node = Node { position, content };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, position: Position) -> Result<Node, InvalidYaml> {
        let Some(node) = self.anchors.get(&id) else {
            return Err(InvalidYaml::new(position, "an alias of a value that contains it".to_owned()));
        };
        self.aliased = self.aliased.saturating_add(node.count());
        if self.aliased > MAX_ALIASED_NODES {
            let message = format!("aliases expand to more than {MAX_ALIASED_NODES} values");
            return Err(InvalidYaml::new(position, message));
        }
        Ok(node.clone())
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, InvalidYaml> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Field>, InvalidYaml> {
        let mut fields: Vec<Field> = Vec::new();
        let mut seen: HashMap<String, Position> = HashMap::new();
        let mut merged: Vec<Field> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            let position = Position::from(span.start);
            let (name, style) = match event {
                Event::MappingEnd => break,
                Event::Scalar(name, style, ..) => (name, style),
                _ => return Err(InvalidYaml::new(position, "the name of a field must be a text".to_owned())),
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            if name == "<<" && style == ScalarStyle::Plain {
                merge(&mut merged, value)?;
                continue;
            }
            let name = Cow::into_owned(name);
            if let Some(first) = seen.insert(name.clone(), position) {
                let message = format!("the field `{name}` stands twice; first in line {}", first.line);
                return Err(InvalidYaml::new(position, message));
            }
            fields.push(Field { name, position, value });
        }
        for field in merged {
            if !seen.contains_key(&field.name) {
                seen.insert(field.name.clone(), field.position);
                fields.push(field);
            }
        }
        Ok(fields)
    }
}

fn merge(into: &mut Vec<Field>, value: Node) -> Result<(), InvalidYaml> {
    match value.content {
        Content::Map(fields) => into.extend(fields),
        Content::List(items) => {
            for item in items {
                merge(into, item)?;
            }
        }
        Content::Scalar(_) => {
            return Err(InvalidYaml::new(value.position, "`<<` must be followed by an object".to_owned()));
        }
    }
    Ok(())
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, position: Position) -> Result<Value, InvalidYaml> {
    match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => return Ok(Value::String(text.to_owned())),
        Some(tag) if tag.is_yaml_core_schema() => {}
        Some(tag) if tag.handle == "!" && tag.suffix.is_empty() => return Ok(Value::String(text.to_owned())),
        Some(tag) => {
            return Err(InvalidYaml::new(position, format!("the tag `{}{}` is not known", tag.handle, tag.suffix)));
        }
        None => {}
    }
    let plain = style == ScalarStyle::Plain || tag.is_some();
    Ok(if plain { resolve(text) } else { Value::String(text.to_owned()) })
}

/// The core schema of YAML 1.2.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')).map(Number::from);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().filter(|_| !digits.starts_with('+')).map(Number::from);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let first = unsigned.bytes().next()?;
    let leading_zero = unsigned.len() > 1 && first == b'0' && unsigned.as_bytes()[1].is_ascii_digit();
    if leading_zero || !(first.is_ascii_digit() || first == b'.') {
        return None;
    }
    if unsigned.bytes().all(|b| b.is_ascii_digit()) {
        if let Ok(whole) = text.parse::<i64>() {
            return Some(Number::from(whole));
        }
        if let Ok(whole) = text.parse::<u64>() {
            return Some(Number::from(whole));
        }
    }
    let decimal = unsigned.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !decimal || unsigned == "." {
        return None;
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

// === impl InvalidYaml ===

impl InvalidYaml {
    fn new(position: Position, message: String) -> Self {
        Self { position, message }
    }
}

impl From<ScanError> for InvalidYaml {
    fn from(error: ScanError) -> Self {
        Self::new(Position::from(*error.marker()), error.info().to_owned())
    }
}

// === impl Position ===

impl From<Marker> for Position {
    fn from(marker: Marker) -> Self {
        let clamp = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: clamp(marker.line()).max(1), column: clamp(marker.col()).saturating_add(1) }
    }
}

#[cfg(test)]
mod tests;
