//! Modules that are damaged, made up, or made to be hard to compile: each is refused or runs under its limits, and
//! loading never panics.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use haptic_plugins::{LoadError, LoadErrorReason, PluginSettings, TooCostly};

use crate::{
    built::{LIMITS, check_file, guest, set_of, shared_host},
    wat,
};

/// Short, because a damaged guest may loop.
fn load(bytes: &[u8]) -> Result<(), LoadError> {
    let limits = haptic_plugins::Limits { timeout: Duration::from_millis(50), ..LIMITS };
    let settings = PluginSettings { limits, ..PluginSettings::default() };
    let plugin = shared_host().load("malformed", bytes, None, &settings)?;
    // What loads may do what it likes within its limits.
    if plugin.contracts().contains(&haptic_model::ports::Contract::AuxiliaryFile) {
        check_file(&set_of([plugin]), "general/a", "one\n");
    }
    Ok(())
}

fn refusal(bytes: &[u8]) -> LoadErrorReason {
    load(bytes).expect_err("it was loaded").reason
}

/// The same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}

/// Where the contents of the sections of a component begin and end.
fn sections(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut sections = Vec::new();
    let mut at = 8;
    while at < bytes.len() {
        let (mut size, mut shift, mut next) = (0_usize, 0, at + 1);
        loop {
            let byte = bytes[next];
            size |= usize::from(byte & 0x7f) << shift;
            (shift, next) = (shift + 7, next + 1);
            if byte & 0x80 == 0 {
                break;
            }
        }
        sections.push(next..next + size);
        at = next + size;
    }
    sections
}

#[test]
fn a_component_that_ends_anywhere_is_refused() {
    let whole = wat::component("honest");
    load(&whole).unwrap();
    for end in (0..whole.len()).step_by(7) {
        let refused = refusal(&whole[..end]);
        assert!(
            matches!(refused, LoadErrorReason::NotAComponent(_) | LoadErrorReason::NoContract(_)),
            "after {end} bytes: {refused:?}"
        );
    }
}

#[test]
fn a_component_that_ends_within_a_section_is_refused() {
    let whole = guest("fault");
    let sections = sections(&whole);
    assert!(sections.len() > 20, "{}", sections.len());
    let step = sections.len().div_ceil(12);
    for section in sections.iter().step_by(step) {
        // At the end of a section it could be a whole component, and is one after the last but comments.
        for end in [section.start, section.end - 1].into_iter().filter(|end| *end < section.end) {
            let refused = refusal(&whole[..end]);
            assert!(
                matches!(refused, LoadErrorReason::NotAComponent(_) | LoadErrorReason::NoContract(_)),
                "after {end} bytes: {refused:?}"
            );
        }
    }
}

#[test]
fn flipped_bits_never_end_the_host() {
    let whole = wat::component("honest");
    let mut numbers = Numbers(0x5eed);
    let mut refused = 0;
    for _ in 0..400 {
        let mut damaged = whole.clone();
        let place = numbers.below(damaged.len());
        damaged[place] ^= 1 << numbers.below(8);
        refused += usize::from(load(&damaged).is_err());
    }
    assert!(refused > 200, "only {refused} of 400 were refused");
}

#[test]
fn made_up_bytes_are_refused() {
    let mut numbers = Numbers(0xb17e5);
    for length in (0..400).map(|round| round * 5) {
        let mut bytes: Vec<u8> = (0..length).map(|_| numbers.next().to_le_bytes()[0]).collect();
        assert!(matches!(refusal(&bytes), LoadErrorReason::NotAComponent(_)));
        // Behind the preamble of a component they get further.
        bytes.splice(0..0, *b"\0asm\x0d\0\x01\0");
        assert!(load(&bytes).is_err());
    }
}

#[test]
fn a_core_module_is_refused_by_what_it_is() {
    let refused = refusal(&wat::parse("(module (func (export \"validate\")))"));
    assert!(matches!(refused, LoadErrorReason::CoreModule));
}

/// Compiling what the bounds let through takes seconds at most; what they do not takes none.
fn refused_before_compiling(body: &str) -> TooCostly {
    let bytes = wat::parse(&format!("(component (core module {body}))"));
    let started = Instant::now();
    let refused = refusal(&bytes);
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    match refused {
        LoadErrorReason::TooCostly(cost) => cost,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_function_that_is_too_long_is_not_compiled() {
    let body = "local.get 0 i64.const 3 i64.xor drop ".repeat(200_000);
    let refused = refused_before_compiling(&format!("(func (param i64) {body})"));
    assert!(matches!(refused, TooCostly::LongFunction { .. }), "{refused}");
}

#[test]
fn a_function_that_joins_too_much_is_not_compiled() {
    // Forty kilobytes that would take the compiler minutes and gigabytes.
    let (locals, blocks) = (2000, 8000);
    let uses: String = (0..locals).map(|index| format!("local.get {index} drop ")).collect();
    let joins = |start: &str| {
        format!("{start} {} {uses} i32.const 1 br_if 0 {})", "loop ".repeat(blocks), "end ".repeat(blocks))
    };
    let declared = "i64 ".repeat(locals);
    let refused = refused_before_compiling(&joins(&format!("(func (local {declared})")));
    assert!(matches!(refused, TooCostly::FunctionJoins { joins } if joins == 16_002_000), "{refused}");

    // The same spread over functions that are small enough each.
    let one = joins(&format!("(func (local {declared})")).replace(&"loop ".repeat(blocks), &"loop ".repeat(800));
    let one = one.replace(&"end ".repeat(blocks), &"end ".repeat(800));
    let refused = refused_before_compiling(&one.repeat(20));
    assert!(matches!(refused, TooCostly::Joins), "{refused}");

    // The same with parameters of blocks in the place of locals.
    let values = "i64 ".repeat(900);
    let blocks = "unreachable block (type $t) unreachable end ".repeat(3000);
    let refused = refused_before_compiling(&format!("(type $t (func (param {values}))) (func {blocks})"));
    assert!(matches!(refused, TooCostly::FunctionJoins { joins: 2_700_000 }), "{refused}");
}

#[test]
fn a_function_that_branches_too_much_is_not_compiled() {
    // One loop that changes a thousand locals, with four thousand ways back to its start.
    let (locals, branches) = (1000, 4000);
    let declared = "i64 ".repeat(locals);
    let changes: String =
        (1..=locals).map(|index| format!("local.get {index} i64.const 1 i64.add local.set {index} ")).collect();
    let function = |branches: &str| format!("(func (param i32) (local {declared}) loop {changes} {branches} end)");
    let refused = refused_before_compiling(&function(&"local.get 0 br_if 0 ".repeat(branches)));
    assert!(matches!(refused, TooCostly::FunctionJoins { joins: 4_005_001 }), "{refused}");

    // The same ways in one table.
    let table = format!("local.get 0 br_table {}", "0 ".repeat(branches));
    let refused = refused_before_compiling(&function(&table));
    assert!(matches!(refused, TooCostly::FunctionJoins { joins: 4_005_001 }), "{refused}");

    // The same with values in the place of locals.
    let (parameters, values) = ("i64 ".repeat(900), "i64.const 0 ".repeat(900));
    let branches = "local.get 0 br_if 0 ".repeat(branches);
    let refused = refused_before_compiling(&format!(
        "(type $t (func (param {parameters}))) (func (param i32) {values} loop (type $t) {branches} unreachable end)"
    ));
    assert!(matches!(refused, TooCostly::FunctionJoins { joins: 3_604_901 }), "{refused}");
}

#[test]
fn components_that_share_too_much_are_not_compiled() {
    let refused = refusal(&wat::parse(&sharing(400, 1000)));
    assert!(
        matches!(refused, LoadErrorReason::TooCostly(TooCostly::Adapters { adapters: 400, fields: 3600 })),
        "{refused:?}"
    );
    // What an honest composition shares is compiled.
    let refused = refusal(&wat::parse(&sharing(20, 20)));
    assert!(matches!(refused, LoadErrorReason::NoContract(_)), "{refused:?}");
}

/// Two components of which one takes `functions` functions of the other, each with a tuple of `fields` fields.
fn sharing(functions: usize, fields: usize) -> String {
    let tuple = format!("(type $t (tuple {}))", "u32 ".repeat(fields));
    let each = |of: fn(usize) -> String| (0..functions).map(of).collect::<String>();
    format!(
        r#"(component
          (component $gives {tuple}
            (core module $m (memory (export "m") 1)
              (func (export "r") (param i32 i32 i32 i32) (result i32) unreachable) (func (export "f") (param i32)))
            (core instance $i (instantiate $m))
            {lifted})
          (component $takes {tuple}
            {imported}
            (core module $m (memory (export "m") 1))
            (core instance $i (instantiate $m))
            {lowered})
          (instance $given (instantiate $gives))
          (instance (instantiate $takes {arguments})))"#,
        lifted = each(|index| format!(
            r#"(func (export "f{index}") (param "p" $t)
                 (canon lift (core func $i "f") (memory $i "m") (realloc (func $i "r"))))"#
        )),
        imported = each(|index| format!(r#"(import "f{index}" (func $f{index} (param "p" $t)))"#)),
        lowered = each(|index| format!(r#"(core func (canon lower (func $f{index}) (memory $i "m")))"#)),
        arguments = each(|index| format!(r#"(with "f{index}" (func $given "f{index}"))"#)),
    )
}

#[test]
fn components_that_double_without_end_are_not_compiled() {
    let mut text = "(component $c0)".to_owned();
    for depth in 1..30 {
        let inner = depth - 1;
        text = format!(
            "(component $c{depth} {text} (instance (instantiate $c{inner})) (instance (instantiate $c{inner})))"
        );
    }
    let refused = refusal(&wat::parse(&text));
    assert!(matches!(refused, LoadErrorReason::TooCostly(TooCostly::Instances { instances: 16_383 })), "{refused:?}");
    let refused =
        refusal(&wat::parse(r#"(component (component (import "c" (component)) (instance (instantiate 0))))"#));
    assert!(matches!(refused, LoadErrorReason::TooCostly(TooCostly::ComponentImport)), "{refused:?}");
}

#[test]
fn calls_that_give_a_thousand_values_are_not_compiled() {
    let values = "i64 ".repeat(1000);
    let refused = refused_before_compiling(&format!("(func (result {values}) unreachable)"));
    assert!(matches!(refused, TooCostly::Results { results: 1000 }), "{refused}");
}

#[test]
fn a_module_of_too_many_functions_is_not_compiled() {
    let refused = refused_before_compiling(&"(func)".repeat(100_001));
    assert!(matches!(refused, TooCostly::Functions), "{refused}");
}

#[test]
fn components_nested_without_end_are_refused() {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    for _ in 0..3000 {
        let mut outer = b"\0asm\x0d\0\x01\0\x04".to_vec();
        let mut size = bytes.len();
        while size >= 0x80 {
            outer.push(u8::try_from(size & 0x7f).unwrap() | 0x80);
            size >>= 7;
        }
        outer.push(u8::try_from(size).unwrap());
        outer.append(&mut bytes);
        bytes = outer;
    }
    let refused = refusal(&bytes);
    assert!(matches!(refused, LoadErrorReason::NotAComponent(_) | LoadErrorReason::NoContract(_)), "{refused:?}");
}

#[test]
fn types_that_double_without_end_are_refused() {
    let types: String = (0..64).map(|index| format!("(type $t{} (tuple $t{index} $t{index}))", index + 1)).collect();
    let refused = refusal(&wat::parse(&format!("(component (type $t0 (tuple u8 u8)) {types})")));
    assert!(matches!(refused, LoadErrorReason::NotAComponent(_)), "{refused:?}");
}

#[test]
fn a_module_with_very_many_types_loads_or_not_but_soon() {
    let types: String =
        (0..10_000).map(|index| format!("(type (list (tuple u{} s8)))", [8, 16, 32, 64][index % 4])).collect();
    let bytes = wat::parse(&format!("(component {types})"));
    let started = Instant::now();
    let refused = refusal(&bytes);
    assert!(matches!(refused, LoadErrorReason::NoContract(_) | LoadErrorReason::NotAComponent(_)), "{refused:?}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
