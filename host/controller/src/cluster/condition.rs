//! One condition as it is to be, and a list of conditions of which only some are ours.

use std::fmt::Display;

use haptic_api::ConditionStatus;
use serde_json::{Value, json};

use crate::clock::Timestamp;

/// Most bytes of a condition's message.
const LONGEST_MESSAGE: usize = 4096;

/// A condition without the time of its last transition, which depends on what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) kind: String,
    pub(super) status: ConditionStatus,
    pub(super) reason: String,
    pub(super) message: String,
    /// The generation that it speaks of.
    pub(super) generation: Option<i64>,
    /// It says only that nothing is known yet, which is never written over what somebody knew before.
    tentative: bool,
}

// === impl Draft ===

impl Draft {
    pub(super) fn new(
        kind: impl Display,
        status: ConditionStatus,
        reason: impl Display,
        message: impl Into<String>,
        generation: Option<i64>,
    ) -> Self {
        let message = shortened(&message.into(), LONGEST_MESSAGE);
        let (kind, reason) = (kind.to_string(), reason.to_string());
        Self { kind, status, reason, message, generation, tentative: false }
    }

    /// Nothing is known yet.
    pub(super) fn pending(kind: impl Display, reason: impl Display, message: &str, generation: Option<i64>) -> Self {
        Self { tentative: true, ..Self::new(kind, ConditionStatus::Unknown, reason, message, generation) }
    }

    fn json(&self, since: &str) -> Value {
        let mut condition = json!({
            "type": self.kind, "status": format!("{:?}", self.status), "reason": self.reason,
            "message": self.message, "lastTransitionTime": since,
        });
        if let Some(generation) = self.generation {
            condition["observedGeneration"] = json!(generation);
        }
        condition
    }

    fn is(&self, condition: &Value) -> bool {
        condition["status"] == format!("{:?}", self.status)
            && condition["reason"] == self.reason
            && condition["message"] == self.message
            && condition["observedGeneration"].as_i64() == self.generation
    }
}

/// The list with the drafts in it; conditions of others stay. `None` = nothing differs, or somebody else has judged a
/// newer generation.
pub(super) fn merged(present: Option<&Value>, drafts: &[Draft], now: Timestamp) -> Option<Value> {
    let mut conditions = present.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut changed = false;
    for draft in drafts {
        let known = conditions.iter_mut().find(|condition| condition["type"] == draft.kind);
        let Some(known) = known else {
            conditions.push(draft.json(&now.to_string()));
            changed = true;
            continue;
        };
        if known["observedGeneration"].as_i64() > draft.generation && draft.generation.is_some() {
            return None;
        }
        if draft.tentative || draft.is(known) {
            continue;
        }
        let same_status = known["status"] == format!("{:?}", draft.status);
        let since = known["lastTransitionTime"].as_str().filter(|_| same_status).map(str::to_owned);
        *known = draft.json(&since.unwrap_or_else(|| now.to_string()));
        changed = true;
    }
    changed.then_some(Value::Array(conditions))
}

/// At most so many bytes, cut between characters, with `…` where it was cut.
pub(super) fn shortened(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let mark = "…";
    format!("{}{mark}", &text[..text.floor_char_boundary(bytes.saturating_sub(mark.len()))])
}

#[cfg(test)]
mod tests;
