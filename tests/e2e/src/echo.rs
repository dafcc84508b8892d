use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// A backend that answers every request with 200 and its own name, in the body and in `X-Served-By`.
pub struct Echo {
    pub name: String,
    served: Arc<AtomicU64>,
    _task: AbortOnDrop,
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

// === impl Echo ===

impl Echo {
    pub async fn start(name: &str, address: SocketAddr) -> Result<Self> {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("start backend {name} on {address}"))?;
        let served = Arc::new(AtomicU64::new(0));
        let task = tokio::spawn(accept(listener, name.into(), served.clone()));
        Ok(Self { name: name.to_owned(), served, _task: AbortOnDrop(task) })
    }

    /// Requests answered so far.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn accept(listener: TcpListener, name: Arc<str>, served: Arc<AtomicU64>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve(stream, name.clone(), served.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Requests have no body: a request ends with its head.
async fn serve(mut stream: TcpStream, name: Arc<str>, served: Arc<AtomicU64>) {
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nX-Served-By: {name}\r\n\r\n{name}\n",
        name.len() + 1
    );
    let mut pending = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        while let Some(end) = pending.windows(4).position(|window| window == b"\r\n\r\n") {
            pending.drain(..end + 4);
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
            served.fetch_add(1, Ordering::Relaxed);
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(length) => pending.extend_from_slice(&chunk[..length]),
        }
    }
}
