//! The one engine of a process, and how it is set.

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::limits::{MAX_INSTANCES, MAX_MEMORIES, MAX_TABLES};

/// Guest frames on the host's stack, which has room for them: see [`crate::stack`].
pub(crate) const MAX_WASM_STACK_BYTES: usize = 512 << 10;

/// Memories of all instances at one time, each with 4 GiB of addresses. Ordinary components have one; calls are as many
/// as there are cores, and a render has one instance for each plugin with filters, so this is not met.
const POOLED_MEMORIES: u32 = 512;

/// Elements of one table. Reserved, not used.
const MAX_TABLE_ELEMENTS: usize = 1 << 20;

/// Slots that are kept for the module that had them last; this and the next bound what idle plugins hold.
const WARM_SLOTS: u32 = 8;

/// What a slot keeps at most of the memory that its last instance touched, zeroed, so that the next one finds pages
/// there: a page fault costs several times what zeroing a page does.
const KEPT_MEMORY_BYTES: usize = 8 << 20;

/// The same before Linux 6.7, which cannot say what was touched: all of it is zeroed for every call.
const KEPT_MEMORY_BYTES_UNSEEN: usize = 64 << 10;

const KEPT_TABLE_BYTES: usize = 16 << 10;

/// Makes an engine. Instances take their memories and tables from a pool of reserved addresses: nearly half of a short
/// call would be spent on mapping and unmapping them otherwise. Where a process may not reserve so much (terabytes of
/// addresses, no memory), they are mapped for each instance.
///
/// Two engines made by the same build on the same machine accept each other's compiled images.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    let mut config = config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    Engine::new(&config).or_else(|error| {
        tracing::warn!(%error, "cannot reserve addresses for plugin instances; calls will take longer");
        Engine::new(&self::config())
    })
}

/// An engine that compiles for [`engine`] and runs nothing.
pub(crate) fn compiling_engine() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

fn config() -> Config {
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
    config
}

fn pool() -> PoolingAllocationConfig {
    let each = |most: usize| u32::try_from(most).expect("a limit of parts is small");
    let sees_touched = PoolingAllocationConfig::is_pagemap_scan_available();
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(POOLED_MEMORIES)
        .total_core_instances(POOLED_MEMORIES * 32)
        .total_memories(POOLED_MEMORIES)
        .total_tables(POOLED_MEMORIES * 16)
        .max_core_instances_per_component(each(MAX_INSTANCES))
        .max_memories_per_component(each(MAX_MEMORIES))
        .max_tables_per_component(each(MAX_TABLES))
        .table_elements(MAX_TABLE_ELEMENTS)
        .max_unused_warm_slots(WARM_SLOTS)
        .linear_memory_keep_resident(if sees_touched { KEPT_MEMORY_BYTES } else { KEPT_MEMORY_BYTES_UNSEEN })
        .table_keep_resident(KEPT_TABLE_BYTES)
        .pagemap_scan(Enabled::Auto);
    pool
}
