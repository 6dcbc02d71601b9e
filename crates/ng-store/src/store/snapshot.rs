//! One version of a store, and every question that can be put to it. All calls take batches.
//!
//! A snapshot may be used by many threads at once. Answers come in request order and do not depend
//! on caches, back end or the order of completions.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use ng_io::IoStats;
use ng_types::{Budget, BudgetExceeded, CheckpointId, EdgeTypeId, NodeId, NodeTypeId, Reservation};

use crate::bytes::put;
use crate::catalog::{Catalog, TensorRef};
use crate::costs::{DiskCosts, RequestRate, curve, file_bytes};
use crate::dictionary::reader::DictionaryReader;
use crate::error::ReadError;
use crate::page::{Beside, Pages, Placed, VisitRows, scan_rows, scan_some_rows};
use crate::rows::queue::RowQueue;
use crate::store::{Inner, Tenants};
use crate::tensor::reader::{GatherStats, TensorReader};
use crate::topology::{Draw, Expansion, TopologyReader};
use crate::version::base::Version;
use crate::version::changes::Changes;

/// The temporary memory of [`Snapshot::expand`] per destination, in addition to its result and
/// outside of the budget. Callers that reserve memory for a batch add it.
pub const EXPAND_BYTES_PER_DESTINATION: u64 = 160;
/// The same for each chosen entry.
pub const EXPAND_BYTES_PER_ENTRY: u64 = 56;
/// The same for each row of [`Snapshot::gather`] that has to be read.
pub const GATHER_BYTES_PER_ROW: u64 = 88;
/// The same for each row of [`Snapshot::sparse_spans`], and of a gather of sparse rows.
pub const SPARSE_BYTES_PER_ROW: u64 = 88;

/// One version of a store.
pub struct Snapshot {
    pub(crate) inner: Arc<Inner>,
    pub(crate) version: Arc<Version>,
}

impl Snapshot {
    /// Returns the catalog of the snapshot.
    pub fn catalog(&self) -> &Catalog {
        &self.version.catalog
    }

    /// The checkpoint that this version stands on.
    pub fn checkpoint_id(&self) -> CheckpointId {
        CheckpointId(self.version.base.checkpoint_id)
    }

    /// The last commit in this version.
    pub fn lsn(&self) -> u64 {
        self.version.lsn
    }

    /// Whether both are of one open store, and `other` has later commits.
    pub fn is_older_than(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) && self.lsn() < other.lsn()
    }

    /// Returns the changes of the commits between `older` and this snapshot. `None` means unknown,
    /// so everything may have changed: `older` is later or belongs to another open store, the
    /// commits were not made through this store, a tensor was added, or the commits exceed the
    /// notes that the store keeps ([`ng_types::MemoryUser::Changes`]), which also bound the result.
    ///
    /// Checkpoints between them change nothing.
    pub fn changes_since(&self, older: &Self) -> Option<Changes> {
        let is_same = Arc::ptr_eq(&self.inner, &older.inner) && older.lsn() <= self.lsn();
        let (from, to) = (older.version.fingerprint, self.version.fingerprint);
        is_same.then(|| self.inner.lock_changes().between(from, to)).flatten()
    }

    /// The last commit in the checkpoint that this version stands on.
    pub fn checkpoint_lsn(&self) -> u64 {
        self.version.base.lsn
    }

    /// Identifies the content: stores with equal bytes have equal fingerprints, and a store with
    /// other content has another one with near certainty.
    pub fn fingerprint(&self) -> u64 {
        self.version.fingerprint
    }

    /// Chooses entries of the neighbour lists of `destinations` (any order, repeats are separate
    /// requests) and puts them into `out`.
    ///
    /// `draw` is called once for every destination, in no particular order. It must depend on its
    /// arguments alone for the result to be repeatable, and must not call the snapshot: a part of a
    /// cache may be locked. Positions of long lists are drawn before their pages are read, and only
    /// the 4 KiB blocks that hold them are read, each once.
    ///
    /// # Errors
    /// [`ReadError::NodeOutOfRange`], [`ReadError::PositionOutOfRange`], [`ReadError::Missing`],
    /// [`ReadError::Checksum`], [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn expand(
        &self,
        edge_type: EdgeTypeId,
        destinations: &[NodeId],
        draw: &mut Draw<'_>,
        out: &mut Expansion,
    ) -> Result<(), ReadError> {
        let reader = self.topology_reader(&self.inner.pages, edge_type)?;
        self.check_nodes(reader.meta.destination, destinations)?;
        reader.expand(destinations, draw, out)
    }

    /// Like [`Snapshot::expand`], and reads the rows requested from `rows`, a queue of this
    /// snapshot, together with the lists. `rows` returns the errors of these reads.
    ///
    /// # Errors
    /// As [`Snapshot::expand`].
    pub fn expand_beside(
        &self,
        edge_type: EdgeTypeId,
        destinations: &[NodeId],
        draw: &mut Draw<'_>,
        out: &mut Expansion,
        rows: &Arc<RowQueue>,
    ) -> Result<(), ReadError> {
        let pages = self.inner.pages.with_beside(Arc::clone(rows) as Arc<dyn Beside>);
        let reader = self.topology_reader(&pages, edge_type)?;
        self.check_nodes(reader.meta.destination, destinations)?;
        reader.expand(destinations, draw, out)
    }

    /// The topology of an edge type through `pages`.
    pub(crate) fn topology_reader<'a>(
        &'a self,
        pages: &'a Pages,
        edge_type: EdgeTypeId,
    ) -> Result<TopologyReader<'a>, ReadError> {
        let (meta, topo, index) = self.version.topology(edge_type)?;
        let num_sources = self.version.node_type(meta.source)?.num_nodes;
        Ok(TopologyReader { pages, edge_type, meta, num_sources, topo, index })
    }

    /// The whole neighbour lists of `destinations`, in list order.
    ///
    /// # Errors
    /// As [`Snapshot::expand`].
    pub fn neighbors(
        &self,
        edge_type: EdgeTypeId,
        destinations: &[NodeId],
        out: &mut Expansion,
    ) -> Result<(), ReadError> {
        let mut all = |_, degree, positions: &mut Vec<u64>| positions.extend(0..degree);
        self.expand(edge_type, destinations, &mut all, out)
    }

    /// The lengths of the neighbour lists of `nodes`.
    ///
    /// # Errors
    /// As [`Snapshot::expand`].
    pub fn degrees(&self, edge_type: EdgeTypeId, nodes: &[NodeId]) -> Result<Vec<u64>, ReadError> {
        let mut degrees = vec![0; nodes.len()];
        let mut note = |place: usize, degree, _: &mut Vec<u64>| {
            if let Some(slot) = degrees.get_mut(place) {
                *slot = degree;
            }
        };
        self.expand(edge_type, nodes, &mut note, &mut Expansion::default())?;
        Ok(degrees)
    }

    /// Copies the rows of `ids` to `out`, one after the other in request order; repeats are fine.
    /// Ids are those of nodes or edges, wherever their rows lie.
    ///
    /// # Errors
    /// [`ReadError::RowOutOfRange`], [`ReadError::OutputSize`] unless `out` has exactly rows x row
    /// bytes, [`ReadError::Missing`], [`ReadError::Checksum`], [`ReadError::Io`].
    pub fn gather(
        &self,
        tensor: TensorRef,
        ids: &[u64],
        out: &mut [u8],
    ) -> Result<GatherStats, ReadError> {
        let stats = self.gather_uncounted(tensor, ids, out)?;
        if stats.rows_cached < stats.rows {
            self.count_rows_read(tensor, stats.rows - stats.rows_cached)?;
        }
        Ok(stats)
    }

    /// As [`Snapshot::gather`], and never brings the store to hold the whole tensor: for those who
    /// cannot wait for that, and who say by themselves what is in memory.
    pub(crate) fn gather_uncounted(
        &self,
        tensor: TensorRef,
        ids: &[u64],
        out: &mut [u8],
    ) -> Result<GatherStats, ReadError> {
        let inner = &self.inner;
        let (meta, segment, layout) = self.version.tensor(tensor)?;
        meta.check_rows(ids)?;
        let expected = ids.len().saturating_mul(meta.row_bytes() as usize);
        if out.len() != expected {
            return Err(ReadError::OutputSize { expected, found: out.len() });
        }
        if meta.is_sparse() {
            return self.gather_dense(tensor, ids, out);
        }
        let table = inner.tables.get(&segment.placed);
        let pool = inner.row_pool(segment, layout).filter(|_| table.is_none());
        let reader = TensorReader { pages: &inner.pages, segment, layout, pool };
        let rows = self.rows_of(tensor.owner, ids)?;
        let stats = match &table {
            Some(table) => reader.gather_beside(table, &rows, out)?,
            None => reader.gather(&rows, out)?,
        };
        self.count_rows(stats);
        Ok(stats)
    }

    /// Brings the page tables and indexes that reading lists of `edge_types` and rows of `tensors`
    /// goes through into memory; whether all of them fit their share of the budget.
    ///
    /// # Errors
    /// [`ReadError::Missing`].
    pub fn load_metadata(
        &self,
        edge_types: &[EdgeTypeId],
        tensors: &[TensorRef],
    ) -> Result<bool, ReadError> {
        let (pages, mut all) = (&self.inner.pages, true);
        for id in edge_types {
            let (_, topo, index) = self.version.topology(*id)?;
            all &= pages.load_metadata(index, true) & pages.load_metadata(topo, false);
        }
        for tensor in tensors {
            all &= pages.load_metadata(self.version.tensor(*tensor)?.1, false);
        }
        Ok(all)
    }

    /// Reads a whole tensor front to back: `visit(first_row, bytes)` gets whole rows, without
    /// padding, in chunks of up to about 4 MiB. Nothing of it enters a cache, but for sparse rows,
    /// which come with their zeros. Rows are those of the file: where
    /// [`crate::NodeTypeMeta::has_order`], [`Snapshot::load_nodes_of_rows`] tells which nodes they
    /// belong to.
    ///
    /// # Errors
    /// [`ReadError`], also those of `visit`.
    pub fn scan_tensor<E: From<ReadError>>(
        &self,
        tensor: TensorRef,
        visit: &mut VisitRows<'_, E>,
    ) -> Result<(), E> {
        let (meta, segment, layout) = self.version.tensor(tensor)?;
        if meta.is_sparse() {
            return self.scan_dense(tensor, visit);
        }
        scan_rows(&self.inner, segment, layout, meta.num_rows, visit)
    }

    /// Reads consecutive rows of a tensor past the caches: `out` gets them one after the other, as
    /// they are stored. Rows are those of the file, as with [`Snapshot::scan_tensor`].
    ///
    /// # Errors
    /// [`ReadError::RowOutOfRange`], [`ReadError::OutputSize`] unless `out` has exactly rows x row
    /// bytes, [`ReadError::Missing`] of a tensor that is stored sparse, and those of reading.
    pub fn read_rows(
        &self,
        tensor: TensorRef,
        rows: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), ReadError> {
        let (meta, segment, layout) = self.version.tensor(tensor)?;
        if meta.is_sparse() {
            let what = format!("dense rows of tensor {:?}", meta.name);
            return Err(ReadError::Missing { what });
        }
        meta.check_rows(&[rows.end.saturating_sub(1)])?;
        let width = layout.row_bytes();
        let expected = (rows.end.saturating_sub(rows.start) as usize).saturating_mul(width);
        if out.len() != expected {
            return Err(ReadError::OutputSize { expected, found: out.len() });
        }
        let first = rows.start;
        let mut take = |first_row: u64, bytes: &[u8]| {
            // A page may begin before the rows that are wanted.
            let skipped = (first.saturating_sub(first_row) as usize * width).min(bytes.len());
            let at = first_row.saturating_sub(first) as usize * width;
            put(out, at, &bytes[skipped..]);
            Ok(())
        };
        scan_some_rows::<ReadError>(&self.inner, segment, layout, rows, &mut take)
    }

    /// Returns the costs of reads on the disk: those measured within the last day, otherwise
    /// measured at the first call on the file of `tensor`.
    ///
    /// # Errors
    /// [`ReadError::Missing`], [`ReadError::Io`].
    pub fn disk_costs(&self, tensor: TensorRef) -> Result<DiskCosts, ReadError> {
        if let Some(known) = self.inner.known_costs() {
            return Ok(known);
        }
        let (_, segment, _) = self.version.tensor(tensor)?;
        let costs = self.inner.kept_or_measured(segment)?;
        // Somebody may have said meanwhile what they are.
        let mut known = self.inner.costs.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(*known.get_or_insert(costs))
    }

    /// Measures the disk again, on the longest file of the store, for this and other handles.
    /// `None` if all files are too short. A running look-ahead finishes its stretch with the rates
    /// it was planned with.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn measure_disk(&self) -> Result<Option<DiskCosts>, ReadError> {
        let Some(segment) = self.longest_segment() else { return Ok(None) };
        let measured = DiskCosts::measure(&self.inner.pages.reader, segment)?;
        measured.iter().for_each(|costs| self.set_disk_costs(costs));
        Ok(measured)
    }

    /// Takes these costs for measured ones, for the same questions as [`Self::measure_disk`].
    /// Later calls replace earlier ones.
    pub fn set_disk_costs(&self, costs: &DiskCosts) {
        self.inner.keep_costs(costs);
        self.inner.set_costs(*costs);
    }

    /// Measures the costs of requests of 4 KiB, 8 KiB, ... with a full queue on the longest file of
    /// the store. Empty if all files are too short.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn disk_curve(&self) -> Result<Vec<RequestRate>, ReadError> {
        let curve = |segment| curve(&self.inner.pages.reader, segment);
        self.longest_segment().map_or_else(|| Ok(Vec::new()), curve)
    }

    fn longest_segment(&self) -> Option<&Placed> {
        let segments = self.version.segments.iter().map(|segment| &**segment);
        segments.max_by_key(|segment| file_bytes(segment))
    }

    /// Bytes of the budget that a long-lived reader may have, when the caches for blocks are left
    /// `block_bytes` and those for rows nothing.
    pub fn free_beside_blocks(&self, block_bytes: u64) -> u64 {
        self.inner.free_beside_blocks(block_bytes)
    }

    /// Who holds memory of the store.
    pub fn tenants(&self) -> &Tenants {
        &self.inner.tenants
    }

    /// The name of the back end that reads.
    pub fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    /// Counts rows that were handed out, and how many of them were in memory.
    pub fn count_rows(&self, stats: GatherStats) {
        self.inner.rows_served.fetch_add(stats.rows, Ordering::Relaxed);
        self.inner.rows_cached.fetch_add(stats.rows_cached, Ordering::Relaxed);
    }

    /// Returns the counters of its reads. Files beside the store that serve its reads count into
    /// them, too.
    pub fn io_stats(&self) -> &Arc<IoStats> {
        self.inner.pages.reader.stats()
    }

    /// Returns the node id of each string id, or `None` if there is no such node.
    ///
    /// # Errors
    /// [`ReadError::Missing`] if the node type has no dictionary, [`ReadError::Checksum`],
    /// [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn lookup_strings(
        &self,
        node_type: NodeTypeId,
        keys: &[&str],
    ) -> Result<Vec<Option<u64>>, ReadError> {
        self.dictionary(node_type)?.lookup(keys)
    }

    /// The string id of each node.
    ///
    /// # Errors
    /// [`ReadError::NodeOutOfRange`], and those of [`Snapshot::lookup_strings`].
    pub fn names(&self, node_type: NodeTypeId, ids: &[NodeId]) -> Result<Vec<String>, ReadError> {
        self.check_nodes(node_type, ids)?;
        self.dictionary(node_type)?.names(ids)
    }

    fn dictionary(&self, node_type: NodeTypeId) -> Result<DictionaryReader<'_>, ReadError> {
        let (inner, version) = (&self.inner, &self.version);
        let owner = version.node_type(node_type)?;
        let missing =
            || ReadError::Missing { what: format!("string ids for node type {:?}", owner.name) };
        let meta = owner.dictionary.ok_or_else(missing)?;
        Ok(DictionaryReader {
            pages: &inner.pages,
            meta,
            names: version.segment(meta.names)?,
            names_index: version.segment(meta.names_index)?,
            keys: version.segment(meta.keys)?,
            num_nodes: owner.num_nodes,
        })
    }

    /// As [`crate::Store::reserve_batch`].
    ///
    /// # Errors
    /// [`ReadError::Budget`].
    pub fn reserve_batch(&self, bytes: u64) -> Result<Reservation, ReadError> {
        self.inner.reserve_batch(bytes)
    }

    /// Reserves `bytes` of the store's budget: first from free memory, then from its caches. It
    /// does not wait for other batches; [`crate::Store::reserve_batch`] does.
    ///
    /// # Errors
    /// [`BudgetExceeded`] if batches hold the rest.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, BudgetExceeded> {
        self.inner.try_reserve(bytes)
    }

    /// The memory budget of the store.
    pub fn budget(&self) -> &Budget {
        &self.inner.budget
    }

    /// Whether all of `ids` are below the id bound of the node type.
    ///
    /// # Errors
    /// [`ReadError::NodeOutOfRange`] names the first that is not, [`ReadError::Missing`] the type.
    pub fn check_nodes(&self, node_type: NodeTypeId, ids: &[NodeId]) -> Result<(), ReadError> {
        let meta = self.version.node_type(node_type)?;
        match ids.iter().find(|id| **id >= meta.num_nodes) {
            None => Ok(()),
            Some(id) => Err(ReadError::NodeOutOfRange {
                node_type: meta.name.clone(),
                id: *id,
                num_nodes: meta.num_nodes,
            }),
        }
    }
}
