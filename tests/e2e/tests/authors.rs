//! A new author: from nothing to a plugin that is tested, pushed and loaded, by the guides of `sdk/docs` alone; every
//! template in every language; and what is refused on the way.

#[path = "authors/guide.rs"]
mod guide;

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use guide::Guide;
use haptic_e2e::{Doors, Network, PASSWORD, RegistryFolder, USER, binary, builds, docker_config, stop_processes_of};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const PORT: u16 = 5000;

struct Answer {
    code: i32,
    out: String,
    err: String,
}

/// An author's machine: a home with nothing in it, and tools in a cache that runs share.
struct Author {
    folder: TempDir,
    cache: PathBuf,
    path: Option<PathBuf>,
}

impl Author {
    fn new() -> Result<Self> {
        let home = PathBuf::from(env::var_os("HOME").context("HOME is not set")?);
        let cache = env::var_os("HAPTIC_CACHE").map_or_else(|| home.join(".cache/haptic"), PathBuf::from);
        let folder = tempfile::Builder::new().prefix("a").rand_bytes(6).tempdir_in("/tmp").context("make a folder")?;
        Ok(Self { folder, cache, path: None })
    }

    /// With programs of this folder alone.
    fn with_programs_of(path: &Path) -> Result<Self> {
        Ok(Self { path: Some(path.to_owned()), ..Self::new()? })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The environment of all commands.
    fn dress<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.current_dir(self.folder.path());
        command.env("HAPTIC_CACHE", &self.cache).env("XDG_CACHE_HOME", self.cache.join("authors"));
        command.env("CARGO_TARGET_DIR", self.cache.join("authors/target")).env("DOCKER_CONFIG", self.at("docker"));
        command.env_remove("HAPTIC_REGISTRY_PASSWORD");
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<Answer> {
        let mut command = Command::new(binary());
        answer(self.dress(command.arg("plugin").args(arguments)), arguments)
    }

    /// Runs something that must work.
    fn does(&self, arguments: &[&str]) -> Result<Answer> {
        let answer = self.run(arguments)?;
        ensure!(answer.code == 0, "haptic plugin {arguments:?} gave {}:\n{}{}", answer.code, answer.out, answer.err);
        Ok(answer)
    }
}

fn answer(command: &mut Command, arguments: &[&str]) -> Result<Answer> {
    let Output { status, stdout, stderr } = command.output().with_context(|| format!("run haptic {arguments:?}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Answer { code: status.code().context("a signal ended it")?, out: text(stdout), err: text(stderr) })
}

fn sha256(path: &Path) -> Result<String> {
    Ok(hex::encode(Sha256::digest(fs::read(path).with_context(|| format!("read {}", path.display()))?)))
}

/// Runs a guide from its first command to its last, with a real registry and a real HAProxy.
async fn follow(guide: &str) -> Result<()> {
    let author = Author::new()?;
    let network = Network::claim()?;
    let folder = RegistryFolder::new((network.address(1), PORT).into(), Doors::Open)?;
    let _registry = folder.start().await?;
    let image = folder.image("acme/line-length:1.0.0");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/docs").join(guide);
    let guide = Guide::read(&path)?;
    let binaries = binary().parent().context("the binary is in a folder")?.to_owned();
    let search =
        env::join_paths([binaries].into_iter().chain(env::split_paths(&env::var_os("PATH").context("PATH")?)))?;
    let haproxy = builds(&["3.4"]).remove(0).path;
    let haproxies = haproxy.parent().context("HAProxy is in a folder")?;
    let followed = guide.follow(|command| {
        author.dress(command).env("PATH", &search).env("IMAGE", &image).env("HAPTIC_HAPROXY_DIR", haproxies);
    });
    // `run --once` leaves HAProxy running, as it says.
    stop_processes_of(author.folder.path());
    followed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_for_rust_works() -> Result<()> {
    follow("rust.md").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_for_python_works() -> Result<()> {
    follow("python.md").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_for_javascript_works() -> Result<()> {
    follow("javascript.md").await
}

/// The guides make auxiliary-file validators; here are the other contracts, without the variants of the full test.
fn other_contracts(language: &str, natively: &[&str]) -> Result<()> {
    for (contract, says) in [("rendered-output", "rendered-output validator"), ("filters", "template filter")] {
        let author = Author::new()?;
        author.does(&["new", "my-check", "--language", language, "--contract", contract, "."])?;
        if let [program, arguments @ ..] = natively {
            let native = answer(author.dress(Command::new(program).args(arguments)), natively)?;
            ensure!(native.code == 0, "{natively:?} gave {}:\n{}{}", native.code, native.out, native.err);
        }
        let built = author.does(&["build"])?;
        ensure!(built.out.contains(says) && built.out.contains("kind: HAProxyPlugin"), "{}", built.out);
        let digest = sha256(&author.at("dist/my-check.wasm"))?;
        ensure!(built.out.contains(&format!("  sha256: {digest}\n")), "{} is not in\n{}", digest, built.out);
        let tested = author.does(&["test", "--quick"])?;
        ensure!(tested.out.contains(" 0 failed"), "{}", tested.out);
    }
    Ok(())
}

#[test]
fn every_contract_in_rust_builds_and_passes_at_once() -> Result<()> {
    // Natively these are tests of the SDK's workspace.
    other_contracts("rust", &[])
}

#[test]
fn every_contract_in_python_builds_and_passes_at_once() -> Result<()> {
    other_contracts("python", &["python3", "-m", "unittest", "discover", "-s", "tests"])
}

#[test]
fn every_contract_in_javascript_builds_and_passes_at_once() -> Result<()> {
    other_contracts("javascript", &["node", "--test"])
}

#[test]
fn rust_gives_the_same_bytes_in_another_folder_and_wasi_on_demand() -> Result<()> {
    let (one, other) = (Author::new()?, Author::new()?);
    for author in [&one, &other] {
        author.does(&["new", "same-bytes", "--language", "rust"])?;
        author.does(&["build", "same-bytes"])?;
    }
    let module = "same-bytes/dist/same-bytes.wasm";
    ensure!(sha256(&one.at(module))? == sha256(&other.at(module))?, "the folder is in the bytes");
    let bytes = fs::read(one.at(module))?;
    let folder = one.folder.path().to_string_lossy().into_owned();
    ensure!(!bytes.windows(folder.len()).any(|window| window == folder.as_bytes()), "a path of this machine is in it");

    let manifest = one.at("same-bytes/plugin.yaml");
    fs::write(&manifest, fs::read_to_string(&manifest)?.replace("pure: true", "pure: false"))?;
    one.does(&["build", "same-bytes"])?;
    let inspected = one.does(&["inspect", module])?;
    ensure!(inspected.out.contains("pure        no: it imports WASI"), "{}", inspected.out);
    one.does(&["build", "--pure", "same-bytes"])?;
    ensure!(sha256(&one.at(module))? == sha256(&other.at(module))?, "--pure is the same as `pure: true`");
    Ok(())
}

#[test]
fn names_that_cannot_be_are_refused_and_nothing_is_written() -> Result<()> {
    let author = Author::new()?;
    for name in ["Upper", "1st", "a_b", "a/b", "../up", "a b", "-a", "a-", "é", "", "a;b", &"x".repeat(64)] {
        let refused = author.run(&["new", "--language", "python", "--", name])?;
        ensure!(refused.code == 2, "`{name}`: {}{}", refused.out, refused.err);
        ensure!(refused.err.contains("lower-case letters, digits and `-`"), "`{name}`: {}", refused.err);
    }
    for name in ["self", "test", "serde", "yield"] {
        let refused = author.run(&["new", name, "--language", "rust"])?;
        ensure!(refused.code == 2 && refused.err.contains("cannot be the name of a crate"), "{name}: {}", refused.err);
    }
    ensure!(fs::read_dir(author.folder.path())?.next().is_none(), "nothing is there");
    Ok(())
}

#[test]
fn a_folder_with_something_in_it_is_left_alone() -> Result<()> {
    let author = Author::new()?;
    fs::create_dir(author.at("mine"))?;
    author.does(&["new", "fills-an-empty-one", "--language", "python", "mine"])?;
    let before = fs::read_to_string(author.at("mine/plugin.yaml"))?;
    let refused = author.run(&["new", "other", "--language", "python", "mine"])?;
    ensure!(refused.code == 2, "{}", refused.out);
    let expected = "error: mine is not empty; name another folder, or move what is there\n";
    ensure!(refused.err == expected, "{}", refused.err);
    ensure!(fs::read_to_string(author.at("mine/plugin.yaml"))? == before, "it was changed");
    let refused = author.run(&["new", "other", "--language", "python", "mine/plugin.yaml"])?;
    ensure!(refused.err == "error: mine/plugin.yaml is a file; name another folder, or move it\n", "{}", refused.err);
    Ok(())
}

#[test]
fn a_missing_tool_is_named_with_the_next_step() -> Result<()> {
    let empty = tempfile::tempdir()?;
    let author = Author { cache: empty.path().join("cache"), ..Author::with_programs_of(empty.path())? };
    for (language, expected) in [
        (
            "rust",
            "error: `rustc` is not in PATH; install Rust with rustup, or put its bin folder into PATH, and run this again\n",
        ),
        (
            "python",
            "error: `python3` is not in PATH; install Python 3.10 or newer, e.g. apt-get install python3 python3-venv, and run this again\n",
        ),
        (
            "javascript",
            "error: `node` is not in PATH; install Node.js 20 or newer, e.g. from nodejs.org (Debian 12's own is 18), and run this again\n",
        ),
    ] {
        author.does(&["new", "tools", "--language", language, language])?;
        let built = author.run(&["build", language])?;
        ensure!(built.code == 2 && built.err == expected, "{language}: {}: {}", built.code, built.err);
        ensure!(!author.at(language).join("dist").exists(), "{language}: nothing was written");
    }
    let no_project = author.run(&["build"])?;
    ensure!(no_project.code == 2 && no_project.err.contains("holds no plugin.yaml"), "{}", no_project.err);
    Ok(())
}

/// Installers that say that all went well, and leave nothing.
#[test]
fn a_tool_that_does_not_work_is_not_kept() -> Result<()> {
    let programs = tempfile::tempdir()?;
    let program = |name: &str, script: &str| -> Result<()> {
        let path = programs.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n"))?;
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?)
    };
    // It finds no module to import, like the real one.
    program("node", r#"case "$1" in --version) echo v20.0.0 ;; *) echo "no such module" >&2; exit 1 ;; esac"#)?;
    program("npm", "exit 0")?;
    let venv = r#"-m) case "$2" in venv) /bin/mkdir "$3/bin"; /bin/cp "$0" "$3/bin/python3" ;; esac ;;"#;
    program("python3", &format!(r#"case "$1" in --version) echo Python 3.11.2 ;; {venv} esac"#))?;
    let author = Author { cache: programs.path().join("cache"), ..Author::with_programs_of(programs.path())? };
    for (language, tool) in [("python", "componentize-py"), ("javascript", "componentize-js")] {
        author.does(&["new", "tools", "--language", language, language])?;
        for attempt in 1..=2 {
            let built = author.run(&["build", language])?;
            let expected = [format!("error: trying {tool} "), "run this again".to_owned(), "is done once".to_owned()];
            let all = expected.iter().all(|text| built.err.contains(text.as_str()));
            ensure!(built.code == 2 && all, "{language}, attempt {attempt}: {}: {}", built.code, built.err);
        }
    }
    Ok(())
}

#[test]
fn source_that_does_not_compile_is_refused_and_the_last_component_stays() -> Result<()> {
    let author = Author::new()?;
    author.does(&["new", "broken", "--language", "rust", "."])?;
    fs::create_dir(author.at("dist"))?;
    fs::write(author.at("dist/broken.wasm"), "the last one")?;
    fs::write(author.at("src/lib.rs"), "nonsense\n")?;
    let built = author.run(&["build"])?;
    ensure!(built.code == 1, "{}{}", built.out, built.err);
    ensure!(built.err.contains("src/lib.rs:1") && built.err.contains("error: broken was not built"), "{}", built.err);
    ensure!(fs::read_to_string(author.at("dist/broken.wasm"))? == "the last one", "it was overwritten");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_says_who_may_and_where() -> Result<()> {
    let network = Network::claim()?;
    let folder = RegistryFolder::new((network.address(1), PORT).into(), Doors::Private)?;
    let author = Author::new()?;
    let plugins = env::var_os("HAPTIC_PLUGINS_DIR").map_or_else(|| author.cache.join("plugins"), PathBuf::from);
    let module = plugins.join("error-file.wasm");
    let digest = sha256(&module)?;
    let module = module.to_string_lossy().into_owned();
    let image = folder.image("acme/error-file:1");

    let down = author.run(&["push", &module, &image])?;
    ensure!(down.code == 2 && down.err.contains(&format!("pushing to {image}")), "{}: {}", down.code, down.err);
    let _registry = folder.start().await?;
    let stranger = author.run(&["push", &module, &image])?;
    ensure!(stranger.code == 2 && stranger.err.contains("a password that may push there"), "{}", stranger.err);
    let silent = author.run(&["push", &module, &image, "--username", USER])?;
    let expected = format!("there is no password for `{USER}`; set HAPTIC_REGISTRY_PASSWORD, or give --password-stdin");
    ensure!(silent.code == 2 && silent.err.contains(&expected), "{}", silent.err);
    for (password, code) in [("wrong", 2), (PASSWORD, 0)] {
        let mut command = Command::new(binary());
        let arguments = ["plugin", "push", &module, &image, "--username", USER];
        author.dress(command.args(arguments)).env("HAPTIC_REGISTRY_PASSWORD", password);
        let pushed = answer(&mut command, &arguments)?;
        ensure!(pushed.code == code, "{}{}", pushed.out, pushed.err);
        ensure!(!format!("{}{}", pushed.out, pushed.err).contains(password), "the password is printed");
    }
    fs::create_dir(author.at("docker"))?;
    fs::write(author.at("docker/config.json"), docker_config((network.address(1), PORT).into(), PASSWORD))?;
    let pushed = author.does(&["push", &module, &image])?;
    ensure!(pushed.out.contains(&format!("  sha256: {digest}\n")), "{}", pushed.out);
    ensure!(pushed.out.contains(&format!("    image: {image}\n")), "{}", pushed.out);
    ensure!(pushed.out.contains("# To sign it: cosign sign --key cosign.key"), "{}", pushed.out);

    fs::write(author.at("text.wasm"), "no component")?;
    let text = author.run(&["push", "text.wasm", &image])?;
    ensure!(text.code == 1 && text.err.contains("text.wasm is not a plugin"), "{}", text.err);
    let gone = author.run(&["push", "gone.wasm", &image])?;
    ensure!(gone.code == 2 && gone.err.contains("reading gone.wasm"), "{}", gone.err);
    let unbuilt = author
        .does(&["new", "unbuilt", "--language", "python"])
        .and_then(|_| author.run(&["push", "unbuilt", &image]))?;
    ensure!(unbuilt.code == 2 && unbuilt.err.contains("`haptic plugin build` writes it"), "{}", unbuilt.err);
    Ok(())
}
