//! The render gate's latch, as the scheduler holds it: a pure state machine.
//!
//! It starts closed (the first render of a term waits for its verdict). A refusal closes it; a render that arrives
//! while it is closed is held, latest wins; only a pass that names the held render opens it, so a late pass for an
//! older render releases nothing. Verdicts are about plans: a plan that was refused is held whenever it comes back.

use std::{collections::VecDeque, sync::Arc};

use haptic_model::PlanId;

use crate::{events::GateVerdict, pipeline::Render};

/// Refused plans that are remembered.
const REMEMBERED: usize = 64;

#[derive(Debug)]
pub struct Latch {
    state: State,
    refused: VecDeque<PlanId>,
}

#[derive(Debug)]
enum State {
    Open,
    Closed { held: Option<Arc<Render>> },
}

// === impl Latch ===

impl Latch {
    pub fn of_a_new_term() -> Self {
        Self { state: State::Closed { held: None }, refused: VecDeque::new() }
    }

    /// Returns the render if it may go on now.
    pub fn admit(&mut self, render: Arc<Render>) -> Option<Arc<Render>> {
        if self.refused.contains(&render.plan()) {
            self.state = State::Closed { held: Some(render) };
            return None;
        }
        match &mut self.state {
            State::Open => Some(render),
            State::Closed { held } => {
                *held = Some(render);
                None
            }
        }
    }

    /// Returns the held render if this verdict releases it. `newest` is the last render that was admitted: when an
    /// older one is refused after it went out, its own pass opens the latch again.
    pub fn judge(&mut self, plan: PlanId, verdict: &GateVerdict, newest: Option<&Arc<Render>>) -> Option<Arc<Render>> {
        match verdict {
            GateVerdict::Refused { .. } => {
                if !self.refused.contains(&plan) {
                    self.refused.push_back(plan);
                }
                if self.refused.len() > REMEMBERED {
                    self.refused.pop_front();
                }
                if matches!(self.state, State::Open) {
                    let held = newest.filter(|newest| newest.plan() != plan).cloned();
                    self.state = State::Closed { held };
                }
                None
            }
            GateVerdict::Passed => {
                // The same text can be judged again, e.g. after HAProxy was upgraded; the newest verdict holds.
                self.refused.retain(|refused| *refused != plan);
                self.release(plan)
            }
            // No binary of the pods' version is here to ask: their own HAProxy decides when it loads the file.
            GateVerdict::Unknown { .. } => self.release(plan),
        }
    }

    pub fn held(&self) -> Option<&Arc<Render>> {
        match &self.state {
            State::Open => None,
            State::Closed { held } => held.as_ref(),
        }
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    fn release(&mut self, plan: PlanId) -> Option<Arc<Render>> {
        let State::Closed { held } = &mut self.state else { return None };
        let named = held.take_if(|held| held.plan() == plan)?;
        self.state = State::Open;
        Some(named)
    }
}

#[cfg(test)]
mod tests;
