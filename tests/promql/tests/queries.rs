//! Every query is PromQL, and the file that other tests read says what they ask for.

use std::{collections::BTreeSet, fs, path::Path};

use queries::{Asked, Query, queries, selectors};

fn query(text: &str) -> Query {
    Query { place: "a test".to_owned(), text: text.to_owned(), shown: BTreeSet::new() }
}

#[test]
fn every_query_is_promql_and_selectors_json_says_what_they_ask_for() {
    let asked: Vec<_> = queries()
        .into_iter()
        .map(|query| Asked {
            selectors: selectors(&query).unwrap_or_else(|error| panic!("{error}")),
            place: query.place,
        })
        .collect();
    assert!(asked.len() > 60, "the files are read: {}", asked.len());
    let written = serde_json::to_string_pretty(&asked).expect("it is plain data") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("selectors.json");
    if std::env::var_os("HAPTIC_BLESS").is_some() {
        fs::write(&path, &written).expect("write selectors.json");
    }
    let is = fs::read_to_string(&path).unwrap_or_default();
    assert!(is == written, "selectors.json is not what the queries ask for: run this test with HAPTIC_BLESS=1");
}

#[test]
fn labels_come_from_matchers_groups_and_matching() {
    let found = selectors(&query("sum by (a) (rate(x_total{b=\"1\"}[5m])) / on (c) y{d=~\"z\"}")).expect("PromQL");
    let found: Vec<_> = found.into_iter().map(|it| (it.metric, it.labels, it.values)).collect();
    let labels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let value = [("b".to_owned(), "1".to_owned())].into();
    assert_eq!(
        found,
        [("x_total".to_owned(), labels(&["a", "b", "c"]), value), ("y".to_owned(), labels(&["c", "d"]), [].into())]
    );
}

#[test]
fn what_is_no_promql_is_refused_by_its_place() {
    for broken in ["sum by (a (x)", "rate(x)", "x{a=1}", "1 + 1"] {
        let error = selectors(&query(broken)).expect_err(broken);
        assert!(error.starts_with("a test: "), "{error}");
    }
}
