//! The names of the agent's fault hook, as its environment variable takes them: `HAPTIC_FAULT=STEP:ACTION` does the
//! action the first time an apply reaches the step.

/// The steps of an apply, in order.
pub const STEPS: [&str; 7] =
    ["staged", "journaled", "file_renamed", "config_renamed", "ops_running", "reloading", "committed"];

/// Whom a fault kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Haptic,
    Worker,
    Master,
}

// === impl Victim ===

impl Victim {
    pub const ALL: [Self; 3] = [Self::Haptic, Self::Worker, Self::Master];

    /// The environment that makes an agent kill this victim at `step`.
    pub fn killed_at(self, step: &str) -> (&'static str, String) {
        let action = match self {
            Self::Haptic => "kill-self",
            Self::Worker => "kill-worker",
            Self::Master => "kill-master",
        };
        ("HAPTIC_FAULT", format!("{step}:{action}"))
    }
}
