//! Rules 2 and 7: which sections of the configuration text changed, and whether a record explains it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use haptic_model::{CONFIG_PATH, Digest, ReasonCode, SectionKind, SectionRecord};
use imbl::Vector;

use crate::plan::{Sides, script::Script};

/// Backends whose text changed, came or went.
#[derive(Default)]
pub(super) struct ChangedBackends(pub(super) BTreeSet<Arc<str>>);

type Texts<'a> = BTreeMap<&'a str, Vec<Digest>>;
type Sections<'a> = Vec<&'a SectionRecord>;

pub(super) fn compare(sides: Sides<'_>, script: &mut Script) -> ChangedBackends {
    let (old, next) = differing(&sides.old.sections, &sides.next.sections);
    if old.is_empty() && next.is_empty() {
        let digest = |plan: &haptic_model::Plan| plan.files.get(CONFIG_PATH).map(|file| file.digest);
        if digest(sides.old) != digest(sides.next) {
            let message = "the configuration text changed outside of its sections";
            script.reload(ReasonCode::UnexplainedText, message);
        }
        return ChangedBackends::default();
    }
    compare_core(&old, &next, script);
    compare_profiles(&old, &next, script);
    changed_backends(&old, &next)
}

/// What is left when the same start and the same end are taken away.
fn differing<'a>(old: &'a Vector<SectionRecord>, next: &'a Vector<SectionRecord>) -> (Sections<'a>, Sections<'a>) {
    let same = |(a, b): &(&SectionRecord, &SectionRecord)| a.text == b.text && a.kind == b.kind && a.name == b.name;
    let start = old.iter().zip(next).take_while(same).count();
    let most = old.len().min(next.len()) - start;
    let end = old.iter().rev().zip(next.iter().rev()).take(most).take_while(same).count();
    let middle = |sections: &'a Vector<SectionRecord>| sections.iter().skip(start).take(sections.len() - start - end);
    (middle(old).collect(), middle(next).collect())
}

fn of_kind<'a>(sections: &[&'a SectionRecord], kind: SectionKind) -> impl Iterator<Item = &'a SectionRecord> {
    sections.iter().copied().filter(move |section| section.kind == kind)
}

fn texts<'a>(sections: &[&'a SectionRecord], kind: SectionKind) -> Texts<'a> {
    let mut texts = Texts::new();
    for section in of_kind(sections, kind) {
        texts.entry(&section.name).or_default().push(section.text);
    }
    texts
}

fn compare_core(old: &[&SectionRecord], next: &[&SectionRecord], script: &mut Script) {
    if of_kind(old, SectionKind::Core).eq(of_kind(next, SectionKind::Core)) {
        return;
    }
    script.core_changed = true;
    let (before, after) = (texts(old, SectionKind::Core), texts(next, SectionKind::Core));
    let reasons = script.reasons.len();
    for (name, text) in &after {
        match before.get(name) {
            None => script.reload(ReasonCode::SectionAdded, format!("{name} is new")),
            Some(known) if known != text => script.reload(ReasonCode::SectionChanged, format!("{name} changed")),
            Some(_) => {}
        }
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        script.reload(ReasonCode::SectionRemoved, format!("{name} was removed"));
    }
    if script.reasons.len() == reasons {
        script.reload(ReasonCode::SectionChanged, "sections besides backends changed their order");
    }
}

/// A profile that goes needs no reload of its own: each backend that used it is either removed by this diff too, or
/// took another profile, and both have their own rule.
fn compare_profiles(old: &[&SectionRecord], next: &[&SectionRecord], script: &mut Script) {
    let (before, after) = (texts(old, SectionKind::Profile), texts(next, SectionKind::Profile));
    for (name, text) in &after {
        match before.get(name) {
            None => {
                let message = format!("profile {name} is new, and HAProxy reads profiles only when it loads");
                script.reload(ReasonCode::ProfileAdded, message);
            }
            Some(known) if known != text => {
                script.core_changed = true;
                script.reload(ReasonCode::ProfileChanged, format!("profile {name} changed"));
            }
            Some(_) => {}
        }
    }
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        script
            .note(ReasonCode::Note, format!("profile {name} is no longer used and stays loaded until the next reload"));
    }
}

fn changed_backends(old: &[&SectionRecord], next: &[&SectionRecord]) -> ChangedBackends {
    let (before, after) = (texts(old, SectionKind::Backend), texts(next, SectionKind::Backend));
    let of = |sections: &[&SectionRecord], other: &Texts<'_>, own: &Texts<'_>| {
        of_kind(sections, SectionKind::Backend)
            .filter(|section| other.get(&*section.name) != own.get(&*section.name))
            .map(|section| section.name.clone())
            .collect::<Vec<_>>()
    };
    let mut changed = BTreeSet::from_iter(of(next, &before, &after));
    changed.extend(of(old, &after, &before));
    ChangedBackends(changed)
}
