//! Everybody can read it: contrast in both color schemes, names for everything, small screens, the keyboard.

use anyhow::{Result, ensure};
use haptic_e2e::{ColorScheme, Scripts, ingress};
use serde_json::Value;

use crate::Scene;

/// Texts whose contrast with what is behind them is less than WCAG 2.2 asks (4.5 to 1).
const FAINT: &str = r#"
const parse = (color) => (color.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = parse(getComputedStyle(at).backgroundColor);
    if (color.length < 4 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const faint = [];
for (const element of document.querySelectorAll("body *")) {
  const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join("");
  if (!text || !element.checkVisibility() || element.closest(".hidden, .skip")) continue;
  const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
  if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(`${element.tagName}.${element.className}: ${text.slice(0, 40)}`);
}
return [document.querySelectorAll("body *").length, faint];
"#;

/// Controls and regions without a name, and headings that skip a level.
const NAMELESS: &str = r#"
const wrong = [];
for (const field of document.querySelectorAll("input, button")) {
  const name = field.labels?.length || field.textContent.trim();
  if (!name) wrong.push(field.outerHTML);
}
for (const region of document.querySelectorAll("section, [role=region], nav, form, article")) {
  const by = region.getAttribute("aria-labelledby");
  const name = region.getAttribute("aria-label") || (by && document.getElementById(by)?.textContent.trim());
  if (!name) wrong.push(region.outerHTML.slice(0, 80));
}
let level = 0;
for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
  const next = Number(heading.tagName[1]);
  if (next > level + 1) wrong.push(`${heading.outerHTML} after level ${level}`);
  level = next;
}
for (const table of document.querySelectorAll("table")) {
  if (!table.caption?.textContent.trim()) wrong.push("a table without a caption");
  for (const cell of table.querySelectorAll("th")) if (!cell.scope) wrong.push(cell.outerHTML);
}
for (const landmark of ["header", "nav", "main", "footer", "h1"]) {
  if (document.querySelectorAll(landmark).length !== 1) wrong.push(`not one ${landmark}`);
}
return wrong;
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_text_has_contrast_and_everything_has_a_name() -> Result<()> {
    let scene = Scene::open(Scripts::On).await?;
    let annotations = [("haptic.rs/load-balance", "dice")];
    scene.shop.write("common/bad.yaml", &ingress("bad", "bad.localhost", "/", &annotations, "web"))?;
    scene.shop.write("common/warned.yaml", &ingress("warned", "warned.localhost", "/", &[], "missing"))?;
    scene.shop.edit(
        haptic_e2e::CONFIG,
        "errorfile 503 general/503.http",
        "errorfile 503 general/503.http {{ nowhere }}",
    )?;
    scene.eventually("/", "#configuration", "not accepted").await;
    for path in ["/", "/?line=server&host=shop.localhost&path=/", "/?line=no+line"] {
        for scheme in [ColorScheme::Light, ColorScheme::Dark] {
            scene.browser.prefer(scheme).await?;
            scene.go(path).await?;
            let found = scene.browser.execute(FAINT).await?;
            ensure!(found[0].as_u64().is_some_and(|elements| elements > 100), "there is a page: {found}");
            ensure!(found[1] == Value::Array(Vec::new()), "{path} in {scheme:?}: {:#}", found[1]);
        }
        let nameless = scene.browser.execute(NAMELESS).await?;
        ensure!(nameless == Value::Array(Vec::new()), "{path}: {nameless:#}");
    }
    // Dark is another page than light.
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let dark = scene.browser.execute(ground).await?;
    scene.browser.prefer(ColorScheme::Light).await?;
    ensure!(scene.browser.execute(ground).await? != dark, "both schemes are {dark}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_telephone_shows_it_without_scrolling_sideways() -> Result<()> {
    let scene = Scene::open(Scripts::On).await?;
    scene.browser.resize(360, 740).await?;
    for path in ["/", "/?line=server&host=shop.localhost&path=/"] {
        scene.go(path).await?;
        let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        let wider = scene.browser.execute(overflow).await?;
        ensure!(wider == 0, "{path} is {wider} px wider than the screen");
    }
    Ok(())
}
