use haptic_model::FindingCode;

use super::*;

fn finding(message: &str, line: u32) -> Finding {
    Finding::error(FindingCode::InvalidValue, message)
        .about(Some(ObjectRef::new("Ingress", "shop", "web")))
        .at("snippet ingress", line, 0)
        .hint("correct the annotation")
}

#[test]
fn a_finding_is_the_same_in_another_line_and_another_one_with_another_message() {
    let object = ObjectRef::new("Ingress", "shop", "web");
    let first = key(&finding("no", 1), &object);
    assert_eq!(first, key(&finding("no", 2), &object));
    assert_ne!(first, key(&finding("nope", 1), &object));
    assert_ne!(first, key(&finding("no", 1), &ObjectRef::new("Ingress", "other", "web")));
}

#[test]
fn a_note_names_line_and_next_step_and_is_never_too_long() {
    assert_eq!(note(&finding("no", 3)), "snippet ingress:3: no (next step: correct the annotation)");
    assert!(note(&finding(&"ä".repeat(2_000), 3)).len() <= LONGEST_NOTE);
}

#[test]
fn names_are_those_of_events() {
    let object = ObjectRef::new("Ingress", "shop", &format!("{}.{}", "a".repeat(199), "b".repeat(53)));
    let name = name(&object, key(&finding("no", 1), &object));
    assert!(name.len() <= 253, "{name}");
    let label = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty() && part.bytes().all(plain) && !part.starts_with('-') && !part.ends_with('-')
    };
    assert!(name.split('.').all(label), "{name}");
    assert_eq!(micro(Timestamp(0)), "1970-01-01T00:00:00.000000Z");
}
