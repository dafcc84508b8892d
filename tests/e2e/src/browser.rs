//! A real Chromium without a window, driven through ChromeDriver as the WebDriver standard has it.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::http::parse_answer;

/// Ends with this value.
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    profile: TempDir,
}

/// Whether pages may run their scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scripts {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorScheme {
    Light,
    Dark,
}

/// Starting a browser takes long on a busy machine.
const BOUND: Duration = Duration::from_mins(1);
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Asks nobody but the page for anything.
const ARGUMENTS: [&str; 13] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
    "--window-size=1280,1600",
];

// === impl Browser ===

impl Browser {
    /// With a profile of its own.
    pub async fn start(scripts: Scripts) -> Result<Self> {
        let profile = tempfile::tempdir().context("make a folder")?;
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start chromedriver (`make browser` installs it)")?;
        let mut lines = BufReader::new(driver.stdout.take().context("chromedriver has an output")?).lines();
        let port = tokio::task::spawn_blocking(move || {
            let said = lines.by_ref().map_while(Result::ok).find_map(|line| {
                line.strip_prefix("ChromeDriver was started successfully on port ")?.trim_end_matches('.').parse().ok()
            });
            // Nobody waits for what else it says.
            thread::spawn(move || lines.for_each(drop));
            said
        });
        let port: u16 = port.await.context("read what chromedriver says")?.context("chromedriver did not start")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut browser = Self { driver, address, session: String::new(), profile };
        let mut arguments: Vec<String> = ARGUMENTS.map(str::to_owned).into();
        arguments.push(format!("--user-data-dir={}", browser.profile.path().display()));
        let allowed = if scripts == Scripts::On { 1 } else { 2 };
        let options = json!({
            "args": arguments,
            "prefs": { "profile.managed_default_content_settings.javascript": allowed },
        });
        let wanted =
            json!({ "capabilities": { "alwaysMatch": { "browserName": "chrome", "goog:chromeOptions": options } } });
        let session = browser.ask("POST", "/session", Some(&wanted)).await.context("start chromium")?;
        session["sessionId"].as_str().context("a session has an id")?.clone_into(&mut browser.session);
        Ok(browser)
    }

    pub async fn open(&self, url: &str) -> Result<()> {
        self.post("/url", &json!({ "url": url })).await.map(|_| ())
    }

    pub async fn url(&self) -> Result<String> {
        text(self.get("/url").await?)
    }

    pub async fn title(&self) -> Result<String> {
        text(self.get("/title").await?)
    }

    /// The document as it is now, as HTML.
    pub async fn source(&self) -> Result<String> {
        text(self.get("/source").await?)
    }

    /// What a person sees of the first element that fits.
    pub async fn text(&self, selector: &str) -> Result<String> {
        let element = self.element(selector).await?;
        text(self.get(&format!("/element/{element}/text")).await?)
    }

    /// How many elements fit.
    pub async fn count(&self, selector: &str) -> Result<usize> {
        Ok(self.elements(selector).await?.len())
    }

    /// Types into a field, in place of what is there.
    pub async fn fill(&self, selector: &str, typed: &str) -> Result<()> {
        let element = self.element(selector).await?;
        self.post(&format!("/element/{element}/clear"), &json!({})).await?;
        self.post(&format!("/element/{element}/value"), &json!({ "text": typed })).await.map(|_| ())
    }

    pub async fn click(&self, selector: &str) -> Result<()> {
        let element = self.element(selector).await?;
        self.post(&format!("/element/{element}/click"), &json!({})).await.map(|_| ())
    }

    /// Runs a function body in the page and returns what it returns.
    pub async fn execute(&self, script: &str) -> Result<Value> {
        self.post("/execute/sync", &json!({ "script": script, "args": [] })).await
    }

    /// The screen's size in CSS pixels, as a telephone has it.
    pub async fn resize(&self, width: u32, height: u32) -> Result<()> {
        let screen = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": true });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": screen });
        self.post("/goog/cdp/execute", &command).await.map(|_| ())
    }

    /// What the user of this browser prefers.
    pub async fn prefer(&self, scheme: ColorScheme) -> Result<()> {
        let scheme = if scheme == ColorScheme::Dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.post("/goog/cdp/execute", &command).await.map(|_| ())
    }

    async fn element(&self, selector: &str) -> Result<String> {
        self.elements(selector).await?.into_iter().next().with_context(|| format!("the page has no `{selector}`"))
    }

    async fn elements(&self, selector: &str) -> Result<Vec<String>> {
        let found = self.post("/elements", &json!({ "using": "css selector", "value": selector })).await?;
        let found = found.as_array().context("elements are a list")?;
        found.iter().map(|element| text(element[ELEMENT].clone())).collect()
    }

    async fn get(&self, path: &str) -> Result<Value> {
        self.ask("GET", &format!("/session/{}{path}", self.session), None).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask("POST", &format!("/session/{}{path}", self.session), Some(body)).await
    }

    async fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let asking = timeout(BOUND, self.exchange(method, path, body));
        asking.await.with_context(|| format!("no answer to {method} {path} within {BOUND:?}"))?
    }

    async fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut stream = TcpStream::connect(self.address).await.context("connect to chromedriver")?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.context("ask chromedriver")?;
        let mut bytes = Vec::new();
        let answer = loop {
            let read = stream.read_buf(&mut bytes).await.context("read what chromedriver answers")?;
            if let Some(answer) = parse_answer(&mut bytes, read == 0)? {
                break answer;
            }
        };
        let said: Value = serde_json::from_str(&answer.body).context("read what chromedriver answers")?;
        ensure!(answer.status == 200, "{method} {path}: {}", said["value"]["message"]);
        Ok(said["value"].clone())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its browser ends with a driver that is asked to end, and only with that one.
        if let Ok(pid) = i32::try_from(self.driver.id())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.driver.wait();
        crate::stop_processes_of(self.profile.path());
    }
}

fn text(value: Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text),
        other => bail!("`{other}` is no text"),
    }
}
