//! The Wasm host: loads plugins, proves that they are what they claim, and runs them under limits.
//!
//! What: [`PluginHost`] verifies, compiles (or takes from a compiled cache) and links a component; [`PluginSet`] is
//! the plugins of one accepted configuration as the model's ports ([`haptic_model::ports`]) want them; [`inspect()`]
//! says what a module is without running it. What not: fetching, Kubernetes, deciding which plugin guards what.
//! Called by the controller's pipeline, which must do so on blocking threads: every call runs to its end or its limit.
//!
//! ```text
//! bytes ─ digest ─ compile │ cache ─ link ─ trial run ─▶ LoadedPlugin ─┬▶ validators: a fresh instance per request
//!                                                                      └▶ filters: an instance per render
//! ```
//!
//! # Unsafe code
//!
//! Taking a compiled image is [`wasmtime::component::Component::deserialize`], which is unsafe because the runtime
//! trusts the image's machine code. The one call stands in `image.rs`, for what this host's compiler has just given and
//! for what `cache.rs` proved by a MAC, whose key only this user can read, over a file in a folder that only this user
//! can write. Nothing else in this crate may allow `unsafe_code`.

mod answered;
mod cache;
mod call;
mod canonical;
mod compile_cost;
mod compiler;
mod component;
mod engine;
mod failure;
mod image;
mod inspect;
mod limits;
mod load;
mod metrics;
mod notes;
mod plugin;
mod report;
mod session;
mod set;
mod stack;
mod ticker;
mod totals;
mod trial;
mod v1;
mod validate;
mod wasi;

/// What runs the plugins.
pub const RUNTIME: &str = "wasmtime 48.0.8";

pub use cache::CacheError;
pub use compile_cost::TooCostly;
pub use compiler::{CompileFailure, CompileLimits, Compiler, CompilerProcess, compile_for_parent};
pub use inspect::{Inspection, inspect};
pub use limits::Limits;
pub use load::{HostError, LoadError, LoadErrorReason, MAX_MODULE_BYTES, PluginHost, PluginSettings, Purity};
pub use metrics::PluginMetrics;
pub use plugin::LoadedPlugin;
pub use set::{InvalidPluginSet, PluginSet, PluginUse, ValidatorScope};
pub use trial::{DirectFilters, RawReport, Trial, Verdict};
pub use validate::Question;
