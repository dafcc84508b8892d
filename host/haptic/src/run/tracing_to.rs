//! Where traces go, as the command line says.

use haptic_controller::{
    clock::WallClock,
    traces::{TraceExporter, Traces},
};
use prometheus_client::registry::Registry;

/// The exporter must be run for traces to be sent.
pub(super) fn traces(
    endpoint: Option<&str>,
    identity: &str,
    registry: &mut Registry,
) -> anyhow::Result<(Traces, Option<TraceExporter>)> {
    let Some(endpoint) = endpoint else { return Ok((Traces::off(registry), None)) };
    let (traces, exporter) = Traces::to(endpoint, identity, &WallClock::system(), registry)?;
    Ok((traces, Some(exporter)))
}
