//! Compiled modules: each is compiled once, or taken from the cache.

use std::sync::{Arc, Weak};

use haptic_model::{Digest, ports::PluginFailureKind};
use parking_lot::Mutex;
use wasmtime::{Engine, component::Component};

use crate::{
    compile_cost,
    compiler::{Compiler, NoImage},
    image::Proven,
    limits::Limits,
    load::{LoadErrorReason, PluginHost},
    report::printable,
    totals::Origin,
};

/// How often the memory images of a component are tried; the kernel waits some tenths of a second each time.
const IMAGE_TRIES: usize = 5;

/// Longest own words of the runtime that are kept.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The place of one module's compiled form. Held while compiling, so that a second load of the same module waits for
/// the first and a load of another does not.
pub(crate) type CompiledOnce = Mutex<Weak<Component>>;

// === impl PluginHost ===

impl PluginHost {
    pub(crate) fn component(&self, digest: Digest, bytes: &[u8]) -> Result<(Arc<Component>, Origin), LoadErrorReason> {
        let place = {
            let mut compiled = self.compiled.lock();
            // One that somebody holds, or is about to, is held more often than by this map.
            compiled.retain(|_, place| {
                Arc::strong_count(place) > 1 || place.try_lock().is_none_or(|component| component.strong_count() > 0)
            });
            Arc::clone(compiled.entry(digest).or_default())
        };
        let mut place = place.lock();
        if let Some(component) = place.upgrade() {
            return Ok((component, Origin::Shared));
        }
        let cached = self.cache.as_ref().and_then(|cache| cache.get(&self.engine, &digest));
        let (component, origin) = match cached {
            Some(component) => (component, Origin::Cache),
            None => {
                let (component, image) = compile(&self.engine, &self.compiler, bytes)?;
                if let Some(cache) = &self.cache {
                    cache.put(&digest, &image);
                }
                (component, Origin::Compiled)
            }
        };
        make_images(&component);
        let component = Arc::new(component);
        *place = Arc::downgrade(&component);
        Ok((component, origin))
    }
}

/// Compiles without looking at what the component wants. Gives its image as well, for the cache.
pub(crate) fn compile(
    engine: &Engine,
    compiler: &Compiler,
    bytes: &[u8],
) -> Result<(Component, Vec<u8>), LoadErrorReason> {
    // The preamble of a core module: magic, version 1, layer 0.
    if bytes.starts_with(b"\0asm\x01\0\0\0") {
        return Err(LoadErrorReason::CoreModule);
    }
    compile_cost::check(bytes)?;
    let image = compiler.image(engine, bytes).map_err(|none| match none {
        NoImage::Refused(error) => LoadErrorReason::NotAComponent(error),
        NoImage::Failed(failure) => LoadErrorReason::Compile(failure),
    })?;
    let component = Proven::believe(&image).component(engine).map_err(LoadErrorReason::NotAComponent)?;
    Ok((component, image))
}

/// Makes what the memories of instances begin with. The kernel seals it, and will not where it moves the pages at that
/// moment; what still fails then is told by the first instance.
fn make_images(component: &Component) {
    for _ in 0..IMAGE_TRIES {
        match component.initialize_copy_on_write_image() {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "could not make the memory images of a component"),
        }
    }
}

/// A component that no instance of the pool can hold is one that would break a limit at its start. The runtime finds it
/// sooner, and gives the error no type that could be asked for; tests hold the words.
pub(crate) fn unfit(reason: LoadErrorReason, limits: Limits) -> LoadErrorReason {
    let LoadErrorReason::NotAComponent(error) = &reason else { return reason };
    let words = format!("{error:#}");
    if !words.contains("pooling allocator") || !words.contains("exceeds") {
        return reason;
    }
    LoadErrorReason::Start(if words.contains("minimum") {
        PluginFailureKind::MemoryLimit { limit_bytes: limits.memory_bytes }
    } else {
        PluginFailureKind::PartsLimit { message: printable(&words, MAX_MESSAGE_BYTES) }
    })
}
