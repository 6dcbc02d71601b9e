//! Which order of rows is a good one, what it is worth, and putting a store into it.
//!
//! What lives here: orders by heat, by visits, by locality (GLIST, Algorithm 2), the count of
//! blocks that batches touch. What must not: how a store is rewritten, which is `ng-store`'s. The
//! invariant: memory is reserved from the budget of the store, some bytes a node, and refused with
//! the amount where it is too small; an order depends on the store and the options alone.

mod heat;
mod locality;
mod pages;

use std::path::Path;
use std::sync::Arc;

use ng_store::{
    CompactReport, NewOrder, OpenOptions, ReadError, RowOrder, Snapshot, UpdateError,
    reorganize_bytes,
};
use ng_types::{NodeId, NodeTypeId, explain, format_bytes};
use thiserror::Error;

pub use heat::{Heat, heat};
pub use pages::{BATCHES_TOGETHER, PageCounts};

use crate::{Fanouts, SampleError};

/// Ids of an order being made have 32 bits.
const NODES_MAX: u64 = 1 << 32;
/// What reading lists and sampling batches take beside what is reserved.
const BESIDE_BYTES: u64 = 16 << 20;

/// The criterion of the new order of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The rows that most batches want come first.
    Heat,
    /// Nodes as they were sampled, one after the other, of the type of the seeds: what is counted
    /// most comes first.
    Visits(Vec<NodeId>),
    /// Neighbours lie together, among nodes that are about as hot.
    Locality,
}

/// The batches that an order is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batches {
    /// The type of the seeds.
    pub node_type: NodeTypeId,
    /// The seeds; `None` for all nodes.
    pub seeds: Option<Vec<NodeId>>,
    /// Seeds of a batch.
    pub batch_size: usize,
    /// Neighbours by hop.
    pub fanouts: Fanouts,
}

impl Batches {
    fn num_seeds(&self, snapshot: &Snapshot) -> u64 {
        let all = snapshot.catalog().node_types.get(usize::from(self.node_type.0));
        let all = all.map_or(0, |meta| meta.num_nodes);
        self.seeds.as_ref().map_or(all, |seeds| seeds.len() as u64)
    }

    fn seed(&self, at: u64) -> NodeId {
        self.seeds.as_ref().map_or(at, |seeds| seeds[at as usize])
    }
}

/// The settings of reorganising a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reorganization {
    /// What decides.
    pub by: By,
    /// For which batches.
    pub batches: Batches,
    /// Batches that are sampled to count blocks.
    pub counted_batches: u64,
    /// Estimate the gain only, and leave the store unchanged.
    pub dry_run: bool,
}

/// A report of reorganising, or of a dry run.
#[derive(Clone, Debug, PartialEq)]
pub struct ReorganizeReport {
    /// The page counts of the orders, by node type with an order.
    pub pages: Vec<PageCounts>,
    /// Temporary disk space needed in addition to the store.
    pub space_bytes: u64,
    /// The report of the rewrite; `None` for a dry run.
    pub written: Option<CompactReport>,
}

/// An error of reorganising a store. The store is unchanged.
#[derive(Debug, Error)]
pub enum ReorganizeError {
    /// The options do not fit the store.
    #[error("{0}")]
    Spec(String),
    /// Memory does not hold what the order needs.
    #[error(
        "the memory budget of {} is too small to order {nodes} nodes",
        format_bytes(*limit_bytes)
    )]
    Memory {
        /// Nodes of all types.
        nodes: u64,
        /// A sufficient budget.
        minimum_bytes: u64,
        /// The budget.
        limit_bytes: u64,
    },
    /// The caller stopped it.
    #[error("the reordering was stopped; the store is unchanged")]
    Stopped,
    /// Batches could not be sampled.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store could not be rewritten.
    #[error(transparent)]
    Update(#[from] UpdateError),
}

explain! { ReorganizeError {
    Memory { minimum_bytes } => BudgetTooSmall [RaiseMemory(*minimum_bytes)],
    Spec => UnsupportedArgument,
    Stopped => Stopped,
} of Sample.0, Read.0, Update.0 }

/// Hears of phases: its name, and how much of how much is done. `false` stops.
pub type Phases<'a> = dyn FnMut(&'static str, u64, u64) -> bool + 'a;

/// Progress of one phase.
struct Progress<'a> {
    phase: &'static str,
    done: u64,
    total: u64,
    tell: &'a mut Phases<'a>,
}

impl Progress<'_> {
    fn step(&mut self, count: u64) -> bool {
        self.done = self.total.min(self.done + count);
        (self.tell)(self.phase, self.done, self.total)
    }
}

/// Computes orders for a store, counts the pages they save, and rewrites the store unless
/// [`Reorganization::dry_run`].
///
/// # Errors
/// [`ReorganizeError`]; the store is then unchanged.
pub fn reorganize(
    path: &Path,
    options: &OpenOptions,
    wanted: &Reorganization,
    phases: &mut Phases<'_>,
) -> Result<ReorganizeReport, ReorganizeError> {
    if wanted.dry_run {
        let store = ng_store::Store::open(path, &options.passing()).map_err(UpdateError::from)?;
        let snapshot = store.snapshot();
        let orders = make_orders(&snapshot, wanted, phases)?;
        return report(&snapshot, wanted, &orders, phases);
    }
    let mut found = ReorganizeReport { pages: Vec::new(), space_bytes: 0, written: None };
    // Both closures tell of their phases, one after the other.
    let phases = std::cell::RefCell::new(phases);
    let mut orders = |snapshot: &Arc<Snapshot>| -> Result<Vec<NewOrder>, ReorganizeError> {
        let phases = &mut **phases.borrow_mut();
        let orders = make_orders(snapshot, wanted, phases)?;
        found = report(snapshot, wanted, &orders, phases)?;
        Ok(orders)
    };
    let mut progress = |done, total| (phases.borrow_mut())("rewrite", done, total);
    let written = ng_store::reorganize(path, options, &mut orders, &mut progress)?;
    Ok(ReorganizeReport { written: Some(written), ..found })
}

fn report(
    snapshot: &Arc<Snapshot>,
    wanted: &Reorganization,
    orders: &[NewOrder],
    phases: &mut Phases<'_>,
) -> Result<ReorganizeReport, ReorganizeError> {
    let count = wanted.counted_batches;
    let mut progress = Progress { phase: "count pages", done: 0, total: count, tell: phases };
    let pages = pages::count_pages(snapshot, &wanted.batches, count, orders, &mut progress)?;
    let types: Vec<NodeTypeId> = orders.iter().map(|(node_type, _)| *node_type).collect();
    let space_bytes = reorganize_bytes(snapshot, &types);
    Ok(ReorganizeReport { pages, space_bytes, written: None })
}

/// An order for each node type with tensors that the batches reach.
fn make_orders(
    snapshot: &Snapshot,
    wanted: &Reorganization,
    phases: &mut Phases<'_>,
) -> Result<Vec<NewOrder>, ReorganizeError> {
    check(snapshot, wanted)?;
    let catalog = snapshot.catalog();
    let ordered = |id: &u16| {
        let meta = &catalog.node_types[usize::from(*id)];
        let counted = !matches!(wanted.by, By::Visits(_)) || *id == wanted.batches.node_type.0;
        counted && meta.num_nodes > 0 && !meta.tensors.is_empty()
    };
    let types: Vec<u16> = (0..catalog.node_types.len() as u16).filter(ordered).collect();
    let heat = match &wanted.by {
        By::Visits(ids) => count_visits(snapshot, wanted.batches.node_type, ids)?,
        By::Heat | By::Locality => heat(snapshot, &wanted.batches, phases)?,
    };
    let mut orders = Vec::new();
    for id in types {
        let node_type = NodeTypeId(id);
        let heat = &heat.by_type[usize::from(id)];
        let num_nodes = heat.len() as u64;
        let _held = snapshot.reserve(4 * num_nodes).map_err(ReadError::from)?;
        let mut ids: Vec<u32> = (0..heat.len() as u32).collect();
        let of = |id: &u32| heat[*id as usize];
        ids.sort_unstable_by(|a, b| of(b).total_cmp(&of(a)).then(a.cmp(b)));
        let is_local = locality::locality_bytes(snapshot, node_type).is_some();
        if wanted.by == By::Locality && is_local {
            let total = locality::locality_work(snapshot, node_type);
            let mut progress = Progress { phase: "locality", done: 0, total, tell: phases };
            locality::regroup(snapshot, node_type, &mut ids, &mut progress)?;
            ids.sort_by_key(|id| heat_class(of(id)));
        }
        let held = snapshot.reserve(RowOrder::bytes_for(num_nodes)).map_err(ReadError::from)?;
        orders.push((node_type, RowOrder::of(&ids, held)?));
    }
    Ok(orders)
}

/// Which rows are about as hot, the hottest first: within a factor of 4. Neighbours lie together
/// inside of a class, so that a scan meets pages with many wanted rows or with few.
fn heat_class(heat: f32) -> u32 {
    if heat > 0.0 { (-heat.log2() / 2.0).clamp(0.0, 100.0) as u32 } else { u32::MAX }
}

/// How often each node is visited, by node type.
fn count_visits(
    snapshot: &Snapshot,
    node_type: NodeTypeId,
    ids: &[NodeId],
) -> Result<Heat, ReorganizeError> {
    snapshot.check_nodes(node_type, ids)?;
    let mut by_type: Vec<Vec<f32>> = snapshot.catalog().node_types.iter().map(|_| vec![]).collect();
    let counts = &mut by_type[usize::from(node_type.0)];
    let num_nodes = snapshot.catalog().node_types[usize::from(node_type.0)].num_nodes;
    let held = snapshot.reserve(4 * num_nodes).map_err(ReadError::from)?;
    counts.resize(num_nodes as usize, 0.0);
    ids.iter().for_each(|id| counts[*id as usize] += 1.0);
    Ok(Heat { by_type, _held: held })
}

/// That the options fit the store, and its memory the nodes.
fn check(snapshot: &Snapshot, wanted: &Reorganization) -> Result<(), ReorganizeError> {
    let catalog = snapshot.catalog();
    wanted.batches.fanouts.check(catalog)?;
    if wanted.batches.batch_size == 0 || wanted.counted_batches == 0 {
        let what = "the number of batches and the batch size must be at least 1";
        return Err(ReorganizeError::Spec(what.into()));
    }
    if let Some(seeds) = &wanted.batches.seeds {
        snapshot.check_nodes(wanted.batches.node_type, seeds)?;
    }
    if wanted.batches.num_seeds(snapshot) == 0 {
        return Err(ReorganizeError::Spec("there are no seeds; give nodes or a split".into()));
    }
    if let Some(meta) = catalog.node_types.iter().find(|meta| meta.num_nodes > NODES_MAX) {
        let what = format!(
            "node type {:?} has more than 2^32 nodes, the most that can be reordered",
            meta.name
        );
        return Err(ReorganizeError::Spec(what));
    }
    let node_types = || (0..catalog.node_types.len() as u16).map(NodeTypeId);
    let nodes: u64 = catalog.node_types.iter().map(|meta| meta.num_nodes).sum();
    // Ids by row, the new order, and where it takes rows from if there is an old one.
    let orders = nodes * 4 + 2 * RowOrder::bytes_for(nodes);
    let local = match wanted.by {
        By::Locality => {
            node_types().filter_map(|id| locality::locality_bytes(snapshot, id)).max().unwrap_or(0)
        }
        _ => 0,
    };
    let minimum_bytes = orders + heat::heat_bytes(snapshot).max(nodes * 4 + local) + BESIDE_BYTES;
    let limit_bytes = snapshot.budget().limit_bytes();
    if minimum_bytes > limit_bytes {
        return Err(ReorganizeError::Memory { nodes, minimum_bytes, limit_bytes });
    }
    Ok(())
}
