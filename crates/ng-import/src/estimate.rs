//! Estimates of the time and space of an import, before it starts.

use serde::Serialize;

use crate::plan::MemoryPlan;
use crate::{EdgeTypeSpec, ImportError, ImportOptions, Importer, SelfLoops};

/// Edges of one type to import.
#[derive(Clone, Debug)]
pub struct PlannedEdges {
    /// Their type.
    pub spec: EdgeTypeSpec,
    /// Rows of the list.
    pub rows: u64,
    /// Number of destination nodes, if known.
    pub num_nodes: Option<u64>,
}

/// Approximate time and space of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// Entries of all neighbour lists.
    pub entries: u64,
    /// Bytes of the store.
    pub disk_bytes: u64,
    /// The largest size of temporary data on disk.
    pub temp_bytes: u64,
    /// Memory of the process.
    pub memory_bytes: u64,
    /// Time.
    pub seconds: f64,
    /// Bytes of an entry of a neighbour list, summed over all entries.
    pub entries_bytes: u64,
}

/// Nodes for each edge where nothing else is known; most graphs have fewer.
const EDGES_PER_NODE: u64 = 8;
/// The slot of a list in its page.
const SLOT_BYTES: u64 = 11;
/// Pages of the index and of the page table, as a part of the pages.
const INDEX_SHARE: f64 = 0.01;
/// One thread reads, sorts and writes so many entries in a second.
const ENTRIES_PER_SECOND: f64 = 8e6;
/// A disk takes so many bytes in a second.
const BYTES_PER_SECOND: f64 = 8e8;
/// Estimates an import of edges and of `tensor_bytes` of rows.
///
/// ```
/// use ng_import::{EdgeTypeSpec, ImportOptions, PlannedEdges, estimate};
/// let spec = EdgeTypeSpec { undirected: true, ..EdgeTypeSpec::between("node", "edge", "node") };
/// let edges = PlannedEdges { spec, rows: 1_000_000_000, num_nodes: Some(50_000_000) };
/// let options = ImportOptions { memory: Some(4 << 30), ..ImportOptions::default() };
/// let estimate = estimate(&options, &[edges], 0)?;
/// assert_eq!(estimate.entries_bytes, 8_000_000_000);
/// assert!(estimate.temp_bytes <= estimate.entries_bytes * 5 / 2);
/// # Ok::<(), ng_import::ImportError>(())
/// ```
///
/// # Errors
/// [`ImportError::BudgetTooSmall`].
pub fn estimate(
    options: &ImportOptions,
    edges: &[PlannedEdges],
    tensor_bytes: u64,
) -> Result<Estimate, ImportError> {
    let plan = MemoryPlan::new(options)?;
    let mut total = Estimate { memory_bytes: plan.memory_bytes(), ..Estimate::default() };
    for planned in edges {
        let spec = &planned.spec;
        let nodes = planned.num_nodes.unwrap_or(planned.rows / EDGES_PER_NODE);
        let directions = 1 + u64::from(spec.undirected || spec.reverse);
        let records = planned.rows.saturating_mul(directions);
        let loops = if spec.self_loops == SelfLoops::Add { nodes } else { 0 };
        let entries = records.saturating_add(loops);
        let id_bytes = if nodes > 1 << 32 { 5 } else { 4 };
        let column = |present: bool, bytes: u64| if present { bytes } else { 0 };
        let columns = column(spec.time, 8) + column(spec.weight, 4);
        let entry_bytes = id_bytes + columns + column(spec.edge_ids, 5);
        let needs_id = spec.edge_ids || spec.weight || (spec.time && spec.unique);
        let record_bytes = 2 * id_bytes + columns + column(needs_id, 5);
        let entries_bytes = entries.saturating_mul(entry_bytes);
        let pages = entries_bytes.saturating_add(nodes.saturating_mul(SLOT_BYTES * directions));
        total.entries_bytes = total.entries_bytes.saturating_add(entries_bytes);
        total.disk_bytes += (pages as f64 / options.fill.max(0.1) * (1.0 + INDEX_SHARE)) as u64;
        let sizes = plan.sizes(edges.len(), 1);
        let spilled = records.saturating_mul(record_bytes);
        if spilled > sizes.collect_bytes as u64 {
            total.temp_bytes = total.temp_bytes.saturating_add(spilled + spilled / 20);
        }
        total.entries = total.entries.saturating_add(entries);
    }
    total.disk_bytes = total.disk_bytes.saturating_add(tensor_bytes);
    let moved = total.disk_bytes.saturating_add(2 * total.temp_bytes) as f64;
    total.seconds =
        total.entries as f64 / ENTRIES_PER_SECOND / plan.threads as f64 + moved / BYTES_PER_SECOND;
    Ok(total)
}

impl Importer {
    /// As [`estimate`], for `rows` rows spread over the edge types declared so far.
    ///
    /// # Errors
    /// [`ImportError::BudgetTooSmall`].
    pub fn estimate(&self, rows: u64, tensor_bytes: u64) -> Result<Estimate, ImportError> {
        let share = rows / self.edge_types.len().max(1) as u64;
        let planned = self.edge_types.iter().map(|edge_type| PlannedEdges {
            spec: edge_type.spec.clone(),
            rows: share,
            num_nodes: self.node_types[edge_type.destination].declared,
        });
        estimate(&self.options, &planned.collect::<Vec<_>>(), tensor_bytes)
    }
}
