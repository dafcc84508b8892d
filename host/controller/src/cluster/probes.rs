//! What a kubelet and a person ask a controller: health, readiness, metrics, and what it did last.
//!
//! The servers start before any configuration is loaded and live as long as the process; iterations come and go and
//! write into [`Health`] and [`Debugged`]. `/healthz` judges the newest iteration, `/readyz` and `/livez` the one that
//! serves: a reload that keeps failing is no reason to take traffic or life from a controller that serves.
//!
//! ```text
//! iterations ─▶ Health ───▶ ProbeServer   /healthz /readyz /livez        for the kubelet
//! Stage 8    ─▶ Debugged ─▶ DebugServer   /debug/events /debug/vars /metrics   loopback only
//! Overview   ─▶ Debugged ─▶ page          / /debug/status /debug/explain
//! ```

mod debug;
mod health;
mod loopback;
mod page;
mod server;
mod stage;

pub use debug::{Debugged, Variables};
pub use health::{Health, IterationHealth, Report, START_GRACE};
pub use server::{DebugServer, MetricsServer, ProbeServer, ServeError, SharedRegistry};
pub use stage::Stage;

#[cfg(test)]
mod tests;
