//! What the agent refuses to serve, and how it says so.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{Subject, binary};

use crate::pod::Pod;

fn refused(pod: &Pod, options: &[&str]) -> Result<String> {
    let mut command = Command::new(binary());
    command.arg("agent");
    for (name, folder) in [("--base-dir", "base"), ("--state-dir", "state"), ("--run-dir", "run")] {
        command.arg(name).arg(pod.path(folder));
    }
    let output = command.arg("--haproxy").arg(&pod.haproxy.path).args(options).output().context("run haptic")?;
    ensure!(output.status.code() == Some(2), "{options:?}: {output:?}");
    ensure!(!pod.path("base").exists(), "{options:?}: nothing was touched");
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn nothing_is_served_to_the_network_without_tls() -> Result<()> {
    let pod = Pod::prepare()?;
    let file = |name: &str| pod.volume.path(name).to_string_lossy().into_owned();
    let (certificate, key, ca) = (file("tls.crt"), file("tls.key"), file("ca.crt"));
    let controllers = pod.path("controller.crt").to_string_lossy().into_owned();
    let subject = Subject::controller().named("haptic-agent");
    std::fs::write(&controllers, pod.ca.issue(&subject)?.certificate)?;
    let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--client-ca", &ca];
    let with = |more: &[&'static str]| -> Vec<&str> { tls.iter().copied().chain(more.iter().copied()).collect() };
    let cases = [
        (vec!["--listen", "127.0.0.1:0"], "--insecure-loopback allows that"),
        (vec!["--listen", "0.0.0.0:0"], "needs --tls-cert, --tls-key and --client-ca"),
        (vec!["--listen", "0.0.0.0:0", "--insecure-loopback"], "serves loopback addresses only"),
        (vec!["--listen", "[::]:0", "--insecure-loopback"], "serves loopback addresses only"),
        (vec!["--listen", "127.0.0.1:0", "--tls-cert", &certificate], "--tls-key and --client-ca is missing"),
        (with(&["--listen", "127.0.0.1:0", "--insecure-loopback"]), "exclude each other"),
        (with(&[]), "add --listen ADDRESS:PORT"),
        (vec!["--insecure-loopback"], "add --listen ADDRESS:PORT"),
        (with(&["--listen", "127.0.0.1:0", "--client-name", "haptic-agent"]), "the identity of the other side"),
        (
            vec!["--listen", "127.0.0.1:0", "--tls-cert", &controllers, "--tls-key", &key, "--client-ca", &ca],
            "extended key usage \"server auth\"",
        ),
        (
            vec!["--listen", "127.0.0.1:0", "--tls-cert", &ca, "--tls-key", &key, "--client-ca", &ca],
            "ca.crt is not usable",
        ),
        (
            vec!["--listen", "127.0.0.1:0", "--tls-cert", "/nowhere/tls.crt", "--tls-key", &key, "--client-ca", &ca],
            "could not read /nowhere/tls.crt",
        ),
    ];
    for (options, words) in cases {
        let said = refused(&pod, &options)?;
        ensure!(said.contains(words), "{options:?}: {said}");
        ensure!(said.starts_with("error: ") && said.trim_end().lines().count() == 1, "{options:?}: {said}");
    }
    Ok(())
}
