//! Text that wants to be markup or script stays text, and what is secret is nowhere.

use anyhow::{Result, ensure};
use haptic_e2e::{CONFIG, Scripts, Shop, eventually, get, ingress};

use crate::Scene;

const MARKUP: &str = r#"<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn markup_in_objects_and_searches_is_shown_and_never_run() -> Result<()> {
    let scene = Scene::open(Scripts::On).await?;
    let browser = &scene.browser;
    scene.shop.write("common/hostile.yaml", &ingress("hostile", MARKUP, "/", &[], "web"))?;
    let said = scene.eventually("/", "#objects", "host is not a lower-case DNS name").await;
    ensure!(said.contains(MARKUP), "it is shown as it is:\n{said}");
    check_unharmed(&scene).await?;
    // Also where the script puts new content into the page.
    browser.click("#live").await?;
    scene.shop.write("common/hostile-2.yaml", &ingress("hostile-2", MARKUP, "/", &[], "web"))?;
    eventually("the second one", async || {
        browser.text("#objects").await.ok().filter(|all| all.contains("Ingress shop/hostile-2"))
    })
    .await;
    check_unharmed(&scene).await?;
    for field in ["line", "host"] {
        ensure!(scene.ask(&[(field, MARKUP)]).await?.contains("onerror"), "what was asked is said");
        check_unharmed(&scene).await?;
    }
    Ok(())
}

async fn check_unharmed(scene: &Scene) -> Result<()> {
    ensure!(scene.browser.title().await?.ends_with("· haptic"), "no script of an object runs");
    ensure!(scene.browser.count("img[src=x]").await? == 0, "and none of its elements are made");
    ensure!(scene.browser.count("script").await? == 1, "the page has its own script only");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_secrets_are_nowhere_on_the_page_or_in_answers() -> Result<()> {
    let shop = Shop::open().await?;
    let people = "  templateSnippets:\n    sections/10-people:\n      template: |\n        userlist people\n          \
                  user bob insecure-password planted-password\n";
    shop.edit(CONFIG, "  templateSnippets:\n", people)?;
    let scene = Scene::of(shop, Scripts::Off).await?;
    ensure!(scene.haptic.config()?.contains("planted-password"), "it is in the configuration");
    let (key_path, key) = scene.haptic.file_set()?.into_iter().find(|(path, _)| path.ends_with("default.pem")).unwrap();
    let key = String::from_utf8(key)?;
    let key_line = key.lines().skip_while(|line| !line.contains("PRIVATE KEY")).nth(1).unwrap().to_owned();
    let asked = [
        String::new(),
        "?line=planted".to_owned(),
        "?line=user+bob".to_owned(),
        "?line=PRIVATE+KEY".to_owned(),
        format!("?line={}", &key_line[..8]),
        format!("?line={}:2", key_path.display()),
        "?line=default.pem".to_owned(),
        "?host=shop.localhost&path=/".to_owned(),
    ];
    for query in asked {
        for page in ["/", "/debug/explain", "/debug/status", "/debug/vars", "/debug/events"] {
            let answer = get(scene.shop.debug(), "localhost", &format!("{page}{query}")).await?;
            ensure!(!answer.body.contains("planted-password"), "{page}{query}: {}", answer.body);
            ensure!(!answer.body.contains(&key_line), "{page}{query} shows a key");
        }
    }
    let line = scene.haptic.config()?.lines().position(|line| line.contains("planted-password")).unwrap() + 1;
    scene.go(&format!("/?line={line}")).await?;
    ensure!(scene.browser.text("#answer").await?.contains("user bob insecure-password ***"), "it is masked");
    ensure!(!scene.browser.source().await?.contains("planted-password"), "in all of the document");
    Ok(())
}
