//! Compiled images: machine code that the runtime trusts blindly.

use wasmtime::{Engine, component::Component};

/// An image that is known to be what this host's compiler gave: it came from there just now, or its MAC was checked.
pub(crate) struct Proven<'a>(&'a [u8]);

// === impl Proven ===

impl<'a> Proven<'a> {
    /// Only `crate::cache`, behind the check of the MAC, and `crate::compiler` may call this.
    pub(crate) fn believe(image: &'a [u8]) -> Self {
        Self(image)
    }

    /// The component that it holds; an error where it was made for another engine.
    #[allow(unsafe_code, reason = "the runtime's only way to take a compiled image back")]
    pub(crate) fn component(self, engine: &Engine) -> wasmtime::Result<Component> {
        // SAFETY: the bytes are what `Engine::precompile_component` gave in a process that ran this program: it is in
        // this process's own memory since, or was until a MAC over it was made with a key that only this user can
        // read, and again since before that MAC was checked. So nobody else can have changed it.
        unsafe { Component::deserialize(engine, self.0) }
    }
}
