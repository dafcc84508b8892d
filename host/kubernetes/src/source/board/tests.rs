#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

const LAST: u64 = 2;

#[tokio::test]
async fn a_task_that_was_replaced_says_nothing_about_its_successor() {
    let (sender, mut updates) = mpsc::channel(8);
    let board = Arc::new(Board::default());
    let name: Arc<str> = "services".into();
    let served = Arc::new(Served {
        api_version: "v1".into(),
        resources: "services".into(),
        kind: "Service".into(),
        namespaced: true,
    });
    let follow = |task: u64| {
        board.add(&name, task);
        let outlet = Outlet::new(task, Arc::clone(&name), sender.clone(), Arc::clone(&board));
        outlet.resolved(&served, std::iter::once(None));
        outlet
    };
    let old = follow(1);
    let delivery = old.reserve().await.unwrap();
    let new = follow(LAST);
    new.trouble(None, Trouble::Cut, Duration::ZERO);
    let state = || board.subscribe().borrow()["services"].clone();

    // Each of these ends the old task's own wait for something.
    delivery.list(None, Changes::new());
    assert!(!state().is_synced(), "nothing was delivered by the new task");
    old.recovered(None);
    assert!(state().trouble().is_some(), "the new task has trouble");
    old.unresolved(Some(Trouble::Cut));
    old.reserve().await.unwrap().absent(Changes::new());
    assert!(!state().is_absent() && state().served().is_some() && state().unresolved.is_none());
    assert!(updates.try_recv().is_err(), "it has nothing to tell");

    new.reserve().await.unwrap().list(None, Changes::new());
    let told = updates.try_recv().unwrap();
    assert_eq!((told.task, told.update.synced), (LAST, true));
    assert!(state().is_synced() && state().trouble().is_none());
}
