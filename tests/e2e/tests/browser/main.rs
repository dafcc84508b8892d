//! The status page in a real browser: what it tells, its searches, hostile text, and that it can be read by everybody.

#![allow(clippy::unwrap_used, reason = "tests")]

mod hostile;
mod legible;
mod objects;
mod search;
mod tells;

use anyhow::{Context as _, Result};
use haptic_e2e::{Browser, Haptic, Run, Scripts, Shop, builds};

/// The shop served by the newest HAProxy, and a browser that looks at its status page.
struct Scene {
    shop: Shop,
    haptic: Haptic,
    browser: Browser,
}

impl Scene {
    async fn open(scripts: Scripts) -> Result<Self> {
        Self::of(Shop::open().await?, scripts).await
    }

    async fn of(shop: Shop, scripts: Scripts) -> Result<Self> {
        let newest = builds(&["3.4"]).remove(0);
        let mut haptic = Haptic::start(&shop, &newest, Run { debug: Some(shop.debug()), ..Run::default() })?;
        haptic.wait_until_served(&shop).await;
        let browser = Browser::start(scripts).await?;
        let scene = Self { shop, haptic, browser };
        // The pod's answer may be on its way to the page yet.
        scene.eventually("/", "#pods .tag.good", "serving").await;
        Ok(scene)
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.shop.debug())
    }

    async fn go(&self, path: &str) -> Result<()> {
        self.browser.open(&self.url(path)).await.with_context(|| format!("open {path}"))
    }

    /// Types into fields of the page as it is without a question, asks, and returns what it answers.
    async fn ask(&self, fields: &[(&str, &str)]) -> Result<String> {
        self.go("/").await?;
        for (field, typed) in fields {
            self.browser.fill(&format!("#{field}"), typed).await?;
        }
        let (last, _) = fields.last().context("something to ask")?;
        self.browser.click(&format!("form:has(#{last}) button")).await?;
        // A click does not always wait for the page that it leads to.
        Ok(haptic_e2e::eventually("an answer", async || self.browser.text("#answer").await.ok()).await)
    }

    /// Opens the page again and again until an element reads so.
    async fn eventually(&self, path: &str, selector: &str, words: &str) -> String {
        haptic_e2e::eventually(&format!("{selector} of {path} to say `{words}`"), async || {
            self.go(path).await.ok()?;
            self.browser.text(selector).await.ok().filter(|text| text.contains(words))
        })
        .await
    }
}
