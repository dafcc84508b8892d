//! Cases and transcripts.

use haptic_conformance::{Options, Project, RunError, Status, run, text};

use crate::built::{Folder, guest, only, plugin, quick, root, said};

fn refusal(folder: &Folder) -> String {
    let error = Project::open_with_module(folder.path.path(), &guest("fallible")).unwrap_err();
    error.to_string().replace(&format!("{}/", folder.path.path().display()), "")
}

#[test]
fn a_case_says_what_comes_out_and_another_answer_fails_it() {
    let folder = Folder::new(None);
    let unblessed = run(&folder.project(), &only("good")).unwrap();
    let (ended, told) = said(&unblessed, "good");
    assert!(ended == Status::Failed && told.contains("nothing is expected yet"), "{told}");

    let report = folder.run_blessed(&only("bad"));
    assert!(report.passed(), "{}", text(&report));
    let bad = folder.read("cases/bad/case.json");
    assert!(bad.contains("\"`none` is no number; write `KEY NUMBER`\""), "{bad}");

    folder.write("cases/bad/case.json", bad.replace("`none` is", "`none` was"));
    let calls = folder.read("cases/lists/case.json");
    folder.write("cases/lists/case.json", calls.replace("\"a+b\"", "\"a+c\""));
    let report = run(&folder.project(), &quick()).unwrap();
    let (ended, told) = said(&report, "bad");
    assert_eq!(ended, Status::Failed);
    assert!(told.contains("- error maps/a.map:2:7: `none` was no number"), "{told}");
    assert!(told.contains("+ error maps/a.map:2:7: `none` is no number"), "{told}");
    let (_, told) = said(&report, "lists");
    assert!(told.contains("call 3 of `join`: another answer") && told.contains("+ answer \"a+b\""), "{told}");
    assert_eq!(report.summary.failed, 2, "{}", text(&report));
}

#[test]
fn blessing_is_what_was_there_when_nothing_changed() {
    let folder = Folder::new(None);
    folder.run_blessed(&only("good"));
    let before = ["good", "bad", "lists"].map(|name| folder.read(&format!("cases/{name}/case.json")));
    folder.run_blessed(&only("good"));
    assert_eq!(before, ["good", "bad", "lists"].map(|name| folder.read(&format!("cases/{name}/case.json"))));
}

#[test]
fn a_refused_config_can_be_expected() {
    let folder = Folder::new(None);
    let refused = "`weight` must be a number, not true";
    folder.write(
        "cases/refused/case.json",
        format!(
            r#"{{"description":"","config":{{"weight":true}},"file":"a","expect":{{"config_refused":"{refused}"}}}}"#
        ),
    );
    folder.write("cases/refused/files/a", "");
    assert_eq!(said(&run(&folder.project(), &only("refused")).unwrap(), "refused").0, Status::Passed);
}

#[test]
fn a_case_that_cannot_be_read_is_refused_with_file_and_line() {
    let folder = Folder::new(None);
    folder.write("cases/good/case.json", "{\n  \"description\": \"\",\n  \"expct\": {}\n}\n");
    let refused = refusal(&folder);
    assert!(refused.starts_with("cases/good/case.json: unknown field `expct`"), "{refused}");
    assert!(refused.ends_with("at line 3 column 9"), "{refused}");

    folder.write("cases/good/case.json", r#"{"description":"","file":"x","expect":{"result":"valid"}}"#);
    assert_eq!(refusal(&folder), "cases/good/case.json: `expect` of a report needs `result`, `warnings` and `errors`");

    folder.write("cases/good/case.json", r#"{"description":""}"#);
    folder.write("cases/good/files/.hidden", "");
    assert!(refusal(&folder).starts_with("cases/good/files/.hidden: `.hidden` is not a file path"));

    let folder = Folder::new(None);
    folder.write("cases/other/notes.txt", "");
    assert!(refusal(&folder).starts_with("cases/other holds neither a case.json nor a transcript.json"));
}

#[test]
fn transcripts_are_answered_as_protocol_v1_would() {
    let folder = Folder::new(None);
    let exchange = |files: &str, response: &str| {
        format!(r#"{{"request":{{"protocol_version":1,"files":{files}}},"response":{response}}}"#)
    };
    let valid = r#"{"protocol_version":1,"result":"valid","warnings":[],"errors":[]}"#;
    let good =
        exchange(r#"[{"path":"maps/b.map","content":"x y","kind":"data"},{"path":"a.map","content":"a 1\n"}]"#, valid);
    let config = exchange(r#"[{"path":"haproxy.cfg","content":"a 1\n"},{"path":"b.map","content":"a b c"}]"#, valid);
    let none = r#"{"protocol_version":1,"result":"error","warnings":[],"errors":[{"path":"","line":0,"column":0,"message":"'files' array must be non-empty"}]}"#;
    folder.write("cases/good/transcript.json", &good);
    folder.write("cases/two/transcript.json", format!("[{good},{}]", exchange("[]", none)));
    folder.write("cases/config/transcript.json", &config);
    let report = run(&folder.project(), &Options { filter: Some("o".to_owned()), ..quick() }).unwrap();
    for name in ["good (transcript)", "two", "config"] {
        assert_eq!(said(&report, name).0, Status::Passed, "{}", text(&report));
    }

    folder.write("cases/two/transcript.json", good.replace("a 1\\n", "a none\\n"));
    let (ended, told) = said(&run(&folder.project(), &only("two")).unwrap(), "two");
    assert!(ended == Status::Failed && told.contains("+ error a.map:1:7: `none` is no number"), "{told}");
    folder.run_blessed(&only("two"));
    assert!(folder.read("cases/two/transcript.json").contains("`none` is no number"));
}

#[test]
fn first_party_cases_pass_at_the_default_limits_from_a_folder_without_a_manifest() {
    let project = Project::open_with_module(&root().join("plugins/error-file"), &plugin("error-file")).unwrap();
    assert_eq!((project.name.as_str(), project.language), ("error-file", None));
    let report = run(&project, &only("line-feeds-alone")).unwrap();
    assert_eq!(report.summary.passed, 1, "{}", text(&report));
}

#[test]
fn a_run_that_would_do_nothing_is_an_error_that_lists_the_names() {
    let error = run(&Folder::new(None).project(), &only("nonsense")).unwrap_err();
    assert!(matches!(error, RunError::NothingToRun { .. }));
    assert!(error.to_string().contains("cases: bad, good, lists; checks: loads, "), "{error}");
}

#[test]
fn a_component_that_is_not_there_says_how_to_build_it() {
    let folder = Folder::new(None);
    let project = Project::open(folder.path.path()).unwrap();
    assert!(project.module.ends_with("dist/fallible.wasm"));
    let error = run(&project, &quick()).unwrap_err();
    assert!(error.to_string().contains("build it with `haptic plugin build`"), "{error}");
}
