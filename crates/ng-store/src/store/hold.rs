//! Holding what fits in memory: topologies and tables of rows, each read once, in the order of the
//! files, while batches go on to be served.
//!
//! What must not live here: how they are read. The invariants: nothing is begun that does not fit
//! the budget beside the batches, and a failure is left to whoever reads what it comes from.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use ng_types::{EdgeTypeId, MemoryUser, NodeTypeId};

use crate::catalog::{Catalog, Owner, TensorRef};
use crate::error::{OpenError, ReadError};
use crate::io::BLOCK_BYTES;
use crate::page::Placed;
use crate::store::memory::WORKING_BYTES_MIN;
use crate::store::{Inner, Snapshot};
use crate::tensor::layout::RowLayout;
use crate::tensor::table::ResidentTable;
use crate::topology::topology_bytes;
use crate::version::base::Version;

/// Threads that load. Two, because the queue of one is full while that of the other drains, and
/// copying and checking of one core would be slower than fast disks.
pub(super) const LOADING_THREADS: u64 = 2;

/// Less than this is loaded at once: a thread would take longer.
const SMALL_BYTES: u64 = 4 << 20;

/// What is not held yet of some topologies and tensors.
#[derive(Default)]
struct Lacking {
    edge_types: Vec<EdgeTypeId>,
    tables: Vec<(Arc<Placed>, RowLayout, u64)>,
    bytes: u64,
}

impl Snapshot {
    /// Whether the topologies of `edge_types` and the rows of `tensors` fit in memory, or are held
    /// already, and leave `beside_bytes` to batches. Sparse tensors are not looked at.
    pub fn can_hold(
        &self,
        edge_types: &[EdgeTypeId],
        tensors: &[TensorRef],
        beside_bytes: u64,
    ) -> bool {
        self.fits(&self.lacking(edge_types, tensors), beside_bytes)
    }

    /// Returns the bytes that the topologies of `edge_types` and the rows of `tensors` take in
    /// memory, without those already held. Sparse tensors are ignored.
    pub fn lacking_bytes(&self, edge_types: &[EdgeTypeId], tensors: &[TensorRef]) -> u64 {
        self.lacking(edge_types, tensors).bytes
    }

    /// Holds the topologies of `edge_types` and the rows of `tensors` in memory from now on, and
    /// returns whether they fit (see [`Snapshot::can_hold`]). Threads of the store read missing
    /// data once, in the order of the files. Rows are served from memory as they arrive. The memory
    /// is given back when a batch needs it.
    pub fn hold(
        &self,
        edge_types: &[EdgeTypeId],
        tensors: &[TensorRef],
        beside_bytes: u64,
    ) -> bool {
        let lacking = self.lacking(edge_types, tensors);
        if lacking.edge_types.is_empty() && lacking.tables.is_empty() {
            return true;
        }
        let inner = &self.inner;
        if !self.fits(&lacking, beside_bytes) {
            return false;
        }
        let mut tables = Vec::with_capacity(lacking.tables.len());
        let mut is_all = true;
        for (placed, layout, bytes) in lacking.tables {
            inner.tables.drop_others(&placed);
            inner.rows.empty(placed.id as usize);
            let Some(held) = inner.reserve_of_caches(bytes) else {
                is_all = false;
                continue;
            };
            let table = Arc::new(ResidentTable::new(placed, layout, inner.tables.stay, held));
            if inner.tables.keep(&table) {
                tables.push(table);
            }
        }
        let key = |id| (id, self.fingerprint());
        let mut edge_types = lacking.edge_types;
        edge_types.retain(|id| inner.topologies.claim(key(*id)));
        if edge_types.is_empty() && tables.is_empty() {
            return is_all;
        }
        if lacking.bytes <= SMALL_BYTES {
            self.load(&edge_types, tables);
            return is_all;
        }
        let of_thread = Self { inner: Arc::clone(inner), version: Arc::clone(&self.version) };
        let thread = Builder::new().name("ng-load".into());
        let started = thread.spawn({
            let (edge_types, tables) = (edge_types.clone(), tables.clone());
            move || of_thread.load(&edge_types, tables)
        });
        if started.is_err() {
            self.load(&edge_types, tables);
        }
        is_all
    }

    /// Whether all of it is in memory.
    pub fn holds(&self, edge_types: &[EdgeTypeId], tensors: &[TensorRef]) -> bool {
        let has_list = |id: &EdgeTypeId| self.held_topology(*id).is_some();
        let has_rows = |tensor: &TensorRef| {
            let found = self.version.tensor(*tensor).ok();
            let table = found.and_then(|(_, segment, _)| self.inner.tables.get(&segment.placed));
            table.is_some_and(|table| table.is_whole())
        };
        edge_types.iter().all(has_list) && tensors.iter().all(has_rows)
    }

    /// Counts rows that were read one by one. Where it pays, all rows of the tensor are held.
    pub(crate) fn count_rows_read(&self, tensor: TensorRef, rows: u64) -> Result<(), ReadError> {
        let (_, segment, layout) = self.version.tensor(tensor)?;
        let placed = &segment.placed;
        let block = BLOCK_BYTES as u64;
        let bytes = rows * (layout.row_bytes() as u64).next_multiple_of(block);
        let of_pass = match self.inner.tables.stay {
            true => 1,
            false => ResidentTable::num_bytes_for(placed, layout).max(block),
        };
        if self.inner.tables.count(placed, bytes, of_pass) {
            self.hold(&[], &[tensor], 0);
        }
        Ok(())
    }

    fn lacking(&self, edge_types: &[EdgeTypeId], tensors: &[TensorRef]) -> Lacking {
        let mut lacking = Lacking::default();
        for id in edge_types {
            if self.held_topology(*id).is_none() && !lacking.edge_types.contains(id) {
                lacking.bytes = lacking.bytes.saturating_add(self.resident_bytes(*id));
                lacking.edge_types.push(*id);
            }
        }
        for tensor in tensors {
            let Ok((meta, segment, layout)) = self.version.tensor(*tensor) else { continue };
            let placed = &segment.placed;
            let is_known = lacking.tables.iter().any(|(known, ..)| Arc::ptr_eq(known, placed));
            if meta.is_sparse() || is_known || self.inner.tables.get(placed).is_some() {
                continue;
            }
            let bytes = ResidentTable::num_bytes_for(placed, layout);
            lacking.bytes = lacking.bytes.saturating_add(bytes);
            lacking.tables.push((Arc::clone(placed), layout, bytes));
        }
        lacking
    }

    fn fits(&self, lacking: &Lacking, beside_bytes: u64) -> bool {
        let inner = &self.inner;
        let ids = lacking.tables.iter().map(|(placed, ..)| placed.id);
        let held = inner.topologies.bytes() + inner.tables.bytes_beside(&ids.collect::<Vec<_>>());
        let all = held.saturating_add(lacking.bytes);
        let passing = inner.staging.bytes() + LOADING_THREADS * inner.staging_per_thread;
        all <= inner.budget.share(MemoryUser::Resident)
            && all.saturating_add(beside_bytes + passing) <= inner.budget.limit_bytes()
    }

    /// Reads what was claimed. What cannot be read is left to whoever wants it.
    fn load(&self, edge_types: &[EdgeTypeId], tables: Vec<Arc<ResidentTable>>) {
        let inner = &self.inner;
        let chunks = |table: &Arc<ResidentTable>| {
            let table = Arc::clone(table);
            (0..table.num_chunks()).map(move |chunk| (Arc::clone(&table), chunk))
        };
        let chunks: Vec<(Arc<ResidentTable>, usize)> = tables.iter().flat_map(chunks).collect();
        let has_helper = chunks.len() > 1;
        let _passing =
            has_helper.then(|| inner.reserve_of_caches(LOADING_THREADS * inner.staging_per_thread));
        let next = AtomicUsize::new(0);
        let load_chunks = || {
            while let Some((table, chunk)) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !table.is_stopped() && self.is_wanted() {
                    // Its rows are read one by one then, and whoever reads them gets the error.
                    let _ = table.load(&inner.pages, *chunk);
                }
            }
        };
        std::thread::scope(|scope| {
            // Without a second thread this one reads all.
            let of_helper = Builder::new().name("ng-load".into());
            let _ = has_helper.then(|| of_helper.spawn_scoped(scope, load_chunks));
            let wanted = edge_types.iter().take_while(|_| self.is_wanted());
            wanted.for_each(|id| self.load_claimed_topology(*id));
            load_chunks();
        });
        drop(chunks);
        let rows: u64 = tables.iter().map(|table| table.num_bytes()).sum();
        let lists: u64 = edge_types.iter().map(|id| self.resident_bytes(*id)).sum();
        inner.drop_needless_blocks((rows + lists) / 4);
        for table in tables {
            table.end_loading();
        }
    }

    /// Holds all topologies and tensors of the store, but for sparse tensors.
    ///
    /// # Errors
    /// [`OpenError::BudgetTooSmall`].
    pub(super) fn hold_everything(&self) -> Result<(), OpenError> {
        let (edge_types, tensors) = everything(self.catalog());
        let lacking_bytes = self.lacking_bytes(&edge_types, &tensors);
        if self.hold(&edge_types, &tensors, WORKING_BYTES_MIN) {
            return Ok(());
        }
        let limit_bytes = self.inner.budget.limit_bytes();
        let minimum_bytes = minimum_to_hold(lacking_bytes).max(limit_bytes.saturating_add(1));
        Err(OpenError::BudgetTooSmall { limit_bytes, minimum_bytes })
    }

    /// Whether there is anybody but the thread that loads.
    fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.inner) > 1
    }
}

/// All topologies and tensors of a store.
fn everything(catalog: &Catalog) -> (Vec<EdgeTypeId>, Vec<TensorRef>) {
    let edge_types = (0..catalog.edge_types.len() as u16).map(EdgeTypeId).collect();
    let tensors =
        |owner, count: usize| (0..count as u16).map(move |index| TensorRef { owner, index });
    let nodes = (0..).map(NodeTypeId).zip(&catalog.node_types);
    let of_nodes = nodes.flat_map(|(id, meta)| tensors(Owner::Node(id), meta.tensors.len()));
    let edges = (0..).map(EdgeTypeId).zip(&catalog.edge_types);
    let of_edges = edges.flat_map(|(id, meta)| tensors(Owner::Edge(id), meta.tensors.len()));
    (edge_types, of_nodes.chain(of_edges).collect())
}

/// A budget that holds `bytes` and leaves room for batches.
fn minimum_to_hold(bytes: u64) -> u64 {
    MemoryUser::Resident.budget_for(bytes).saturating_add(32 << 20)
}

/// The budget of a store that shall be held whole where none was asked for: what it takes beside
/// `limit`, which others get, as far as this machine has it.
pub(super) fn limit_to_hold(version: &Version, limit: u64) -> u64 {
    let (edge_types, tensors) = everything(&version.catalog);
    let lists = edge_types.iter().map(|id| topology_bytes(version, *id).unwrap_or(0));
    let rows = tensors.iter().filter_map(|tensor| {
        let (meta, segment, layout) = version.tensor(*tensor).ok()?;
        let bytes = || ResidentTable::num_bytes_for(&segment.placed, layout);
        (!meta.is_sparse()).then(bytes)
    });
    let bytes = lists.sum::<u64>().saturating_add(rows.sum());
    let most = ng_io::usable_memory_bytes() / 10 * 9;
    minimum_to_hold(bytes).saturating_add(limit / 2).min(most).max(limit)
}

impl Inner {
    /// Gives back about so many bytes of blocks: what is read from memory from now on needs none.
    fn drop_needless_blocks(&self, bytes: u64) {
        let (share, Some(cache)) = (&self.pages.share, &self.pages.cache) else { return };
        let left = share.used_bytes().saturating_sub(bytes);
        while share.used_bytes() > left && cache.drop_chunk(share) > 0 {}
    }
}
