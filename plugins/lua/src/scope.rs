//! Local names, labels and what encloses a statement.

use std::collections::{BTreeMap, BTreeSet};

use crate::token::{Place, SyntaxError};

/// As many as the registers of a function allow.
const MOST_LOCALS: usize = 200;

/// What a local variable may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    Variable,
    /// `<const>` and `<close>`, and never assigned again.
    Constant,
}

/// What a block is the body of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Plain,
    Loop,
    Function { variadic: bool },
}

/// All blocks that enclose the current statement.
#[derive(Default)]
pub(crate) struct Scopes<'a> {
    /// The declarations of each name that are in sight, the innermost last.
    locals: BTreeMap<&'a [u8], Vec<Local>>,
    /// Their names in the order of declaration.
    declared: Vec<&'a [u8]>,
    blocks: Vec<Block<'a>>,
}

struct Block<'a> {
    /// How many names were declared when it began.
    start: usize,
    /// The same for the function around it.
    function_start: usize,
    in_loop: bool,
    variadic: bool,
    /// 0 for the file itself.
    function_depth: usize,
    is_function: bool,
    labels: BTreeSet<&'a [u8]>,
    /// Jumps to labels that were not seen yet.
    jumps: Vec<(&'a [u8], Place)>,
}

// === impl Scopes ===

impl<'a> Scopes<'a> {
    pub(crate) fn open(&mut self, body: Body) {
        let start = self.declared.len();
        let outer = self.blocks.last();
        let is_function = matches!(body, Body::Function { .. });
        let block = match (body, outer) {
            (Body::Function { variadic }, outer) => Block {
                start,
                function_start: start,
                in_loop: false,
                variadic,
                function_depth: outer.map_or(0, |outer| outer.function_depth + 1),
                is_function,
                labels: BTreeSet::new(),
                jumps: Vec::new(),
            },
            (body, outer) => {
                let outer = outer.expect("every block stands in a function");
                Block {
                    start,
                    function_start: outer.function_start,
                    in_loop: outer.in_loop || body == Body::Loop,
                    variadic: outer.variadic,
                    function_depth: outer.function_depth,
                    is_function,
                    labels: BTreeSet::new(),
                    jumps: Vec::new(),
                }
            }
        };
        self.blocks.push(block);
    }

    /// Ends the innermost block: its names go out of sight, and jumps that it does not catch go to the block around.
    pub(crate) fn close(&mut self) -> Result<(), SyntaxError> {
        let block = self.blocks.pop().expect("a block is open");
        for name in self.declared.drain(block.start..) {
            if let Some(stack) = self.locals.get_mut(name) {
                stack.pop();
            }
        }
        let mut open = block.jumps.into_iter().filter(|(label, _)| !block.labels.contains(label));
        if !block.is_function {
            self.blocks.last_mut().expect("it stood in another").jumps.extend(open);
            return Ok(());
        }
        let Some((label, place)) = open.next() else { return Ok(()) };
        let message = format!("there is no label `{}` in sight", String::from_utf8_lossy(label));
        Err(SyntaxError { place, message })
    }

    pub(crate) fn declare(&mut self, name: &'a [u8], local: Local, place: Place) -> Result<(), SyntaxError> {
        let block = self.blocks.last().expect("a block is open");
        if self.declared.len() - block.function_start >= MOST_LOCALS {
            let message = format!("the function has more than {MOST_LOCALS} local variables; put some into a table");
            return Err(SyntaxError { place, message });
        }
        self.declared.push(name);
        self.locals.entry(name).or_default().push(local);
        Ok(())
    }

    /// The local variable that a name means here; none for a global.
    pub(crate) fn local(&self, name: &[u8]) -> Option<Local> {
        self.locals.get(name).and_then(|stack| stack.last().copied())
    }

    pub(crate) fn label(&mut self, name: &'a [u8], place: Place) -> Result<(), SyntaxError> {
        let twice = self
            .blocks
            .iter()
            .rev()
            .scan(false, |past, block| {
                let here = !*past;
                *past |= block.is_function;
                here.then_some(block)
            })
            .any(|block| block.labels.contains(name));
        if twice {
            let message = format!("the label `{}` is in sight already", String::from_utf8_lossy(name));
            return Err(SyntaxError { place, message });
        }
        self.innermost().labels.insert(name);
        Ok(())
    }

    pub(crate) fn jump(&mut self, name: &'a [u8], place: Place) {
        self.innermost().jumps.push((name, place));
    }

    pub(crate) fn in_loop(&self) -> bool {
        self.blocks.last().is_some_and(|block| block.in_loop)
    }

    /// Whether `...` means something.
    pub(crate) fn is_variadic(&self) -> bool {
        self.blocks.last().is_some_and(|block| block.variadic)
    }

    /// Whether this runs later than the file is loaded, as far as can be told.
    pub(crate) fn in_function(&self) -> bool {
        self.blocks.last().is_some_and(|block| block.function_depth > 0)
    }

    fn innermost(&mut self) -> &mut Block<'a> {
        self.blocks.last_mut().expect("a block is open")
    }
}
