#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_model::FileSet;

use super::*;
use crate::testing::{render_of, trigger};

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";

fn owner(name: &str) -> ConfigOwner {
    ConfigOwner { namespace: "shop".into(), name: name.into(), uid: "uid-1".into() }
}

fn render(files: &[(&str, FileKind, &[u8])]) -> Render {
    let mut render = render_of(1, "global\n", trigger());
    let mut set: FileSet = (*render.output.rendered.files).clone();
    for (path, kind, content) in files {
        let path = FilePath::new(path).unwrap();
        set.insert(path.clone(), File::new(path, *kind, content.to_vec()));
    }
    render.output.rendered.files = Arc::new(set);
    render
}

fn names(output: &Output) -> Vec<(&'static str, String)> {
    output.files.iter().map(|file| (file.key.kind.name, file.key.name.to_string())).collect()
}

#[test]
fn an_unchanged_file_keeps_its_name_and_a_changed_one_gets_another() {
    let mut kinds = Kinds::default();
    let of = |files, kinds: &mut Kinds| Output::of(&render(files), &owner("shop"), kinds);
    let first = of(&[("maps/a.map", FileKind::Map, b"a 1\n"), ("maps/b.map", FileKind::Map, b"a 1\n")], &mut kinds);
    let second = of(&[("maps/a.map", FileKind::Map, b"a 2\n"), ("maps/b.map", FileKind::Map, b"a 1\n")], &mut kinds);
    let (first, second) = (names(&first), names(&second));
    assert_eq!((first[0] == second[0], first[1] == second[1]), (false, true));
    assert_ne!(first[0], first[1], "the path counts too");
    assert!(first[0].1.starts_with("shop-map-"), "{first:?}");
}

#[test]
fn keys_are_named_and_never_published_whatever_file_they_stand_in() {
    let key = KEY.as_bytes();
    let render = render(&[
        ("certs/a.pem", FileKind::Cert, b"-----BEGIN CERTIFICATE-----\n"),
        ("general/a.txt", FileKind::General, key),
        ("general/b.bin", FileKind::General, b"\xff\xfe"),
        ("general/ca.pem", FileKind::Ca, b"-----BEGIN CERTIFICATE-----\n"),
        ("lists/a.list", FileKind::CrtList, b"certs/a.pem a.example\n"),
        ("maps/a.map", FileKind::Map, key),
    ]);
    let output = Output::of(&render, &owner("shop"), &mut Kinds::default());
    let kinds: Vec<_> = output.files.iter().map(|file| (file.key.kind.name, &*file.path)).collect();
    assert_eq!(kinds, [("HAProxyGeneralFile", "general/ca.pem"), ("HAProxyCRTListFile", "lists/a.list")]);
    let withheld: Vec<_> = output.withheld.iter().map(|file| (&*file.path, file.reason)).collect();
    let expected = [
        ("certs/a.pem", WithheldReason::Certificate),
        ("general/a.txt", WithheldReason::PrivateKey),
        ("general/b.bin", WithheldReason::Binary),
        ("maps/a.map", WithheldReason::PrivateKey),
    ];
    assert_eq!(withheld, expected);
    let config = File::new(FilePath::new(CONFIG_PATH).unwrap(), FileKind::Config, KEY.to_owned());
    assert_eq!(Whole::of(&config).err(), Some(WithheldReason::PrivateKey));
}

#[test]
fn parts_are_found_by_the_name_of_the_first_one() {
    assert_eq!((part_name("a-cfg-1f", 0), part_name("a-cfg-1f", 2)), ("a-cfg-1f".to_owned(), "a-cfg-1f-p3".to_owned()));
    assert_eq!((first_name("a-cfg-1f-p3"), first_name("a-cfg-1f"), first_name("a-p")), ("a-cfg-1f", "a-cfg-1f", "a-p"));
}

#[test]
fn objects_are_owned_by_the_configuration_and_say_what_they_hold() {
    let long = format!("{}.x", "a".repeat(230));
    let output = Output::of(&render(&[]), &owner(&long), &mut Kinds::default());
    let whole = Whole::new("global\n".to_owned());
    let encoded = Encoded { compressed: true, parts: vec!["AA".to_owned(), "BB".to_owned()] };
    let object = output.config.object(&owner(&long), &output.plan, &whole, &encoded, 1);
    assert!(object["metadata"]["name"].as_str().unwrap().len() <= 253);
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "uid-1");
    assert_eq!(object["metadata"]["labels"], json!({ OWNER_LABEL: "uid-1" }), "a label cannot hold the name");
    let spec = json!({
        "path": CONFIG_PATH, "checksum": Digest::of(b"global\n"), "plan": output.plan, "content": "BB",
        "compressed": true, "part": 2, "parts": 2,
    });
    assert_eq!(object["spec"], spec);
    serde_json::from_value::<haptic_api::HAProxyCfgSpec>(spec).unwrap();
}
