//! What the fence refuses, and that nothing is written then.

use bytes::Bytes;
use haptic_model::{Digest, FileKind, Mode, PlanId};
use haptic_wire::{
    ApplyError, ApplyManifest, ApplyMode, Conflict, ConflictReason, FEATURE_FILE_PATCH, FilePatch, WorkerIdentity,
};

use crate::common::{Pod, Set, backend, echo};

async fn serving() -> (Pod, Set) {
    let mut pod = Pod::new("3.2").await;
    let set = Set::new(&pod, &backend("be_one", &[("s1", echo("one").await)]), "one.test be_one\n");
    assert!(pod.reload(&set).await.ok);
    (pod, set)
}

async fn refused(pod: &Pod, manifest: &ApplyManifest, parts: &[Bytes]) -> Conflict {
    match pod.client().apply(manifest, parts).await {
        Err(ApplyError::Conflict(conflict)) => *conflict,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_old_epochs_other_plans_other_workers_and_missing_content() {
    let (mut pod, set) = serving().await;
    let before = pod.state().await;
    let next = set.with("note.txt", FileKind::General, "next");
    let (good, parts) = pod.manifest(&next, ApplyMode::Auto, Vec::new()).await;

    let mut stale = good.clone();
    stale.token.leader_epoch = 0;
    assert_eq!(refused(&pod, &stale, &parts).await.reason, ConflictReason::StaleEpoch);

    let mut other_plan = good.clone();
    other_plan.expected_plan = Some(PlanId(Digest::of(b"another")));
    let conflict = refused(&pod, &other_plan, &parts).await;
    assert_eq!(conflict.reason, ConflictReason::PrevMismatch);
    assert_eq!(conflict.state.applied_plan, before.applied_plan, "the answer says what to diff against");

    let mut no_plan = good.clone();
    no_plan.expected_plan = None;
    assert_eq!(refused(&pod, &no_plan, &parts).await.reason, ConflictReason::UnknownBaseline);

    let mut other_worker = good.clone();
    other_worker.expected_worker = Some(WorkerIdentity { pid: 1, start_ticks: 1 });
    assert_eq!(refused(&pod, &other_worker, &parts).await.reason, ConflictReason::WorkerMismatch);

    let mut missing = good.clone();
    missing.parts.clear();
    let conflict = refused(&pod, &missing, &[]).await;
    assert_eq!(conflict.reason, ConflictReason::Missing);
    assert_eq!(conflict.missing.iter().map(ToString::to_string).collect::<Vec<_>>(), ["note.txt"]);

    let mut wrong = parts.clone();
    wrong[0] = Bytes::from_static(b"NEXT");
    match pod.client().apply(&good, &wrong).await {
        Err(ApplyError::Rejected { status: 400, error }) => assert!(error.contains("note.txt"), "{error}"),
        other => panic!("expected a rejection, got {other:?}"),
    }

    pod.assert_on_disk(&set);
    let after = pod.state().await;
    assert_eq!((after.token, after.applied_plan), (before.token, before.applied_plan));
    let result = pod.client().apply(&good, &parts).await.unwrap();
    assert!(result.ok && result.mode == Mode::FileOnly, "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_sets_that_are_not_one() {
    let (mut pod, set) = serving().await;
    let (good, parts) = pod.manifest(&set, ApplyMode::Reload, Vec::new()).await;
    let mut twice = good.clone();
    twice.files.push(twice.files[0].clone());
    let mut without_config = good.clone();
    without_config.files.retain(|file| file.path.as_str() != "haproxy.cfg");
    for (manifest, word) in [(twice, "twice"), (without_config, "haproxy.cfg")] {
        match pod.client().apply(&manifest, &parts).await {
            Err(ApplyError::Rejected { status: 400, error }) => assert!(error.contains(word), "{error}"),
            other => panic!("expected a rejection, got {other:?}"),
        }
    }
    pod.assert_on_disk(&set);
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_document_of_the_applied_plan_only() {
    let (mut pod, set) = serving().await;
    let document = Bytes::from_static(br#"{"schema_version":1}"#);
    assert!(pod.client().put_plan(set.plan(), document.clone()).await.unwrap());
    assert!(!pod.client().put_plan(PlanId(Digest::of(b"another")), document).await.unwrap());
    assert_eq!(pod.client().state(true).await.unwrap().plan.unwrap()["schema_version"], 1);
    assert_eq!(pod.client().state(false).await.unwrap().plan, None);
    let next = set.with("note.txt", FileKind::General, "next");
    assert!(pod.run(&next, Vec::new()).await.ok);
    assert_eq!(pod.client().state(true).await.unwrap().plan, None, "the new plan's document was not stored yet");
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_notices_a_file_that_someone_else_changed() {
    let (pod, set) = serving().await;
    assert_eq!(pod.client().verified_state().await.unwrap().applied_plan, Some(set.plan()));
    std::fs::write(pod.base().join("maps/hosts.map"), "tampered x\n").unwrap();
    assert_eq!(pod.client().verified_state().await.unwrap().applied_plan, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn makes_a_file_of_what_it_has_and_asks_for_all_of_it_when_it_has_something_else() {
    let (mut pod, set) = serving().await;
    assert!(pod.state().await.features.iter().any(|feature| feature == FEATURE_FILE_PATCH));
    let set = set.with("note.txt", FileKind::General, "one two three");
    assert!(pod.run(&set, Vec::new()).await.ok);

    let next = set.with("note.txt", FileKind::General, "one 2 three");
    let (mut manifest, _) = pod.manifest(&next, ApplyMode::Auto, Vec::new()).await;
    let note = manifest.files.iter_mut().find(|file| file.path.as_str() == "note.txt").unwrap();
    let base = Digest::of(b"one two three");
    note.patch = Some(FilePatch { base, offset: 4, replaced: 3, length: 1 });
    let part = [Bytes::from_static(b"2")];

    for wrong in [
        FilePatch { base: Digest::of(b"other"), offset: 4, replaced: 3, length: 1 },
        FilePatch { base, offset: 5, replaced: 3, length: 1 },
        FilePatch { base, offset: 4, replaced: u64::MAX, length: 1 },
    ] {
        let mut manifest = manifest.clone();
        manifest.files.iter_mut().for_each(|file| file.patch = file.patch.map(|_| wrong));
        let conflict = refused(&pod, &manifest, &part).await;
        assert_eq!(conflict.reason, ConflictReason::Missing, "{wrong:?}");
        assert_eq!(conflict.missing.iter().map(ToString::to_string).collect::<Vec<_>>(), ["note.txt"]);
        pod.assert_on_disk(&set);
    }

    // Somebody wrote to the file behind the agent's back: the record is right and the disk is not.
    let path = pod.base().join("note.txt");
    std::fs::write(&path, "one TWO three!").unwrap();
    assert_eq!(refused(&pod, &manifest, &part).await.reason, ConflictReason::Missing);
    std::fs::write(&path, "one two three").unwrap();

    let result = pod.client().apply(&manifest, &part).await.unwrap();
    assert!(result.ok, "{result:?}");
    pod.assert_on_disk(&next);
}
