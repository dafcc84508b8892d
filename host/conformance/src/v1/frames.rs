//! Frames: a length in four bytes, big-endian, and so many bytes of body.

use bytes::{Buf as _, Bytes, BytesMut};
use thiserror::Error;

/// The longest body.
pub const MAX_FRAME_BYTES: usize = 8 << 20;

/// The length before each body.
pub const HEADER_BYTES: usize = 4;

/// Room for one read.
const READ_BYTES: usize = 16 << 10;

/// A frame that announces, or would have, more than [`MAX_FRAME_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("request frame exceeds maximum size of {MAX_FRAME_BYTES} bytes")]
pub struct FrameTooLarge {
    /// The length it announces.
    pub announced: usize,
}

/// Takes a stream of bytes apart, in pieces of any size. Holds what has come of one frame and the piece after it.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: BytesMut,
}

/// `body` as it goes over the wire.
pub fn frame(body: &[u8]) -> Result<Vec<u8>, FrameTooLarge> {
    let header = header(body.len())?;
    let mut frame = Vec::with_capacity(HEADER_BYTES + body.len());
    frame.extend_from_slice(&header);
    frame.extend_from_slice(body);
    Ok(frame)
}

fn header(length: usize) -> Result<[u8; HEADER_BYTES], FrameTooLarge> {
    match u32::try_from(length) {
        Ok(announced) if length <= MAX_FRAME_BYTES => Ok(announced.to_be_bytes()),
        _ => Err(FrameTooLarge { announced: length }),
    }
}

// === impl Frames ===

impl Frames {
    /// Where the next bytes of the stream are to be appended. Take frames out until there is none before appending
    /// more: that is what bounds the memory.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    /// Nothing of a frame has come yet.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The body of the next frame, once all of it has come. After an error nothing more can be read: where the next
    /// frame starts would be beyond what anyone should wait for.
    pub fn next_body(&mut self) -> Result<Option<Bytes>, FrameTooLarge> {
        let Some(header) = self.buffer.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*header) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(FrameTooLarge { announced: length });
        }
        let end = HEADER_BYTES + length;
        if self.buffer.len() < end {
            return Ok(None);
        }
        // What follows is little; with a buffer of its own, an idle connection does not keep the room of its largest
        // frame.
        let rest = BytesMut::from(&self.buffer[end..]);
        let mut frame = std::mem::replace(&mut self.buffer, rest);
        frame.truncate(end);
        frame.advance(HEADER_BYTES);
        Ok(Some(frame.freeze()))
    }
}
