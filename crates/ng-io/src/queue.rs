//! What is in flight: operations, their staging frames, and the depth limit, for one calling
//! thread.
//!
//! Every back end admits reads here before it starts them and retires them when they are complete.
//! What must not live here: system calls. The invariant: a frame is given back only after its
//! operation is retired, so no device writes into a frame that has a new owner.

use std::io;

use crate::arena::{Arena, Frame};
use crate::disk::{BLOCK_BYTES, NextRead, READ_BYTES_MAX, ReadDone, ReadOp};

/// The most reads in flight per calling thread.
pub(crate) const QUEUE_DEPTH_MAX: usize = 1024;

/// Staging memory per place in the queue: enough for a full queue of the reads that a batch makes,
/// while a few of the longest ones already fill a device's bandwidth.
const STAGING_BYTES_PER_PLACE: usize = 32 * 1024;

/// The most staging memory of a queue.
const STAGING_BYTES_MAX: usize = 16 << 20;

/// How much one calling thread has in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueSize {
    /// Reads, at most.
    pub depth: usize,
    /// Bytes of their frames.
    pub staging_bytes: usize,
}

impl QueueSize {
    /// `depth` reads; with 0 bytes as many bytes as these take that a batch makes.
    pub fn new(depth: usize, staging_bytes: usize) -> Self {
        let depth = depth.clamp(1, QUEUE_DEPTH_MAX);
        let bytes = if staging_bytes > 0 {
            staging_bytes.min(STAGING_BYTES_MAX)
        } else {
            (depth * STAGING_BYTES_PER_PLACE).min(4 << 20)
        };
        let staging_bytes = bytes.max(READ_BYTES_MAX).next_multiple_of(BLOCK_BYTES);
        Self { depth, staging_bytes }
    }
}

/// A read that may start now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    /// Names it until it is retired.
    pub index: u32,
    pub op: ReadOp,
    /// The first byte of its frame, which is at least `op.len` long.
    pub address: *mut u8,
}

/// The reads in flight of one calling thread.
pub(crate) struct Queue {
    arena: Arena,
    places: Vec<Option<(ReadOp, Frame)>>,
    free: Vec<u32>,
    /// Pulled from the caller, but there was no frame for it yet.
    parked: Option<ReadOp>,
}

impl Queue {
    pub fn new(size: QueueSize) -> io::Result<Self> {
        let QueueSize { depth, staging_bytes } = size;
        let arena = Arena::new(staging_bytes)?;
        let places = (0..depth).map(|_| None).collect();
        Ok(Self { arena, places, free: (0..depth as u32).rev().collect(), parked: None })
    }

    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Pulls the next read, or `None` when the queue is full or there is nothing to read now. Reads
    /// that no device could serve are answered on the spot.
    pub fn admit(&mut self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> Option<Admitted> {
        let index = *self.free.last()?;
        loop {
            let op = self.parked.take().or_else(&mut *next)?;
            if let Err(error) = check(&op) {
                done(op, Err(error));
                continue;
            }
            let Some(frame) = self.arena.take(op.len as usize) else {
                self.parked = Some(op);
                return None;
            };
            self.free.pop();
            let address = self.arena.address(&frame);
            self.places[index as usize] = Some((op, frame));
            return Some(Admitted { index, op, address });
        }
    }

    /// Ends a read that the device has finished with, and hands its bytes to the caller.
    ///
    /// # Safety
    /// The device has completed the read of `index` and will not touch its frame again.
    pub unsafe fn retire(
        &mut self,
        index: u32,
        result: io::Result<usize>,
        done: &mut ReadDone<'_>,
    ) -> io::Result<()> {
        let place = self.places.get_mut(index as usize).and_then(Option::take);
        let Some((op, frame)) = place else {
            return Err(io::Error::other("the device completed a read that was never submitted"));
        };
        match result {
            Ok(len) => {
                let len = len.min(op.len as usize);
                // SAFETY: the caller promises that the device is done with this frame, and it is
                // not given back, so not lent again, before `done` has returned.
                done(op, Ok(unsafe { self.arena.bytes(&frame, len) }));
            }
            Err(error) => done(op, Err(error)),
        }
        self.arena.give(frame);
        self.free.push(index);
        Ok(())
    }

    /// Forgets everything that was admitted or parked, and what a panic in `done` cut short.
    ///
    /// # Safety
    /// No read of this queue is in flight at the device.
    pub unsafe fn reset(&mut self) {
        self.parked = None;
        self.places.fill_with(|| None);
        self.free.clear();
        self.free.extend((0..self.places.len() as u32).rev());
        self.arena.clear();
    }

    /// Serves reads one after the other with `fill`, for back ends without a device queue.
    pub fn serve(
        &mut self,
        next: &mut NextRead<'_>,
        done: &mut ReadDone<'_>,
        fill: &mut dyn FnMut(&ReadOp, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        while let Some(Admitted { index, op, .. }) = self.admit(next, done) {
            let result = match &self.places[index as usize] {
                Some((_, frame)) => {
                    let bytes = self.arena.bytes_mut(frame, op.len as usize);
                    fill(&op, bytes)
                }
                None => Ok(0),
            };
            // SAFETY: `fill` ran on this thread and has returned; nothing else knows the frame.
            unsafe { self.retire(index, result, done)? };
        }
        Ok(())
    }
}

/// Whether a device could serve the read at all.
fn check(op: &ReadOp) -> io::Result<()> {
    let block = BLOCK_BYTES as u64;
    let aligned = op.offset.is_multiple_of(block) && u64::from(op.len) % block == 0;
    let sized = op.len > 0 && op.len as usize <= READ_BYTES_MAX;
    let placed = op.offset.checked_add(u64::from(op.len)).is_some_and(|end| end <= i64::MAX as u64);
    if aligned && sized && placed {
        return Ok(());
    }
    let message =
        format!("a read of {} bytes at offset {} does not cover whole blocks", op.len, op.offset);
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::FileId;

    fn block(tag: u64) -> ReadOp {
        ReadOp { tag, file: FileId(0), offset: tag * 4096, len: 4096 }
    }

    #[test]
    fn a_reset_queue_has_its_whole_depth_again_after_a_panic_in_a_completion() {
        let mut queue = Queue::new(QueueSize::new(4, 0)).expect("mapped");
        for _ in 0..3 {
            let mut tags = 0..9;
            let mut next = || tags.next().map(block);
            let mut admitted = Vec::new();
            while let Some(one) = queue.admit(&mut next, &mut |_, _| {}) {
                admitted.push(one.index);
            }
            assert_eq!(admitted.len(), 4);
            let run = std::panic::AssertUnwindSafe(|| {
                // SAFETY: there is no device.
                unsafe { queue.retire(admitted[0], Ok(4096), &mut |_, _| panic!("planted")) }
            });
            assert!(std::panic::catch_unwind(run).is_err());
            // SAFETY: there is no device.
            unsafe { queue.reset() };
        }
    }

    #[test]
    fn a_read_that_finds_no_frame_waits_for_one_and_is_not_lost() {
        let mut queue = Queue::new(QueueSize::new(64, 0)).expect("mapped");
        let long = |tag| ReadOp { len: READ_BYTES_MAX as u32, ..block(tag) };
        let mut tags = 0..20;
        let mut next = || tags.next().map(long);
        let (mut waiting, mut done) = (Vec::new(), Vec::new());
        loop {
            while let Some(one) = queue.admit(&mut next, &mut |_, _| {}) {
                waiting.push(one.index);
            }
            let Some(index) = waiting.pop() else { break };
            let mut note = |op: ReadOp, _: io::Result<&[u8]>| done.push(op.tag);
            // SAFETY: there is no device.
            unsafe { queue.retire(index, Ok(0), &mut note) }.expect("in flight");
        }
        done.sort_unstable();
        assert_eq!(done, (0..20).collect::<Vec<_>>());
    }
}
