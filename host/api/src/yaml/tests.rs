#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::*;

fn one(text: &str) -> Value {
    let mut documents = read(text).unwrap();
    assert_eq!(documents.len(), 1);
    documents.remove(0).into_value()
}

fn field(name: &str) -> Step {
    Step::Field(name.to_owned())
}

#[test]
fn reads_scalars_by_the_core_schema() {
    let text = "a: 1\nb: -2\nc: 1.5\nd: true\ne: ~\nf: yes\ng: 0755\nh: '1'\ni: \"x\\ny\"\nj: 0x1f\nk: 1e3\nl: 10.0.0.1\nm: .\nn: -\"\n";
    let text = text.replace("n: -\"\n", "n: e3\n");
    assert_eq!(
        one(&text),
        json!({
            "a": 1, "b": -2, "c": 1.5, "d": true, "e": null, "f": "yes", "g": "0755", "h": "1", "i": "x\ny", "j": 31,
            "k": 1000.0, "l": "10.0.0.1", "m": ".", "n": "e3",
        })
    );
}

#[test]
fn reads_several_documents_and_leaves_out_empty_ones() {
    let documents = read("---\n# nothing\n---\na: 1\n---\nb: 2\n...\n").unwrap();
    let lines: Vec<_> = documents.iter().map(|d| d.start().line).collect();
    assert_eq!(lines, [4, 6]);
    assert_eq!(documents[1].clone().into_value(), json!({ "b": 2 }));
}

#[test]
fn reads_json_with_tabs_and_without_spaces() {
    assert_eq!(
        one("{\n\t\"a\":{\"b\":[1,2,{\"c\":\"d\"}]},\n\t\"e\":\"\\u00e4\"\n}"),
        json!({"a":{"b":[1,2,{"c":"d"}]},"e":"ä"})
    );
}

#[test]
fn knows_where_fields_and_items_stand() {
    let documents = read("a: 1\nspec:\n  list:\n    - x: 1\n    - y: 2\n").unwrap();
    let position = |path: &[Step]| documents[0].position(path);
    assert_eq!(position(&[field("spec"), field("list")]), Position { line: 3, column: 3 });
    assert_eq!(position(&[field("spec"), field("list"), Step::Item(1), field("y")]).line, 5);
    assert_eq!(position(&[field("spec"), field("nothing")]).line, 2, "the last value on the way");
}

#[test]
fn refuses_a_field_that_stands_twice() {
    let error = read("a: 1\nb: 2\na: 3\n").unwrap_err();
    assert_eq!(error.position.line, 3);
    assert_eq!(error.to_string(), "not valid YAML: the field `a` stands twice; first in line 1");
}

#[test]
fn reports_the_line_of_a_syntax_error() {
    assert_eq!(read("a: 1\nb: [1, 2\nc: 3\n").unwrap_err().position.line, 3);
    assert!(read("a: b: c\n").is_err());
}

#[test]
fn expands_aliases_and_merge_keys() {
    let value = one("base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\nalias: *b\n");
    assert_eq!(value["use"], json!({ "y": 3, "x": 1 }));
    assert_eq!(value["alias"], json!({ "x": 1, "y": 2 }));
}

#[test]
fn bounds_what_aliases_expand_to() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let previous = format!("*a{}", level - 1);
        let line = vec![previous; 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{line}]\n"));
    }
    assert!(read(&text).unwrap_err().to_string().contains("aliases expand"));
}

#[test]
fn bounds_the_depth() {
    let text = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(read(&text).is_err());
}

#[test]
fn refuses_an_unknown_tag() {
    assert!(read("a: !ruby/object {}\n").is_ok(), "a tag of a collection changes nothing");
    assert!(read("a: !secret x\n").unwrap_err().to_string().contains("the tag"));
    assert_eq!(one("a: !!str 1\n"), json!({ "a": "1" }));
}
