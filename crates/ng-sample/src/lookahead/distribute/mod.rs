//! Rows that are distributed to their batches: many batches are sampled first, then the file is
//! read once from front to back, and each row goes to the regions of the batches that want it in a
//! file without a name; then each batch reads its region.
//!
//! What lives here: how the rows of a stretch are counted ([`uses`]), dealt out ([`deal`]) and read
//! back ([`replay`]), and the memory for that ([`memory`]). What must not: sampling, how rows are
//! found in a store. The invariants: a region holds the distinct rows of its batch that are not in
//! memory, in the order of the file; what is taken was part of what was chosen.

mod deal;
mod dealer;
mod memory;
mod replay;
mod sizes;
mod uses;

use std::path::Path;

use ng_io::{Region, ScratchError, ScratchFile};
use ng_store::{Snapshot, TensorRef};

use super::engine::LookAhead;
use super::prepare::Prepared;
use super::spill::{Spill, scratch_in};
use crate::SampleError;
use crate::buffer::region;
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
    memory: Region,
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

/// The file of regions, for one stretch after the other.
#[derive(Default)]
pub(super) struct Regions {
    file: Option<ScratchFile>,
}

impl Regions {
    fn file(
        &mut self,
        directory: Option<&Path>,
        snapshot: &Snapshot,
    ) -> Result<&ScratchFile, ScratchError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = scratch_in(directory, snapshot)?;
                file.bypass_cache();
                file
            }
        };
        Ok(self.file.insert(file))
    }
}

impl LookAhead {
    /// Distributes the rows of the sampled batches, then makes these; returns where they end.
    pub(super) fn distribute(
        &self,
        prepared: &Prepared,
        gatherer: &Gatherer,
        mut spill: Spill,
        regions: &mut Regions,
    ) -> Result<u64, SampleError> {
        let bytes = prepared.chosen.slot_bytes;
        let _held = self.admit(bytes)?;
        let mut tables = self.count(prepared, &mut spill)?;
        let room = self.choose_hot(&mut tables, &spill, bytes)?;
        let file = regions.file(self.settings.spill_dir.as_deref(), self.snapshot())?;
        let sizes = Sizes::new(bytes, spill.end() - spill.first());
        let mut end = 0;
        for at in 0..tables.len() {
            let deal = Deal::new(self, &mut tables, at, &mut spill)?;
            let table = &mut tables[at];
            table.regions = deal.regions(end, table.width);
            end = deal::end_of(&table.regions, table.width).unwrap_or(end);
            file.allocate(end)?;
            self.deal(table, &deal, file, (sizes, prepared.costs.gap_blocks()))?;
            table.uses = Uses::default();
        }
        self.replay_regions(&tables, gatherer, &mut spill, file, room)
    }

    /// Counts how many batches want each row.
    fn count(&self, prepared: &Prepared, spill: &mut Spill) -> Result<Vec<Table>, SampleError> {
        let mut tables = Vec::new();
        for table in &prepared.tables {
            tables.push(Table {
                tensor: table.tensor,
                width: table.width,
                uses: Uses::new(table.rows as usize),
                hot: HotRows::none(0),
                memory: region(0)?,
                regions: Vec::new(),
            });
        }
        for index in spill.first()..spill.end() {
            let sampled = self.read_back(spill, index)?;
            for table in &mut tables {
                table.uses.count(&sampled.rows(table.tensor.owner));
            }
        }
        Ok(tables)
    }

    /// Chooses the rows that stay in memory; says how many bytes are left for regions then.
    fn choose_hot(
        &self,
        tables: &mut [Table],
        spill: &Spill,
        bytes: u64,
    ) -> Result<u64, SampleError> {
        let batches = spill.end() - spill.first();
        let extents: Vec<Extent> = tables.iter().map(|t| t.uses.extent(t.width)).collect();
        let room = room_for_hot(bytes, batches, &extents, 1.0);
        let limit_bytes = self.snapshot().budget().limit_bytes();
        let hot_bytes = room.ok_or(SampleError::TooSmallToLookAhead {
            wanted_bytes: extents.iter().map(|extent| extent.largest * extent.width).sum(),
            free_bytes: bytes,
            limit_bytes,
            minimum_bytes: limit_bytes.saturating_mul(2),
        })?;
        let counts: Vec<_> = tables.iter().map(|t| (t.width, t.uses.counts())).collect();
        let hot = hottest(&counts, hot_bytes);
        let mut taken = 0;
        for (table, hot) in tables.iter_mut().zip(hot) {
            let bytes = hot.len() * table.width;
            table.memory = region(bytes as usize)?;
            table.hot = hot;
            taken += bytes;
        }
        Ok(bytes - taken - memory::map_bytes(&extents))
    }
}
