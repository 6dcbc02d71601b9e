//! What a run will read, write and hold, known before anything is read.
//!
//! The invariant: what a plan counts on is reserved from the budget of the store before the first
//! block, and blocks get shorter where lists are longer than the average.

use ng_infer::run::Devices;
use ng_types::format_bytes;
use serde::Serialize;

use super::accumulate::Accumulators;
use super::error::LayerwiseError;
use super::lists::LIST_BYTES;
use super::model::Model;
use super::part::Part;
use super::passes::{Pass, Scan};
use super::work::PIECE_ROWS;

/// Edges that are computed on together.
pub(super) const EDGES_TOGETHER: usize = 1024;

/// Rows that the last part of a pass computes together.
pub(super) const ROWS_TOGETHER: u64 = 2 * PIECE_ROWS;

/// The share of the memory for one chunk of source rows.
const CHUNK_SHARE: u64 = 32;
const CHUNK_BYTES_MAX: u64 = 64 << 20;
/// A chunk that is computed on, one that is being read, and its bytes before they are numbers.
const CHUNKS: u64 = 3;

/// What stays with the store's caches, and what reads hold for a moment.
const CACHES_SHARE: u64 = 16;
const CACHES_BYTES_MAX: u64 = 64 << 20;
const READS_BYTES: u64 = 32 << 20;

/// What asking for lists takes for a moment, for each edge.
const BYTES_PER_LISTED_EDGE: u64 = 96;

/// Lists of a block may be so much longer than the average before the block gets shorter.
const LISTS_SLACK: u64 = 4;

/// How a run computes.
#[derive(Clone)]
pub struct LayerwiseOptions {
    /// What computes.
    pub devices: Devices,
    /// Threads that compute.
    pub threads: usize,
    /// Nodes of a block at most; as many as fit if `None`.
    pub block_rows: Option<u64>,
    /// Sources that are read together at most.
    pub chunk_rows: Option<u64>,
}

/// One pass over the nodes of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PassPlan {
    /// The type of the nodes.
    pub node_type: String,
    /// How many there are.
    pub num_nodes: u64,
    /// What is computed: the names of values, with the width of a row.
    pub tables: Vec<(String, usize)>,
    /// How often the lists of a block are walked along, one scan after the other.
    pub scans: usize,
    /// Into how many blocks the nodes are cut; each reads the tables of its scans once.
    pub blocks: u64,
    /// Nodes of a block.
    pub block_rows: u64,
    /// Bytes of the tables that one block reads in its scans.
    pub scanned_bytes: u64,
    /// Bytes of rows that all nodes together read for themselves.
    pub own_bytes: u64,
    /// Bytes of the tables that are written.
    pub write_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Sources that are read together.
    pub chunk_rows: u64,
    /// Bytes of the lists of a block.
    pub lists_bytes: u64,
}

impl PassPlan {
    /// Bytes of rows that the pass reads, without lists of neighbours.
    pub fn read_bytes(&self) -> u64 {
        self.blocks * self.scanned_bytes + self.own_bytes
    }
}

/// All passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerwisePlan {
    /// In the order in which they run.
    pub passes: Vec<PassPlan>,
    /// How many hops the model has.
    pub hops: u32,
    /// The memory budget.
    pub limit_bytes: u64,
}

impl LayerwisePlan {
    pub(super) fn new(model: &Model, options: &LayerwiseOptions) -> Result<Self, LayerwiseError> {
        let snapshot = &model.snapshot;
        let limit_bytes = snapshot.budget().limit_bytes();
        let caches = (limit_bytes / CACHES_SHARE).min(CACHES_BYTES_MAX);
        let free = snapshot.free_beside_blocks(caches).min(limit_bytes);
        let planner = Planner { model, options, limit_bytes, free };
        let passes = model.passes.passes.iter().map(|pass| planner.pass(pass));
        let passes = passes.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { passes, hops: model.passes.depth(), limit_bytes })
    }

    /// Bytes of rows that are read, without lists of neighbours.
    pub fn read_bytes(&self) -> u64 {
        self.passes.iter().map(PassPlan::read_bytes).sum()
    }

    /// Bytes of the tables that are written.
    pub fn write_bytes(&self) -> u64 {
        self.passes.iter().map(|pass| pass.write_bytes).sum()
    }
}

impl std::fmt::Display for LayerwisePlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (read, write) = (format_bytes(self.read_bytes()), format_bytes(self.write_bytes()));
        write!(f, "{} passes, {read} to read, {write} to write", self.passes.len())
    }
}

/// As many whole pieces as `rows` and `most` allow, at least one where rows do.
fn pieces(rows: u64, most: Option<u64>) -> u64 {
    let most = most.map_or(u64::MAX, |most| most.max(PIECE_ROWS));
    rows.min(most) / PIECE_ROWS * PIECE_ROWS
}

struct Planner<'a> {
    model: &'a Model,
    options: &'a LayerwiseOptions,
    limit_bytes: u64,
    free: u64,
}

impl Planner<'_> {
    fn pass(&self, pass: &Pass) -> Result<PassPlan, LayerwiseError> {
        let model = self.model;
        let num_nodes = model.num_nodes(pass.nodes);
        let chunk = self.chunk_bytes_per_row(pass);
        let share = (self.limit_bytes / CHUNK_SHARE).min(CHUNK_BYTES_MAX);
        let chunk_rows = pieces(share / chunk.max(1), self.options.chunk_rows).max(PIECE_ROWS);
        let listed = pass.scans.iter().map(|scan| self.listed_bytes(scan)).max().unwrap_or(0);
        let fixed = CHUNKS * chunk * chunk_rows + self.working_bytes(pass) + listed + READS_BYTES;
        let lists = pass.scans.iter().map(|scan| self.list_bytes(scan)).max().unwrap_or(0);
        let held = self.held_bytes_per_row(pass);
        let per_row = (held + lists + lists / LISTS_SLACK).max(1);
        let room = self.free.saturating_sub(fixed);
        let rows_max = pieces(room / per_row, self.options.block_rows);
        if rows_max == 0 && num_nodes > 0 {
            let least = fixed + per_row * PIECE_ROWS;
            let minimum_bytes = self.limit_bytes + least.saturating_sub(self.free);
            return Err(LayerwiseError::TooSmall { limit_bytes: self.limit_bytes, minimum_bytes });
        }
        let blocks = num_nodes.div_ceil(rows_max.max(1));
        let block_rows =
            num_nodes.div_ceil(blocks.max(1)).next_multiple_of(PIECE_ROWS).min(rows_max);
        let scanned = |scan: &Scan| {
            let reads = scan.reads.iter().filter_map(|value| model.stored.get(value));
            let per_row: u64 = reads.map(|stored| stored.read_bytes).sum();
            per_row * model.edges(scan).map_or(0, |(_, _, num_sources)| num_sources)
        };
        let own: u64 = model.own(pass).map(|stored| stored.read_bytes).sum();
        let before = |scan: &Scan| -> u64 {
            model.own_of(&scan.before.leaves).map(|stored| stored.read_bytes).sum()
        };
        let own = own + pass.scans.iter().map(before).sum::<u64>();
        let tables: Vec<(String, usize)> = pass
            .targets
            .iter()
            .map(|value| (model.passes.name(*value).to_owned(), model.width(*value)))
            .collect();
        let width: u64 = tables.iter().map(|(_, width)| 4 * *width as u64).sum();
        let at = usize::from(model.node_type(pass.nodes).0);
        Ok(PassPlan {
            node_type: model.snapshot.catalog().node_types[at].name.clone(),
            num_nodes,
            tables,
            scans: pass.scans.len(),
            blocks,
            block_rows,
            scanned_bytes: pass.scans.iter().map(scanned).sum(),
            own_bytes: own * num_nodes,
            write_bytes: width * num_nodes,
            memory_bytes: fixed + per_row * block_rows,
            chunk_rows,
            lists_bytes: (lists + lists / LISTS_SLACK) * block_rows,
        })
    }

    /// Bytes of a source's rows in memory.
    fn chunk_bytes_per_row(&self, pass: &Pass) -> u64 {
        let of = |scan: &Scan| -> u64 {
            let reads = scan.reads.iter().filter_map(|value| self.model.stored.get(value));
            let read: u64 = reads.map(|stored| 4 * stored.width() as u64).sum();
            let views = scan.views.iter().map(|value| 4 * self.model.width(*value) as u64);
            read + views.sum::<u64>()
        };
        pass.scans.iter().map(of).max().unwrap_or(0)
    }

    /// Bytes of a destination's accumulators, and of its rows that messages take.
    fn held_bytes_per_row(&self, pass: &Pass) -> u64 {
        let reductions = pass.reductions.iter();
        let sums = reductions.map(|of| Accumulators::bytes_per_row(of.places, of.width()));
        let beside = pass.scans.iter().flat_map(|scan| &scan.beside);
        let beside = beside.map(|value| 4 * self.model.width(*value) as u64);
        sums.sum::<u64>() + beside.sum::<u64>()
    }

    /// Bytes of a destination's list.
    fn list_bytes(&self, scan: &Scan) -> u64 {
        let edge = self.model.wanted(scan).edge_bytes();
        LIST_BYTES + (self.mean_degree(scan) * edge as f64).ceil() as u64
    }

    fn listed_bytes(&self, scan: &Scan) -> u64 {
        (self.mean_degree(scan) * 8192.0) as u64 * BYTES_PER_LISTED_EDGE
    }

    fn mean_degree(&self, scan: &Scan) -> f64 {
        let Some((id, loops, _)) = self.model.edges(scan) else { return 0.0 };
        let catalog = self.model.snapshot.catalog();
        let meta = &catalog.edge_types[usize::from(id.0)];
        let nodes = catalog.node_types[usize::from(meta.destination.0)].num_nodes.max(1);
        meta.num_edges as f64 / nodes as f64 + f64::from(u8::from(loops.added))
    }

    /// What threads hold while they compute.
    fn working_bytes(&self, pass: &Pass) -> u64 {
        let widths = |part: &Part| -> u64 {
            let levels = &self.model.passes.levels;
            let nodes = part.graph.nodes().iter().flat_map(|node| &node.outputs);
            let found = nodes.filter_map(|value| self.model.graph().value(part.graph.name(*value)));
            let width = |value| {
                let shape = &levels.type_of(value).shape;
                shape.iter().filter_map(|dim| dim.number()).product::<i64>().max(1) as u64
            };
            let leaves = part.leaves.iter().map(|(_, leaf)| match leaf {
                super::part::Leaf::Own(value)
                | super::part::Leaf::AtSource(value)
                | super::part::Leaf::AtDestination(value)
                | super::part::Leaf::OfEdge(value) => width(*value),
                _ => 1,
            });
            4 * (found.map(width).sum::<u64>() + 2 * leaves.sum::<u64>())
        };
        let edges = pass.scans.iter().map(|scan| widths(&scan.messages)).max().unwrap_or(0);
        let rows = pass.scans.iter().map(|scan| widths(&scan.before)).max().unwrap_or(0);
        let rows = rows.max(widths(&pass.finish));
        self.options.threads.max(1) as u64
            * (edges * EDGES_TOGETHER as u64).max(rows * ROWS_TOGETHER)
    }
}
