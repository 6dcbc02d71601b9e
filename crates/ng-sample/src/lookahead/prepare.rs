//! Before the first row is read: what the first sample tells, and how the budget is divided.

use std::iter::successors;

use ng_simd::RowDecoder;
use ng_store::{DiskCosts, TensorMeta, TensorRef};
use ng_types::MemoryUser;

use super::chosen::STRETCH_MIN;
use super::engine::LookAhead;
use super::memory::{LAG, Layout, Room, choose};
use super::pieces::Sampled;
use super::policy::Reading;
use super::study::{BATCHES_MAX, TableStudy};
use crate::SampleError;
use crate::admission::Stage;
use crate::clock::Work;
use crate::pipeline::{ResidentTensor, Slots};

/// Rows of so many bytes are narrow.
const NARROW_BYTES: u64 = 16;

/// Times the size of a finished subgraph that its sampling takes for a while.
const SAMPLING_FACTOR: u64 = 8;

/// What the cache for blocks is left, where that is not more than its share of the budget.
const BLOCKS_BYTES: u64 = 16 << 20;

/// At most so many rows are planned and not read yet.
const PLANNED_ROWS: u64 = 128 << 10;

/// What a sampled batch takes beside its arrays.
const SAMPLE_OVERHEAD_BYTES: u64 = 4096;

/// What is decided once.
pub(super) struct Prepared {
    pub tables: Vec<PreparedTable>,
    pub residents: Residents,
    pub costs: DiskCosts,
    /// For slots, maps and sampled batches, beside the topology.
    bytes: u64,
    /// What others take, the topology included.
    taken_bytes: u64,
    sample_bytes: u64,
    /// Sampled batches that there is memory for.
    samples: u64,
    /// Of the topology in memory; 0 where it stays on disk.
    pub topology_bytes: u64,
    /// How a scan divides its memory, if one has begun.
    pub scan: Option<Layout>,
}

/// Tensors that go through slots.
type Tables<'a> = Vec<(TensorRef, &'a TensorMeta)>;

/// Tensors that are held in memory whole.
type Residents = Vec<(TensorRef, ResidentTensor)>;

/// A tensor that goes through slots.
pub(super) struct PreparedTable {
    pub tensor: TensorRef,
    pub rows: u64,
    pub width: u64,
    /// Of the buffers for what is handed out, all together.
    pub pool_bytes: u64,
}

impl Prepared {
    /// Batches that are studied before it is decided how rows are read.
    pub fn studied(&self) -> u64 {
        self.samples.min(BATCHES_MAX as u64 - 1)
    }

    /// Bytes of a sampled batch.
    pub fn sample_bytes(&self) -> u64 {
        self.sample_bytes
    }

    /// Bytes of tables that go through slots.
    pub fn table_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.rows * table.width).sum()
    }
}

impl LookAhead {
    /// Looks at the first sampled batch, which `first` keeps, and divides the budget.
    pub(super) fn prepare(
        &self,
        first: &mut Vec<Sampled>,
    ) -> Result<(Prepared, Vec<TableStudy>), SampleError> {
        self.take_sampled((1, 1), u64::MAX, &mut |sampled| first.push(sampled))?;
        let budget = self.snapshot().budget().limit_bytes();
        let (tables, residents) = self.split_tensors(budget)?;
        let beside = self.bytes_beside(&tables, &residents, &first[0])?;
        let study = |(tensor, meta): (TensorRef, &TensorMeta)| {
            let mut study = TableStudy::new(tensor, meta.num_rows, meta.row_bytes());
            study.add(&first[0]);
            study
        };
        let studies: Vec<TableStudy> = tables.into_iter().map(study).collect();
        let costs = match (self.settings.costs, studies.first()) {
            (Some(costs), _) => costs,
            (None, Some(study)) => self.snapshot().disk_costs(study.tensor)?,
            (None, None) => DiskCosts::default(),
        };
        Ok((self.divide(&studies, costs, residents, (&first[0], beside))?, studies))
    }

    /// Divides what is free of the budget.
    fn divide(
        &self,
        studies: &[TableStudy],
        costs: DiskCosts,
        residents: Residents,
        (first, beside): (&Sampled, u64),
    ) -> Result<Prepared, SampleError> {
        let (snapshot, threads) = (self.snapshot(), self.settings.threads() as u64);
        let table = |study: &TableStudy| PreparedTable {
            tensor: study.tensor,
            rows: study.rows,
            width: study.width,
            pool_bytes: self.settings.buffers() * self.buffer_bytes(study, first),
        };
        let tables: Vec<PreparedTable> = studies.iter().map(table).collect();
        let sample_bytes = first.num_bytes() * 9 / 8 + SAMPLE_OVERHEAD_BYTES;
        let topology_bytes = self.topology_that_fits();
        let sampled_blocks =
            if topology_bytes > 0 { 0 } else { self.sampler().block_cache_bytes() };
        let table_pages: u64 = tables.iter().map(|t| t.rows * t.width / 800).sum();
        let budget = snapshot.budget();
        let blocks =
            table_pages + BLOCKS_BYTES.min(budget.share(MemoryUser::BlockCache)) + sampled_blocks;
        let planned_rows = tables.iter().map(|t| t.rows).sum::<u64>().min(PLANNED_ROWS);
        let others = tables.iter().map(|table| table.pool_bytes).sum::<u64>()
            + threads * SAMPLING_FACTOR * sample_bytes
            + studies.iter().map(|s| s.rows_per_batch() * 16 * 4).sum::<u64>()
            + studies.iter().map(|s| TableStudy::num_bytes(s.rows)).sum::<u64>()
            + planned_rows * ng_store::RowPlan::BYTES_PER_ROW
            + budget.share(MemoryUser::LookAheadSlack)
            + beside
            + topology_bytes;
        let free = snapshot.free_beside_blocks(blocks) + first.num_bytes();
        let used = budget.limit_bytes() - snapshot.free_beside_blocks(0);
        let bytes = free.saturating_sub(others);
        let study = budget.share(MemoryUser::Study);
        let samples = match self.settings.window {
            Some(window) => window + 2 * LAG,
            None => study / sample_bytes,
        };
        Ok(Prepared {
            tables,
            residents,
            costs,
            bytes,
            taken_bytes: (used + blocks + others).saturating_sub(first.num_bytes()),
            sample_bytes,
            samples: samples.clamp(1 + 2 * LAG, STRETCH_MIN),
            topology_bytes,
            scan: None,
        })
    }

    /// Bytes of the columns whose rows do not come from `tables`. They come from `residents`, or
    /// through the store's caches.
    fn bytes_beside(
        &self,
        tables: &Tables<'_>,
        residents: &Residents,
        first: &Sampled,
    ) -> Result<u64, SampleError> {
        let columns = self.given.columns();
        let tensors = || columns.tensors().map(|(tensor, _)| tensor);
        let is_table = |wanted| tables.iter().any(|(tensor, _)| *tensor == wanted);
        let is_resident = |wanted| residents.iter().any(|(tensor, _)| *tensor == wanted);
        let others = tensors().enumerate().filter(|(_, tensor)| !is_table(*tensor));
        let places: Vec<usize> = others.map(|(place, _)| place).collect();
        let admit = |_: Stage, bytes: u64| self.admit(bytes);
        let batch = columns.only(&places).num_bytes(self.snapshot(), &first.sample, &admit)?;
        let is_gathered = tensors().any(|tensor| !is_table(tensor) && !is_resident(tensor));
        let scratch = if is_gathered { columns.scratch_bytes(&first.sample) } else { 0 };
        Ok((self.settings.buffers() * batch + scratch) * 9 / 8)
    }

    /// Bytes of a buffer for the rows of a batch.
    fn buffer_bytes(&self, study: &TableStudy, first: &Sampled) -> u64 {
        let rows = first.rows(study.tensor.owner).len() as u64;
        let out_bytes = self.decoder(study.tensor).map_or(0, RowDecoder::out_bytes) as u64;
        ((rows + rows / 32 + 64) * out_bytes).next_multiple_of(2 << 20)
    }

    /// The layout that the first batches are read with.
    pub(super) fn first_layout(
        &self,
        prepared: &mut Prepared,
        studies: &[TableStudy],
    ) -> Result<Layout, SampleError> {
        let mut room = self.room(prepared, studies);
        let scan = |room: &Room<'_>| choose(Reading::Scan, &Room { window: Some(1), ..*room });
        if !matches!(self.settings.reading, Reading::Auto | Reading::Scan) {
            return self.lay_out(&room);
        }
        // With little memory few samples have room beside the rows of one batch.
        let fewer = |samples: &u64| (*samples > 1 + 2 * LAG).then_some(samples / 2);
        let mut samples = successors(Some(room.samples), fewer);
        let found = samples.find_map(|samples| {
            room.samples = samples;
            scan(&room)
        });
        let Some(mut layout) = found else {
            return self.lay_out(&self.room(prepared, studies)).or_else(|error| {
                self.leave_topology_on_disk(prepared).then_some(()).ok_or(error)?;
                self.lay_out(&self.room(prepared, studies))
            });
        };
        prepared.samples = room.samples;
        if self.settings.may_have_two_phases() && prepared.topology_bytes > 0 {
            let bytes = room.bytes + prepared.topology_bytes;
            let Some(Layout { slots: grown, .. }) = scan(&Room { bytes, ..room }) else {
                return Ok(layout);
            };
            let whole = |(slots, grown): (&usize, &usize)| Slots::whole_shards(*slots, *grown);
            layout.slots = layout.slots.iter().zip(&grown).map(whole).collect();
            layout.grown = grown;
        }
        Ok(layout)
    }

    /// The best way to divide the room.
    pub(super) fn lay_out(&self, room: &Room<'_>) -> Result<Layout, SampleError> {
        let reading = self.settings.reading;
        choose(reading, room).ok_or_else(|| {
            // One way and one window are soon tried; a longer window takes up to an eighth more.
            let quick = if reading == Reading::Auto { Reading::Window } else { reading };
            let window = room.window.or(Some(1));
            let fits = |bytes: &u64| {
                choose(quick, &Room { bytes: bytes / 5 * 4, window, ..*room }).is_some()
            };
            let grown = |bytes: &u64| bytes.checked_add(bytes / 4);
            let enough = successors(Some(room.bytes.max(1 << 20)), grown).find(fits);
            self.too_small(room, enough.unwrap_or(u64::MAX))
        })
    }

    /// What there is to divide, with what is known of the batches.
    pub(super) fn room<'a>(&self, prepared: &Prepared, studies: &'a [TableStudy]) -> Room<'a> {
        let (given, left) = {
            let state = self.shared.lock();
            (self.known(&state), self.shared.jobs.len() - state.delivered)
        };
        Room {
            tables: studies,
            costs: prepared.costs,
            window: self.settings.window,
            bytes: prepared.bytes,
            taken_bytes: prepared.taken_bytes,
            sample_bytes: prepared.sample_bytes,
            samples: prepared.samples,
            slots: None,
            given,
            left,
            disk_bytes: self.settings.spill_room(),
        }
    }

    /// Leaves to rows what the topology would take; whether it would have taken any.
    fn leave_topology_on_disk(&self, prepared: &mut Prepared) -> bool {
        let bytes = std::mem::take(&mut prepared.topology_bytes);
        let blocks = self.sampler().block_cache_bytes();
        prepared.bytes = (prepared.bytes + bytes).saturating_sub(blocks);
        prepared.taken_bytes = (prepared.taken_bytes + blocks).saturating_sub(bytes);
        self.shared.change(|state| state.way.sample_before = None);
        bytes > 0
    }

    /// Bytes of the topologies that are drawn from, if they are to be held in memory.
    pub(super) fn topology_that_fits(&self) -> u64 {
        let bytes = self.given.drawn_bytes();
        let user = if self.settings.may_have_two_phases() {
            MemoryUser::PassingTopology
        } else {
            MemoryUser::Topology
        };
        if bytes <= self.snapshot().budget().share(user) { bytes } else { 0 }
    }

    /// Reads the topologies into memory.
    pub(super) fn load_topology(&self) -> Result<(), SampleError> {
        let load = || self.given.clone().with_topology_within(u64::MAX);
        let sampler = self.shared.clock.count(Work::Load, load)?;
        self.set_sampler(sampler.with_orders()?);
        Ok(())
    }

    /// Leaves the topology on disk.
    pub(super) fn sample_from_disk(&self) -> Result<(), SampleError> {
        self.set_sampler(self.given.clone().with_orders()?);
        Ok(())
    }

    /// The tensors that go through slots, and those that are held in memory.
    fn split_tensors(&self, budget: u64) -> Result<(Tables<'_>, Residents), SampleError> {
        let (mut tables, mut residents) = (Vec::new(), Vec::new());
        for (tensor, _) in self.given.columns().tensors() {
            let Some(meta) = self.snapshot().catalog().tensor(tensor) else { continue };
            if meta.is_sparse() {
                continue;
            }
            let most = user_of_whole(meta.row_bytes()).share(budget);
            if meta.num_rows.saturating_mul(meta.row_bytes()) <= most {
                residents.push((tensor, ResidentTensor::load(self.snapshot(), tensor)?));
            } else if meta.num_rows >= u64::from(u32::MAX) {
                let (tensor, num_rows) = (meta.name.clone(), meta.num_rows);
                return Err(SampleError::TooManyRows { tensor, num_rows });
            } else {
                tables.push((tensor, meta));
            }
        }
        Ok((tables, residents))
    }

    /// The error where `room` is less than `enough`, with a budget that has so much.
    fn too_small(&self, room: &Room<'_>, enough: u64) -> SampleError {
        let limit_bytes = self.snapshot().budget().limit_bytes();
        // Staging memory, slack and samples take up to a third of what a budget grows by.
        let with = |bytes: u64| bytes.saturating_add(bytes / 2);
        let missing = enough.saturating_add(room.taken_bytes).saturating_sub(limit_bytes);
        let mut minimum_bytes = limit_bytes.saturating_add(with(missing));
        // What fits into its share then is held whole.
        let is_held = self.sampler().topology_bytes() > 0;
        let topology = if is_held { 0 } else { self.sampler().drawn_bytes() };
        let whole = room.tables.iter().map(|s| (user_of_whole(s.width), s.rows * s.width));
        for (user, bytes) in whole.chain([(MemoryUser::PassingTopology, topology)]) {
            if bytes <= user.share(with(minimum_bytes)) {
                minimum_bytes = minimum_bytes.saturating_add(with(bytes));
            }
        }
        let rows: u64 = room.tables.iter().map(|s| s.rows_per_batch() * s.width).sum();
        let wanted_bytes = rows.saturating_add(room.sample_bytes);
        let free_bytes = room.bytes;
        SampleError::TooSmallToLookAhead { wanted_bytes, free_bytes, limit_bytes, minimum_bytes }
    }
}

/// Who holds a tensor of so wide rows whole.
fn user_of_whole(width: u64) -> MemoryUser {
    if width <= NARROW_BYTES { MemoryUser::NarrowTensor } else { MemoryUser::WholeTensor }
}
