#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::{Digest, FileKind, FilePath};
use proptest::prelude::*;

use super::*;

fn file(content: &[u8]) -> File {
    File {
        path: FilePath::new("haproxy.cfg").unwrap(),
        kind: FileKind::Config,
        content: Bytes::copy_from_slice(content),
        digest: Digest::of(content),
        reload_on_change: false,
    }
}

fn patched(old: &[u8], patch: &FilePatch, part: &[u8]) -> Vec<u8> {
    let offset = usize::try_from(patch.offset).unwrap();
    let rest = offset + usize::try_from(patch.replaced).unwrap();
    [&old[..offset], part, &old[rest..]].concat()
}

#[test]
fn one_changed_address_among_many_lines_is_all_that_is_sent() {
    let text = |port: u32| {
        (0..5000).map(|n| format!("  server s{n} 10.0.0.1:{}\n", if n == 2500 { port } else { 80 })).collect::<String>()
    };
    let (old, new) = (text(8080), text(8081));
    let (patch, part) = patch(&file(old.as_bytes()), &file(new.as_bytes())).unwrap();
    assert_eq!((&*part, patch.replaced), (&b"1"[..], 1));
    assert_eq!(patched(old.as_bytes(), &patch, &part), new.as_bytes());
}

#[test]
fn what_differs_in_most_of_it_is_sent_whole() {
    assert!(patch(&file(b"one\n"), &file(b"two\n")).is_none());
    assert!(patch(&file(b""), &file(b"new")).is_none());
}

proptest! {
    #[test]
    fn the_agent_gets_exactly_the_new_content(
        start in prop::collection::vec(0_u8..3, 0..9000),
        old in prop::collection::vec(0_u8..3, 0..40),
        new in prop::collection::vec(0_u8..3, 0..40),
        end in prop::collection::vec(0_u8..3, 0..9000),
    ) {
        let (old, new) = ([&*start, &old, &end].concat(), [&*start, &new, &end].concat());
        if let Some((patch, part)) = patch(&file(&old), &file(&new)) {
            prop_assert_eq!(patched(&old, &patch, &part), new);
        }
    }
}
