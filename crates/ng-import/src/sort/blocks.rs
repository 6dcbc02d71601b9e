//! The scratch file as fixed-size slots that are reused as soon as they are read, so that sorting
//! in several rounds takes no more temporary disk than one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ng_io::ScratchFile;

use super::record::{Layout, Record};
use crate::ImportError;
use crate::failure::scratch_error;

/// Where a run of records lies on scratch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    slot: u32,
    count: u32,
    wide: bool,
}

impl Block {
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }
}

/// Slots of one size in an unnamed temporary file.
#[derive(Debug)]
pub(crate) struct SlotFile {
    scratch: ScratchFile,
    slot_bytes: usize,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    free: Vec<u32>,
    count: u32,
    written_bytes: u64,
}

impl SlotFile {
    pub(crate) fn new(scratch: ScratchFile, slot_bytes: usize) -> Self {
        Self { scratch, slot_bytes, slots: Mutex::default() }
    }

    /// The most bytes that were on disk at once.
    pub(crate) fn peak_bytes(&self) -> u64 {
        u64::from(self.lock().count) * self.slot_bytes as u64
    }

    /// All bytes that were written.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.lock().written_bytes
    }

    /// Gives all slots back to the disk; nobody needs what is in them.
    pub(crate) fn clear(&self) {
        // Whole slots, so that the last block of the file goes, too.
        self.scratch.discard(0..self.peak_bytes());
    }

    /// How many records one slot holds, whatever the width of their ids.
    pub(super) fn capacity<R: Record>(&self, layout: Layout) -> usize {
        self.slot_bytes / R::spilled_bytes(layout, true)
    }

    pub(super) fn write<R: Record>(
        &self,
        layout: Layout,
        records: &[R],
        bytes: &mut Vec<u8>,
    ) -> Result<Block, ImportError> {
        let wide = records.iter().any(Record::is_wide);
        let width = R::spilled_bytes(layout, wide);
        bytes.clear();
        bytes.resize(records.len() * width, 0);
        for (record, to) in records.iter().zip(bytes.chunks_exact_mut(width)) {
            record.spill(layout, wide, to);
        }
        let slot = self.take_slot(bytes.len())?;
        let at = u64::from(slot) * self.slot_bytes as u64;
        self.scratch.write_all_at(at, bytes).map_err(scratch_error)?;
        Ok(Block { slot, count: records.len() as u32, wide })
    }

    /// Appends the records of `block` to `records` and gives its slot back.
    pub(super) fn read<R: Record>(
        &self,
        layout: Layout,
        block: Block,
        records: &mut Vec<R>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), ImportError> {
        self.peek(layout, block, records, bytes)?;
        self.discard(block);
        Ok(())
    }

    /// Appends the records of `block` to `records`.
    pub(super) fn peek<R: Record>(
        &self,
        layout: Layout,
        block: Block,
        records: &mut Vec<R>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), ImportError> {
        let width = R::spilled_bytes(layout, block.wide);
        bytes.resize(block.count() * width, 0);
        let at = u64::from(block.slot) * self.slot_bytes as u64;
        self.scratch.read_exact_at(at, bytes).map_err(scratch_error)?;
        let decode = |from| R::unspill(layout, block.wide, from);
        records.extend(bytes.chunks_exact(width).map(decode));
        Ok(())
    }

    /// Gives the slot of a block back whose records are not needed.
    pub(super) fn discard(&self, block: Block) {
        self.lock().free.push(block.slot);
    }

    fn take_slot(&self, bytes: usize) -> Result<u32, ImportError> {
        let mut slots = self.lock();
        slots.written_bytes += bytes as u64;
        if let Some(slot) = slots.free.pop() {
            return Ok(slot);
        }
        let slot = slots.count;
        slots.count = slot.checked_add(1).ok_or_else(|| {
            ImportError::spec(
                "the import needs too many temporary blocks; give the import more memory",
            )
        })?;
        Ok(slot)
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
