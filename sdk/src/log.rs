#[cfg(target_family = "wasm")]
use crate::bindings::imports::haptic::plugin::logging;

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Why something happened.
    Debug,
    /// Something happened.
    Info,
    /// Something works less well than it should.
    Warn,
    /// A person must act.
    Error,
}

/// Writes a note to haptic's log, labelled with the plugin's name; in a native test, to stderr. Long notes are cut and
/// many are dropped. Never log file content: it may be a private key.
pub fn log(level: Level, message: &str) {
    #[cfg(target_family = "wasm")]
    logging::log(
        match level {
            Level::Debug => logging::Level::Debug,
            Level::Info => logging::Level::Info,
            Level::Warn => logging::Level::Warn,
            Level::Error => logging::Level::Error,
        },
        message,
    );
    #[cfg(not(target_family = "wasm"))]
    eprintln!("{level:?}: {message}");
}
