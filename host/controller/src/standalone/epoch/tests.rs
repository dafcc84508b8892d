#![allow(clippy::unwrap_used, reason = "tests")]

use crate::standalone::epoch::take;

#[tokio::test]
async fn grows_over_what_is_stored_and_what_the_agent_has_seen() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(take(folder.path(), 0).await.unwrap(), 1);
    assert_eq!(take(folder.path(), 0).await.unwrap(), 2);
    assert_eq!(take(folder.path(), 41).await.unwrap(), 42);
    assert_eq!(take(folder.path(), 0).await.unwrap(), 43);
    tokio::fs::write(folder.path().join("epoch"), "4").await.unwrap();
    assert_eq!(take(folder.path(), 43).await.unwrap(), 44, "a lost counter never makes the agent refuse");
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("not-a-folder");
    tokio::fs::write(&file, "").await.unwrap();
    let error = take(&file, 0).await.unwrap_err();
    assert!(error.to_string().contains("not-a-folder/epoch"), "{error}");
}
