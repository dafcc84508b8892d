//! The cache of compiled plugins never runs what it cannot prove.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use haptic_model::ports::{FilterCall, TemplateFilters as _};
use haptic_plugins::{CacheError, HostError, PluginHost, PluginSet, PluginUse};
use serde_json::json;
use tempfile::TempDir;

use crate::built::{plugin, settings};

/// Loads the plugin with a new host, proves that it answers, and says whether it came from the cache.
fn load(cache: &TempDir) -> bool {
    let host = PluginHost::new(Some(cache.path().to_owned())).unwrap();
    let loaded = host.load("network", &plugin("network"), None, &settings(json!({}))).unwrap();
    let from_cache = loaded.from_cache();
    let set = PluginSet::new(vec![PluginUse { plugin: loaded, validators: Vec::new() }]).unwrap();
    let call = FilterCall { filter: "ip_version", value: "\"::1\"", positional: &[], named: &[] };
    assert_eq!(set.session().call(call).unwrap(), "6");
    from_cache
}

fn filled() -> (TempDir, PathBuf) {
    let cache = tempfile::tempdir().unwrap();
    assert!(!load(&cache), "an empty cache has nothing");
    assert!(load(&cache), "what was compiled is kept");
    let image = image(cache.path());
    (cache, image)
}

fn image(cache: &Path) -> PathBuf {
    let mut images = fs::read_dir(cache.join("compiled"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "image"));
    let image = images.next().unwrap();
    assert_eq!(images.next(), None);
    image
}

/// Changes the image; it must be compiled again and replaced.
fn assert_replaced(change: impl FnOnce(&mut Vec<u8>)) {
    let (cache, image) = filled();
    let mut bytes = fs::read(&image).unwrap();
    change(&mut bytes);
    fs::write(&image, &bytes).unwrap();
    assert!(!load(&cache), "a changed image must not be used");
    assert!(load(&cache), "it must be replaced");
}

#[test]
fn a_flipped_byte_anywhere_is_noticed() {
    for place in [0, 31, 32, 4096] {
        assert_replaced(|bytes| bytes[place] ^= 1);
    }
    assert_replaced(|bytes| *bytes.last_mut().unwrap() ^= 0x80);
    assert_replaced(|bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
    });
}

#[test]
fn a_truncated_or_grown_image_is_noticed() {
    assert_replaced(Vec::clear);
    assert_replaced(|bytes| bytes.truncate(20));
    assert_replaced(|bytes| bytes.truncate(bytes.len() - 1));
    assert_replaced(|bytes| bytes.push(0));
}

#[test]
fn an_image_made_with_a_foreign_key_is_not_used() {
    let (ours, our_image) = filled();
    let (_theirs, their_image) = filled();
    assert_eq!(our_image.file_name(), their_image.file_name());
    fs::copy(their_image, &our_image).unwrap();
    assert!(!load(&ours));
    assert!(load(&ours));
}

#[test]
fn the_image_of_one_module_cannot_stand_for_another() {
    let (cache, network) = filled();
    let host = PluginHost::new(Some(cache.path().to_owned())).unwrap();
    host.load("policy", &plugin("policy"), None, &settings(json!({}))).unwrap();
    let policy = fs::read_dir(cache.path().join("compiled"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "image") && *path != network)
        .unwrap();
    fs::copy(policy, &network).unwrap();
    assert!(!load(&cache));
}

#[test]
fn folder_key_and_images_are_private() {
    let (cache, image) = filled();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&cache.path().join("compiled")), 0o700);
    assert_eq!(mode(&cache.path().join("compiled/key")), 0o600);
    assert_eq!(mode(&image), 0o600);
}

#[test]
fn a_folder_or_key_that_others_can_reach_is_refused() {
    let (cache, _) = filled();
    let folder = cache.path().join("compiled");
    let refusal = || PluginHost::new(Some(cache.path().to_owned())).err().unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
    assert!(matches!(refusal(), HostError::Cache(CacheError::Exposed { .. })));
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(folder.join("key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(refusal(), HostError::Cache(CacheError::Exposed { .. })));
    fs::remove_file(folder.join("key")).unwrap();
    fs::write(cache.path().join("elsewhere"), [0; 32]).unwrap();
    symlink(cache.path().join("elsewhere"), folder.join("key")).unwrap();
    assert!(matches!(refusal(), HostError::Cache(CacheError::Exposed { .. })));
}

#[test]
fn a_new_key_makes_the_old_images_worthless() {
    let (cache, _) = filled();
    fs::remove_file(cache.path().join("compiled/key")).unwrap();
    assert!(!load(&cache));
    assert!(load(&cache));
}
