//! The check jail against real HAProxy binaries and hostile file sets, started by this process and by one of its own.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    fmt, fs,
    net::TcpListener,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use haptic_haproxy::check::{
    Cancellation, CheckError, CheckLimits, CheckMode, CheckSeverity, CheckVerdict, Checker, Measure, Starter,
};
use haptic_model::{File, FileKind, FilePath, FileSet};

const NEWEST: &str = "3.4";
const VERSIONS: [&str; 3] = ["3.0", "3.2", NEWEST];

struct Case {
    version: &'static str,
    starter: Starter,
}

fn binary(version: &str) -> PathBuf {
    let directory = std::env::var_os("HAPTIC_HAPROXY_DIR").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/haptic/haproxy/bin"),
        PathBuf::from,
    );
    let binary = directory.join(format!("haproxy-{version}"));
    assert!(binary.exists(), "{} is missing; run `make haproxies`", binary.display());
    binary
}

/// The binary beside this test's, which starts checks for others.
fn starter() -> Starter {
    let program = std::env::var_os("HAPTIC_BIN")
        .map_or_else(|| std::env::current_exe().unwrap().parent().unwrap().with_file_name("haptic"), PathBuf::from);
    assert!(program.exists(), "{} is missing; run `make build-debug`", program.display());
    Starter::Process { program, arguments: vec!["check-jail".to_owned()] }
}

fn cases_of(version: &'static str) -> [Case; 2] {
    [Starter::InProcess, starter()].map(|starter| Case { version, starter })
}

fn cases() -> Vec<Case> {
    VERSIONS.into_iter().flat_map(cases_of).collect()
}

fn set(files: &[(&str, FileKind, &str)]) -> FileSet {
    files
        .iter()
        .map(|&(path, kind, content)| {
            let path = FilePath::new(path).unwrap();
            (path.clone(), File::new(path, kind, content.to_owned()))
        })
        .collect()
}

/// A configuration that is good if what is put into it is.
fn config(global: &str, frontend: &str) -> String {
    format!(
        "global\n  default-path config\n{global}defaults\n  mode http\n  timeout connect 1s\n  timeout client 1s\n  \
         timeout server 1s\nfrontend http\n  bind :8080\n{frontend}  default_backend app\nbackend app\n  server s1 \
         127.0.0.1:80 check\n"
    )
}

fn lua(script: &str) -> FileSet {
    let text = config("  tune.lua.bool-sample-conversion normal\n  lua-load general/probe.lua\n", "");
    // 3.0 does not know the setting that 3.2 warns about when it is missing.
    let text =
        format!(".if !version_atleast(3.1)\n.endif\n{text}").replace("  tune.lua.bool-sample-conversion normal\n", "");
    set(&[("haproxy.cfg", FileKind::Config, &text), ("general/probe.lua", FileKind::General, script)])
}

impl Case {
    fn checker(&self, limits: CheckLimits) -> Checker {
        Checker::new(binary(self.version), limits).unwrap().with_starter(self.starter.clone())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.starter {
            Starter::InProcess => "this process",
            Starter::Process { .. } => "a process of its own",
        };
        write!(f, "HAProxy {} started by {by}", self.version)
    }
}

fn check(case: &Case, files: &FileSet) -> CheckVerdict {
    case.checker(CheckLimits::STANDARD).check(files, CheckMode::Strict, &Cancellation::new()).unwrap()
}

fn texts(verdict: &CheckVerdict) -> String {
    verdict.messages.iter().map(|message| message.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Runs a script at load that reports through its error, and gives back what it said.
fn probe(case: &Case, script: &str) -> String {
    let verdict = check(
        case,
        &lua(&format!(
            "local out = {{}}\nlocal function say(...) out[#out+1] = table.concat({{...}}, ' ') end\n{script}\nerror('SAID ' .. table.concat(out, ' | '))\n"
        )),
    );
    assert!(!verdict.passed);
    let text = texts(&verdict);
    assert!(text.contains("SAID"), "{text}");
    text
}

#[test]
fn passes_a_good_set_and_enforces_the_floor() {
    let text = config(
        "  maxconn 100000\n  user 1234\n".replace("  user 1234\n", "").as_str(),
        "  bind :::8081 v6only\n  http-request set-header x %[path,map(maps/a.map)]\n",
    );
    let files = set(&[("haproxy.cfg", FileKind::Config, &text), ("maps/a.map", FileKind::Map, "/a b\n")]);
    for case in &cases() {
        let verdict = check(case, &files);
        assert!(verdict.passed, "{case}: {:?}", verdict.messages);
        assert!(verdict.messages.is_empty(), "{case}: {:?}", verdict.messages);
        assert!(verdict.haproxy_version.starts_with(case.version));
        assert_eq!(verdict.jail.landlock, Measure::Enforced);
        assert_eq!(verdict.jail.seccomp, Measure::Enforced);
        assert_eq!(verdict.jail.rlimits, Measure::Enforced);
        if rustix::process::getuid().is_root() {
            assert_eq!(verdict.jail.namespaces, Measure::Enforced);
        }
    }
}

#[test]
fn names_file_and_line_of_errors() {
    let files = set(&[("haproxy.cfg", FileKind::Config, &config("", "  bogus\n"))]);
    for case in &cases() {
        let verdict = check(case, &files);
        assert!(!verdict.passed);
        let [message] = verdict.messages.as_slice() else { panic!("{case}: {:?}", verdict.messages) };
        assert_eq!(message.severity, CheckSeverity::Error);
        assert_eq!(message.file.as_deref(), Some("haproxy.cfg"));
        assert_eq!(message.line, 10);
        assert_eq!(message.text, "unknown keyword 'bogus' in 'frontend' section");
    }
}

#[test]
fn lua_cannot_read_or_write_outside_of_the_set() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("token"), "secret-token").unwrap();
    let outside = outside.path().display();
    let script = format!(
        "for _, path in ipairs{{'/etc/passwd', '/proc/self/environ', '/proc/1/cmdline', '{outside}/token'}} do\n local f = io.open(path)\n say(path, f and 'READ ' .. tostring(f:read('a')) or 'refused')\nend\nfor _, path in ipairs{{'{outside}/new', 'general/new', '/dev/shm/hxnew', 'haproxy.cfg'}} do\n say(path, io.open(path, 'w') and 'WROTE' or 'refused')\nend\nsay(io.open('general/probe.lua') and 'own file read' or 'own file refused')"
    );
    for case in &cases() {
        let said = probe(case, &script);
        assert!(!said.contains("READ") && !said.contains("WROTE"), "{case}: {said}");
        assert!(said.contains("own file read"), "{case}: {said}");
    }
}

#[test]
fn lua_cannot_start_programs_or_see_the_environment() {
    let script = "say('execute', tostring(os.execute('true')))\nlocal ok, pipe = pcall(io.popen, 'id')\nlocal read = ok and pipe and pipe:read('a')\nsay('popen', read and #read > 0 and 'RAN' or 'refused')\nsay('home', tostring(os.getenv('HOME')), 'path', tostring(os.getenv('PATH')))";
    for case in &cases() {
        let said = probe(case, script);
        assert!(!said.contains("execute true"), "{case}: {said}");
        assert!(said.contains("popen refused") && said.contains("home nil path nil"), "{case}: {said}");
    }
}

#[test]
fn configuration_sees_no_environment_variable() {
    let home = std::env::var("HOME").unwrap();
    let files = set(&[(
        "haproxy.cfg",
        FileKind::Config,
        &config("  .notice \"${HOME}\"\n".trim_start(), "  errorfile 503 \"$HOME/x\"\n"),
    )]);
    for case in &cases() {
        let verdict = check(case, &files);
        assert!(!verdict.passed);
        assert!(!texts(&verdict).contains(&home), "{case}: {}", texts(&verdict));
    }
}

#[test]
fn nothing_connects_to_a_listener_on_this_machine() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!(
        "local ok, err = pcall(function()\n local tcp = core.tcp()\n tcp:settimeout(1)\n return tcp:connect('127.0.0.1', {port})\nend)\nsay('connect', tostring(ok), tostring(err))"
    );
    for case in &cases() {
        probe(case, &script);
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "{case} connected");
    }
}

#[test]
fn names_never_resolve_and_fail_fast() {
    let text = config("", "").replace("127.0.0.1:80", "name.invalid:80");
    let files = set(&[("haproxy.cfg", FileKind::Config, &text)]);
    for case in &cases() {
        let strict = check(case, &files);
        assert!(!strict.passed);
        assert!(strict.elapsed < Duration::from_secs(3), "{case}: {:?}", strict.elapsed);
        let error = strict.messages.iter().find(|message| message.text.contains("could not resolve")).unwrap();
        assert_eq!((error.file.as_deref(), error.line), (Some("haproxy.cfg"), 12));
        let tolerant = case
            .checker(CheckLimits::STANDARD)
            .check(&files, CheckMode::TolerateUnresolved, &Cancellation::new())
            .unwrap();
        assert!(tolerant.passed, "{case}: {:?}", tolerant.messages);
    }
}

#[test]
fn files_outside_are_not_quoted_and_keys_of_the_set_are_withheld() {
    let key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDJ0";
    let pem = format!("{key}\n-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
    for (path, secret) in [("/etc/passwd", "root:"), ("ssl/site.pem", key)] {
        let text = config("", &format!("  http-request deny if {{ src -f {path} }}\n"));
        let files = set(&[("haproxy.cfg", FileKind::Config, &text), ("ssl/site.pem", FileKind::Cert, &pem)]);
        for case in &cases() {
            let verdict = check(case, &files);
            assert!(!verdict.passed);
            assert!(!texts(&verdict).contains(secret), "{case}: {}", texts(&verdict));
            assert!(!texts(&verdict).contains("haptic-check-"), "{case}: {}", texts(&verdict));
        }
    }
}

#[test]
fn an_endless_script_is_stopped_by_the_clock() {
    let limits = CheckLimits { wall: Duration::from_millis(700), ..CheckLimits::STANDARD };
    for case in &cases() {
        let checker = case.checker(limits);
        let started = Instant::now();
        let error = checker.check(&lua("while true do end"), CheckMode::Strict, &Cancellation::new()).unwrap_err();
        assert!(matches!(error, CheckError::TimedOut { .. }), "{case}: {error}");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn processor_time_is_bounded() {
    let limits = CheckLimits { wall: Duration::from_secs(30), cpu: Duration::from_secs(1), ..CheckLimits::STANDARD };
    for case in &cases_of(NEWEST) {
        let checker = case.checker(limits);
        let error = checker.check(&lua("while true do end"), CheckMode::Strict, &Cancellation::new()).unwrap_err();
        assert!(matches!(error, CheckError::Killed { signal: 9, .. }), "{error}");
    }
}

#[test]
fn memory_is_bounded() {
    let limits = CheckLimits { memory_bytes: 512 << 20, ..CheckLimits::STANDARD };
    for case in &cases() {
        let checker = case.checker(limits);
        let script = "local t = {}\nfor i = 1, 100 do t[i] = string.rep(tostring(i), 32 * 1024 * 1024) end";
        let outcome = checker.check(&lua(script), CheckMode::Strict, &Cancellation::new());
        assert!(!outcome.as_ref().is_ok_and(|verdict| verdict.passed), "{case}: {outcome:?}");
        assert!(!matches!(outcome, Err(CheckError::TimedOut { .. })), "{case}: {outcome:?}");
    }
}

#[test]
fn output_is_bounded() {
    let limits = CheckLimits { output_bytes: 4096, ..CheckLimits::STANDARD };
    for case in &cases_of(NEWEST) {
        let checker = case.checker(limits);
        let script = "for i = 1, 20000 do io.stderr:write(string.rep('x', 100), '\\n') end";
        let verdict = checker.check(&lua(script), CheckMode::Strict, &Cancellation::new()).unwrap();
        assert!(verdict.passed);
        assert!(texts(&verdict).len() <= 4096);
    }
}

#[test]
fn cancellation_kills_and_is_never_a_pass() {
    for case in &cases_of(NEWEST) {
        let checker = case.checker(CheckLimits::STANDARD);
        let cancellation = Cancellation::new();
        let canceller = cancellation.clone();
        let started = Instant::now();
        let error = thread::scope(|scope| {
            let running = scope.spawn(|| checker.check(&lua("while true do end"), CheckMode::Strict, &cancellation));
            canceller.cancel();
            running.join().unwrap().unwrap_err()
        });
        assert!(matches!(error, CheckError::Cancelled), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5));

        let good = set(&[("haproxy.cfg", FileKind::Config, &config("", ""))]);
        let error = checker.check(&good, CheckMode::Strict, &cancellation).unwrap_err();
        assert!(matches!(error, CheckError::Cancelled), "{error}");
    }
}

#[test]
fn a_set_without_listener_or_configuration_is_no_pass() {
    let files = set(&[("haproxy.cfg", FileKind::Config, "global\n  default-path config\n")]);
    for case in &cases() {
        let verdict = check(case, &files);
        assert!(!verdict.passed);
        assert!(texts(&verdict).contains("no listener"), "{case}: {:?}", verdict.messages);
    }
    let error = cases_of(NEWEST)[0]
        .checker(CheckLimits::STANDARD)
        .check(&set(&[]), CheckMode::Strict, &Cancellation::new())
        .unwrap_err();
    assert!(matches!(error, CheckError::NoConfig));
}

#[test]
fn a_starter_that_is_none_is_no_pass() {
    let good = set(&[("haproxy.cfg", FileKind::Config, &config("", ""))]);
    let checker = Checker::new(binary(NEWEST), CheckLimits::STANDARD).unwrap();
    for (program, words) in [("/nowhere/haptic", "No such file"), ("/bin/true", "said only ``")] {
        let starter = Starter::Process { program: program.into(), arguments: Vec::new() };
        let error =
            checker.clone().with_starter(starter).check(&good, CheckMode::Strict, &Cancellation::new()).unwrap_err();
        assert!(matches!(error, CheckError::Spawn { .. }) && error.to_string().contains(words), "{error}");
    }
}
