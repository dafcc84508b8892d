//! The one engine of a process, and how it is set.

use wasmtime::{Config, Engine, OptLevel};

/// Guest frames on the host's stack. Threads that run plugins have 2 MiB.
const MAX_WASM_STACK_BYTES: usize = 512 << 10;

/// Makes an engine. Two engines made by the same build on the same machine accept each other's compiled images.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(MAX_WASM_STACK_BYTES)
        .cranelift_opt_level(OptLevel::Speed);
    Engine::new(&config)
}
