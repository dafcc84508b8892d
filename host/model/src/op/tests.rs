use std::{collections::BTreeSet, sync::Arc};

use crate::{FilePath, Mode, Op, ReasonCode};

#[test]
fn labels_are_what_is_written_on_the_wire_but_for_the_one_name_that_serde_tears_apart() {
    for code in ReasonCode::ALL {
        let written = serde_json::to_value(code).expect("it is plain data");
        let expected = written.as_str().expect("it is a word").replace("_h_a_proxy", "_haproxy");
        assert_eq!(code.label(), expected);
    }
    for mode in Mode::ALL {
        assert_eq!(serde_json::to_value(mode).expect("it is plain data"), mode.to_string());
    }
}

#[test]
fn the_kind_of_an_operation_is_what_is_written_on_the_wire() {
    let name: Arc<str> = "b".into();
    let file = FilePath::new("maps/a.map").expect("it is a path");
    let ops = [
        Op::BackendPublish { name: name.clone() },
        Op::ServerDel { backend: name.clone(), server: name.clone() },
        Op::MapReplace { map: file.clone() },
        Op::CrtListDel { list: file.clone(), certificate: file },
    ];
    for op in ops {
        assert_eq!(serde_json::to_value(&op).expect("it is plain data")["op"], op.kind());
        assert!(Op::KINDS.contains(&op.kind()));
    }
    assert_eq!(Op::KINDS.iter().collect::<BTreeSet<_>>().len(), Op::KINDS.len());
}
