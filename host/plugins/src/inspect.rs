//! What a module is, without running it.

use haptic_model::{Digest, ports::Contract};
use serde::Serialize;
use wasmtime::{
    Engine,
    component::{Component, types::ComponentItem},
};

use crate::{
    compiler::Compiler,
    component::compile,
    engine::engine,
    load::{LoadErrorReason, PluginHost},
    v1, wasi,
};

/// What a module is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    pub size: u64,
    /// To be pinned in the plugin's `module.sha256`.
    pub sha256: Digest,
    /// The generation of `haptic:plugin` whose contracts it exports; `None` if it exports none.
    pub generation: Option<String>,
    /// Empty = it is no plugin of this host's generation.
    pub contracts: Vec<Contract>,
    /// Imports only `haptic:plugin/*`, so it may be used where a config demands pure plugins.
    pub pure: bool,
    /// Every import by name, sorted.
    pub imports: Vec<String>,
    /// Imports that this host refuses. Empty = it can be loaded.
    pub refused_imports: Vec<String>,
    /// Every export by name, sorted.
    pub exports: Vec<String>,
    /// The functions of each of its contracts, sorted.
    pub functions: Vec<String>,
}

/// A component's type, as far as this host cares.
pub(crate) struct Shape {
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    functions: Vec<String>,
}

/// Compiles a module, in this process, to learn what it is. Nothing of it runs, so the filters it declares are known only after
/// [`crate::PluginHost::load`].
pub fn inspect(bytes: &[u8]) -> Result<Inspection, LoadErrorReason> {
    let engine = engine().map_err(LoadErrorReason::Runtime)?;
    let (component, _) = compile(&engine, &Compiler::InProcess, bytes)?;
    Ok(Inspection::of(bytes, Shape::of(&component, &engine)))
}

// === impl PluginHost ===

impl PluginHost {
    /// As [`inspect`], with what this host knows already: a module that is loaded or in the cache is not compiled again.
    pub fn inspect(&self, bytes: &[u8]) -> Result<Inspection, LoadErrorReason> {
        let (component, _) = self.component(Digest::of(bytes), bytes)?;
        Ok(Inspection::of(bytes, Shape::of(&component, &self.engine)))
    }
}

// === impl Inspection ===

impl Inspection {
    fn of(bytes: &[u8], shape: Shape) -> Self {
        Self {
            size: bytes.len() as u64,
            sha256: Digest::of(bytes),
            generation: shape.exports.iter().find_map(|name| generation(name)).map(str::to_owned),
            contracts: shape.contracts(),
            pure: shape.impure().is_empty(),
            refused_imports: shape.refused(),
            imports: shape.imports,
            exports: shape.exports,
            functions: shape.functions,
        }
    }
}

/// The version of `haptic:plugin` in the name of an interface of it.
pub(crate) fn generation(name: &str) -> Option<&str> {
    name.strip_prefix(v1::PACKAGE)?.split_once('@').map(|(_, version)| version)
}

/// Whether `name` is the interface `interface` of a version that generation 1 serves.
fn is_ours(name: &str, interface: &str) -> bool {
    let ours = name.strip_prefix(v1::PACKAGE).and_then(|name| name.strip_prefix(interface));
    ours.is_some_and(|version| version.starts_with("@1."))
}

// === impl Shape ===

impl Shape {
    pub(crate) fn of(component: &Component, engine: &Engine) -> Self {
        let ty = component.component_type();
        let mut imports: Vec<_> = ty.imports(engine).map(|(name, _)| name.to_owned()).collect();
        let mut exports = Vec::new();
        let mut functions = Vec::new();
        for (name, item) in ty.exports(engine) {
            exports.push(name.to_owned());
            if let ComponentItem::ComponentInstance(instance) = item.ty
                && name.starts_with(v1::PACKAGE)
            {
                let contract = name.rsplit_once('@').map_or(name, |(contract, _)| contract);
                functions.extend(
                    instance
                        .exports(engine)
                        .filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentFunc(_)))
                        .map(|(function, _)| format!("{contract}#{function}")),
                );
            }
        }
        imports.sort();
        exports.sort();
        functions.sort();
        Self { imports, exports, functions }
    }

    pub(crate) fn contracts(&self) -> Vec<Contract> {
        let exports = |interface| self.exports.iter().any(|name| is_ours(name, interface));
        [
            (v1::AUXILIARY_FILE, Contract::AuxiliaryFile),
            (v1::RENDERED_OUTPUT, Contract::RenderedOutput),
            (v1::TEMPLATE_FILTERS, Contract::TemplateFilter),
        ]
        .into_iter()
        .filter(|(interface, _)| exports(interface))
        .map(|(_, contract)| contract)
        .collect()
    }

    /// Imports that no plugin may have.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.imports.iter().filter(|name| !offered(name) && !is_offered_wasi(name)).cloned().collect()
    }

    /// Imports that a pure plugin may not have.
    pub(crate) fn impure(&self) -> Vec<String> {
        self.imports.iter().filter(|name| !offered(name)).cloned().collect()
    }
}

fn is_offered_wasi(name: &str) -> bool {
    name.split_once('@')
        .is_some_and(|(interface, version)| wasi::OFFERED.contains(&interface) && version.starts_with("0.2."))
}

fn offered(name: &str) -> bool {
    v1::IMPORTS.iter().any(|interface| is_ours(name, interface))
}
