//! The one engine of a process, and how it is set.

use wasmtime::{Config, Engine, OptLevel};

/// Guest frames on the host's stack, which has room for them: see [`crate::stack`].
pub(crate) const MAX_WASM_STACK_BYTES: usize = 512 << 10;

/// Makes an engine. Instances are allocated when they are needed: a pool of them would start an instance faster, but
/// it would put a cap on the instances, memories and tables of all plugins together, and one render with many plugins
/// or one plugin of many parts could take what the others need.
///
/// Two engines made by the same build on the same machine accept each other's compiled images.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(MAX_WASM_STACK_BYTES)
        .cranelift_opt_level(OptLevel::Speed)
        // Offsets in backtraces, which nothing here prints. Without them an image is smaller: to keep, to read and to
        // prove.
        .generate_address_map(false);
    Engine::new(&config)
}
