//! Generation 1 of the contract, `haptic:plugin@1`: the bindings and what the host offers its guests.

use bytes::Bytes;
use haptic_model::FilePath;
use wasmtime::component::{HasSelf, Linker, Resource};

use crate::{call::Call, failure::Ended};

// The generated code is the runtime's own safe wrapper around canonical lifting and lowering.
#[allow(unreachable_pub, clippy::pedantic, reason = "generated code")]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit/haptic-plugin-1.0.0",
        world: "haptic:plugin/plugin",
        imports: { default: trappable },
        with: { "haptic:plugin/files.file": crate::v1::HostFile },
    });
}

use bindings::haptic::plugin::{files, logging};
pub(crate) use bindings::{
    exports::haptic::plugin::{auxiliary_file_validator, rendered_output_validator, template_filters},
    haptic::plugin::types,
};

/// What `wit/` calls this generation.
pub(crate) const GENERATION: &str = "1.0.0";

/// The package of every generation.
pub(crate) const PACKAGE: &str = "haptic:plugin/";

pub(crate) const AUXILIARY_FILE: &str = "auxiliary-file-validator";
pub(crate) const RENDERED_OUTPUT: &str = "rendered-output-validator";
pub(crate) const TEMPLATE_FILTERS: &str = "template-filters";

/// The interfaces of [`PACKAGE`] that a guest may import.
pub(crate) const IMPORTS: [&str; 3] = ["types", "files", "logging"];

/// A rendered file as a guest holds it: the content stays here until it is read.
#[allow(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct HostFile {
    pub(crate) path: FilePath,
    pub(crate) content: Bytes,
}

/// Offers `types`, `files` and `logging`.
pub(crate) fn link(linker: &mut Linker<Call>) -> wasmtime::Result<()> {
    types::add_to_linker::<_, HasSelf<Call>>(linker, |call| call)?;
    files::add_to_linker::<_, HasSelf<Call>>(linker, |call| call)?;
    logging::add_to_linker::<_, HasSelf<Call>>(linker, |call| call)
}

// === impl Call ===

impl types::Host for Call {}

impl files::Host for Call {}

impl files::HostFile for Call {
    fn path(&mut self, file: Resource<HostFile>) -> wasmtime::Result<String> {
        Ok(self.table.get(&file)?.path.to_string())
    }

    fn size(&mut self, file: Resource<HostFile>) -> wasmtime::Result<u64> {
        Ok(self.table.get(&file)?.content.len() as u64)
    }

    fn read_all(&mut self, file: Resource<HostFile>) -> wasmtime::Result<Vec<u8>> {
        let content = self.table.get(&file)?.content.clone();
        self.charge_input(content.len() as u64)?;
        Ok(content.to_vec())
    }

    fn read(&mut self, file: Resource<HostFile>, offset: u64, length: u64) -> wasmtime::Result<Vec<u8>> {
        let content = self.table.get(&file)?.content.clone();
        let start = usize::try_from(offset).map_or(content.len(), |offset| offset.min(content.len()));
        let rest = &content[start..];
        let part = &rest[..usize::try_from(length).map_or(rest.len(), |length| length.min(rest.len()))];
        self.charge_input(part.len() as u64)?;
        Ok(part.to_vec())
    }

    fn drop(&mut self, file: Resource<HostFile>) -> wasmtime::Result<()> {
        self.table.delete(file)?;
        Ok(())
    }
}

impl logging::Host for Call {
    fn log(&mut self, level: logging::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            logging::Level::Debug => tracing::Level::DEBUG,
            logging::Level::Info => tracing::Level::INFO,
            logging::Level::Warn => tracing::Level::WARN,
            logging::Level::Error => tracing::Level::ERROR,
        };
        self.log(level, &message);
        Ok(())
    }
}

impl Call {
    fn charge_input(&mut self, bytes: u64) -> wasmtime::Result<()> {
        let read = self.input_read.saturating_add(bytes);
        if read > self.limits.input_bytes {
            return Err(self.end(Ended::Input { bytes: read }));
        }
        self.input_read = read;
        Ok(())
    }
}
