//! kill -9 of anything at every step of an apply: a restart converges, and nothing is half-written.

use std::os::unix::process::ExitStatusExt;

use anyhow::{Result, ensure};
use haptic_e2e::{
    CONFIG, HaproxyBuild, Haptic, Run, SLICES, STEPS, Shop, Victim, eventually, get, is_alive, on_haproxy,
};

/// What the apply is about: each step is on the way of one of these on every HAProxy version.
#[derive(Clone, Copy, Debug)]
enum Change {
    Route,
    Endpoint,
    Global,
}

async fn killed_at_every_step(haproxy: HaproxyBuild) -> Result<()> {
    for victim in Victim::ALL {
        for step in STEPS {
            let change = match step {
                "ops_running" => Change::Endpoint,
                "reloading" => Change::Global,
                _ => Change::Route,
            };
            killed_at(&haproxy, victim, step, change).await?;
        }
    }
    Ok(())
}

/// The change is written while no haptic runs, so the first apply of the next one is the one that is broken.
async fn killed_at(haproxy: &HaproxyBuild, victim: Victim, step: &str, change: Change) -> Result<()> {
    let what = format!("{victim:?} killed at {step} of a change of {change:?} on {}", haproxy.version);
    let shop = Shop::open().await?;
    let first = Haptic::serve(&shop, haproxy).await?;
    // The next haptic diffs against the plan that the agent keeps, so that the change takes the way it is to break.
    eventually("the stored plan", async || {
        let mut plans = std::fs::read_dir(shop.state().join("agent/plans")).ok()?.flatten();
        plans.any(|plan| plan.path().extension().is_some_and(|ending| ending == "json")).then_some(())
    })
    .await;
    let before = first.processes()?;
    first.kill().await;
    change.write(&shop)?;

    let run = Run { environment: vec![victim.killed_at(step)], ..Run::default() };
    let mut haptic = Haptic::start(&shop, haproxy, run)?;
    match victim {
        Victim::Haptic => {
            let status = haptic.ended().await;
            ensure!(status.signal() == Some(9), "{what}: haptic ended with {status} instead");
            haptic.kill().await;
            haptic = Haptic::start(&shop, haproxy, Run::default())?;
        }
        Victim::Worker => gone(&what, before.worker).await,
        Victim::Master => gone(&what, before.master).await,
    }
    haptic.wait_until_served(&shop).await;
    eventually(&format!("the change after {what}"), async || change.arrived(&shop, &haptic).await.then_some(())).await;

    // The next change is taken as if nothing had been.
    shop.write("standalone/next.yaml", &shop.route("next", "next.shop.localhost"))?;
    eventually(&format!("the next change after {what}"), async || {
        get(shop.http(), "next.shop.localhost", "/").await.ok()?.served_by().map(|_| ())
    })
    .await;
    ensure!(change.arrived(&shop, &haptic).await, "{what}: the change is gone again");
    stop(&what, &mut haptic).await?;
    let left = haptic.file_set()?;

    // What is on disk is what a start from nothing writes.
    std::fs::remove_dir_all(shop.state())?;
    let mut fresh = Haptic::serve(&shop, haproxy).await?;
    ensure!(fresh.file_set()? == left, "{what}: the files differ from those of a start from nothing");
    stop(&what, &mut fresh).await
}

async fn stop(what: &str, haptic: &mut Haptic) -> Result<()> {
    let status = haptic.stop().await;
    ensure!(status.success(), "{what}: haptic ends with {status} when told to stop:\n{}", haptic.lines().join("\n"));
    Ok(())
}

async fn gone(what: &str, pid: i32) {
    eventually(&format!("the end of process {pid}: {what}"), async || (!is_alive(pid)).then_some(())).await;
}

// === impl Change ===

impl Change {
    fn write(self, shop: &Shop) -> Result<()> {
        match self {
            Self::Route => shop.write("standalone/new.yaml", &shop.route("new", "new.shop.localhost")),
            Self::Endpoint => shop.edit(SLICES, &shop.address(22), &shop.address(23)),
            Self::Global => shop.edit(CONFIG, "  extraContext:\n", "  extraContext:\n    max_connections: 1234\n"),
        }
    }

    async fn arrived(self, shop: &Shop, haptic: &Haptic) -> bool {
        let host = match self {
            Self::Route => "new.shop.localhost",
            Self::Endpoint => "api.shop.localhost",
            Self::Global => {
                return haptic.worker("show info").is_ok_and(|info| info.contains("\nMaxconn: 1234\n"));
            }
        };
        let wanted = if matches!(self, Self::Endpoint) { "api-3" } else { "new-" };
        // Requests go round the endpoints of a service.
        for _ in 0..4 {
            let answer = get(shop.http(), host, "/").await.ok();
            if answer.is_some_and(|answer| answer.served_by().is_some_and(|name| name.starts_with(wanted))) {
                return true;
            }
        }
        false
    }
}

on_haproxy!(killed_at_every_step: converges_after_kill_on_3_0 = "3.0", converges_after_kill_on_3_4 = "3.4");
