//! A local address for one in the cluster, through the cluster's HTTP proxy. What flows is not looked at, so
//! keep-alive and TLS are the client's and the server's own.

use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Open until it is dropped.
pub struct Passage {
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// The head of the proxy's answer is far shorter.
const HEAD_LIMIT: usize = 4096;

// === impl Passage ===

impl Passage {
    pub(super) async fn open(proxy: &str, target: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("open a passage into the cluster")?;
        let address = listener.local_addr().context("read the address of a passage")?;
        let (proxy, target): (Arc<str>, Arc<str>) = (proxy.into(), target.into());
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        if let Ok((outer, _)) = accepted {
                            connections.spawn(pass(outer, Arc::clone(&proxy), Arc::clone(&target)));
                        }
                    }
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Ok(Self { address, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A client sees a connection that ends where the other side cannot be reached.
async fn pass(mut outer: TcpStream, proxy: Arc<str>, target: Arc<str>) {
    if let Ok(mut inner) = connect(&proxy, &target).await {
        let _ = outer.set_nodelay(true);
        let _ = copy_bidirectional(&mut outer, &mut inner).await;
    }
}

async fn connect(proxy: &str, target: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(proxy).await.context("connect to the cluster's proxy")?;
    stream.set_nodelay(true).context("set TCP_NODELAY")?;
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.context("ask the cluster's proxy")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < HEAD_LIMIT, "the cluster's proxy answers too much");
        // Not a byte of what the target says may be taken.
        head.push(stream.read_u8().await.context("read the proxy's answer")?);
    }
    ensure!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
    Ok(stream)
}
