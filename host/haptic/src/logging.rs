//! Tracing set-up: text for people, JSON for machines; `HAPTIC_LOG` filters (default: see [`DEFAULT`]).

use std::io::{self, IsTerminal as _};

use clap::ValueEnum;
use tracing_subscriber::{
    EnvFilter, Layer as _,
    filter::filter_fn,
    fmt::{self, format},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Events of these targets are whole sentences whose fields repeat them for machines.
const SENTENCES: &[&str] = &["haptic::reconciliation", "haptic::finding", "haptic::config"];

/// The client of the API server logs every failed connection as an error; those that matter are told with what follows
/// from them.
const DEFAULT: &str = "info,kube_client=off";

pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("HAPTIC_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let registry = tracing_subscriber::registry().with(filter);
    let ansi = io::stderr().is_terminal();
    match format {
        LogFormat::Json => {
            registry.with(fmt::layer().json().flatten_event(true).with_span_list(false).with_writer(io::stderr)).init();
        }
        LogFormat::Text => {
            let message_only =
                format::debug_fn(
                    |writer, field, value| {
                        if field.name() == "message" { write!(writer, "{value:?}") } else { Ok(()) }
                    },
                );
            let sentences = fmt::layer()
                .with_writer(io::stderr)
                .with_ansi(ansi)
                .with_target(false)
                .fmt_fields(message_only)
                .with_filter(filter_fn(|metadata| SENTENCES.contains(&metadata.target())));
            let others = fmt::layer()
                .with_writer(io::stderr)
                .with_ansi(ansi)
                .with_target(false)
                .with_filter(filter_fn(|metadata| !SENTENCES.contains(&metadata.target())));
            registry.with(sentences).with(others).init();
        }
    }
}
