//! Staging frames: block-granular allocation inside one aligned region.
//!
//! A frame is lent to the device while a read is in flight and to the caller while its completion
//! is handled. What must not live here: I/O. The invariant: two live frames never overlap. The
//! lowest free blocks are taken first, so that a queue of small reads stays in the CPU's caches.

use std::io;

use crate::disk::BLOCK_BYTES;
use crate::os::anon_map::AnonMap;

const BITS: usize = u64::BITS as usize;

/// A frame: a run of blocks of an [`Arena`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    first: usize,
    blocks: usize,
}

/// Which blocks are free; a set bit is a taken block.
struct BlockMap {
    words: Vec<u64>,
    blocks: usize,
}

impl BlockMap {
    fn new(blocks: usize) -> Self {
        Self { words: vec![0; blocks.div_ceil(BITS)], blocks }
    }

    /// The first block at or after `from` whose bit is `taken`, or the end.
    fn seek(&self, from: usize, taken: bool) -> usize {
        let mut at = from;
        while at < self.blocks {
            let word = self.words[at / BITS];
            let rest = (if taken { word } else { !word }) >> (at % BITS);
            if rest != 0 {
                return (at + rest.trailing_zeros() as usize).min(self.blocks);
            }
            at = (at / BITS + 1) * BITS;
        }
        self.blocks
    }

    fn take(&mut self, blocks: usize) -> Option<usize> {
        let mut first = self.seek(0, false);
        while first + blocks <= self.blocks {
            let end = if blocks == 1 { first + 1 } else { self.seek(first, true) };
            if end - first >= blocks {
                self.set(first, blocks, true);
                return Some(first);
            }
            first = self.seek(end, false);
        }
        None
    }

    fn set(&mut self, first: usize, blocks: usize, taken: bool) {
        for block in first..first + blocks {
            let bit = 1 << (block % BITS);
            if taken {
                self.words[block / BITS] |= bit;
            } else {
                self.words[block / BITS] &= !bit;
            }
        }
    }
}

/// An aligned region cut into frames.
pub(crate) struct Arena {
    region: AnonMap,
    map: BlockMap,
}

impl Arena {
    /// An arena of `bytes`, a multiple of [`BLOCK_BYTES`]. Devices get to know it as a whole, and
    /// few large pages are faster to set up than many small ones.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let blocks = bytes / BLOCK_BYTES;
        Ok(Self {
            region: AnonMap::with_huge_pages(blocks * BLOCK_BYTES)?,
            map: BlockMap::new(blocks),
        })
    }

    /// A frame of at least `len` bytes, or `None` while there is no room for it.
    pub fn take(&mut self, len: usize) -> Option<Frame> {
        let blocks = len.div_ceil(BLOCK_BYTES).max(1);
        let first = self.map.take(blocks)?;
        Some(Frame { first, blocks })
    }

    /// Gives a frame back.
    pub fn give(&mut self, frame: Frame) {
        self.map.set(frame.first, frame.blocks, false);
    }

    /// Takes every frame back, the forgotten ones, too. Frames taken before mean nothing any more.
    pub fn clear(&mut self) {
        self.map.words.fill(0);
    }

    /// Where the frame starts.
    pub fn address(&self, frame: &Frame) -> *mut u8 {
        // An arena hands out frames inside its own region only, so the offset stays inside it.
        self.region.base().wrapping_add(frame.first * BLOCK_BYTES)
    }

    /// The first `len` bytes of a frame.
    ///
    /// # Safety
    /// No device or thread may write to the frame while the slice lives.
    pub unsafe fn bytes(&self, frame: &Frame, len: usize) -> &[u8] {
        let len = len.min(frame.blocks * BLOCK_BYTES);
        // SAFETY: the frame lies inside the region, which is initialised; the caller promises that
        // nobody writes to it.
        unsafe { std::slice::from_raw_parts(self.address(frame), len) }
    }

    /// The frame, to be written to by this thread.
    pub fn bytes_mut(&mut self, frame: &Frame, len: usize) -> &mut [u8] {
        let len = len.min(frame.blocks * BLOCK_BYTES);
        let start = frame.first * BLOCK_BYTES;
        &mut self.region.as_mut_slice()[start..start + len]
    }

    /// The whole region, for registration with a device.
    pub fn region(&self) -> &AnonMap {
        &self.region
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_never_overlap_and_every_block_is_used_before_the_arena_is_full() {
        let mut arena = Arena::new(130 * BLOCK_BYTES).expect("mapped");
        let mut state = 7_u64;
        let mut live: Vec<Frame> = Vec::new();
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let blocks = 1 + (state >> 33) as usize % 20;
            if state >> 63 == 0 || live.is_empty() {
                if let Some(frame) = arena.take(blocks * BLOCK_BYTES) {
                    let range = frame.first..frame.first + frame.blocks;
                    assert!(range.end <= 130);
                    for other in &live {
                        let end = other.first + other.blocks;
                        assert!(end <= range.start || range.end <= other.first);
                    }
                    live.push(frame);
                }
            } else {
                let frame = live.swap_remove((state >> 40) as usize % live.len());
                arena.give(frame);
            }
        }
        live.drain(..).for_each(|frame| arena.give(frame));
        let all: Vec<_> = (0..130).map_while(|_| arena.take(1)).collect();
        assert_eq!(all.len(), 130);
        assert!(arena.take(1).is_none());
    }

    #[test]
    fn a_long_frame_fits_behind_short_ones_and_may_fill_the_arena() {
        let mut arena = Arena::new(64 * BLOCK_BYTES).expect("mapped");
        let first = arena.take(1).expect("room");
        assert!(arena.take(64 * BLOCK_BYTES).is_none());
        let rest = arena.take(63 * BLOCK_BYTES).expect("room");
        assert_eq!(rest.first, 1);
        arena.give(first);
        arena.give(rest);
        assert!(arena.take(64 * BLOCK_BYTES).is_some());
    }
}
