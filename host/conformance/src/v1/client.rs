//! One connection to a validator.

use std::{io, path::Path};

use bytes::Bytes;
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use crate::v1::{FrameTooLarge, Frames, Request, Response, VERSION, Verdict, frame};

/// Asks a validator over a connection that stays. Nothing here has a timeout: that is the caller's, who drops the client
/// when it is over, because the answer that then comes would be taken for that of the next request.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    frames: Frames,
}

#[derive(Debug, Error)]
pub enum ClientError {
    #[error("connecting to the validator at {socket}")]
    Connect { socket: String, source: io::Error },
    #[error("sending a request to the validator")]
    Send(#[source] io::Error),
    #[error("the request has {} bytes, more than a frame may have; the file set is too large for protocol v1", .0.announced)]
    RequestTooLarge(FrameTooLarge),
    #[error("reading the validator's answer")]
    Read(#[source] io::Error),
    #[error("the validator closed the connection and gave no answer")]
    Closed,
    #[error("the validator announces an answer of {} bytes, more than a frame may have", .0.announced)]
    AnswerTooLarge(FrameTooLarge),
    #[error("the validator's answer cannot be read: {0}")]
    NotAnAnswer(serde_json::Error),
    #[error("the validator answers in protocol version {0}, not {VERSION}")]
    Version(i64),
    #[error("the validator's result {result:?} contradicts {errors} errors and {warnings} warnings")]
    Contradiction { result: Verdict, errors: usize, warnings: usize },
}

// === impl Client ===

impl Client {
    pub async fn connect(socket: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(socket)
            .await
            .map_err(|source| ClientError::Connect { socket: socket.display().to_string(), source })?;
        Ok(Self { stream, frames: Frames::default() })
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, request: &Request) -> Result<Response, ClientError> {
        self.send(request).await?;
        self.receive().await
    }

    /// Sends a request. Answers come in the order of the requests.
    pub async fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let body = serde_json::to_vec(request).expect("strings and numbers can be written as JSON");
        let frame = frame(&body).map_err(ClientError::RequestTooLarge)?;
        self.send_bytes(&frame).await
    }

    /// Sends bytes as they are, frames or not.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.stream.write_all(bytes).await.map_err(ClientError::Send)
    }

    /// Says that no request follows; answers can still be received.
    pub async fn finish(&mut self) -> Result<(), ClientError> {
        self.stream.shutdown().await.map_err(ClientError::Send)
    }

    /// The next answer, believed only if its result follows from its lists.
    pub async fn receive(&mut self) -> Result<Response, ClientError> {
        let body = self.receive_body().await?.ok_or(ClientError::Closed)?;
        let response: Response = serde_json::from_slice(&body).map_err(ClientError::NotAnAnswer)?;
        if response.protocol_version != VERSION {
            return Err(ClientError::Version(response.protocol_version));
        }
        if response.result != response.due() {
            let Response { result, errors, warnings, .. } = response;
            return Err(ClientError::Contradiction { result, errors: errors.len(), warnings: warnings.len() });
        }
        Ok(response)
    }

    /// The body of the next answer as it came; `None` if the connection ended between two answers.
    pub async fn receive_body(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(body) = self.frames.next_body().map_err(ClientError::AnswerTooLarge)? {
                return Ok(Some(body));
            }
            if self.stream.read_buf(self.frames.buffer()).await.map_err(ClientError::Read)? == 0 {
                return if self.frames.is_empty() { Ok(None) } else { Err(ClientError::Closed) };
            }
        }
    }
}
