//! One ring under a hostile peer, as a function of bytes.
//!
//! The bytes are a script of what the peer does, between honest steps of this side. After each
//! step of this side the invariants are looked at, so a fuzzer also finds what does not panic.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::calls::Event;
use crate::shm::copy::WORD;
use crate::shm::error::ShmError;
use crate::shm::ring::{
    Found, HEADER_BYTES, RING_BYTES_MIN, Reader, Ring, ShmFrame, Writer, payload_bytes_max,
};
use crate::shm::setup::{Hello, Reply};

/// Bytes of one step of a script: what is done, where, and a value.
const STEP_BYTES: usize = 8;

/// Decodes what comes over the socket.
pub fn shm_setup(bytes: &[u8]) {
    if let Some(hello) = Hello::decode(bytes) {
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
    }
    if let Some(reply) = Reply::decode(bytes) {
        assert_eq!(Reply::decode(&reply.encode()), Some(reply));
    }
}

/// Decodes what a frame says: kind and stream first, then the payload.
pub fn shm_calls(bytes: &[u8]) {
    let Some(([kind, stream], payload)) = bytes.split_first_chunk() else {
        return;
    };
    let frame = ShmFrame { kind: u32::from(*kind), stream: u64::from(*stream) };
    if let Ok(event) = Event::decode(frame, payload) {
        let mut head = Vec::new();
        assert_eq!(event.encode(frame.stream, &mut head), Ok(frame));
        head.extend(event.body());
        assert_eq!(head, payload, "each event has one form");
    }
}

/// A reader and a writer on one ring whose shared words are changed by a script.
///
/// # Panics
/// Only if an invariant of the ring does not hold.
pub fn shm_ring(script: &[u8]) {
    let heads: [AtomicU32; 4] = Default::default();
    let words: Vec<AtomicU64> =
        (0..RING_BYTES_MIN as usize / WORD).map(|_| AtomicU64::new(0)).collect();
    let ring = Ring {
        written: &heads[0],
        writer_sleeps: &heads[1],
        read: &heads[2],
        reader_sleeps: &heads[3],
        words: &words,
    };
    let (mut reader, mut writer) = (Reader::default(), Writer::default());
    let (mut payload, mut ended) = (Vec::new(), [false; 2]);
    let (steps, _) = script.as_chunks::<STEP_BYTES>();
    for [action, place, a, b, c, d, e, f] in steps {
        let value = u32::from_le_bytes([*a, *b, *c, *d]);
        let place = usize::from(*place) + 256 * usize::from(*e);
        match action % 8 {
            0 => heads[place % 4].store(value, Ordering::Relaxed),
            1 => {
                heads[place % 4].fetch_add(value % 64 * 16, Ordering::Relaxed);
            }
            2 => words[place % words.len()].store(u64::from(value), Ordering::Relaxed),
            3 => {
                words[place % words.len()].fetch_xor(1 << (value % 64), Ordering::Relaxed);
            }
            4 | 5 if !ended[0] => {
                let frame = ShmFrame { kind: value, stream: u64::from(*f) << 32 };
                let part = &[*f; 1024][..(value as usize % 1009)];
                let pushed = writer.push(ring, frame, &[&part[..part.len() / 3], part]);
                ended[0] = !matches!(pushed, Ok(_) | Err(ShmError::TooLong { .. }));
            }
            6 | 7 if !ended[1] => match reader.pop(ring, &mut payload) {
                Ok(Found::Frame(_)) => {
                    assert!(payload.len() <= payload_bytes_max(RING_BYTES_MIN));
                }
                Ok(Found::Nothing) => assert!(!reader.has_news(ring), "nothing, and yet news"),
                Ok(Found::Closed) | Err(_) => ended[1] = true,
            },
            _ => {}
        }
    }
    // Whatever is there ends: a ring full that was seen before, and one that is seen now, and each
    // frame has at least its header.
    for _ in 0..=2 * RING_BYTES_MIN as usize / HEADER_BYTES {
        if ended[1] || !matches!(reader.pop(ring, &mut payload), Ok(Found::Frame(_))) {
            return;
        }
    }
    panic!("a ring has more frames than fit");
}
