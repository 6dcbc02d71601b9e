//! One ring: frames written whole by one side and copied out by the other
//! (`docs/reference/shm.md`).
//!
//! What must not live here: waiting, and where the memory comes from. The invariants: each side
//! keeps its own index privately and stores it for the other to see; what the other side stored is
//! loaded once and compared with what it may be; a frame is seen whole or not at all.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ng_types::canary::planted;

use crate::shm::copy::{Pour, WORD, copy_out};
use crate::shm::error::ShmError;

/// The shortest ring.
pub(super) const RING_BYTES_MIN: u32 = 4 << 10;
/// The longest ring.
pub(super) const RING_BYTES_MAX: u32 = 64 << 20;
/// Length, kind and stream.
pub(super) const HEADER_BYTES: usize = 16;
/// Frames begin at multiples of this.
const ALIGNMENT: u32 = 16;
/// The bit of an index that says that its side has closed; frames leave it free.
const CLOSED: u32 = 1;

/// A frame without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmFrame {
    /// What the frame means to those who send it.
    pub kind: u32,
    /// The stream that it belongs to.
    pub stream: u64,
}

/// The most payload that a frame of such a ring has, so that at least four are on their way.
pub(super) fn payload_bytes_max(ring_bytes: u32) -> usize {
    ring_bytes as usize / 4 - HEADER_BYTES
}

/// The bytes that a frame takes in the ring.
fn frame_bytes(payload_bytes: usize) -> u32 {
    ((HEADER_BYTES + payload_bytes) as u32).next_multiple_of(ALIGNMENT)
}

/// The shared words of a ring, all of which the peer may change at any moment.
#[derive(Clone, Copy)]
pub(super) struct Ring<'a> {
    /// The writer's index, and its bit `CLOSED`.
    pub written: &'a AtomicU32,
    /// 1 while the writer sleeps for room.
    pub writer_sleeps: &'a AtomicU32,
    /// The reader's index, and its bit `CLOSED`.
    pub read: &'a AtomicU32,
    /// 1 while the reader sleeps for a frame.
    pub reader_sleeps: &'a AtomicU32,
    /// The bytes.
    pub words: &'a [AtomicU64],
}

impl Ring<'_> {
    fn bytes(self) -> u32 {
        (self.words.len() * WORD) as u32
    }
}

/// The part of an index that counts bytes.
fn position(index: u32) -> Result<u32, ShmError> {
    let position = index & !CLOSED;
    if position.is_multiple_of(ALIGNMENT) {
        Ok(position)
    } else {
        Err(ShmError::Garbled { what: "an index does not point to a frame" })
    }
}

/// The private half of the side that writes.
#[derive(Debug, Default)]
pub(super) struct Writer {
    written: u32,
    /// The reader's index when it was loaded last.
    seen: u32,
}

impl Writer {
    /// Writes a frame; says whether there was room.
    pub fn push(
        &mut self,
        ring: Ring<'_>,
        frame: ShmFrame,
        parts: &[&[u8]],
    ) -> Result<bool, ShmError> {
        let payload_bytes = parts.iter().map(|part| part.len()).fold(0, usize::saturating_add);
        let bytes_max = payload_bytes_max(ring.bytes());
        if payload_bytes > bytes_max {
            return Err(ShmError::TooLong { bytes: payload_bytes, bytes_max });
        }
        let needed = frame_bytes(payload_bytes);
        if self.room(ring) < needed {
            self.look(ring)?;
            if self.room(ring) < needed {
                return Ok(false);
            }
        }
        let mut pour = Pour::new(ring.words, self.written as usize / WORD);
        pour.part(&(payload_bytes as u32).to_le_bytes());
        pour.part(&frame.kind.to_le_bytes());
        pour.part(&frame.stream.to_le_bytes());
        parts.iter().for_each(|part| pour.part(part));
        pour.finish();
        self.written = self.written.wrapping_add(needed);
        // Release: the bytes of the frame are there before the index that says so.
        ring.written.store(self.written, Ordering::Release);
        Ok(true)
    }

    fn room(&self, ring: Ring<'_>) -> u32 {
        ring.bytes() - self.written.wrapping_sub(self.seen)
    }

    /// Loads the reader's index and believes it if it went on, not past what was written.
    fn look(&mut self, ring: Ring<'_>) -> Result<(), ShmError> {
        let index = ring.read.load(Ordering::Acquire);
        if index & CLOSED != 0 {
            return Err(ShmError::Closed);
        }
        let read = position(index)?;
        if read.wrapping_sub(self.seen) > self.written.wrapping_sub(self.seen) {
            return Err(ShmError::Garbled { what: "the read index is ahead of the write index" });
        }
        self.seen = read;
        Ok(())
    }

    /// Whether the reader has changed its index since it was looked at.
    pub fn has_news(&self, ring: Ring<'_>) -> bool {
        ring.read.load(Ordering::Acquire) != self.seen
    }

    /// Says that nothing more is written.
    pub fn close(&self, ring: Ring<'_>) {
        ring.written.store(self.written | CLOSED, Ordering::Release);
    }
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A frame, whose payload was copied out.
    Frame(ShmFrame),
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will come.
    Closed,
}

/// The private half of the side that reads.
#[derive(Debug, Default)]
pub(super) struct Reader {
    read: u32,
    /// The writer's index when it was loaded last, without the bit.
    seen: u32,
    /// The same with the bit, as it was loaded.
    seen_index: u32,
}

impl Reader {
    /// Copies the next frame out; `payload` becomes its payload.
    pub fn pop(&mut self, ring: Ring<'_>, payload: &mut Vec<u8>) -> Result<Found, ShmError> {
        if self.seen == self.read {
            self.look(ring)?;
            if self.seen == self.read {
                let closed = self.seen_index & CLOSED != 0;
                return Ok(if closed { Found::Closed } else { Found::Nothing });
            }
        }
        let at = self.read as usize / WORD;
        let mut header = [0; HEADER_BYTES];
        copy_out(ring.words, at, &mut header);
        // From here on the header is private: what is checked is what is used.
        let [len, kind, low, high] = fields(header);
        let (len, most) = (len as usize, payload_bytes_max(ring.bytes()));
        let written = self.seen.wrapping_sub(self.read);
        if len > most || (frame_bytes(len) > written && !planted("trust_frame_lengths")) {
            return Err(ShmError::Garbled { what: "a frame is longer than the written bytes" });
        }
        // Bytes of the frame before are overwritten, so that only growth is zeroed.
        payload.resize(len, 0);
        copy_out(ring.words, at + HEADER_BYTES / WORD, payload);
        self.read = self.read.wrapping_add(frame_bytes(len));
        // Release: the bytes are copied out before the writer may overwrite them.
        ring.read.store(self.read, Ordering::Release);
        Ok(Found::Frame(ShmFrame { kind, stream: u64::from(high) << 32 | u64::from(low) }))
    }

    /// Loads the writer's index and believes it if it went on by no more than the ring holds.
    fn look(&mut self, ring: Ring<'_>) -> Result<(), ShmError> {
        let index = ring.written.load(Ordering::Acquire);
        let written = position(index)?;
        if written.wrapping_sub(self.read) > ring.bytes() {
            return Err(ShmError::Garbled { what: "the written bytes exceed the ring" });
        }
        (self.seen, self.seen_index) = (written, index);
        Ok(())
    }

    /// Whether the writer has changed its index since it was looked at.
    pub fn has_news(&self, ring: Ring<'_>) -> bool {
        ring.written.load(Ordering::Acquire) != self.seen_index
    }

    /// Says that nothing more is read.
    pub fn close(&self, ring: Ring<'_>) {
        ring.read.store(self.read | CLOSED, Ordering::Release);
    }
}

/// The four numbers of a header: length, kind, and the stream's lower and upper half.
fn fields(header: [u8; HEADER_BYTES]) -> [u32; 4] {
    let (chunks, _) = header.as_chunks::<4>();
    std::array::from_fn(|number| u32::from_le_bytes(chunks[number]))
}
