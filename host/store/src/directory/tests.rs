#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    time::Duration,
};

use tempfile::TempDir;

use super::*;

struct Directory {
    dir: TempDir,
    source: DirectorySource,
}

impl Directory {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = DirectorySource::open([dir.path()]).unwrap();
        Self { dir, source }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn scan(&mut self) -> (Vec<String>, Vec<String>) {
        let scan = self.source.scan();
        (shown(&scan), findings(&scan, self.dir.path()))
    }
}

fn shown(scan: &Scan) -> Vec<String> {
    scan.objects.values().map(|object| object.reference().to_string()).collect()
}

fn findings(scan: &Scan, dir: &Path) -> Vec<String> {
    let prefix = format!("{}/", dir.display());
    scan.findings.iter().map(|finding| finding.to_string().replace(&prefix, "")).collect()
}

fn changes(scan: &Scan) -> Vec<String> {
    let show = |change: &RawChange| match change {
        RawChange::Upsert(object) => format!("+{}", object.name),
        RawChange::Delete(key) => format!("-{}", key.name),
    };
    scan.changes.iter().map(show).collect()
}

fn object(name: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n")
}

#[test]
fn reads_yaml_yml_and_json_of_any_kind_at_any_depth() {
    let mut d = Directory::new();
    d.write("a.yaml", &format!("{}---\n{}", object("one"), object("two")));
    d.write("deep/er/b.yml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t, namespace: n}\n");
    d.write(
        "c.json",
        "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"three\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"four\"}}",
    );
    d.write("notes.txt", "not a manifest: [");
    let (objects, findings) = d.scan();
    assert_eq!(
        objects,
        ["Service default/four", "Service default/one", "Service default/three", "Service default/two", "Thing n/t"]
    );
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn several_directories_are_read_and_the_first_wins() {
    let first = tempfile::tempdir().unwrap();
    let second = tempfile::tempdir().unwrap();
    fs::write(first.path().join("z.yaml"), object("x")).unwrap();
    fs::write(second.path().join("a.yaml"), object("x")).unwrap();
    let inside = first.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let mut source = DirectorySource::open([first.path(), inside.as_path(), second.path()]).unwrap();
    let scan = source.scan();
    let winner = scan.objects.values().next().unwrap();
    assert!(winner.source.file.ends_with("z.yaml"));
    assert_eq!(scan.findings.len(), 1);
    assert!(DirectorySource::open([first.path().join("missing")]).is_err());
}

#[test]
fn follows_links_and_reports_loops() {
    let mut d = Directory::new();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("a.yaml"), object("linked-dir")).unwrap();
    fs::write(elsewhere.path().join("file"), object("linked-file")).unwrap();
    symlink(elsewhere.path(), d.path("dir")).unwrap();
    symlink(elsewhere.path().join("file"), d.path("b.yaml")).unwrap();
    fs::create_dir(d.path("sub")).unwrap();
    symlink(d.dir.path(), d.path("sub/up")).unwrap();
    symlink("self.yaml", d.path("self.yaml")).unwrap();
    symlink("nowhere", d.path("dangling.yaml")).unwrap();
    let (objects, findings) = d.scan();
    assert_eq!(objects, ["Service default/linked-dir", "Service default/linked-file"]);
    assert_eq!(
        findings,
        [
            "dangling.yaml: the link leads to a file that does not exist (next step: remove the link)",
            "self.yaml: the link leads to itself, so it is not followed (next step: remove the link)",
            "sub/up: the link leads back to a directory above it, so it is not followed (next step: remove the link)",
        ]
    );
    // A notification from inside the loop's directory finds the same loop.
    let notified = Notified::Paths([d.path("sub/up")].into());
    assert_eq!(d.source.rescan(&notified).findings.len(), 3);
}

#[test]
fn skips_hidden_files_and_what_editors_leave() {
    let mut d = Directory::new();
    for name in [".hidden.yaml", ".dir/a.yaml", "a.yaml~", "#a.yaml", ".a.yaml.swp", "~a.yaml~", "4913"] {
        d.write(name, &object("skipped"));
    }
    assert_eq!(d.scan(), (vec![], vec![]));
}

#[test]
fn reports_a_file_that_is_too_large_and_keeps_its_last_good_objects() {
    let mut d = Directory::new();
    d.write("a.yaml", &object("kept"));
    d.scan();
    d.write("a.yaml", &"#".repeat(10 << 20));
    let (objects, findings) = d.scan();
    assert_eq!(objects, ["Service default/kept"]);
    assert_eq!(
        findings,
        [
            "a.yaml: the file has 10485760 bytes, more than the 8388608 that are read; its last good objects stay (next step: split the file)"
        ]
    );
}

#[test]
fn reports_the_line_of_invalid_yaml_and_keeps_the_whole_file() {
    let mut d = Directory::new();
    d.write("a.yaml", &format!("{}---\n{}", object("one"), object("two")));
    d.write("b.yaml", &object("other"));
    d.scan();
    d.write("a.yaml", &format!("{}---\na: [1\nb: 2\n", object("new")));
    let (objects, findings) = d.scan();
    assert_eq!(objects, ["Service default/one", "Service default/other", "Service default/two"]);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].starts_with("a.yaml:7:"), "{findings:?}");
    d.write("a.yaml", &object("new"));
    assert_eq!(d.scan(), (vec!["Service default/new".to_owned(), "Service default/other".to_owned()], vec![]));
}

#[test]
fn reports_the_line_of_invalid_json_and_of_bytes_that_are_no_text() {
    let mut d = Directory::new();
    d.write("a.json", "{\n  \"a\": 1,\n  oops\n}");
    fs::write(d.path("b.yaml"), b"a: 1\nb: \xff\n").unwrap();
    let (_, findings) = d.scan();
    assert!(findings[0].starts_with("a.json:3:"), "{findings:?}");
    assert!(findings[1].starts_with("b.yaml:2: the file is not UTF-8"), "{findings:?}");
}

#[test]
fn reports_the_line_of_documents_that_are_no_objects_and_deletes_nothing_of_the_file() {
    let mut d = Directory::new();
    d.write("a.yaml", &format!("{}---\n{}", object("one"), object("two")));
    d.scan();
    d.write(
        "a.yaml",
        &format!("{}---\napiVersion: v1\nmetadata:\n  name: two\n---\n- list\n---\napiVersion: v1\nkind: X\nmetadata:\n  name: 5\n", object("three")),
    );
    let (objects, findings) = d.scan();
    assert_eq!(objects, ["Service default/one", "Service default/three", "Service default/two"]);
    let starts = [
        "a.yaml:6:1: not a Kubernetes object: kind is missing",
        "a.yaml:10:1: not a Kubernetes object: the document is no object",
        "a.yaml:12:1: not a Kubernetes object: metadata.name must be a text; put it in quotes",
    ];
    for start in starts {
        assert!(findings.iter().any(|finding| finding.starts_with(start)), "{start}: {findings:?}");
    }
}

#[test]
fn the_first_of_two_declarations_counts_and_both_places_are_named() {
    let mut d = Directory::new();
    d.write("a.yaml", &object("x"));
    d.write("b.yaml", &format!("{}---\n{}", object("y"), object("x")));
    let (objects, findings) = d.scan();
    assert_eq!(objects, ["Service default/x", "Service default/y"]);
    let prefix = format!("{}/", d.dir.path().display());
    let findings: Vec<_> = findings.iter().map(|finding| finding.replace(&prefix, "")).collect();
    assert_eq!(
        findings,
        [
            "Service default/x: b.yaml:6:1: it is declared in a.yaml:1:1 too, which counts; this one is ignored (next step: remove or rename one of the two)"
        ]
    );
    fs::remove_file(d.path("a.yaml")).unwrap();
    let scan = d.source.scan();
    assert_eq!(changes(&scan), ["+x"], "the other one takes over");
    assert!(scan.findings.is_empty());
}

#[test]
fn a_missing_file_is_a_deletion_and_an_unreadable_one_is_not() {
    let mut d = Directory::new();
    d.write("a.yaml", &object("gone"));
    d.write("sub/b.yaml", &object("kept"));
    d.scan();
    fs::remove_file(d.path("a.yaml")).unwrap();
    // A directory in place of a file cannot be opened as one by anybody, root included; a link to itself neither.
    fs::remove_file(d.path("sub/b.yaml")).unwrap();
    symlink("b.yaml", d.path("sub/b.yaml")).unwrap();
    let scan = d.source.scan();
    assert_eq!(changes(&scan), ["-gone", "-kept"], "a link to itself holds no objects");
    assert_eq!(scan.findings.len(), 1);
}

#[test]
fn a_root_that_vanished_keeps_its_objects() {
    let mut d = Directory::new();
    d.write("a.yaml", &object("kept"));
    d.scan();
    let aside = d.dir.path().with_extension("aside");
    fs::rename(d.dir.path(), &aside).unwrap();
    let (objects, found) = d.scan();
    fs::rename(&aside, d.dir.path()).unwrap();
    assert_eq!(objects, ["Service default/kept"]);
    assert_eq!(found.len(), 1);
    assert_eq!(d.scan().1, Vec::<String>::new());
}

#[test]
fn a_file_that_may_not_be_read_keeps_its_objects() {
    let mut d = Directory::new();
    d.write("sub/a.yaml", &object("kept"));
    d.scan();
    fs::set_permissions(d.path("sub/a.yaml"), fs::Permissions::from_mode(0o000)).unwrap();
    let readable_anyway = fs::read(d.path("sub/a.yaml")).is_ok();
    let (objects, findings) = d.scan();
    assert_eq!(objects, ["Service default/kept"]);
    assert_eq!(findings.is_empty(), readable_anyway, "{findings:?}");
}

#[test]
fn expands_lists() {
    let mut d = Directory::new();
    d.write(
        "a.yaml",
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Service\n  metadata: {}\n",
    );
    d.write("b.yaml", "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: p}\n");
    let (objects, findings) = d.scan();
    assert_eq!(objects, ["Pod default/p", "Service default/a"]);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].starts_with("a.yaml:7:3: not a Kubernetes object: metadata.name is missing"), "{findings:?}");
}

#[test]
fn fills_in_the_namespace_and_encodes_string_data() {
    let mut d = Directory::new();
    d.write(
        "a.yaml",
        "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: haproxy, namespace: x}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: eA==, b: eA==}\nstringData: {b: hello}\n",
    );
    let scan = d.source.scan();
    assert_eq!(shown(&scan), ["Secret default/s", "IngressClass haproxy"]);
    let secret = scan.objects.values().next().unwrap().value();
    assert_eq!(secret["metadata"]["namespace"], "default");
    assert_eq!(secret["data"], serde_json::json!({ "a": "eA==", "b": "aGVsbG8=" }));
    assert!(secret.get("stringData").is_none() && secret["metadata"].get("creationTimestamp").is_none());
}

#[test]
fn only_changed_files_are_read_again() {
    let mut d = Directory::new();
    for file in 0..300 {
        d.write(&format!("f{file:03}.yaml"), &object(&format!("s{file}")));
    }
    let first = d.source.scan();
    assert_eq!(first.changes.len(), 300);
    assert!(d.source.scan().changes.is_empty());
    let kept = Arc::clone(first.objects.values().nth(7).unwrap());
    d.write("f299.yaml", &object("new"));
    let scan = d.source.scan();
    assert_eq!(changes(&scan), ["+new", "-s299"]);
    assert!(Arc::ptr_eq(&kept, &scan.objects[&kept.key()]), "others are the same");
}

#[test]
fn a_rescan_sees_exactly_what_was_notified() {
    let mut d = Directory::new();
    d.write("sub/a.yaml", &object("a"));
    d.write("b.yaml", &object("b"));
    d.scan();
    d.write("sub/a.yaml", &object("a2"));
    d.write("b.yaml", &object("b2"));
    d.write("new/c.yaml", &object("c"));
    let one = Notified::Paths([d.path("sub/a.yaml"), d.path(".a.swp")].into());
    assert_eq!(changes(&d.source.rescan(&one)), ["-a", "+a2"]);
    let subdirectory = Notified::Paths([d.path("new")].into());
    assert_eq!(changes(&d.source.rescan(&subdirectory)), ["+c"]);
    assert_eq!(changes(&d.source.rescan(&Notified::Everything)), ["-b", "+b2"]);
    fs::remove_dir_all(d.path("sub")).unwrap();
    let gone = Notified::Paths([d.path("sub")].into());
    assert_eq!(changes(&d.source.rescan(&gone)), ["-a2"]);
}

#[test]
fn a_switched_data_link_of_a_mounted_config_map_is_seen() {
    let mut d = Directory::new();
    d.write("..1/a.yaml", &object("old"));
    d.write("..2/a.yaml", &object("new"));
    symlink("..1", d.path("..data")).unwrap();
    symlink("..data/a.yaml", d.path("a.yaml")).unwrap();
    assert_eq!(changes(&d.source.scan()), ["+old"]);
    symlink("..2", d.path("..tmp")).unwrap();
    fs::rename(d.path("..tmp"), d.path("..data")).unwrap();
    let notified = Notified::Paths([d.path("..data")].into());
    assert_eq!(changes(&d.source.rescan(&notified)), ["+new", "-old"]);
}

#[test]
fn own_kinds_are_decoded_with_the_line_of_the_mistake() {
    let mut d = Directory::new();
    d.write(
        "a.yaml",
        "# a comment\napiVersion: haptic.rs/v1alpha1\nkind: HAProxyTemplateConfig\nmetadata: {name: c}\nspec:\n  watchedResources:\n    ingresses:\n      apiVersion: v1\n      resources: ingresses\n      indexby: [metadata.name]\n",
    );
    let scan = d.source.scan();
    let object = scan.objects.values().next().unwrap();
    let found = object.decode::<haptic_api::HAProxyTemplateConfig>().unwrap_err();
    let text = found[0].to_string();
    assert!(
        text.ends_with(
            "a.yaml:10:7: spec.watchedResources.ingresses.indexby is not a known field (next step: write `indexBy`)"
        ),
        "{text}"
    );
}

async fn until(d: &mut Directory, watcher: &mut Watcher, wanted: &[&str]) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let objects: Vec<_> = d.source.objects.values().map(|object| object.name.to_string()).collect();
        if objects == wanted {
            return;
        }
        let notified = tokio::time::timeout_at(deadline, watcher.next()).await;
        let notified = notified.unwrap_or_else(|_| panic!("waited for {wanted:?}, have {objects:?}"));
        d.source.rescan(&notified.unwrap());
    }
}

#[tokio::test]
async fn watching_reports_writes_renames_new_directories_and_removals() {
    let mut d = Directory::new();
    d.write("a.yaml", &object("a"));
    let mut watcher = d.source.watch().unwrap();
    d.source.scan();

    d.write("a.yaml", &object("b"));
    until(&mut d, &mut watcher, &["b"]).await;

    // What editors do: write beside it, then rename over it.
    d.write(".a.yaml.tmp", &object("c"));
    fs::rename(d.path(".a.yaml.tmp"), d.path("a.yaml")).unwrap();
    until(&mut d, &mut watcher, &["c"]).await;

    d.write("new/deep/b.yaml", &object("d"));
    until(&mut d, &mut watcher, &["c", "d"]).await;
    d.write("new/deep/b.yaml", &object("e"));
    until(&mut d, &mut watcher, &["c", "e"]).await;

    fs::rename(d.path("new"), d.path("old")).unwrap();
    fs::remove_file(d.path("a.yaml")).unwrap();
    until(&mut d, &mut watcher, &["e"]).await;
    fs::remove_dir_all(d.path("old")).unwrap();
    until(&mut d, &mut watcher, &[]).await;
}

#[tokio::test]
async fn lost_notifications_become_a_look_at_everything() {
    let mut d = Directory::new();
    d.source.scan();
    let mut watcher = d.source.watch().unwrap();
    let names: Vec<String> = (0..2000).map(|file| format!("s{file:04}")).collect();
    for name in &names {
        d.write(&format!("{name}.yaml"), &object(name));
    }
    let wanted: Vec<&str> = names.iter().map(String::as_str).collect();
    until(&mut d, &mut watcher, &wanted).await;
}
