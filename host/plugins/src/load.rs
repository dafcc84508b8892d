//! From bytes to a plugin that may be called.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Instant};

use haptic_model::{
    Digest,
    ports::{Contract, FailurePolicy, FilterDeclaration, PluginFailure, PluginFailureKind},
};
use parking_lot::Mutex;
use thiserror::Error;
use wasmtime::{
    Engine,
    component::{InstancePre, Linker},
};

use crate::{
    cache::{Cache, CacheError},
    call::Call,
    compile_cost::TooCostly,
    compiler::{CompileFailure, Compiler},
    component::{CompiledOnce, unfit},
    engine::engine,
    failure::classify,
    inspect::{Shape, generation},
    limits::Limits,
    metrics::PluginMetrics,
    plugin::{Exports, LoadedPlugin},
    report::printable,
    stack,
    ticker::Ticker,
    totals::{AllTotals, Origin, Totals},
    v1, wasi,
};

/// The largest module that is loaded. A Python plugin has 18 MB.
pub const MAX_MODULE_BYTES: usize = 64 << 20;

/// Filters that one plugin may declare.
const MAX_FILTERS: usize = 256;

/// Longest name of a filter.
const MAX_FILTER_NAME_BYTES: usize = 64;

/// Longest own words of a plugin that are kept.
const MAX_MESSAGE_BYTES: usize = 1024;

/// Names of imports or exports that a message tells, and what is told of each.
const MAX_NAMES: usize = 8;
const MAX_NAME_BYTES: usize = 120;

/// Loads plugins. One for a process: plugins of two hosts share nothing.
pub struct PluginHost {
    pub(crate) engine: Engine,
    linker: Linker<Call>,
    ticker: Ticker,
    pub(crate) cache: Option<Cache>,
    /// Compiled modules that a loaded plugin still holds, so that two plugins of one module compile it once.
    pub(crate) compiled: Mutex<HashMap<Digest, Arc<CompiledOnce>>>,
    pub(crate) compiler: Compiler,
    totals: AllTotals,
}

/// How a plugin is to be loaded.
#[derive(Clone, Debug)]
pub struct PluginSettings {
    /// Given to the plugin as JSON text; `null` is given as `{}`.
    pub config: serde_json::Value,
    pub limits: Limits,
    pub failure_policy: FailurePolicy,
    pub purity: Purity,
}

/// What a plugin may import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purity {
    /// `haptic:plugin/*`, and a WASI in which nothing is there.
    #[default]
    Wasi,
    /// `haptic:plugin/*` alone.
    Pure,
}

/// The host cannot start.
#[derive(Debug, Error)]
pub enum HostError {
    #[error("starting the wasm runtime: {0}")]
    Runtime(wasmtime::Error),
    #[error("starting the clock of the wasm runtime")]
    Ticker(#[source] std::io::Error),
    #[error("opening the cache of compiled plugins")]
    Cache(#[from] CacheError),
}

/// A plugin cannot be loaded.
#[derive(Debug, Error)]
#[error("loading plugin `{plugin}`: {reason}")]
pub struct LoadError {
    pub plugin: Arc<str>,
    #[source]
    pub reason: LoadErrorReason,
}

#[derive(Debug, Error)]
pub enum LoadErrorReason {
    #[error("the module has sha256 {actual}, but {expected} is pinned; pin the new digest if the change is meant")]
    Digest { expected: Digest, actual: Digest },
    #[error("the module has {bytes} bytes, more than the {limit} that are loaded")]
    TooLarge { bytes: usize, limit: usize },
    #[error("it is a core module and not a component; build it with `cargo build --target wasm32-wasip2`")]
    CoreModule,
    #[error("it is not a component that this host can compile: {}", told(.0))]
    NotAComponent(wasmtime::Error),
    #[error("the host will not compile it: {0}")]
    TooCostly(#[from] TooCostly),
    #[error("it was not compiled: {}", chain(.0))]
    Compile(#[from] CompileFailure),
    #[error(
        "it imports {}, and a plugin may import only `haptic:plugin/{{types,files,logging}}` and what an ordinary build for wasm32-wasip2 does", list(.0)
    )]
    ForeignImports(Vec<String>),
    #[error("its config demands a pure plugin, but it imports {}; build it for wasm32-unknown-unknown", list(.0))]
    NotPure(Vec<String>),
    #[error(
        "it is built for generation {found} of `haptic:plugin`, and this host serves {served}; use a plugin or a haptic that fits"
    )]
    Generation { found: String, served: &'static str },
    #[error("it exports none of the contracts of `haptic:plugin`, only {}", list(.0))]
    NoContract(Vec<String>),
    #[error("its type does not fit generation {generation}: {}", told(.0), generation = v1::GENERATION)]
    Type(wasmtime::Error),
    #[error("it refuses its config: {message}")]
    Config { message: String },
    #[error("it declares a filter against the contract: {message}")]
    Declaration { message: String },
    #[error("it did not start: {0}")]
    Start(PluginFailureKind),
    #[error("the wasm runtime did not start: {0}")]
    Runtime(wasmtime::Error),
}

// === impl PluginHost ===

impl PluginHost {
    /// Starts the runtime of a tool that compiles where it runs; see [`PluginHost::with_compiler`].
    pub fn new(cache_dir: Option<PathBuf>) -> Result<Self, HostError> {
        Self::with_compiler(cache_dir, Compiler::InProcess)
    }

    /// Starts the runtime. With a folder for the cache, compiled modules are kept in its subfolder `compiled`, which
    /// this user alone can read.
    pub fn with_compiler(cache_dir: Option<PathBuf>, compiler: Compiler) -> Result<Self, HostError> {
        let engine = engine().map_err(HostError::Runtime)?;
        let linker = linker(&engine).map_err(HostError::Runtime)?;
        let cache = cache_dir.map(|folder| Cache::open(&folder, &engine)).transpose()?;
        let ticker = Ticker::start(engine.clone()).map_err(HostError::Ticker)?;
        Ok(Self { engine, linker, ticker, cache, compiled: Mutex::default(), compiler, totals: AllTotals::default() })
    }

    /// What its plugins do, for the registry of the process.
    pub fn metrics(&self) -> PluginMetrics {
        PluginMetrics(self.totals.clone())
    }

    /// Verifies, compiles (once per digest, or from the cache), links and configures a plugin, once per contract and
    /// under its limits. Blocks, for seconds if a large module must be compiled. A plugin that comes out of here
    /// answers, as far as can be known without a request.
    pub fn load(
        &self,
        name: &str,
        bytes: &[u8],
        expected_sha256: Option<Digest>,
        settings: &PluginSettings,
    ) -> Result<Arc<LoadedPlugin>, LoadError> {
        let name: Arc<str> = name.into();
        let totals = self.totals.of(&name);
        let loaded = self.load_named(&totals, bytes, expected_sha256, settings);
        loaded.map_err(|reason| {
            totals.load_failed(reason.label());
            LoadError { plugin: name, reason }
        })
    }

    fn load_named(
        &self,
        totals: &Arc<Totals>,
        bytes: &[u8],
        expected: Option<Digest>,
        settings: &PluginSettings,
    ) -> Result<Arc<LoadedPlugin>, LoadErrorReason> {
        let started = Instant::now();
        let digest = verify(bytes, expected)?;
        let name = &totals.name;
        let (component, origin) = self.component(digest, bytes).map_err(|reason| unfit(reason, settings.limits))?;
        let compile_time = started.elapsed();
        let shape = Shape::of(&component, &self.engine);
        admit(&shape, settings.purity)?;
        let pre = self.linker.instantiate_pre(&component).map_err(LoadErrorReason::Type)?;
        let exports = Exports::find(&pre, &shape).map_err(LoadErrorReason::Type)?;
        let config = match &settings.config {
            serde_json::Value::Null => "{}".to_owned(),
            config => config.to_string(),
        };
        let mut plugin = LoadedPlugin {
            name: Arc::clone(name),
            digest,
            config,
            limits: settings.limits,
            failure_policy: settings.failure_policy,
            engine: self.engine.clone(),
            ticker: self.ticker.clone(),
            pre,
            exports,
            filters: Vec::new(),
            compile_time,
            load_time: compile_time,
            from_cache: origin != Origin::Compiled,
            totals: Arc::clone(totals),
            _component: component,
        };
        for contract in plugin.contracts() {
            let filters = try_out(&plugin, contract)?;
            plugin.filters.extend(filters);
        }
        plugin.load_time = started.elapsed();
        totals.loaded(origin, compile_time, plugin.load_time);
        tracing::info!(
            plugin = %name, %digest, contracts = ?plugin.contracts(), module = ?origin,
            load_ms = plugin.load_time.as_millis(), "loaded plugin"
        );
        Ok(Arc::new(plugin))
    }
}

/// Everything that a plugin may import.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<Call>> {
    let mut linker = Linker::new(engine);
    v1::link(&mut linker)?;
    wasi::link(&mut linker)?;
    Ok(linker)
}

fn verify(bytes: &[u8], expected: Option<Digest>) -> Result<Digest, LoadErrorReason> {
    if bytes.len() > MAX_MODULE_BYTES {
        return Err(LoadErrorReason::TooLarge { bytes: bytes.len(), limit: MAX_MODULE_BYTES });
    }
    let actual = Digest::of(bytes);
    match expected {
        Some(expected) if expected != actual => Err(LoadErrorReason::Digest { expected, actual }),
        _ => Ok(actual),
    }
}

/// Refuses what this host cannot or may not run, by the component's type alone.
fn admit(shape: &Shape, purity: Purity) -> Result<(), LoadErrorReason> {
    let refused = shape.refused();
    let names = shape.exports.iter().chain(&refused);
    if let Some(found) = names.filter_map(|name| generation(name)).find(|version| !version.starts_with("1.")) {
        return Err(LoadErrorReason::Generation { found: printable(found, MAX_NAME_BYTES), served: v1::GENERATION });
    }
    if !refused.is_empty() {
        return Err(LoadErrorReason::ForeignImports(refused));
    }
    if purity == Purity::Pure && !shape.impure().is_empty() {
        return Err(LoadErrorReason::NotPure(shape.impure()));
    }
    if shape.contracts().is_empty() {
        return Err(LoadErrorReason::NoContract(shape.exports.clone()));
    }
    Ok(())
}

/// Makes an instance, configures it as each call will, and asks for its filters.
pub(crate) fn try_out(plugin: &LoadedPlugin, contract: Contract) -> Result<Vec<FilterDeclaration>, LoadErrorReason> {
    let _in_flight = plugin.ticker.enter();
    let mut store = plugin.store();
    let Exports { auxiliary_file, rendered_output, template_filters } = &plugin.exports;
    let tried = stack::with_room(|| {
        let instance = plugin.pre.instantiate(&mut store)?;
        let config = plugin.config.as_str();
        match (contract, auxiliary_file, rendered_output, template_filters) {
            (Contract::AuxiliaryFile, Some(indices), _, _) => {
                let guest = indices.load(&mut store, &instance)?;
                Ok((guest.call_configure(&mut store, config)?, Vec::new()))
            }
            (Contract::RenderedOutput, _, Some(indices), _) => {
                let guest = indices.load(&mut store, &instance)?;
                Ok((guest.call_configure(&mut store, config)?, Vec::new()))
            }
            (Contract::TemplateFilter, _, _, Some(indices)) => {
                let guest = indices.load(&mut store, &instance)?;
                match guest.call_configure(&mut store, config)? {
                    Ok(()) => Ok((Ok(()), guest.call_declarations(&mut store)?)),
                    refused => Ok((refused, Vec::new())),
                }
            }
            _ => unreachable!("a contract of the plugin has its export"),
        }
    });
    match tried {
        Err(error) => Err(LoadErrorReason::Start(classify(&store, &error))),
        Ok((Err(message), _)) => Err(LoadErrorReason::Config { message: printable(&message, MAX_MESSAGE_BYTES) }),
        Ok((Ok(()), declared)) => declarations(&plugin.name, declared),
    }
}

fn declarations(
    plugin: &Arc<str>,
    declared: Vec<v1::template_filters::Declaration>,
) -> Result<Vec<FilterDeclaration>, LoadErrorReason> {
    let against = |message| Err(LoadErrorReason::Declaration { message });
    if declared.len() > MAX_FILTERS {
        return against(format!("it declares {} filters, more than {MAX_FILTERS}", declared.len()));
    }
    let mut filters: Vec<FilterDeclaration> = Vec::with_capacity(declared.len());
    for v1::template_filters::Declaration { name, doc } in declared {
        if !is_filter_name(&name) {
            let name = printable(&name, MAX_FILTER_NAME_BYTES);
            return against(format!("`{name}` is not lower-case letters, digits and `_`, starting with a letter"));
        }
        if filters.iter().any(|other| other.name == name) {
            return against(format!("`{name}` is declared twice"));
        }
        filters.push(FilterDeclaration { name, plugin: Arc::clone(plugin), doc: doc.trim().to_owned() });
    }
    Ok(filters)
}

fn is_filter_name(name: &str) -> bool {
    name.len() <= MAX_FILTER_NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Names of a module, fit for a message.
fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let told = names.iter().take(MAX_NAMES).map(|name| format!("`{}`", printable(name, MAX_NAME_BYTES)));
    let told = told.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// What the runtime says of a module, in whose words the module's own may be.
fn told(error: &wasmtime::Error) -> String {
    printable(&format!("{error:#}"), MAX_MESSAGE_BYTES)
}

/// An error and what caused it, in one line.
fn chain(failure: &CompileFailure) -> String {
    match std::error::Error::source(failure) {
        Some(source) => format!("{failure}: {source}"),
        None => failure.to_string(),
    }
}

// === impl PluginSettings ===

impl Default for PluginSettings {
    fn default() -> Self {
        Self {
            config: serde_json::Value::Null,
            limits: Limits::default(),
            failure_policy: FailurePolicy::default(),
            purity: Purity::default(),
        }
    }
}

// === impl LoadErrorReason ===

impl LoadErrorReason {
    /// The reason as a label of metrics.
    fn label(&self) -> &'static str {
        match self {
            Self::Digest { .. } => "digest",
            Self::TooLarge { .. } => "too_large",
            Self::CoreModule => "core_module",
            Self::NotAComponent(_) => "not_a_component",
            Self::TooCostly(_) => "too_costly",
            Self::Compile(failure) if failure.is_cost() => "too_costly",
            Self::Compile(_) => "compiler",
            Self::ForeignImports(_) => "foreign_imports",
            Self::NotPure(_) => "not_pure",
            Self::Generation { .. } => "generation",
            Self::NoContract(_) => "no_contract",
            Self::Type(_) => "type",
            Self::Config { .. } => "config",
            Self::Declaration { .. } => "declaration",
            Self::Start(kind) => kind.reason(),
            Self::Runtime(_) => "runtime",
        }
    }
}

// === impl LoadError ===

impl LoadError {
    /// This error as the failure that a plugin which was needed but is not there gives.
    pub fn as_failure(&self) -> PluginFailure {
        let kind = match &self.reason {
            LoadErrorReason::Start(kind) => kind.clone(),
            reason => PluginFailureKind::NotLoaded { message: reason.to_string() },
        };
        PluginFailure { plugin: Arc::clone(&self.plugin), kind }
    }
}

// === impl Exports ===

impl Exports {
    /// Finds the contracts that `shape` says are there; an export of another type is an error.
    fn find(pre: &InstancePre<Call>, shape: &Shape) -> wasmtime::Result<Self> {
        let mut found = Self::default();
        for contract in shape.contracts() {
            match contract {
                Contract::AuxiliaryFile => {
                    found.auxiliary_file = Some(v1::auxiliary_file_validator::GuestIndices::new(pre)?);
                }
                Contract::RenderedOutput => {
                    found.rendered_output = Some(v1::rendered_output_validator::GuestIndices::new(pre)?);
                }
                Contract::TemplateFilter => {
                    found.template_filters = Some(v1::template_filters::GuestIndices::new(pre)?);
                }
            }
        }
        Ok(found)
    }
}
