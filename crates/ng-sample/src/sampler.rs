//! What is sampled, and from where: the samplers of a snapshot, and the memory that they keep.
//!
//! How a batch comes of it is elsewhere: hops in `hops`, the choice of entries in `draw`.

use std::sync::Arc;

use ng_io::BLOCK_BYTES;
use ng_store::{
    DirectFile, Owner, ReadError, ResidentTopology, RowOrder, RowQueue, Snapshot, Spare, TensorRef,
};
use ng_types::{EdgeTypeId, MemoryUser, NodeId, NodeTypeId};

use crate::admission::{Admit, Growing, Stage};
use crate::buffer::Pool;
use crate::clock::{Clock, Work};
use crate::columns::Columns;
use crate::compact::CompactSample;
use crate::direct::Direct;
use crate::hops::streaming::{self, Engine, StreamingStats};
use crate::hops::{Ahead, Disjoint, Ends, HearNodes, Hops};
use crate::older::OlderLists;
use crate::{ColumnSpec, HotSet, Job, MiniBatch, SampleError, SampleSpec, Seeds};

/// Samples mini-batches from one snapshot.
///
/// Cheap to share between threads; holds no state that a sample could depend on.
#[derive(Clone)]
pub struct Sampler {
    snapshot: Arc<Snapshot>,
    spec: Arc<SampleSpec>,
    columns: Arc<Columns>,
    /// By edge type.
    ends: Arc<[Ends]>,
    /// Topologies in memory, by edge type.
    pub(crate) resident: Arc<[Option<Arc<ResidentTopology>>]>,
    /// The same of older snapshots, for batches of subgraphs that share no nodes.
    pub(crate) older: Arc<[Option<OlderLists>]>,
    /// Topologies that the store holds serve as well.
    borrows: bool,
    /// Orders of rows in memory, by node type.
    orders: Arc<[Option<Arc<RowOrder>>]>,
    /// Ids of all node types fit 32 bits.
    ids_are_narrow: bool,
    pub(crate) engine: Engine,
    pub(crate) streaming: Arc<streaming::Counters>,
    /// What batches are made from instead of all of the above.
    direct: Option<Arc<Direct>>,
    clock: Arc<Clock>,
    /// Buffers of batches that were dropped.
    pool: Option<Arc<Kept>>,
}

/// A pool whose free buffers go first when anybody lacks memory, and at last when its pipeline
/// ends.
struct Kept {
    pool: Arc<Pool>,
    _spare: Arc<Spare>,
}

impl Kept {
    fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.pool.close();
    }
}

impl Sampler {
    /// A sampler that also gathers `tensors`: node tensors for every node of the batch, edge
    /// tensors (by edge id) for every edge. Rows come as
    /// [`ng_store::TensorMeta::read_dtype`] says.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if the fanouts do not fit the edge types, or an edge tensor is asked
    /// for whose type keeps no edge ids; [`SampleError::Read`] if its scales cannot be read.
    pub fn new(
        snapshot: Arc<Snapshot>,
        spec: SampleSpec,
        tensors: Vec<TensorRef>,
    ) -> Result<Self, SampleError> {
        let columns: Vec<ColumnSpec> = tensors.into_iter().map(ColumnSpec::from).collect();
        Self::with_columns(snapshot, spec, &columns)
    }

    /// As [`Sampler::new`], with the form of each tensor in a batch.
    ///
    /// # Errors
    /// As [`Sampler::new`], and [`SampleError::Read`] for what its elements cannot be.
    pub fn with_columns(
        snapshot: Arc<Snapshot>,
        spec: SampleSpec,
        wanted: &[ColumnSpec],
    ) -> Result<Self, SampleError> {
        spec.check(snapshot.catalog())?;
        let catalog = snapshot.catalog();
        let ends: Arc<[Ends]> = Ends::of(catalog).into();
        let resident = vec![None; ends.len()].into();
        let older = vec![None; ends.len()].into();
        let ids_are_narrow = catalog.node_types.iter().all(|meta| meta.num_nodes <= 1 << 32);
        let columns = Arc::new(Columns::new(&snapshot, wanted)?);
        let orders = vec![None; catalog.node_types.len()].into();
        Ok(Self {
            snapshot,
            spec: Arc::new(spec),
            columns,
            ends,
            resident,
            older,
            borrows: true,
            orders,
            ids_are_narrow,
            engine: Engine::default(),
            streaming: Arc::default(),
            direct: None,
            clock: Arc::default(),
            pool: None,
        })
    }

    /// Returns the same sampler, which makes batches from a file of the direct layout of its
    /// snapshot. The batches are equal. Tensors that are not in the file are read from the store.
    /// There is no look-ahead.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if the file is of another snapshot, or entries are not drawn by
    /// destination.
    pub fn with_direct(self, file: Arc<DirectFile>) -> Result<Self, SampleError> {
        let direct = Direct::new(file, &self.snapshot, &self.spec, &self.columns)?;
        Ok(Self { direct: Some(Arc::new(direct)), ..self })
    }

    /// Returns the same sampler, which reads the edge types in `resident` (by edge type id) from
    /// memory. Samples are equal.
    ///
    /// # Errors
    /// [`SampleError::Spec`] unless `resident` has a place for each edge type, and what is there is
    /// of that type and of the sampler's snapshot.
    pub fn with_resident(
        self,
        resident: Vec<Option<Arc<ResidentTopology>>>,
    ) -> Result<Self, SampleError> {
        let (given, known) = (resident.len(), self.ends.len());
        if given != known {
            let what = format!("got topologies for {given} edge types, but the store has {known}");
            return Err(SampleError::Spec(what));
        }
        for (index, topology) in resident.iter().enumerate() {
            let wanted = (EdgeTypeId(index as u16), self.snapshot.fingerprint());
            let found = topology.as_ref().map(|t| (t.edge_type(), t.fingerprint()));
            if found.is_some_and(|found| found != wanted) {
                return Err(SampleError::Spec(format!(
                    "the topology for edge type {index} belongs to another edge type or version; \
                     load it from the sampled snapshot"
                )));
            }
        }
        Ok(Self { resident: resident.into(), ..self })
    }

    /// The same sampler, taking lists of edge types from what `older` (by edge type id) has of a
    /// snapshot before, where they have not changed since. [`Self::sample_disjoint`] alone does;
    /// samples are the same.
    ///
    /// # Errors
    /// [`SampleError::Spec`] unless `older` has a place for each edge type.
    pub fn with_older(self, older: Vec<Option<OlderLists>>) -> Result<Self, SampleError> {
        let (given, known) = (older.len(), self.ends.len());
        if given != known {
            let what = format!("got lists for {given} edge types, but the store has {known}");
            return Err(SampleError::Spec(what));
        }
        Ok(Self { older: older.into(), ..self })
    }

    /// The lists of an edge type that outlive commits from now on: those in memory, and which of
    /// them changed before.
    pub fn older_lists(&self, edge_type: EdgeTypeId) -> Option<&OlderLists> {
        self.older.get(usize::from(edge_type.0))?.as_ref()
    }

    /// The topology of an edge type in memory.
    pub fn resident_lists(&self, edge_type: EdgeTypeId) -> Option<&Arc<ResidentTopology>> {
        self.resident.get(usize::from(edge_type.0))?.as_ref()
    }

    /// The same draws, with the rows that compiled epochs carry, as they are stored.
    ///
    /// # Errors
    /// [`SampleError::Read`].
    pub fn storing(&self, hot: &HotSet) -> Result<Self, SampleError> {
        let catalog = self.snapshot.catalog();
        let dtype = |tensor| catalog.tensor(tensor).map(|meta| meta.dtype);
        let tensors = hot.tables.iter().map(|table| table.tensor);
        let wanted = tensors.map(|t| ColumnSpec { tensor: t, dtype: dtype(t), is_sparse: false });
        let columns = Columns::new(&self.snapshot, &wanted.collect::<Vec<_>>())?;
        Ok(Self { columns: Arc::new(columns), ..self.clone() })
    }

    /// The same sampler, reading lists that are not in memory in another way. Samples are the same.
    pub fn with_engine(self, engine: Engine) -> Self {
        Self { engine, ..self }
    }

    /// Returns the counters of the streaming engine.
    pub fn streaming_stats(&self) -> StreamingStats {
        self.streaming.stats()
    }

    /// Seconds that each stage of all pipelines over this sampler has worked, summed over threads:
    /// `load` (topologies read into memory), `sample`, `read` (rows and records read ahead of their
    /// batches) and `gather` (rows put into batches, and read where nothing reads ahead). Waiting
    /// for memory is left out.
    pub fn worked_seconds(&self) -> Vec<(&'static str, f64)> {
        self.clock.worked()
    }

    /// Returns the seconds that the threads of all pipelines of this sampler have waited, by cause.
    /// The stage that waits least is the bottleneck.
    pub fn waited_seconds(&self) -> Vec<(&'static str, f64)> {
        self.clock.waited()
    }

    /// Names of the stages that work at this moment, in any pipeline over this sampler.
    pub fn busy_stages(&self) -> Vec<&'static str> {
        self.clock.busy()
    }

    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    /// The snapshot that is sampled.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Samples around `seeds` (by node type; a type at most once) with the draws of `stream`.
    pub fn sample(
        &self,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
    ) -> Result<MiniBatch, SampleError> {
        let admit = |_: Stage, bytes: u64| self.snapshot.reserve(bytes).map_err(SampleError::from);
        self.sample_admitted(seeds, stream, &admit)
    }

    pub(crate) fn sample_admitted(
        &self,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
        admit: &Admit<'_>,
    ) -> Result<MiniBatch, SampleError> {
        if let Some(direct) = &self.direct {
            return direct.sample(self, seeds, stream, admit);
        }
        let mut scratch = SampleScratch::default();
        let sample = self.sample_compact_admitted(seeds, stream, &mut scratch, admit)?;
        drop(scratch);
        self.with_rows(sample, admit)
    }

    /// Makes the batch of a job.
    pub(crate) fn make_admitted(
        &self,
        job: &Job,
        admit: &Admit<'_>,
    ) -> Result<MiniBatch, SampleError> {
        if let (Seeds::Nodes { node_type, ids, .. }, true) = (&job.seeds, self.spec.is_plain()) {
            return self.sample_admitted(&[(*node_type, ids)], job.stream, admit);
        }
        let mut scratch = SampleScratch::default();
        let sample = self.sample_job(job, &mut scratch, admit)?;
        drop(scratch);
        self.with_rows(sample, admit)
    }

    /// A sample with its rows.
    fn with_rows(
        &self,
        sample: CompactSample,
        admit: &Admit<'_>,
    ) -> Result<MiniBatch, SampleError> {
        let held = admit(Stage::Topology, sample.batch_bytes())?;
        let columns = self.clock.time(Work::Gather, admit, |admit| {
            self.columns.gather(
                &self.snapshot,
                &sample,
                self.pool.as_deref().map(Kept::pool),
                admit,
            )
        })?;
        Ok(sample.into_batch(held, columns))
    }

    /// Whether batches are made from the direct layout.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Whether the rows of the tensors pass what the budget can hold, in caches or whole, so that
    /// looking ahead pays.
    pub fn is_larger_than_memory(&self) -> bool {
        let catalog = self.snapshot.catalog();
        let metas = self.columns.tensors().filter_map(|(tensor, _)| catalog.tensor(tensor));
        let dense = metas.filter(|meta| !meta.is_sparse());
        let bytes: u64 = dense.map(|meta| meta.num_rows.saturating_mul(meta.row_bytes())).sum();
        let (edge_types, tensors) = self.sources();
        bytes > self.snapshot.budget().share(MemoryUser::Rows)
            && !self.snapshot.can_hold(&edge_types, &tensors, 0)
    }

    /// The same sampler, keeping up to `most` buffers of its batches for the next ones.
    pub(crate) fn with_pool(self, most: usize) -> Self {
        let pool = Pool::open(most * self.columns.tensors().count());
        let of_spare = Arc::downgrade(&pool);
        let spare = Spare::new(move || of_spare.upgrade().map_or(0, |pool| pool.drop_all()));
        self.snapshot.tenants().add_spare(&spare);
        Self { pool: Some(Arc::new(Kept { pool, _spare: spare })), ..self }
    }

    /// The topologies and tensors that batches are made from.
    fn sources(&self) -> (Vec<EdgeTypeId>, Vec<TensorRef>) {
        let edge_types = (0..self.ends.len() as u16).map(EdgeTypeId);
        let drawn = edge_types.filter(|id| self.reads(*id)).collect();
        (drawn, self.columns.tensors().map(|(tensor, _)| tensor).collect())
    }

    /// Holds what batches are made from in memory, if it fits beside `in_flight` of them, and
    /// `batches` like this one would read as much as all of it.
    pub(crate) fn hold_for(&self, batch: &MiniBatch, batches: u64, in_flight: u64) {
        if self.direct.is_some() || !self.borrows {
            return;
        }
        let (edge_types, tensors) = self.sources();
        let (block, catalog) = (BLOCK_BYTES as u64, self.snapshot.catalog());
        let of_rows = tensors.iter().filter_map(|tensor| {
            let meta = catalog.tensor(*tensor).filter(|meta| !meta.is_sparse())?;
            let rows = batch.row_ids(tensor.owner).len() as u64;
            Some(rows * meta.row_bytes().next_multiple_of(block))
        });
        let of_lists = edge_types.iter().map(|id| {
            let last = batch.edges[usize::from(id.0)].cols.last();
            last.map_or(0, |last| (*last as u64 + 1) * block)
        });
        let read_bytes = of_rows.sum::<u64>() + of_lists.sum::<u64>();
        if read_bytes.saturating_mul(batches) >= self.snapshot.lacking_bytes(&edge_types, &tensors)
        {
            self.snapshot.hold(&edge_types, &tensors, batch.num_bytes().saturating_mul(in_flight));
        }
    }

    /// The same with every topology that is drawn from in memory, if all fit beside the rest: what
    /// is read at random several times a batch is worth more there than rows are.
    ///
    /// # Errors
    /// [`SampleError::Read`], [`SampleError::Budget`].
    pub fn with_topology_that_fits(self) -> Result<Self, SampleError> {
        let limit_bytes = self.snapshot.budget().share(MemoryUser::Topology);
        self.with_topology_within(limit_bytes)
    }

    /// The same with every topology that is drawn from in memory, if all of them take at most
    /// `limit_bytes`.
    ///
    /// # Errors
    /// As [`Sampler::with_topology_that_fits`].
    pub fn with_topology_within(self, limit_bytes: u64) -> Result<Self, SampleError> {
        if self.drawn_bytes() > limit_bytes {
            return Ok(self);
        }
        let edge_types = (0..self.ends.len() as u16).map(EdgeTypeId);
        let drawn = |id| self.reads(id);
        let load = |id| drawn(id).then(|| self.snapshot.load_topology(id)).transpose();
        let resident = edge_types.map(load).collect::<Result<_, _>>()?;
        self.with_resident(resident)
    }

    /// Bytes that all topologies which are drawn from take in memory.
    pub(crate) fn drawn_bytes(&self) -> u64 {
        let edge_types = (0..self.ends.len() as u16).map(EdgeTypeId);
        let drawn = edge_types.filter(|id| self.reads(*id));
        drawn.map(|id| self.snapshot.resident_bytes(id)).sum()
    }

    /// Bytes of the topologies in memory.
    pub fn topology_bytes(&self) -> u64 {
        self.resident.iter().flatten().map(|topology| topology.num_bytes()).sum()
    }

    /// The same with the orders of rows in memory, for all node types whose rows batches carry.
    pub(crate) fn with_orders(self) -> Result<Self, SampleError> {
        let catalog = self.snapshot.catalog();
        let mut orders = vec![None; catalog.node_types.len()];
        for (tensor, _) in self.columns.tensors() {
            let Owner::Node(node_type) = tensor.owner else { continue };
            orders[usize::from(node_type.0)] = self.snapshot.load_order(node_type)?;
        }
        Ok(Self { orders: orders.into(), ..self })
    }

    /// The same where they are small beside the budget and it has room for them; else they are read
    /// in parts, through the store's caches.
    pub(crate) fn with_orders_that_fit(self) -> Result<Self, SampleError> {
        let node_types = 0..self.snapshot.catalog().node_types.len() as u16;
        let bytes: u64 = node_types.map(|id| self.snapshot.order_bytes(NodeTypeId(id))).sum();
        if bytes == 0 || bytes > self.snapshot.budget().share(MemoryUser::Orders) {
            return Ok(self);
        }
        match self.clone().with_orders() {
            Err(SampleError::Read(ReadError::Budget(_))) => Ok(self),
            other => other,
        }
    }

    /// Orders of rows in memory, by node type.
    pub(crate) fn orders(&self) -> &[Option<Arc<RowOrder>>] {
        &self.orders
    }

    /// By edge type.
    pub(crate) fn ends(&self) -> &[Ends] {
        &self.ends
    }

    /// How many hops a batch has.
    pub fn hops(&self) -> usize {
        self.spec.fanouts.hops()
    }

    /// Whether lists of an edge type are read.
    fn reads(&self, edge_type: EdgeTypeId) -> bool {
        self.spec.reads(edge_type, self.snapshot.catalog())
    }

    /// What is sampled.
    pub(crate) fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    /// What sampling wants of the store's block cache.
    pub(crate) fn block_cache_bytes(&self) -> u64 {
        let mut edge_types = (0..).map(EdgeTypeId).zip(self.resident.iter());
        let all = edge_types.all(|(id, held)| held.is_some() || !self.reads(id));
        if all { 0 } else { self.snapshot.budget().share(MemoryUser::SampledBlocks) }
    }

    /// The tensors that batches carry, and how their rows are read.
    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Samples the topology around `seeds`, as [`Sampler::sample`] does, and keeps it in the fewest
    /// bytes. `scratch` belongs to the calling thread and serves any sampler of the same store.
    ///
    /// # Errors
    /// As [`Sampler::sample`]; after an error of memory, drop `scratch` to give its memory back.
    pub fn sample_compact(
        &self,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
        scratch: &mut SampleScratch,
    ) -> Result<CompactSample, SampleError> {
        let admit = |_: Stage, bytes: u64| self.snapshot.reserve(bytes).map_err(SampleError::from);
        self.sample_compact_admitted(seeds, stream, scratch, &admit)
    }

    /// As [`Sampler::sample_compact`]; `hear` is told of the nodes that each hop has added, seeds
    /// first, before the next hop is drawn. What it asks `rows` for is read with the lists of that
    /// hop, where these are drawn from by position.
    ///
    /// # Errors
    /// As [`Sampler::sample_compact`].
    pub fn sample_hearing(
        &self,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
        scratch: &mut SampleScratch,
        hear: &mut HearNodes<'_>,
        rows: &Arc<RowQueue>,
    ) -> Result<CompactSample, SampleError> {
        let ahead = Ahead { hear, rows };
        let admit = |_: Stage, bytes: u64| self.snapshot.reserve(bytes).map_err(SampleError::from);
        self.sample_into((seeds, stream), scratch, Some(ahead), &admit)
    }

    pub(crate) fn sample_compact_admitted(
        &self,
        seeds: &[(NodeTypeId, &[NodeId])],
        stream: u64,
        scratch: &mut SampleScratch,
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        self.sample_into((seeds, stream), scratch, None, admit)
    }

    fn sample_into(
        &self,
        (seeds, stream): (&[(NodeTypeId, &[NodeId])], u64),
        scratch: &mut SampleScratch,
        ahead: Option<Ahead<'_, '_>>,
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        self.clock.time(Work::Sample, admit, |admit| {
            self.with_lists_at_hand(|sampler| {
                sampler.spread((seeds, stream), scratch, ahead, admit)
            })
        })
    }

    /// Hops from seeds.
    pub(crate) fn spread(
        &self,
        asked: (&[(NodeTypeId, &[NodeId])], u64),
        scratch: &mut SampleScratch,
        ahead: Option<Ahead<'_, '_>>,
        admit: &Admit<'_>,
    ) -> Result<CompactSample, SampleError> {
        let SampleScratch { narrow, wide, held, .. } = scratch;
        if self.ids_are_narrow {
            self.sample_hops(asked, (narrow, held), ahead, admit)
        } else {
            self.sample_hops(asked, (wide, held), ahead, admit)
        }
    }

    /// Samples with what the store holds of topologies that this sampler lacks, and counts the
    /// lists that are read.
    pub(crate) fn with_lists_at_hand(
        &self,
        sample: impl FnOnce(&Self) -> Result<CompactSample, SampleError>,
    ) -> Result<CompactSample, SampleError> {
        let borrowing = self.with_held_topologies();
        let sampler = borrowing.as_ref().unwrap_or(self);
        let sample = sample(sampler)?;
        if self.borrows {
            sampler.count_lists(&sample);
        }
        Ok(sample)
    }

    /// The same lists and rows, sampled otherwise.
    pub(crate) fn with_spec(&self, spec: SampleSpec) -> Self {
        Self { spec: Arc::new(spec), ..self.clone() }
    }

    /// The same sampler, reading lists from pages however often: memory was planned without what
    /// the store holds, or reading is what is measured.
    pub fn without_held_topologies(self) -> Self {
        Self { borrows: false, ..self }
    }

    /// The same draws, with the lists and orders that another sampler has in memory.
    pub(crate) fn with_memory_of(&self, other: &Self) -> Self {
        let (resident, orders) = (Arc::clone(&other.resident), Arc::clone(&other.orders));
        Self { resident, orders, ..self.clone() }
    }

    /// Whether batches of both carry the same columns of one version.
    pub(crate) fn has_columns_of(&self, other: &Self) -> bool {
        self.snapshot.fingerprint() == other.snapshot.fingerprint()
            && self.columns.are(&other.columns)
    }

    /// Whether both make the same batches of the same seeds.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.spec == other.spec && self.has_columns_of(other)
    }

    /// The same for one batch, with what the store holds of topologies that this one lacks.
    fn with_held_topologies(&self) -> Option<Self> {
        let mut resident = self.resident.to_vec();
        let drawn = (0..).map(EdgeTypeId).zip(&mut resident);
        let lacking = drawn.filter(|(id, own)| own.is_none() && self.reads(*id));
        for (id, own) in lacking.filter(|_| self.borrows) {
            *own = self.snapshot.held_topology(id);
        }
        let has_more = resident.iter().flatten().count() > self.resident.iter().flatten().count();
        has_more.then(|| Self { resident: resident.into(), ..self.clone() })
    }

    /// Counts the lists that were read from pages, so that the store may hold the topology.
    fn count_lists(&self, sample: &CompactSample) {
        let edge_types = (0..).map(EdgeTypeId).zip(&sample.edges).zip(self.resident.iter());
        for ((id, edges), _) in edge_types.filter(|(_, own)| own.is_none()) {
            if self.reads(id) {
                self.snapshot.count_lists(id, edges.counts.len() as u64);
            }
        }
    }
}

/// Memory that sampling works with, kept from sample to sample and counted in the store's budget.
/// One for each thread that calls [`Sampler::sample_compact`].
#[derive(Default)]
pub struct SampleScratch {
    pub(crate) narrow: Hops<u32>,
    pub(crate) wide: Hops<u64>,
    pub(crate) held: Growing,
    pub(crate) disjoint: Disjoint,
}

impl SampleScratch {
    /// Bytes of the budget that are held for it.
    pub fn num_bytes(&self) -> u64 {
        self.held.bytes() + self.disjoint.held_bytes()
    }
}
