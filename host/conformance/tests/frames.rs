//! The frames of protocol v1, held against a reading of the whole stream at once.
#![allow(clippy::unwrap_used, reason = "tests")]

use haptic_conformance::v1::{FrameTooLarge, Frames, HEADER_BYTES, MAX_FRAME_BYTES, frame};
use proptest::{collection::vec, prelude::*, sample::Index};

/// How a stream ends.
#[derive(Debug, PartialEq)]
enum Tail {
    Whole,
    Partial,
    TooLarge(usize),
}

/// The plain reading: all bytes are there.
fn reference(mut stream: &[u8]) -> (Vec<Vec<u8>>, Tail) {
    let mut bodies = Vec::new();
    loop {
        if stream.is_empty() {
            return (bodies, Tail::Whole);
        }
        if stream.len() < 4 {
            return (bodies, Tail::Partial);
        }
        let length = stream[..4].iter().fold(0, |length: usize, byte| length * 256 + usize::from(*byte));
        if length > 8 * 1024 * 1024 {
            return (bodies, Tail::TooLarge(length));
        }
        let Some(body) = stream.get(4..4 + length) else { return (bodies, Tail::Partial) };
        bodies.push(body.to_vec());
        stream = &stream[4 + length..];
    }
}

/// The same stream in pieces, as a socket gives it.
fn in_pieces(stream: &[u8], cuts: &[Index]) -> (Vec<Vec<u8>>, Tail) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    let mut frames = Frames::default();
    let mut bodies = Vec::new();
    for piece in cuts.windows(2) {
        frames.buffer().extend_from_slice(&stream[piece[0]..piece[1]]);
        loop {
            match frames.next_body() {
                Ok(Some(body)) => bodies.push(body.to_vec()),
                Ok(None) => break,
                Err(FrameTooLarge { announced }) => return (bodies, Tail::TooLarge(announced)),
            }
        }
    }
    (bodies, if frames.is_empty() { Tail::Whole } else { Tail::Partial })
}

/// Frames of honest and of absurd lengths, and bytes that are none.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let honest = vec(any::<u8>(), 0..200).prop_map(|body| frame(&body).unwrap());
    let header = any::<u32>().prop_map(|length| length.to_be_bytes().to_vec());
    let piece = prop_oneof![8 => honest, 1 => header, 1 => vec(any::<u8>(), 0..20)];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_stream_in_any_pieces_is_read_as_a_whole(stream in streams(), cuts in vec(any::<Index>(), 0..20)) {
        prop_assert_eq!(in_pieces(&stream, &cuts), reference(&stream));
    }

    #[test]
    fn what_is_framed_comes_back(bodies in vec(vec(any::<u8>(), 0..300), 0..10), cuts in vec(any::<Index>(), 0..20)) {
        let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body).unwrap()).collect();
        prop_assert_eq!(in_pieces(&stream, &cuts), (bodies, Tail::Whole));
    }

    #[test]
    fn a_header_is_accepted_up_to_the_maximum(length in any::<u32>()) {
        let mut frames = Frames::default();
        frames.buffer().extend_from_slice(&length.to_be_bytes());
        let expected = match length as usize {
            0 => Ok(Some(bytes::Bytes::new())),
            fits if fits <= 8_388_608 => Ok(None),
            announced => Err(FrameTooLarge { announced }),
        };
        prop_assert_eq!(frames.next_body(), expected);
    }
}

#[test]
fn the_largest_frame_has_eight_mebibytes() {
    let body = vec![b'x'; MAX_FRAME_BYTES];
    let largest = frame(&body).unwrap();
    assert_eq!((largest.len(), &largest[..HEADER_BYTES]), (8_388_612, &[0, 0x80, 0, 0][..]));
    let mut frames = Frames::default();
    frames.buffer().extend_from_slice(&largest);
    assert_eq!(frames.next_body().unwrap().unwrap(), body);
    let refused = frame(&vec![b'x'; MAX_FRAME_BYTES + 1]).unwrap_err();
    assert_eq!(refused.to_string(), "request frame exceeds maximum size of 8388608 bytes");
}

#[test]
fn a_frame_leaves_no_room_behind() {
    let mut frames = Frames::default();
    let large = frame(&vec![b'x'; 4 << 20]).unwrap();
    frames.buffer().extend_from_slice(&large);
    frames.buffer().extend_from_slice(&frame(b"next").unwrap());
    assert_eq!(frames.next_body().unwrap().unwrap().len(), 4 << 20);
    assert_eq!(frames.next_body().unwrap().unwrap(), &b"next"[..]);
    assert!(frames.buffer().capacity() < 64 << 10, "an idle connection is small");
}
