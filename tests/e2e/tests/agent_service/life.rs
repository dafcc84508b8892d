//! SIGTERM with a request in flight.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use haptic_e2e::{eventually, get, is_alive};
use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use crate::pod::{Pod, signal};

/// A backend that takes one request and answers when it is told to.
struct Slow {
    address: SocketAddr,
    asked: oneshot::Receiver<()>,
    answer: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
}

async fn slow(pod: &Pod) -> Result<Slow> {
    let listener = TcpListener::bind((pod.traffic().ip(), 0)).await.context("listen as a backend")?;
    let address = listener.local_addr()?;
    let ((told_asked, asked), (answer, told)) = (oneshot::channel(), oneshot::channel());
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        ensure!(stream.read(&mut [0; 4096]).await? > 0, "a request came");
        let _ = told_asked.send(());
        if told.await.is_ok() {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlate\n").await?;
        }
        Ok(())
    });
    Ok(Slow { address, asked, answer, task })
}

/// The whole answer, or what there was when the connection ended.
fn request(pod: &Pod) -> JoinHandle<String> {
    let address = pod.traffic();
    tokio::spawn(async move {
        let mut answer = Vec::new();
        if let Ok(mut stream) = TcpStream::connect(address).await {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n").await;
            let _ = stream.read_to_end(&mut answer).await;
        }
        String::from_utf8_lossy(&answer).into_owned()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_in_flight_is_answered_before_the_end() -> Result<()> {
    let mut pod = Pod::start(&[]).await?;
    let backend = slow(&pod).await?;
    ensure!(pod.apply(&pod.config(backend.address)).await?.ok, "the configuration is applied");
    let worker = pod.client().serving().await?.worker.context("a worker serves")?;
    let in_flight = request(&pod);
    backend.asked.await.context("the request reached the backend")?;

    signal(pod.pid(), Signal::TERM)?;
    eventually("the pod is not ready", async || {
        let probe = pod.probe("/readyz").await.ok()?;
        (probe.status == 503 && probe.body.contains("draining")).then_some(())
    })
    .await;
    eventually("no new requests of controllers are taken", async || {
        TcpStream::connect(pod.api()).await.is_err().then_some(())
    })
    .await;
    eventually("no new traffic is taken", async || get(pod.traffic(), "shop", "/").await.is_err().then_some(())).await;
    ensure!(pod.probe("/healthz").await?.status == 200, "the process is alive while it drains");
    ensure!(!in_flight.is_finished(), "the request is still in flight");

    backend.answer.send(()).ok().context("the backend still waits")?;
    backend.task.await??;
    let answer = in_flight.await?;
    ensure!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("late\n"), "{answer}");
    let status = pod.ended().await;
    ensure!(status.code() == Some(0), "{status}");
    ensure!(!is_alive(i32::try_from(worker.pid)?), "no HAProxy is left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_never_ends_is_cut_at_the_bound() -> Result<()> {
    let mut pod = Pod::start(&["--drain", "1"]).await?;
    let backend = slow(&pod).await?;
    ensure!(pod.apply(&pod.config(backend.address)).await?.ok, "the configuration is applied");
    let worker = pod.client().serving().await?.worker.context("a worker serves")?;
    let in_flight = request(&pod);
    backend.asked.await.context("the request reached the backend")?;
    signal(pod.pid(), Signal::TERM)?;
    let status = pod.ended().await;
    ensure!(status.code() == Some(0), "{status}");
    ensure!(!in_flight.await?.contains("late"), "it was cut");
    ensure!(!is_alive(i32::try_from(worker.pid)?), "no HAProxy is left");
    backend.task.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_before_the_first_apply_is_no_failure() -> Result<()> {
    let mut pod = Pod::start(&[]).await?;
    signal(pod.pid(), Signal::TERM)?;
    let status = pod.ended().await;
    ensure!(status.code() == Some(0), "{status}");
    Ok(())
}
