//! Tracing set-up: text for people, JSON for machines; `HAPTIC_LOG` filters (default: [`DEFAULT`]).

use std::{
    env,
    io::{self, IsTerminal as _},
};

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

const DEFAULT: &str = "info";

/// The client of the API server logs every failed connection as an error; those that matter are told with what follows
/// from them. So it is silent unless the filter names it.
const CLIENT: &str = "kube_client";

pub(crate) fn start(format: LogFormat) {
    let asked = env::var("HAPTIC_LOG").ok().and_then(|asked| EnvFilter::try_new(directives(&asked)).ok());
    let filter = asked.unwrap_or_else(|| EnvFilter::new(directives(DEFAULT)));
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

/// What is filtered by: what was asked for, without the client.
fn directives(asked: &str) -> String {
    if asked.contains(CLIENT) { asked.to_owned() } else { format!("{asked},{CLIENT}=off") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_of_the_api_server_is_silent_unless_it_is_named() {
        for (asked, filter) in [
            (DEFAULT, "info,kube_client=off"),
            ("haptic=debug,info", "haptic=debug,info,kube_client=off"),
            ("info,kube_client=debug", "info,kube_client=debug"),
        ] {
            assert_eq!(directives(asked), filter);
            assert!(EnvFilter::try_new(filter).is_ok(), "{filter}");
        }
    }
}
