//! What every kind's status has in common.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use schemars::{Schema, SchemaGenerator, json_schema};

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// What a condition says about its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known whether it holds.
    Unknown,
}

/// A condition that has had its status since so many seconds after 1970, UTC.
pub fn condition(
    kind: &str,
    status: ConditionStatus,
    reason: &str,
    message: String,
    since: u64,
    observed_generation: Option<i64>,
) -> Condition {
    let since = i64::try_from(since).ok().and_then(|since| Timestamp::from_second(since).ok());
    Condition {
        last_transition_time: Time(since.unwrap_or(Timestamp::MAX)),
        message,
        observed_generation,
        reason: reason.to_owned(),
        status: format!("{status:?}"),
        type_: kind.to_owned(),
    }
}

/// Conditions as Kubernetes lists them: one per type, merged by type.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let items = generator.subschema_for::<Condition>();
    json_schema!({
        "type": "array",
        "description": "What is true of the object now, one condition per type.",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}
