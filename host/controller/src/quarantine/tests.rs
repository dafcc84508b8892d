#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::{Finding, FindingCode, ObjectRef};

use crate::quarantine::{Quarantine, RefusedUnit};

#[test]
fn a_unit_is_left_out_until_its_object_changes_or_goes() {
    let quarantine = Quarantine::default();
    assert_eq!(quarantine.add([unit("web")], |_| Some(1)), 1);
    assert_eq!(quarantine.add([unit("web")], |_| Some(1)), 0, "it is known already");
    let left_out = quarantine.left_out(|_| Some(1));
    assert!(left_out.units.contains("web"));
    assert_eq!(left_out.findings.len(), 1);
    assert!(quarantine.left_out(|_| Some(2)).units.is_empty(), "a changed object is tried again");
    assert!(quarantine.left_out(|_| Some(1)).units.is_empty(), "and is forgotten");

    quarantine.add([unit("web")], |_| Some(1));
    assert!(quarantine.left_out(|_| None).units.is_empty(), "the object is gone");
}

#[test]
fn text_of_no_object_stays_out_until_the_templates_change() {
    let quarantine = Quarantine::default();
    quarantine.add([RefusedUnit { object: None, ..unit("static") }], |_| None);
    assert_eq!(quarantine.left_out(|_| None).units.len(), 1);
    quarantine.clear();
    assert!(quarantine.left_out(|_| None).units.is_empty());
}

fn unit(name: &str) -> RefusedUnit {
    RefusedUnit {
        unit: name.into(),
        object: Some(ObjectRef::new("Ingress", "shop", name)),
        finding: Finding::error(FindingCode::RefusedByHAProxy, "unknown keyword"),
    }
}
