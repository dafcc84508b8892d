//! What compiling a module may cost.
//!
//! Compiling cannot be interrupted, and it happens before anything of a module is known but its bytes. Most of it costs
//! time and memory in proportion to those, which [`crate::MAX_MODULE_BYTES`] bounds. What does not is bounded here:
//!
//! - The compiler joins every local that is in use at every block, once for each way into it, so one function of a few
//!   kilobytes could ask for millions of joins.
//! - A call of two bytes could give a thousand values, and an empty function costs as much as a page of code.
//! - What a component inside gives to another is compiled as an adapter, one for each pair of functions, of a length
//!   that their types have and not their bytes; see [`adapters`].
//!
//! The bounds are several times what the largest honest modules have, which are JavaScript and Python with their
//! interpreters: 20,000 functions, the longest of 430 KB, 520,000 joins in one and ten million in all. They count and do not
//! measure: a module made to be slow can still take the better part of a minute. Not bounded is what the
//! compiler pays for values that wait on the stack of a function while it goes through many blocks.

use thiserror::Error;
use wasmparser::{
    BinaryReaderError, BlockType, CompositeInnerType, FunctionBody, Operator, Parser, Payload, RecGroup,
    TypeSectionReader,
};

use self::adapters::Adapters;

mod adapters;

const MAX_FUNCTIONS: u64 = 100_000;

/// The longest function.
const MAX_FUNCTION_BYTES: usize = 1 << 20;

/// Blocks and branches of one function, times the locals that are in use in it. Each costs about 100 bytes while the
/// function is compiled.
const MAX_FUNCTION_JOINS: u64 = 2 << 20;

/// The same, of all functions together.
const MAX_JOINS: u64 = 24 << 20;

/// Values that a function or a block gives. An ordinary build has one.
const MAX_RESULTS: usize = 16;

/// Instances of components that a component makes of those inside it, and they of those inside them.
const MAX_INSTANCES: u64 = 10_000;

/// Functions that a component takes from others inside it, times the fields of all types. Three hundred adapters of a
/// thousand fields take the compiler several seconds.
const MAX_ADAPTED: u64 = 300_000;

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
        "the blocks, branches and locals of one of its functions make {joins} joins, more than {MAX_FUNCTION_JOINS}; split it, or build with optimisation"
    )]
    FunctionJoins { joins: u64 },
    #[error(
        "the blocks, branches and locals of its functions make more than {MAX_JOINS} joins; leave out what is not used, or build with optimisation"
    )]
    Joins,
    #[error(
        "the components inside it are instantiated {instances} times, more than {MAX_INSTANCES}; compose it of fewer"
    )]
    Instances { instances: u64 },
    #[error(
        "the components inside it share {adapters} functions, which with {fields} fields of its types is more than {MAX_ADAPTED}; compose it of fewer, or share simpler types"
    )]
    Adapters { adapters: u64, fields: u64 },
    #[error("one of the components inside it imports a component; import the instance")]
    ComponentImport,
}

/// What was seen so far.
#[derive(Default)]
struct Cost {
    functions: u64,
    joins: u64,
    /// Values that each type of the module at hand takes or gives, whichever is more, for the blocks that have them.
    widths: Vec<u64>,
}

/// Looks at every function of a component, and at how the components inside it are put together. What is malformed is
/// left to the compiler, which says better what is wrong and says it before it compiles anything.
pub(crate) fn check(bytes: &[u8]) -> Result<(), TooCostly> {
    let mut cost = Cost::default();
    let mut adapters = Adapters::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let Ok(payload) = payload else { return Ok(()) };
        adapters.add(&payload)?;
        match payload {
            Payload::Version { .. } => cost.widths.clear(),
            Payload::TypeSection(types) => cost.add_types(types)?,
            Payload::CodeSectionEntry(body) => cost.add(&body)?,
            _ => {}
        }
    }
    Ok(())
}

// === impl Cost ===

impl Cost {
    fn add_types(&mut self, types: TypeSectionReader<'_>) -> Result<(), TooCostly> {
        for ty in types.into_iter().flatten().flat_map(RecGroup::into_types) {
            let CompositeInnerType::Func(function) = &ty.composite_type.inner else {
                self.widths.push(0);
                continue;
            };
            let results = function.results().len();
            if results > MAX_RESULTS {
                return Err(TooCostly::Results { results });
            }
            self.widths.push(function.params().len().max(results) as u64);
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

    /// Each way into a block joins the values of the block, at most those of the function's widest, and every local (a
    /// parameter of the function is one) that is used anywhere.
    fn joins_of(&self, body: &FunctionBody<'_>) -> Result<u64, BinaryReaderError> {
        let (mut ways, mut widest, mut uses, mut highest) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            match operators.read()? {
                Operator::Block { blockty } | Operator::Loop { blockty } | Operator::If { blockty } => {
                    ways += 1;
                    if let BlockType::FuncType(ty) = blockty {
                        widest = widest.max(*self.widths.get(ty as usize).unwrap_or(&0));
                    }
                }
                Operator::Else
                | Operator::Br { .. }
                | Operator::BrIf { .. }
                | Operator::BrOnNull { .. }
                | Operator::BrOnNonNull { .. }
                | Operator::BrOnCast { .. }
                | Operator::BrOnCastFail { .. } => ways += 1,
                Operator::BrTable { targets } => ways += u64::from(targets.len()) + 1,
                Operator::LocalGet { local_index }
                | Operator::LocalSet { local_index }
                | Operator::LocalTee { local_index } => {
                    uses += 1;
                    highest = highest.max(u64::from(local_index) + 1);
                }
                _ => {}
            }
        }
        Ok(ways.saturating_mul(uses.min(highest) + widest))
    }
}
