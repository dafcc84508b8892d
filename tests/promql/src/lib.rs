//! What the queries of dashboards and alerts ask for, parsed with the grammar of Prometheus.
//!
//! What: [`queries`] reads the files, [`selectors`] parses one query. What not: whether the metrics are there; the
//! end-to-end tests see to that, with the file `selectors.json` that the test of this crate keeps right.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use promql_parser::{
    label::MatchOp,
    parser::{
        Expr, LabelModifier, VectorSelector, parse,
        token::{T_LAND, T_LUNLESS},
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A query, as a file has it.
#[derive(Clone, Debug)]
pub struct Query {
    /// File and panel, or alert.
    pub place: String,
    pub text: String,
    /// Labels that its legend or its text shows.
    pub shown: BTreeSet<String>,
}

/// One selector of a query, and the labels that are asked of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Selector {
    pub metric: String,
    pub labels: BTreeSet<String>,
    /// Of labels that must equal something: what.
    pub values: BTreeMap<String, String>,
}

/// What one query asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Asked {
    pub place: String,
    pub selectors: BTreeSet<Selector>,
}

const DASHBOARDS: [&str; 2] = ["haptic.json", "haptic-traffic.json"];

/// Every query of both dashboards and of all alerts.
///
/// # Panics
/// When a file is not there or not what Grafana or Prometheus read.
pub fn queries() -> Vec<Query> {
    DASHBOARDS.into_iter().flat_map(of_dashboard).chain(of_alerts()).collect()
}

/// The selectors of a query.
pub fn selectors(query: &Query) -> Result<BTreeSet<Selector>, String> {
    // What Grafana fills in.
    let text = query.text.replace("$__rate_interval", "5m").replace("$job", "any");
    let parsed = parse(&text).map_err(|error| format!("{}: `{text}`: {error}", query.place))?;
    let mut found = BTreeSet::new();
    walk(&parsed, &query.shown, &mut found);
    if found.is_empty() { Err(format!("{}: `{text}` names no metric", query.place)) } else { Ok(found) }
}

fn of_dashboard(name: &str) -> Vec<Query> {
    let dashboard: Value = serde_json::from_str(&read(&format!("charts/haptic/dashboards/{name}"))).expect("JSON");
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().expect("a dashboard has panels") {
        let title = panel["title"].as_str().expect("a panel has a title");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let shown = between(target["legendFormat"].as_str().unwrap_or_default(), "{{", "}}");
            let text = target["expr"].as_str().expect("a target has an expression").to_owned();
            all.push(Query { place: format!("{name}, {title}"), text, shown });
        }
    }
    for variable in dashboard["templating"]["list"].as_array().into_iter().flatten() {
        let Some(query) = variable["query"]["query"].as_str() else { continue };
        let inner = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (metric, label) = inner.and_then(|inner| inner.split_once(", ")).expect("a variable asks for labels");
        let shown = BTreeSet::from([label.to_owned()]);
        all.push(Query { place: format!("{name}, a variable"), text: metric.to_owned(), shown });
    }
    all
}

fn of_alerts() -> Vec<Query> {
    let rules: Value = serde_norway::from_str(&read("charts/haptic/alerts/haptic.yaml")).expect("YAML");
    let groups = rules["groups"].as_array().expect("rules have groups");
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().expect("a group has rules"));
    rules
        .map(|rule| Query {
            place: format!("alert {}", rule["alert"].as_str().expect("an alert has a name")),
            text: rule["expr"].as_str().expect("an alert has an expression").to_owned(),
            shown: between(rule["annotations"]["summary"].as_str().expect("it says what is wrong"), "$labels.", " "),
        })
        .collect()
}

/// A file of the repository.
fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("read {path}: {error}"))
}

/// The words that stand between two marks.
fn between(text: &str, begin: &str, end: &str) -> BTreeSet<String> {
    let parts = text.split(begin).skip(1).filter_map(|rest| rest.split(end).next());
    parts.map(|part| part.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()).collect()
}

/// `wanted` are the labels that what stands around asks for.
fn walk(expr: &Expr, wanted: &BTreeSet<String>, found: &mut BTreeSet<Selector>) {
    match expr {
        Expr::Aggregate(aggregate) => {
            walk(&aggregate.expr, &with(wanted, aggregate.modifier.as_ref()), found);
            if let Some(param) = &aggregate.param {
                walk(param, &BTreeSet::new(), found);
            }
        }
        Expr::Binary(binary) => {
            let matching = binary.modifier.as_ref().and_then(|modifier| modifier.matching.as_ref());
            // What `and` and `unless` let through is the left side alone.
            let filters = matches!(binary.op.id(), T_LAND | T_LUNLESS);
            let none = BTreeSet::new();
            walk(&binary.lhs, &with(wanted, matching), found);
            walk(&binary.rhs, &with(if filters { &none } else { wanted }, matching), found);
        }
        Expr::Unary(unary) => walk(&unary.expr, wanted, found),
        Expr::Paren(paren) => walk(&paren.expr, wanted, found),
        Expr::Subquery(subquery) => walk(&subquery.expr, wanted, found),
        Expr::Call(call) => call.args.args.iter().for_each(|argument| walk(argument, wanted, found)),
        Expr::VectorSelector(selector) => found.extend(selected(selector, wanted)),
        Expr::MatrixSelector(selector) => found.extend(selected(&selector.vs, wanted)),
        Expr::NumberLiteral(_) | Expr::StringLiteral(_) | Expr::Extension(_) => {}
    }
}

fn selected(selector: &VectorSelector, wanted: &BTreeSet<String>) -> Option<Selector> {
    let mut labels = wanted.clone();
    let mut values = BTreeMap::new();
    for matcher in &selector.matchers.matchers {
        labels.insert(matcher.name.clone());
        if matcher.op == MatchOp::Equal {
            values.insert(matcher.name.clone(), matcher.value.clone());
        }
    }
    Some(Selector { metric: selector.name.clone()?, labels, values })
}

fn with(wanted: &BTreeSet<String>, modifier: Option<&LabelModifier>) -> BTreeSet<String> {
    let mut all = wanted.clone();
    if let Some(LabelModifier::Include(labels)) = modifier {
        all.extend(labels.labels.iter().cloned());
    }
    all
}
