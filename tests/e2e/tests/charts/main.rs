//! The charts: what they render, what they refuse, and what becomes of it in a real Kubernetes, with Helm 3 and Helm 4.
//!
//! `cases/NAME/values.yaml` are values, `rendered.yaml` beside them is what becomes of them: of the case `defaults`
//! everything, of others what differs from it. With `HAPTIC_BLESS=1` what is expected is written instead of compared.

mod access;
mod asked;
mod cases;
mod daemon_set;
mod dry_run;
mod helm;
mod images;
mod install;
mod jail;
mod reference;
mod refused;
mod release;
