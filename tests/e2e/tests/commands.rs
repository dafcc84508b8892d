//! The commands that need no running haptic: validate, render, diff, explain, plugin inspect, crds, version, and the
//! examples of the guides.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context, Result, ensure};
use haptic_e2e::{CONFIG, Shop, binary, builds};

struct Answer {
    code: i32,
    out: String,
    err: String,
}

fn haptic(arguments: &[&str]) -> Result<Answer> {
    let newest = builds(&["3.4"]).remove(0);
    let mut command = Command::new(binary());
    command.args(arguments);
    if matches!(arguments[0], "validate" | "render" | "diff" | "explain" | "preflight") {
        command.arg("--haproxy").arg(newest.path);
    }
    let Output { status, stdout, stderr } = command.output().with_context(|| format!("run haptic {arguments:?}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Answer { code: status.code().context("a signal ended it")?, out: text(stdout), err: text(stderr) })
}

fn folders(shop: &Shop) -> Vec<String> {
    let folder = |name: &str| shop.manifests().join(name).to_string_lossy().into_owned();
    vec!["--standalone".to_owned(), folder("common"), "--standalone".to_owned(), folder("standalone")]
}

fn with<'a>(first: &'a str, folders: &'a [String], rest: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec![first];
    arguments.extend(folders.iter().map(String::as_str));
    arguments.extend(rest);
    arguments
}

#[tokio::test]
async fn validate_says_what_the_controller_would() -> Result<()> {
    let shop = Shop::open().await?;
    let folders = folders(&shop);
    let good = haptic(&with("validate", &folders, &[]))?;
    ensure!(good.code == 0, "{}{}", good.out, good.err);
    ensure!(good.out.contains("passed, 0 failed"), "{}", good.out);
    let junit = haptic(&with("validate", &folders, &["--output", "junit"]))?;
    ensure!(junit.code == 0 && junit.out.contains("<testsuite"), "{}", junit.out);

    shop.edit(
        CONFIG,
        "frontend/40-shop:\n      template: |\n",
        "frontend/40-shop:\n      template: |\n        nonsense here\n",
    )?;
    let bad = haptic(&with("validate", &folders, &[]))?;
    ensure!(bad.code == 1, "{}{}", bad.out, bad.err);
    ensure!(bad.err.contains("config.yaml:") && bad.err.contains("nonsense"), "{}", bad.err);
    Ok(())
}

#[tokio::test]
async fn explain_names_object_template_and_route_and_no_secret() -> Result<()> {
    let shop = Shop::open().await?;
    let folders = folders(&shop);
    let explain = |question: &[&str]| haptic(&with("explain", &folders, question));
    let line = explain(&["--line", "server web-1"])?;
    ensure!(line.code == 0, "{}{}", line.out, line.err);
    for words in
        ["haproxy.cfg:", "in        backend shop_web_web_http", "object    Ingress shop/web (", "ingresses.yaml:"]
    {
        ensure!(line.out.contains(words), "{words}:\n{}", line.out);
    }
    ensure!(line.out.contains("snippet ingress, line ") && line.out.contains("ingress.yaml:"), "{}", line.out);
    let route = explain(&["--host", "https://api.shop.localhost/v1?x"])?;
    ensure!(
        route.code == 0 && route.out.contains("goes to backend shop_api_api_80, which has 2 servers"),
        "{}",
        route.out
    );
    let nowhere = explain(&["--host", "nobody.localhost", "--path", "/"])?;
    ensure!(nowhere.code == 1 && nowhere.out.contains("no route"), "{}", nowhere.out);
    let key = explain(&["--line", "PRIVATE KEY"])?;
    ensure!(key.code == 1 && key.out.starts_with("no line has"), "{}", key.out);
    ensure!(explain(&[])?.code == 2, "a question is needed");
    ensure!(explain(&["--line", "1", "--host", "x"])?.code == 2, "one question at a time");

    // An object that is left out is often why something is not found.
    shop.edit("common/ingresses.yaml", "host: shop.localhost", "host: SHOP.localhost")?;
    let lost = explain(&["--host", "shop.localhost"])?;
    ensure!(lost.code == 1 && lost.err.contains("host is not a lower-case DNS name"), "{}{}", lost.out, lost.err);
    Ok(())
}

#[tokio::test]
async fn preflight_says_what_a_release_would_make_of_a_dump() -> Result<()> {
    let shop = Shop::open().await?;
    let folder = |name: &str| shop.manifests().join(name).to_string_lossy().into_owned();
    let (config, slices) = (folder("common"), folder("standalone"));
    let preflight = || haptic(&["preflight", "--config-dir", &config, "--resources", &config, &slices]);
    let good = preflight()?;
    ensure!(good.code == 0, "{}{}", good.out, good.err);
    for line in ["HAProxy 3.4.", "ingresses: 2 objects (networking.k8s.io/v1)", "0 units left out"] {
        ensure!(good.out.contains(line), "{line}:\n{}", good.out);
    }
    // Without the slices the routes have no servers, which is no mistake of the release.
    let empty = haptic(&["preflight", "--config-dir", &config, "--resources", &config])?;
    ensure!(empty.code == 0 && empty.out.contains("endpoints"), "{}{}", empty.out, empty.err);

    shop.edit("common/ingresses.yaml", "host: shop.localhost", "host: SHOP.localhost")?;
    let lost = preflight()?;
    ensure!(lost.code == 1 && lost.out.contains("1 units left out"), "{}{}", lost.out, lost.err);
    ensure!(lost.err.contains("Ingress shop/web") && lost.err.contains("lower-case"), "{}", lost.err);
    shop.edit(CONFIG, "  extraContext:\n", "  unknownField: 1\n  extraContext:\n")?;
    let refused = preflight()?;
    ensure!(refused.code == 1 && refused.err.contains("unknownField"), "{}{}", refused.out, refused.err);
    ensure!(haptic(&["preflight", "--config-dir", &config])?.code == 2, "objects are needed");
    Ok(())
}

/// Numbers and names of profiles change with the libraries; what is said of them does not.
fn without_numbers(text: &str) -> String {
    let word = |word: &str| match word.strip_prefix("profile-") {
        Some(_) => "profile-0".to_owned(),
        None => word.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("0"),
    };
    text.lines().map(|line| line.split(' ').map(word).collect::<Vec<_>>().join(" ") + "\n").collect()
}

#[tokio::test]
async fn the_guide_of_the_status_page_shows_what_explain_says() -> Result<()> {
    let shop = Shop::open().await?;
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host/controller/docs/status-page.md");
    let guide = fs::read_to_string(&guide).with_context(|| format!("read {}", guide.display()))?;
    let mut shown = 0;
    for example in guide.split("```\n$ haptic explain --standalone DIR ").skip(1) {
        let (question, rest) = example.split_once('\n').context("a command has an end")?;
        let expected = rest.split("```").next().unwrap_or_default();
        let question: Vec<&str> = match question.split_once('\'') {
            Some((flag, text)) => vec![flag.trim(), text.trim_end_matches('\'')],
            None => question.split(' ').collect(),
        };
        let answer = haptic(&with("explain", &folders(&shop), &question))?;
        ensure!(answer.code == 0, "{}{}", answer.out, answer.err);
        let folder = format!("{}/", shop.manifests().display());
        let said = answer.out.replace(&folder, "").replace(shop.address(11).trim_end_matches("11"), "127.0.0.");
        ensure!(without_numbers(&said) == without_numbers(expected), "the guide has\n{expected}\nand it says\n{said}");
        shown += 1;
    }
    ensure!(shown == 2, "the guide has {shown} examples");
    Ok(())
}

#[tokio::test]
async fn a_failing_validation_test_is_told_and_exits_with_1() -> Result<()> {
    let shop = Shop::open().await?;
    let test = "  validationTests:\n    has-a-unicorn:\n      fixtures: {}\n      assertions:\n      \
                - {type: contains, pattern: unicorn}\n  extraContext:\n";
    shop.edit(CONFIG, "  extraContext:\n", test)?;
    let answer = haptic(&with("validate", &folders(&shop), &["--test", "has-a-unicorn", "--output", "json"]))?;
    ensure!(answer.code == 1, "{}{}", answer.out, answer.err);
    let results: serde_json::Value = serde_json::from_str(&answer.out)?;
    ensure!(results["failedTests"] == 1, "{results}");
    Ok(())
}

#[tokio::test]
async fn render_prints_the_configuration_and_its_files_but_no_key() -> Result<()> {
    let shop = Shop::open().await?;
    let folders = folders(&shop);
    let config = haptic(&with("render", &folders, &[]))?;
    ensure!(config.code == 0 && config.out.contains("\nfrontend http from haptic\n"), "{}{}", config.out, config.err);
    let map = haptic(&with("render", &folders, &["--file", "maps/path-prefix.map"]))?;
    ensure!(map.out.contains("shop.localhost/ "), "{}", map.out);
    let key = haptic(&with("render", &folders, &["--file", "ssl/default.pem"]))?;
    ensure!(key.code == 2 && !key.out.contains("PRIVATE"), "{}", key.out);
    let out = shop.state().join("rendered");
    let written = haptic(&with("render", &folders, &["--out", &out.to_string_lossy()]))?;
    ensure!(written.code == 0, "{}", written.err);
    let mode = fs::metadata(out.join("ssl/default.pem"))?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "a private key is for its owner alone, not {mode:o}");
    Ok(())
}

#[tokio::test]
async fn diff_says_first_whether_it_will_reload() -> Result<()> {
    let (old, new) = (Shop::open().await?, Shop::open().await?);
    for (path, text) in [(CONFIG, old.read(CONFIG)?), (haptic_e2e::SLICES, old.read(haptic_e2e::SLICES)?)] {
        new.write(path, &text)?;
    }
    for file in ["common/generated/shop-tls.yaml", "common/generated/api-tls.yaml", "common/generated/default-tls.yaml"]
    {
        new.write(file, &old.read(file)?)?;
    }
    let from: Vec<String> = folders(&old).into_iter().map(|f| f.replace("--standalone", "--from")).collect();
    let from: Vec<&str> = from.iter().map(String::as_str).collect();
    let same = haptic(&with("diff", &folders(&new), &from))?;
    ensure!(same.code == 0 && same.out.starts_with("noop\n"), "{}{}", same.out, same.err);
    new.write("standalone/new.yaml", &new.route("new", "new.localhost"))?;
    for (version, first, says) in
        [("3.4", "runtime\n", "backend_add"), ("3.0", "reload\n", "HAProxy 3.0 cannot add a backend at run time")]
    {
        let mut rest = from.clone();
        rest.extend(["--haproxy-version", version]);
        let answer = haptic(&with("diff", &folders(&new), &rest))?;
        ensure!(answer.out.starts_with(first) && answer.out.contains(says), "{version}: {}{}", answer.out, answer.err);
    }
    Ok(())
}

#[tokio::test]
async fn inspect_names_contracts_and_refuses_what_is_no_plugin() -> Result<()> {
    let plugins = PathBuf::from(std::env::var_os("HAPTIC_PLUGINS_DIR").context("HAPTIC_PLUGINS_DIR is not set")?);
    let path = plugins.join("policy.wasm");
    let policy = haptic(&["plugin", "inspect", &path.to_string_lossy()])?;
    ensure!(policy.code == 0 && policy.out.contains("rendered-output validator"), "{}{}", policy.out, policy.err);
    ensure!(policy.out.contains("sha256 "), "{}", policy.out);
    let text = haptic(&["plugin", "inspect", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])?;
    ensure!(text.code == 1 && text.err.contains("is not a plugin"), "{}", text.err);
    Ok(())
}

#[tokio::test]
async fn crds_functions_and_version_are_printed() -> Result<()> {
    let crds = haptic(&["crds"])?;
    ensure!(crds.out.contains("kind: HAProxyTemplateConfig\n"), "{}", crds.out);
    ensure!(haptic(&["functions"])?.out.contains("map_entry(map, key, value)"), "the functions are listed");
    ensure!(haptic(&["version"])?.out.starts_with("haptic 0."), "the version is printed");
    for shell in ["bash", "zsh", "fish"] {
        let script = haptic(&["completions", shell])?;
        ensure!(script.code == 0 && script.out.contains("explain"), "{shell}: {}", script.err);
    }
    ensure!(haptic(&["completions", "dos"])?.code == 2, "another shell is refused");
    Ok(())
}

/// What stands between the fences of the first block of `language` after `heading`.
fn block(guide: &Path, heading: &str, language: &str) -> Result<String> {
    let text = fs::read_to_string(guide).with_context(|| format!("read {}", guide.display()))?;
    let after = text.split_once(heading).context("the heading")?.1;
    let block = after.split_once(&format!("```{language}\n")).context("the block")?.1;
    Ok(block.split_once("```").context("the end of the block")?.0.to_owned())
}

#[tokio::test]
async fn the_examples_of_the_template_guide_work() -> Result<()> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../host/render/docs/templates.md");
    let shop = Shop::open().await?;
    let records = block(&guide, "## What a template declares", "jinja")?;
    let secret = "{% set s = resources.secrets.get_single('shop', 'shop-tls') %}\n\
                  {% set crt = s.data['tls.crt'] | b64decode %}\n{% set key = s.data['tls.key'] | b64decode %}\n";
    let snippet: String = format!("{secret}{records}").lines().map(|line| format!("        {line}\n")).collect();
    let snippet = format!("  templateSnippets:\n    backends/90-guide:\n      template: |\n{snippet}");
    shop.edit(CONFIG, "  templateSnippets:\n", &snippet)?;
    let tests: String =
        block(&guide, "## Tests", "yaml")?.lines().map(|line| format!("  {line}\n")).collect::<String>();
    shop.edit(CONFIG, "  extraContext:\n", &format!("{tests}  extraContext:\n"))?;
    let answer = haptic(&with("validate", &folders(&shop), &[]))?;
    // The test of the guide has no Secret; the snippet of the guide needs one.
    ensure!(answer.out.contains("a-route-gets-its-backend"), "{}{}", answer.out, answer.err);
    let config = haptic(&with("render", &folders(&shop), &[]))?;
    ensure!(config.out.contains("server web-1 10.0.0.1:8080 weight 100 check"), "{}{}", config.out, config.err);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probe_asks_until_it_is_answered_and_says_what_came_instead() -> Result<()> {
    let shop = Shop::open().await?;
    let url = format!("http://{}:9001/path", shop.address(11));
    let good = haptic(&["probe", &url])?;
    ensure!(good.code == 0 && good.out.contains("answers 200"), "{}{}", good.out, good.err);
    let other = haptic(&["probe", &url, "--status", "404", "--within", "1"])?;
    ensure!(other.code == 1 && other.err.contains("it answers 200"), "{}{}", other.out, other.err);
    let nobody = format!("http://{}:9/", shop.address(11));
    let away = haptic(&["probe", &nobody, "--within", "1"])?;
    ensure!(away.code == 1 && away.err.contains("connecting to"), "{}{}", away.out, away.err);
    let wrong = haptic(&["probe", "https://shop.localhost/"])?;
    ensure!(wrong.code == 2 && wrong.err.contains("is no http:// URL"), "{}{}", wrong.out, wrong.err);
    Ok(())
}
