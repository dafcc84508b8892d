//! What compiling a module may cost.
//!
//! Compiling cannot be interrupted, and it happens before anything of a module is known but its bytes. Most of it costs
//! time and memory in proportion to those, which [`crate::MAX_MODULE_BYTES`] bounds. What does not is bounded here: the
//! compiler joins every local that is in use at every block, so one function of a few kilobytes could ask for millions
//! of joins, a call of two bytes could give a thousand values, and an empty function costs as much as a page of code. The bounds are several times what the
//! largest honest modules have, which are JavaScript and Python with their interpreters: 20,000 functions, the longest
//! of 430 KB, 200,000 joins in one and three million in all.

use thiserror::Error;
use wasmparser::{
    BinaryReaderError, BlockType, CompositeInnerType, FunctionBody, Operator, Parser, Payload, RecGroup,
    TypeSectionReader,
};

const MAX_FUNCTIONS: u64 = 100_000;

/// The longest function.
const MAX_FUNCTION_BYTES: usize = 1 << 20;

/// Blocks of one function, times the locals that are in use in it. Each costs about 100 bytes while the function is
/// compiled.
const MAX_FUNCTION_JOINS: u64 = 2 << 20;

/// The same, of all functions together.
const MAX_JOINS: u64 = 16 << 20;

/// Values that a function or a block gives. An ordinary build has one.
const MAX_RESULTS: usize = 16;

/// A module that would cost more to compile than any honest one.
#[derive(Debug, Error)]
pub enum TooCostly {
    #[error("it has more than {MAX_FUNCTIONS} functions; leave out what is not used")]
    Functions,
    #[error("one of its functions has {bytes} bytes, more than {MAX_FUNCTION_BYTES}; split it, or inline less")]
    LongFunction { bytes: usize },
    #[error("one of its functions or blocks gives {results} values, more than {MAX_RESULTS}; return a pointer to them")]
    Results { results: usize },
    #[error(
        "the blocks and locals of one of its functions make {joins} joins, more than {MAX_FUNCTION_JOINS}; split it, or build with optimisation"
    )]
    FunctionJoins { joins: u64 },
    #[error(
        "the blocks and locals of its functions make more than {MAX_JOINS} joins; leave out what is not used, or build with optimisation"
    )]
    Joins,
}

/// What was seen so far.
#[derive(Default)]
struct Cost {
    functions: u64,
    joins: u64,
    /// Parameters of each type of the module at hand, for the blocks that have them.
    parameters: Vec<u64>,
}

/// Looks at every function of a component. What is malformed is left to the compiler, which says better what is wrong
/// and says it before it compiles anything.
pub(crate) fn check(bytes: &[u8]) -> Result<(), TooCostly> {
    let mut cost = Cost::default();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload {
            Ok(Payload::Version { .. }) => cost.parameters.clear(),
            Ok(Payload::TypeSection(types)) => cost.add_types(types)?,
            Ok(Payload::CodeSectionEntry(body)) => cost.add(&body)?,
            Ok(_) => {}
            Err(_) => return Ok(()),
        }
    }
    Ok(())
}

// === impl Cost ===

impl Cost {
    fn add_types(&mut self, types: TypeSectionReader<'_>) -> Result<(), TooCostly> {
        for ty in types.into_iter().flatten().flat_map(RecGroup::into_types) {
            let CompositeInnerType::Func(function) = &ty.composite_type.inner else {
                self.parameters.push(0);
                continue;
            };
            let results = function.results().len();
            if results > MAX_RESULTS {
                return Err(TooCostly::Results { results });
            }
            self.parameters.push(function.params().len() as u64);
        }
        Ok(())
    }

    fn add(&mut self, body: &FunctionBody<'_>) -> Result<(), TooCostly> {
        self.functions += 1;
        if self.functions > MAX_FUNCTIONS {
            return Err(TooCostly::Functions);
        }
        let bytes = body.range().len();
        if bytes > MAX_FUNCTION_BYTES {
            return Err(TooCostly::LongFunction { bytes });
        }
        let joins = self.joins_of(body).unwrap_or(0);
        if joins > MAX_FUNCTION_JOINS {
            return Err(TooCostly::FunctionJoins { joins });
        }
        self.joins += joins;
        if self.joins > MAX_JOINS { Err(TooCostly::Joins) } else { Ok(()) }
    }

    /// Each block joins its parameters, and every local (a parameter of the function is one) that is used anywhere.
    fn joins_of(&self, body: &FunctionBody<'_>) -> Result<u64, BinaryReaderError> {
        let (mut blocks, mut parameters, mut uses, mut highest) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            match operators.read()? {
                Operator::Block { blockty } | Operator::Loop { blockty } | Operator::If { blockty } => {
                    blocks += 1;
                    if let BlockType::FuncType(ty) = blockty {
                        parameters += self.parameters.get(ty as usize).unwrap_or(&0);
                    }
                }
                Operator::Else => blocks += 1,
                Operator::LocalGet { local_index }
                | Operator::LocalSet { local_index }
                | Operator::LocalTee { local_index } => {
                    uses += 1;
                    highest = highest.max(u64::from(local_index) + 1);
                }
                _ => {}
            }
        }
        Ok(blocks.saturating_mul(uses.min(highest)).saturating_add(parameters))
    }
}
