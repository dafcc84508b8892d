//! The harness itself: a load that would not notice a failure proves nothing.

use std::net::SocketAddr;

use anyhow::Result;
use haptic_e2e::{Echo, Load, Network, Target, eventually, get};
use tokio::{io::AsyncReadExt, net::TcpListener};

fn target() -> [Target; 1] {
    [Target { host: "shop.localhost".to_owned(), served_by: "web-".to_owned() }]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_is_clean_and_fast_enough_on_a_good_backend() -> Result<()> {
    let network = Network::claim()?;
    let address = SocketAddr::new(network.address(1).into(), 8080);
    let echo = Echo::start("web-1", address).await?;
    assert_eq!(get(address, "shop.localhost", "/").await?.served_by(), Some("web-1"));
    let load = Load::start(address, &target());
    load.flow(900).await;
    let report = load.finish().await;
    report.assert_clean();
    assert_eq!(echo.served(), report.requests + 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_counts_a_wrong_backend() -> Result<()> {
    let network = Network::claim()?;
    let address = SocketAddr::new(network.address(1).into(), 8080);
    let echo = Echo::start("api-1", address).await?;
    let load = Load::start(address, &target());
    eventually("a hundred requests", async || (echo.served() > 100).then_some(())).await;
    let report = load.finish().await;
    assert_eq!(report.failed, report.requests, "every answer came from the wrong backend");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_counts_resets() -> Result<()> {
    let network = Network::claim()?;
    let address = SocketAddr::new(network.address(1).into(), 8080);
    let listener = TcpListener::bind(address).await?;
    let load = Load::start(address, &target());
    for _ in 0..50 {
        let (mut stream, _) = listener.accept().await?;
        // Read the request, and end the connection instead of answering.
        assert!(stream.read(&mut [0; 64]).await? > 0);
    }
    drop(listener);
    let report = load.finish().await;
    assert!(report.failed >= 50, "{report:?}");
    Ok(())
}
