//! The check jail in a controller's pod as the chart makes it: an ordinary user without capabilities, a read-only root and
//! the runtime's default seccomp profile. What is checked runs with nothing of the pod.

use anyhow::{Context as _, Result};
use haptic_e2e::{
    cluster::{TEMPLATE_CONFIG, condition, reason_of},
    exclusive,
};
use serde_json::{Value, json};

use crate::{
    helm::{Helm, chart},
    release::Release,
};

/// Says what it could do in an error, so that HAProxy refuses the file and the status has the words. `LEAK` is in each
/// answer that must not come.
const ATTACK: &str = r"
local said = {}
local function say(text) said[#said + 1] = text end
local token = '/var/run/secrets/kubernetes.io/serviceaccount/token'
for _, path in ipairs{token, '/etc/passwd', '/proc/self/environ', '/proc/1/cmdline', '/state/controller'} do
  if io.open(path) then say('LEAK read ' .. path) end
end
for _, path in ipairs{'/tmp/new', '/state/new', '/state/controller/new', '/dev/shm/new', 'haproxy.cfg'} do
  if io.open(path, 'w') then say('LEAK wrote ' .. path) end
end
if os.execute('true') == true then say('LEAK executed') end
local ok, pipe = pcall(io.popen, 'id')
if ok and pipe and #(pipe:read('a') or '') > 0 then say('LEAK started a program') end
for _, name in ipairs{'POD_NAME', 'KUBERNETES_SERVICE_HOST', 'PATH'} do
  if os.getenv(name) then say('LEAK environment ' .. name) end
end
local connected, there = pcall(function()
  local tcp = core.tcp()
  tcp:settimeout(1)
  return tcp:connect('127.0.0.1', 8080)
end)
if connected and there then say('LEAK connected') end
say(io.open('general/attack.lua') and 'own file read' or 'own file refused')
error('attack: ' .. table.concat(said, '; '))
";

/// Of an agent that is away, which fails no request.
const ENGINE: &str = "[audit]
spoe-agent audit-agent
  messages told
  option var-prefix audit
  option continue-on-error
  timeout hello 100ms
  timeout idle 1m
  timeout processing 100ms
  use-backend spoe-audit

spoe-message told
  args ip=src
  event on-frontend-http-request
";

fn snippet(hook: &str, template: &str) -> Value {
    json!({ "spec": { "templateSnippets": { (format!("{hook}/95-attack")): { "template": template } } } })
}

/// Changes the configuration and returns what is said about it.
async fn refused(release: &Release, patch: &Value) -> Result<String> {
    let room = &release.room;
    let changed = room.objects.merge(TEMPLATE_CONFIG, room.system(), "haptic", patch).await?;
    let generation = changed["metadata"]["generation"].as_i64().context("the server counts generations")?;
    let judged = |config: &Value| {
        let accepted = condition(config, "Accepted")?;
        let about = accepted["observedGeneration"].as_i64()?;
        (about == generation && accepted["status"] != "Unknown").then(|| reason_of(config, "Accepted"))
    };
    room.objects.until((TEMPLATE_CONFIG, room.system(), "haptic"), "a verdict", judged).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_checked_in_a_pod_of_the_chart_reaches_nothing_of_it() -> Result<()> {
    let _turn = exclusive().await;
    let release = Release::prepare(Helm::three()?, "jail").await?;
    // With an engine besides, whose file HAProxy finds in the jail as it does in its pod.
    let engine = json!({ "config": ENGINE, "agents": ["127.0.0.1:1"] });
    release.deploy(&chart("haptic"), &json!({ "spoe": { "engines": { "audit": engine } } }))?;
    release.all_ready().await?;
    release.check_routes().await?;

    let mut lua = snippet("global", "tune.lua.bool-sample-conversion normal\nlua-load general/attack.lua\n");
    lua["spec"]["files"] = json!({ "attack.lua": { "template": ATTACK } });
    let verdict = refused(&release, &lua).await?;
    assert!(verdict.starts_with("False ") && verdict.contains("own file read"), "the script ran: {verdict}");
    assert!(!verdict.contains("LEAK"), "{verdict}");

    // A file whose first line would be quoted.
    let clear =
        json!({ "spec": { "templateSnippets": { "global/95-attack": null }, "files": { "attack.lua": null } } });
    release.room.objects.merge(TEMPLATE_CONFIG, release.room.system(), "haptic", &clear).await?;
    let token = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    let verdict =
        refused(&release, &snippet("frontend", &format!("http-request deny if {{ src -f {token} }}\n"))).await?;
    assert!(verdict.starts_with("False "), "{verdict}");
    assert!(!verdict.contains("eyJ"), "the first line of a token: {verdict}");

    let clear = json!({ "spec": { "templateSnippets": { "frontend/95-attack": null } } });
    let verdict = refused(&release, &clear).await?;
    assert!(verdict.starts_with("True "), "{verdict}");
    release.helm(&["uninstall", "haptic", "--wait", "--timeout", "300s"])?;
    release.room.close().await
}
