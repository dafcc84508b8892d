//! What plugin authors prove their plugins with: cases, the contract's own checks, costs, and a protocol-v1 server.
//!
//! What: a [`Project`] is a folder with a manifest, a component and cases; [`run()`] asks the component all that its
//! author and the contract say ([`CHECKS`]) and gives a [`Report`]; [`bench()`] measures it; [`serve`] offers it to
//! clients of protocol v1. What not: building, pushing, the command line. Called by `haptic plugin …`.
//!
//! ```text
//! folder ─ Project::open ─▶ Project ─┬─ run ───▶ Report ─┬─▶ text, JSON, JUnit
//!                                    └─ bench ─▶ Costs ──┘
//! ```
//!
//! `docs/testing.md` is the text for authors.

pub mod manifest;
pub mod serve;
pub mod v1;

mod bench;
mod case;
mod checks;
mod output;
mod probe;
mod project;
mod report;
mod run;
mod sample;

pub use bench::{BenchError, BenchOptions, Cost, Costs, bench};
pub use case::{Case, CaseError};
pub use checks::{CHECKS, Check};
pub use output::{OutputError, junit, text};
pub use project::{Project, ProjectError};
pub use report::{CaseCost, CheckResult, Group, ModuleFacts, Report, Status, Summary};
pub use run::{Options, Pace, RunError, run};
