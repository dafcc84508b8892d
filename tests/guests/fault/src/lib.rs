//! A plugin with all three contracts whose config names the fault that it commits, and where.
//!
//! It stands on the bare bindings, because the SDK does not let an author do most of this.

use std::{
    cell::{Cell, RefCell},
    hint::black_box,
    time::{Duration, Instant},
};

use serde::Deserialize;

#[allow(clippy::pedantic, clippy::same_length_and_capacity, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({
        path: "../../../wit/haptic-plugin-1.0.0",
        world: "haptic:plugin/plugin",
        generate_all,
    });
}

use bindings::{
    exports::haptic::plugin::{auxiliary_file_validator, rendered_output_validator, template_filters},
    haptic::plugin::{
        files::File,
        logging,
        types::{Finding, PluginError, Report, Verdict},
    },
};

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Committed in `configure`.
    #[serde(default)]
    on_configure: Fault,
    /// Committed in `validate` and `call`.
    #[serde(default)]
    on_call: Fault,
    /// What [`Fault::Answer`] answers.
    #[serde(default)]
    answer: Answer,
    /// What [`Fault::Tag`] says.
    #[serde(default)]
    tag: String,
    /// Names under which the one filter is declared.
    #[serde(default = "filter_names")]
    filters: Vec<String>,
}

/// A report by its parts, whether they fit or not.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    verdict: String,
    /// Lines and columns.
    #[serde(default)]
    warnings: Vec<(u32, u32)>,
    #[serde(default)]
    errors: Vec<(u32, u32)>,
    /// How often each error is said.
    #[serde(default = "once")]
    times: usize,
    /// The words of each finding.
    #[serde(default = "wrong")]
    message: String,
}

fn once() -> usize {
    1
}

fn wrong() -> String {
    "wrong".to_owned()
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Fault {
    /// An honest answer: `valid`, or the filter's value.
    #[default]
    None,
    /// Never returns.
    Loop,
    /// Takes memory until it gets no more.
    MemoryHog,
    /// Says `valid` and lists an error.
    ContradictoryVerdict,
    /// Points behind the last line.
    PositionOutsideFile,
    /// Points behind the last column.
    ColumnOutsideLine,
    /// Points into a file that it was not given.
    UnknownPath,
    /// A finding without words.
    EmptyMessage,
    /// Answers with megabytes.
    HugeOutput,
    /// Answers with bytes that are no text.
    InvalidUtf8,
    /// A filter's answer that is not JSON.
    NotJson,
    Panic,
    Exit,
    /// Recurses until the stack ends.
    Recursion,
    /// Sleeps for an hour.
    Sleep,
    /// Waits for an hour to pass on the clock.
    WaitForClock,
    /// Reads its file again and again.
    ReadForever,
    /// Writes notes until it is stopped.
    LogFlood,
    /// Writes a few thousand notes, then answers honestly.
    ManyNotes,
    /// Writes to its standard output until it is stopped.
    OutputFlood,
    /// Writes to its standard error until it is stopped.
    ErrorFlood,
    /// Answers with the report of the config.
    Answer,
    /// Answers with the config's tag and how often this instance was asked.
    Tag,
    /// Says that it cannot answer.
    Error,
    /// Tries what a sandbox must not have, then answers honestly if nothing was there.
    Snoop,
}

fn filter_names() -> Vec<String> {
    vec!["echo".to_owned()]
}

thread_local! {
    static ASKED: Cell<u32> = const { Cell::new(0) };
    static CONFIG: RefCell<Config> = RefCell::default();
}

struct Guest;

impl auxiliary_file_validator::Guest for Guest {
    fn configure(config: String) -> Result<(), String> {
        configure(&config)
    }

    fn validate(request: auxiliary_file_validator::Request) -> Result<Report, PluginError> {
        validate(&request.file)
    }
}

impl rendered_output_validator::Guest for Guest {
    fn configure(config: String) -> Result<(), String> {
        configure(&config)
    }

    fn validate(request: rendered_output_validator::Request) -> Result<Report, PluginError> {
        validate(&request.config)
    }
}

impl template_filters::Guest for Guest {
    fn configure(config: String) -> Result<(), String> {
        configure(&config)
    }

    fn declarations() -> Vec<template_filters::Declaration> {
        let names = CONFIG.with_borrow(|config| config.filters.clone());
        names.into_iter().map(|name| template_filters::Declaration { name, doc: "The value.".to_owned() }).collect()
    }

    fn call(
        _: String,
        value: String,
        _: Vec<String>,
        _: Vec<(String, String)>,
    ) -> Result<String, template_filters::FilterError> {
        // A filter commits its fault only on `"now"`, so that a test can call it before and after.
        let fault = CONFIG.with_borrow(|config| config.on_call);
        if value != "\"now\"" {
            return Ok(value);
        }
        match fault {
            Fault::Tag => Ok(format!("\"{}\"", tag())),
            Fault::NotJson => Ok("{".to_owned()),
            Fault::HugeOutput => Ok(format!("\"{}\"", "x".repeat(3 << 20))),
            Fault::InvalidUtf8 => Ok(not_text()),
            Fault::Error => Err(template_filters::FilterError::Failed("the moon is in the wrong house".to_owned())),
            fault => {
                commit(fault, None);
                Ok(value)
            }
        }
    }
}

bindings::export!(Guest with_types_in bindings);

fn configure(config: &str) -> Result<(), String> {
    let config: Config = serde_json::from_str(config).map_err(|error| error.to_string())?;
    let fault = config.on_configure;
    CONFIG.set(config);
    if fault == Fault::Error {
        return Err("`size` must be larger".to_owned());
    }
    commit(fault, None);
    Ok(())
}

fn validate(file: &File) -> Result<Report, PluginError> {
    let fault = CONFIG.with_borrow(|config| config.on_call);
    let path = file.path();
    let lines = u32::try_from(file.read_all().split(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX);
    let finding = |line, column| Finding { path: path.clone(), line, column, message: "wrong".to_owned() };
    match fault {
        Fault::ContradictoryVerdict => Ok(Report { verdict: Verdict::Valid, ..report(finding(1, 1)) }),
        Fault::PositionOutsideFile => Ok(report(finding(lines + 1, 1))),
        Fault::ColumnOutsideLine => Ok(report(finding(1, 1_000_000))),
        Fault::UnknownPath => Ok(report(Finding { path: "/etc/passwd".to_owned(), ..finding(1, 1) })),
        Fault::Answer => Ok(CONFIG.with_borrow(|config| answer(&config.answer, &path))),
        Fault::Tag => Ok(report(Finding { message: tag(), ..finding(1, 1) })),
        Fault::EmptyMessage => Ok(report(Finding { message: " ".to_owned(), ..finding(1, 1) })),
        Fault::HugeOutput => Ok(report(Finding { message: "x".repeat(8 << 20), ..finding(1, 1) })),
        Fault::InvalidUtf8 => Ok(report(Finding { message: not_text(), ..finding(1, 1) })),
        Fault::Error => Err(PluginError { message: "the moon is in the wrong house".to_owned() }),
        fault => {
            commit(fault, Some(file));
            Ok(Report { verdict: Verdict::Valid, warnings: Vec::new(), errors: Vec::new() })
        }
    }
}

fn report(finding: Finding) -> Report {
    Report { verdict: Verdict::Error, warnings: Vec::new(), errors: vec![finding] }
}

fn answer(answer: &Answer, path: &str) -> Report {
    let Answer { verdict, warnings, errors, times, message } = answer;
    let finding =
        |&(line, column): &(u32, u32)| Finding { path: path.to_owned(), line, column, message: message.clone() };
    let verdict = match verdict.as_str() {
        "error" => Verdict::Error,
        "warning" => Verdict::Warning,
        _ => Verdict::Valid,
    };
    let errors = errors.iter().flat_map(|at| std::iter::repeat_n(at, *times)).map(finding).collect();
    Report { verdict, warnings: warnings.iter().map(finding).collect(), errors }
}

fn tag() -> String {
    let asked = ASKED.get() + 1;
    ASKED.set(asked);
    CONFIG.with_borrow(|config| format!("{} {asked}", config.tag))
}

fn commit(fault: Fault, file: Option<&File>) {
    match fault {
        Fault::Loop => while black_box(true) {},
        Fault::MemoryHog => {
            let mut held = Vec::new();
            while black_box(true) {
                held.push(vec![1_u8; 1 << 20]);
            }
            black_box(held);
        }
        Fault::Panic => panic!("I give up"),
        Fault::Exit => std::process::exit(1),
        Fault::Recursion => {
            black_box(recurse(1));
        }
        // The host forbids this to itself; here it is the fault.
        #[allow(clippy::disallowed_methods, reason = "the fault that the test is about")]
        Fault::Sleep => std::thread::sleep(Duration::from_hours(1)),
        Fault::WaitForClock => {
            let started = Instant::now();
            while started.elapsed() < Duration::from_hours(1) {}
        }
        Fault::ReadForever => {
            while black_box(true) {
                black_box(file.map(File::read_all));
            }
        }
        Fault::LogFlood => {
            while black_box(true) {
                logging::log(logging::Level::Error, "note");
            }
        }
        Fault::OutputFlood => {
            while black_box(true) {
                println!("{:1000}", "to nobody");
            }
        }
        Fault::ErrorFlood => {
            while black_box(true) {
                eprintln!("{:1000}", "to nobody");
            }
        }
        Fault::ManyNotes => {
            for _ in 0..5000 {
                logging::log(logging::Level::Error, "note\nwith a second line");
            }
        }
        Fault::Snoop => {
            assert!(std::fs::read_dir("/").is_err(), "there is a file system");
            assert!(std::fs::read("/etc/passwd").is_err(), "there is a file");
            assert!(std::env::vars().next().is_none(), "there is an environment");
            assert!(std::env::args().next().is_none(), "there are arguments");
            assert_eq!(std::time::SystemTime::now(), std::time::UNIX_EPOCH, "there is a clock");
            let mut input = String::new();
            assert!(std::io::stdin().read_line(&mut input).is_ok_and(|read| read == 0), "there is input");
            println!("{}", "to nobody".repeat(10_000));
        }
        _ => {}
    }
}

/// Grows the stack with each call: the optimiser cannot make a loop of it.
fn recurse(depth: u64) -> u64 {
    let page = black_box([depth; 64]);
    if black_box(true) { recurse(depth + 1) + page[(depth % 64) as usize] } else { depth }
}

/// A string that breaks the promise of its type, as a guest in another language would by mistake.
fn not_text() -> String {
    let bytes = vec![b'a', 0xff, 0xfe];
    // SAFETY: it is not sound in general; nothing but the canonical lowering, which copies bytes, ever looks at it.
    unsafe { String::from_utf8_unchecked(bytes) }
}
