//! Rows that are distributed to their batches: many batches are sampled first, then the file is
//! read once from front to back, and each row goes to the regions of the batches that want it in a
//! file without a name; then each batch reads its region.
//!
//! What lives here: how the rows of a stretch are counted ([`uses`]), dealt out ([`deal`]) and read
//! back ([`regions`]), and the memory for that ([`memory`]). What must not: sampling, how rows are
//! found in a store. The invariants: a region holds the distinct rows of its batch that are not in
//! memory, in the order of the file; what is taken was part of what was chosen.

mod deal;
mod dealer;
mod memory;
mod regions;
mod sizes;
mod uses;

use ng_io::{AnonMap, ScratchFile};
use ng_store::TensorRef;

use super::engine::LookAhead;
use super::memory::Layout;
use super::prepare::Prepared;
use super::spill::{Spill, scratch_in};
use crate::SampleError;
use crate::buffer::region;
use crate::clock::Work;
use crate::pipeline::{Gatherer, HotRows, hottest};
use deal::Deal;
use sizes::Sizes;
use uses::Uses;

pub(super) use memory::{BATCHES_MAX, Cold, Extent, cold, room_for_hot};

/// A table during a stretch.
struct Table {
    tensor: TensorRef,
    width: u64,
    uses: Uses,
    hot: HotRows,
    /// The hot rows, one behind the other.
    memory: AnonMap,
    /// By batch: where its rows are in the file.
    regions: Vec<Place>,
}

/// Where the rows of a batch are.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Whole blocks.
    offset: u64,
    rows: u64,
}

impl LookAhead {
    /// Distributes the rows of the sampled batches, then makes these; returns where they end. The
    /// file of regions serves one stretch after the other.
    pub(super) fn distribute(
        &self,
        prepared: &Prepared,
        layout: &Layout,
        gatherer: &Gatherer,
        mut spill: Spill,
        regions: &mut Option<ScratchFile>,
    ) -> Result<u64, SampleError> {
        let bytes = layout.chosen.slot_bytes;
        let _held = self.admit(bytes)?;
        let batches = spill.end() - spill.first();
        let uses = self.count(prepared, &mut spill)?;
        let (mut tables, room) = self.choose_hot(prepared, uses, batches, bytes)?;
        let file = match regions {
            Some(file) => &*file,
            none => {
                let file = scratch_in(self.settings.spill_dir.as_deref(), self.snapshot())?;
                file.bypass_cache();
                none.insert(file)
            }
        };
        let sizes = Sizes::new(bytes, batches);
        let mut end = 0;
        for table in &mut tables {
            let deal = Deal::new(self, table, &mut spill)?;
            (table.regions, end) = deal.regions(end, table.width);
            file.allocate(end)?;
            let gap_blocks = prepared.costs.gap_blocks();
            let read = || self.deal(table, &deal, file, (sizes, gap_blocks));
            self.shared.clock.count(Work::Read, read)?;
            table.uses = Uses::default();
        }
        self.read_regions(&tables, gatherer, &mut spill, file, room)
    }

    /// Counts how many batches want each row, by table.
    fn count(&self, prepared: &Prepared, spill: &mut Spill) -> Result<Vec<Uses>, SampleError> {
        let tables = &prepared.tables;
        let mut all: Vec<Uses> =
            tables.iter().map(|table| Uses::new(table.rows as usize)).collect();
        for index in spill.first()..spill.end() {
            let sampled = self.read_back(spill, index)?;
            for (table, uses) in tables.iter().zip(&mut all) {
                uses.count(&sampled.rows(table.tensor.owner));
            }
        }
        Ok(all)
    }

    /// Chooses the rows that stay in memory; says how many bytes are left for regions then.
    fn choose_hot(
        &self,
        prepared: &Prepared,
        uses: Vec<Uses>,
        batches: u64,
        bytes: u64,
    ) -> Result<(Vec<Table>, u64), SampleError> {
        let used = || prepared.tables.iter().zip(&uses);
        let extents: Vec<Extent> = used().map(|(table, uses)| uses.extent(table.width)).collect();
        let room = room_for_hot(bytes, batches, &extents, 1.0);
        let limit_bytes = self.snapshot().budget().limit_bytes();
        let hot_bytes = room.ok_or(SampleError::TooSmallToLookAhead {
            wanted_bytes: extents.iter().map(|extent| extent.largest * extent.width).sum(),
            free_bytes: bytes,
            limit_bytes,
            minimum_bytes: limit_bytes.saturating_mul(2),
        })?;
        let counts: Vec<_> = used().map(|(table, uses)| (table.width, uses.counts())).collect();
        let hot = hottest(&counts, hot_bytes);
        let (mut tables, mut left) = (Vec::new(), bytes - memory::map_bytes(&extents));
        for ((table, uses), hot) in prepared.tables.iter().zip(uses).zip(hot) {
            let (tensor, width) = (table.tensor, table.width);
            let bytes = hot.len() * width;
            let memory = region(bytes as usize)?;
            tables.push(Table { tensor, width, uses, hot, memory, regions: Vec::new() });
            left -= bytes;
        }
        Ok((tables, left))
    }
}
