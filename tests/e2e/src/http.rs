use std::{io, net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A request that takes longer is a failed one.
const BOUND: Duration = Duration::from_secs(5);
const MAX_ANSWER: usize = 1 << 20;

/// One HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// As they came, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// A keep-alive connection. HTTP is written by hand here: a client library would hide the resets that are counted.
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// Fetches `path` of `host` over a connection of its own.
pub async fn get(address: SocketAddr, host: &str, path: &str) -> Result<Answer> {
    let mut connection = Connection::open(address).await?;
    connection.request(&request_text(host, path, Persistence::Close)).await
}

#[derive(Clone, Copy)]
pub(crate) enum Persistence {
    KeepAlive,
    Close,
}

pub(crate) fn request_text(host: &str, path: &str, persistence: Persistence) -> String {
    let close = match persistence {
        Persistence::KeepAlive => "",
        Persistence::Close => "Connection: close\r\n",
    };
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n")
}

/// Cuts one answer off the front of `bytes`; `None` = it is not complete yet.
pub(crate) fn parse_answer(bytes: &mut Vec<u8>, end_of_stream: bool) -> Result<Option<Answer>> {
    let Some(head_end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        ensure!(!end_of_stream, "the connection ended after {} bytes, inside the head of an answer", bytes.len());
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..head_end]).context("read the head of an answer")?.to_owned();
    let mut lines = head.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let status = status_line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.with_context(|| format!("`{status_line}` is not a status line"))?;
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut answer = Answer { status, headers, body: String::new() };
    ensure!(answer.header("transfer-encoding").is_none(), "no backend of these tests sends chunks");
    let start = head_end + 4;
    let end = match answer.header("content-length") {
        Some(length) => start + length.parse::<usize>().context("read Content-Length")?,
        None if end_of_stream => bytes.len(),
        None => return Ok(None),
    };
    if bytes.len() < end {
        ensure!(!end_of_stream, "the connection ended inside the body of an answer");
        return Ok(None);
    }
    answer.body = String::from_utf8_lossy(&bytes[start..end]).into_owned();
    bytes.drain(..end);
    Ok(Some(answer))
}

// === impl Connection ===

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let connecting = timeout(BOUND, TcpStream::connect(address)).await.context("connecting took too long")?;
        let stream = connecting.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Sends one request and reads its answer.
    pub async fn request(&mut self, text: &str) -> Result<Answer> {
        timeout(BOUND, self.exchange(text)).await.with_context(|| format!("no answer within {BOUND:?}"))?
    }

    /// The peer closed this connection while nothing was asked: not a failure, a client opens another one.
    pub fn closed_while_idle(&self) -> bool {
        match self.stream.try_read(&mut [0; 1]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            // Closed, reset, or an answer to no request.
            _ => true,
        }
    }

    async fn exchange(&mut self, text: &str) -> Result<Answer> {
        self.stream.write_all(text.as_bytes()).await.context("send a request")?;
        loop {
            let before = self.buffer.len();
            let read = self.stream.read_buf(&mut self.buffer).await.context("read an answer")?;
            if self.buffer.len() > MAX_ANSWER {
                bail!("an answer is longer than {MAX_ANSWER} bytes");
            }
            if let Some(answer) = parse_answer(&mut self.buffer, read == 0)? {
                return Ok(answer);
            }
            ensure!(read > 0, "the connection ended after {before} bytes of an answer");
        }
    }
}

// === impl Answer ===

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Name of the backend that answered, if it answered well.
    pub fn served_by(&self) -> Option<&str> {
        self.header("x-served-by").filter(|name| self.status == 200 && self.body.trim_end() == *name)
    }

    /// Name of the pod that answered, if it is one of the image `demo` and answered well.
    pub fn pod(&self) -> Option<String> {
        let said: serde_json::Value = serde_json::from_str(&self.body).ok().filter(|_| self.status == 200)?;
        said["pod"].as_str().map(str::to_owned)
    }

    pub fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn cuts_answers_one_by_one() {
        let mut bytes =
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Served-By: a\r\n\r\na\nHTTP/1.1 404 No\r\n\r\n".to_vec();
        let first = parse_answer(&mut bytes, false).unwrap().unwrap();
        assert_eq!(first.served_by(), Some("a"));
        assert_eq!(parse_answer(&mut bytes, false).unwrap(), None);
        assert_eq!(parse_answer(&mut bytes, true).unwrap().unwrap().status, 404);
    }

    #[test]
    fn a_cut_answer_is_an_error() {
        let mut bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab".to_vec();
        assert!(parse_answer(&mut bytes, true).is_err());
    }
}
