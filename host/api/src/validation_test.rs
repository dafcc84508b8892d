//! Tests that ship with templates: fixtures in, assertions about the render out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{schema, templates::is_false};

/// One test. The test named `_global` is none: its fixtures and assertions are added to every other test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidationTest {
    /// What the test shows, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Objects by the name of a watched resource. A missing `apiVersion` or `kind` is filled in.
    #[serde(default)]
    #[schemars(schema_with = "schema::fixtures")]
    pub fixtures: BTreeMap<String, Vec<Value>>,
    /// Fixtures outside of a resource's `namespaces` are mistakes. Default: false, fixtures stand in any namespace, so that
    /// the tests of a library hold wherever a configuration watches.
    #[serde(default, skip_serializing_if = "is_false")]
    pub use_deployment_watch_scopes: bool,
    /// What `http.fetch` answers; a URL that is missing here fails the test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub http_resources: Vec<HttpResource>,
    /// The configuration that is taken as the last deployed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_config: Option<String>,
    /// Values that are merged over the configuration's `extraContext` for this test.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "schema::free_object")]
    pub extra_context: Map<String, Value>,
    /// What must be true of the render.
    #[serde(default)]
    pub assertions: Vec<Assertion>,
}

/// One answer of `http.fetch`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpResource {
    /// The exact URL.
    pub url: String,
    /// The body of the answer.
    pub content: String,
}

/// One thing that must be true of the render.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assertion {
    /// What is asserted.
    #[serde(rename = "type")]
    pub kind: AssertionType,
    /// What it shows, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `haproxy.cfg`, `map:NAME`, `file:NAME`, `cert:NAME`, `crt-list:NAME` or `rendering_error`. Default:
    /// `haproxy.cfg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// A regular expression, for `contains`, `not_contains` and `match_count`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The expected text (`equals`, `jsonpath`) or number (`match_count`).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "schema::free_value")]
    pub expected: Value,
    /// A JSONPath expression over the template context, for `jsonpath`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsonpath: Option<String>,
    /// Regular expressions that must match in this order, for `match_order`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
}

/// The eight types of assertions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AssertionType {
    /// HAProxy and all validators accept the render.
    HaproxyValid,
    /// The pattern is found in the target.
    Contains,
    /// The pattern is not found in the target.
    NotContains,
    /// The target is exactly the expected text.
    Equals,
    /// The pattern is found so many times.
    MatchCount,
    /// The patterns are found in this order.
    MatchOrder,
    /// The expression over the template context gives the expected value.
    Jsonpath,
    /// Two renders of the same input give the same bytes.
    Deterministic,
}
