//! Rows of a tensor in memory, all or the hottest, found by division and one number a node.
//!
//! A warm row of the store's cache costs a hash and a lock; here it costs a load of its slot and
//! the copy. What must not live here: which rows are worth it. The invariant: a table has the rows
//! of one snapshot, and a row can be taken as soon as its chunk is there; a newer snapshot takes
//! the rows that it has not changed.

use std::ops::Range;
use std::sync::Arc;

use ng_io::FillingRegion;
use ng_simd::{prefetch, prefetch_at};
use ng_store::{Merge, Owner, Planned, ReadError, RowOrder, RowPart, RowPlan, Snapshot, TensorRef};
use ng_types::canary::planted;
use ng_types::{Bits, Reservation};

/// Bytes of a chunk: long enough for huge pages and a full queue, and soon there.
const CHUNK_BYTES: usize = 32 << 20;

/// Blocks between hot rows that are read for the sake of longer requests.
const GAP_BLOCKS: u32 = 4;

/// Where there is no row.
const NONE: u32 = u32::MAX;

/// Bytes of a row that are brought near before it is copied; the processor foresees the rest.
const NEAR_BYTES: usize = 256;

/// A table is loaded anew once more than one in this many of its rows is out of date.
const STALE_PARTS: u64 = 8;

/// Rows of a tensor in memory, as they are stored, for one version.
#[derive(Debug)]
pub(crate) struct RowTable {
    loaded: Arc<Loaded>,
    stale: Option<Stale>,
}

/// Rows that are of an older version than the table is used for.
#[derive(Debug)]
struct Stale {
    nodes: Bits,
    _held: Reservation,
}

/// Rows of one snapshot.
#[derive(Debug)]
struct Loaded {
    tensor: TensorRef,
    width: usize,
    /// By node; `None` where all rows are here, in the order of nodes.
    slots: Option<Vec<u32>>,
    /// The row in the file of each slot, until all are loaded; of all nodes, their order.
    rows: Rows,
    /// Slots of a chunk are `1 << shift`.
    shift: u32,
    memory: FillingRegion,
    count: u64,
    _held: Reservation,
}

/// Which rows of the file the slots are.
#[derive(Debug)]
enum Rows {
    /// So many, and where each node's is.
    All(u64, Option<Arc<RowOrder>>),
    /// These, ascending.
    Some(Vec<u64>),
}

impl RowTable {
    /// Bytes that a table of `rows` rows takes, beside what it takes for each node.
    pub fn bytes_for(rows: u64, width: usize) -> u64 {
        rows.saturating_mul(width as u64).next_multiple_of(ng_io::BLOCK_BYTES as u64)
    }

    /// Bytes beside each row of a table that has some of the rows.
    pub const BYTES_PER_SLOT: usize = 8;

    /// Bytes for each node of a table that has some of the rows.
    pub const BYTES_PER_NODE: u64 = 4;

    /// A table for all rows of a tensor. Nothing is loaded yet.
    pub fn of_all(
        tensor: TensorRef,
        (num_rows, width): (u64, usize),
        order: Option<Arc<RowOrder>>,
        held: Reservation,
    ) -> Result<Self, ReadError> {
        Self::new((tensor, width), None, Rows::All(num_rows, order), num_rows, held)
    }

    /// A table for the rows of `nodes`, which are below `num_nodes` and distinct. Nothing is loaded
    /// yet.
    pub fn of_some(
        tensor: TensorRef,
        width: usize,
        (nodes, num_nodes): (Vec<u64>, u64),
        order: Option<&RowOrder>,
        held: Reservation,
    ) -> Result<Self, ReadError> {
        let row = |node: u64| order.map_or(node, |order| order.row(node));
        let mut pairs: Vec<(u64, u64)> = nodes.into_iter().map(|node| (row(node), node)).collect();
        pairs.sort_unstable();
        let mut slots = vec![NONE; num_nodes as usize];
        for (slot, (_, node)) in (0..).zip(&pairs) {
            slots[*node as usize] = slot;
        }
        let rows: Vec<u64> = pairs.into_iter().map(|(row, _)| row).collect();
        let count = rows.len() as u64;
        Self::new((tensor, width), Some(slots), Rows::Some(rows), count, held)
    }

    fn new(
        (tensor, width): (TensorRef, usize),
        slots: Option<Vec<u32>>,
        rows: Rows,
        count: u64,
        held: Reservation,
    ) -> Result<Self, ReadError> {
        let (shift, bytes) = (shift(width), count * width as u64);
        let no_memory = |source| ReadError::NoMemory { bytes, source };
        let memory = FillingRegion::new(bytes as usize, width << shift).map_err(no_memory)?;
        let loaded = Loaded { tensor, width, slots, rows, shift, memory, count, _held: held };
        Ok(Self { loaded: Arc::new(loaded), stale: None })
    }

    /// How many chunks there are.
    pub fn num_chunks(&self) -> usize {
        self.loaded.memory.parts()
    }

    /// Bytes of all rows.
    pub fn num_bytes(&self) -> u64 {
        Self::bytes_for(self.loaded.count, self.loaded.width)
    }

    /// Bytes of a chunk; the last one may have fewer.
    pub fn chunk_bytes(&self) -> u64 {
        Self::bytes_for(self.loaded.count.min(1 << self.loaded.shift), self.loaded.width)
    }

    /// The stored bytes of the row of a node, if they are here.
    #[inline]
    pub fn row(&self, node: u64) -> Option<&[u8]> {
        let slot = self.slot(node)?;
        let chunk = self.loaded.memory.part(slot >> self.loaded.shift)?;
        let at = (slot & ((1 << self.loaded.shift) - 1)) * self.loaded.width;
        chunk.get(at..at + self.loaded.width)
    }

    #[inline]
    fn slot(&self, node: u64) -> Option<usize> {
        let node = if planted("row_of_the_node_before") { node.saturating_sub(1) } else { node };
        if self.stale.as_ref().is_some_and(|stale| stale.nodes.has(node)) {
            return None;
        }
        match (&self.loaded.slots, &self.loaded.rows) {
            (Some(slots), _) => {
                slots.get(node as usize).filter(|slot| **slot != NONE).map(|slot| *slot as usize)
            }
            (None, _) if node >= self.loaded.count => None,
            (None, Rows::All(_, Some(order))) => Some(order.row(node) as usize),
            (None, _) => Some(node as usize),
        }
    }

    /// Brings near where the row of a node stands.
    #[inline]
    pub fn foresee_slot(&self, node: u64) {
        if let Some(slots) = &self.loaded.slots {
            prefetch_at(slots, node as usize);
        }
    }

    /// Brings near the row of a node.
    #[inline]
    pub fn foresee(&self, node: u64) {
        if let Some(row) = self.row(node) {
            prefetch(&row[..row.len().min(NEAR_BYTES)]);
        }
    }

    /// Reads one chunk.
    pub fn load(&self, snapshot: &Snapshot, chunk: usize) -> Result<(), ReadError> {
        let per_chunk = 1_u64 << self.loaded.shift;
        let first = chunk as u64 * per_chunk;
        let rows: Vec<u64> = match &self.loaded.rows {
            Rows::All(count, _) => (first..(first + per_chunk).min(*count)).collect(),
            Rows::Some(rows) => {
                let end = rows.len().min((first + per_chunk) as usize);
                rows[first as usize..end].to_vec()
            }
        };
        let plan = snapshot.plan_rows(self.loaded.tensor, &rows, Merge::Gaps(GAP_BLOCKS))?;
        let filled = self.loaded.memory.fill(chunk, |memory| {
            let mut item = Some(Arc::new(OnePlan(plan)));
            let mut take = |_: &OnePlan, parts: &mut [RowPart<'_>]| {
                for part in parts {
                    let at = part.row * self.loaded.width + part.skip;
                    memory[at..at + part.bytes.len()].copy_from_slice(part.bytes);
                }
            };
            snapshot.read_plans(&mut || item.take(), &mut take, &mut |_| ())
        });
        // Nobody else loads it.
        filled.unwrap_or(Ok(()))
    }

    /// All rows in the order of their slots, if they are here; their number.
    pub fn whole(&self) -> Option<(&[u8], usize)> {
        Some((self.loaded.memory.whole()?, self.loaded.count as usize))
    }

    /// Whether the rows of all of `num_nodes` nodes are here.
    pub fn has_all(&self, num_nodes: u64) -> bool {
        let Loaded { slots, count, memory, .. } = &*self.loaded;
        let is_of_all = slots.is_none() && self.stale.is_none() && *count >= num_nodes;
        is_of_all && memory.whole().is_some()
    }

    /// Appends the slots of nodes; whether all of them are here.
    pub fn slots_of(&self, nodes: &[u64], out: &mut Vec<u32>) -> bool {
        out.clear();
        out.extend(nodes.iter().filter_map(|node| u32::try_from(self.slot(*node)?).ok()));
        out.len() == nodes.len()
    }

    /// Bytes beside a table that is used for a newer version with so many nodes.
    pub fn stale_bytes_for(num_nodes: u64) -> u64 {
        Bits::bytes_for(num_nodes)
    }

    /// The table for a newer version with other rows at `changed`, which count as nodes; `None`
    /// unless it is loaded and most of it holds.
    pub fn for_newer(
        &self,
        changed: &[Range<u64>],
        num_nodes: u64,
        held: Reservation,
    ) -> Option<Self> {
        self.whole()?;
        let nodes = self.stale.as_ref().map_or_else(Bits::default, |stale| stale.nodes.clone());
        let mut stale = Stale { nodes: nodes.with_room(num_nodes), _held: held };
        changed.iter().for_each(|rows| stale.nodes.add(rows.clone()));
        // New nodes are read through the caches, too.
        let known = self.loaded.slots.as_ref().map_or(self.loaded.count, |all| all.len() as u64);
        let not_here = stale.nodes.count() + num_nodes.saturating_sub(known);
        if not_here.saturating_mul(STALE_PARTS) > num_nodes {
            return None;
        }
        let stale = (stale.nodes.count() > 0).then_some(stale);
        Some(Self { loaded: Arc::clone(&self.loaded), stale })
    }
}

/// Whether rows of a tensor can be in a table.
pub(crate) fn has_table(snapshot: &Snapshot, tensor: TensorRef) -> bool {
    let meta = snapshot.catalog().tensor(tensor);
    matches!(tensor.owner, Owner::Node(_)) && meta.is_some_and(|meta| !meta.is_sparse())
}

struct OnePlan(RowPlan);

impl Planned for OnePlan {
    fn plan(&self) -> &RowPlan {
        &self.0
    }
}

fn shift(width: usize) -> u32 {
    (CHUNK_BYTES / width.max(1)).max(1).ilog2()
}
