//! Write validators and template filters for haptic.
//!
//! A plugin is a struct, made from the plugin's `config`, that implements one or more of three contracts:
//! [`AuxiliaryFileValidator`], [`RenderedOutputValidator`] and [`TemplateFilters`]. One macro, [`export!`], makes a
//! component of it:
//!
//! ```
//! use haptic_plugin_sdk::{AuxiliaryFile, AuxiliaryFileValidator, Lines, PluginError, Report};
//! use serde::Deserialize;
//!
//! /// Refuses lines that are too long.
//! struct LineLength {
//!     config: Config,
//! }
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Config {
//!     /// In bytes.
//!     max: usize,
//! }
//!
//! impl AuxiliaryFileValidator for LineLength {
//!     type Config = Config;
//!
//!     fn new(config: Config) -> Result<Self, String> {
//!         Ok(Self { config })
//!     }
//!
//!     fn validate(&self, request: &AuxiliaryFile) -> Result<Report, PluginError> {
//!         let mut report = Report::default();
//!         let mut lines = Lines::of(&request.file);
//!         while let Some(line) = lines.next_line() {
//!             if line.text.len() > self.config.max {
//!                 let message = format!("break this line after {} bytes", self.config.max);
//!                 report.error(line.at(self.config.max).of(&request.file), message);
//!             }
//!         }
//!         Ok(report)
//!     }
//! }
//!
//! haptic_plugin_sdk::export! { auxiliary_file: LineLength }
//!
//! // The same validator, natively, on a file in memory:
//! use haptic_plugin_sdk::testing;
//! let file = testing::file("general/motd", "short\nmuch too long\n");
//! let request = testing::auxiliary_file(file);
//! let report = testing::validate_auxiliary_file::<LineLength>(serde_json::json!({ "max": 8 }), &request).unwrap();
//! assert_eq!((report.errors()[0].line, report.errors()[0].column), (2, 9));
//! ```
//!
//! Build it as a `cdylib` with `cargo build --release --target wasm32-wasip2`; the file that comes out is the plugin.
//! Authors need no unsafe code: a plugin can `#![forbid(unsafe_code)]`.
//!
//! # What a plugin lives with
//!
//! - Every call has limits of time, memory, input and output. Reading is what costs: see [`File`].
//! - The same input must give the same answer. There is no clock but `now` in a request, and no randomness.
//! - A validator instance answers one request; a filter instance serves one render. Keep no state.
//! - What is wrong with the input is a finding. [`PluginError`] is for the plugin's own trouble.
//!
//! The contract itself is the text in `wit/`; this crate adds nothing to it.

mod contracts;
mod file;
mod filters;
mod log;
mod report;
pub mod testing;

#[doc(hidden)]
pub mod bindings;
#[doc(hidden)]
pub mod glue;

pub use contracts::{
    AuxiliaryFile, AuxiliaryFileValidator, NoConfig, PluginError, RenderedOutput, RenderedOutputValidator,
};
pub use file::{File, Line, Lines};
pub use filters::{Arguments, Filter, FilterError, TemplateFilters};
pub use log::{Level, log};
pub use report::{Finding, Position, Report, Verdict};
