//! What a run will read, write and hold, known before anything is read.
//!
//! The invariant: what a plan counts on is reserved from the budget of the store before the first
//! block, and blocks get shorter where lists are longer than the average.

use std::collections::HashSet;

use ng_infer::dfg::Value;
use ng_infer::run::Devices;
use ng_types::format_bytes;
use serde::Serialize;

use super::accumulate::Accumulators;
use super::chunk::CHUNKS;
use super::error::LayerwiseError;
use super::lists::{LIST_BYTES, TOGETHER};
use super::model::Model;
use super::part::{Leaf, Part};
use super::passes::{Pass, Scan};
use super::work::PIECE_ROWS;

/// Edges that are computed on together.
pub(super) const EDGES_TOGETHER: usize = 1024;

/// Rows that the last part of a pass computes together.
pub(super) const ROWS_TOGETHER: u64 = 2 * PIECE_ROWS;

/// The share of the memory for one chunk of source rows.
const CHUNK_SHARE: u64 = 32;
const CHUNK_BYTES_MAX: u64 = 64 << 20;
/// Parts of a table that are read one after the other at least, so that reading and computing
/// overlap.
const CHUNKS_OF_TABLE: u64 = 16;

/// Steps of the last part of a pass that are in memory: one that is read, one that is computed, one
/// that waits to be written, and one that is written.
const STEPS: u64 = 4;

/// Rows of a step, for each thread, in units of [`ROWS_TOGETHER`].
pub(super) const STEPS_PER_THREAD: usize = 2;

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
        let chunk = self.chunk_bytes_per_row(pass).max(1);
        let share = (self.limit_bytes / CHUNK_SHARE).min(CHUNK_BYTES_MAX);
        let least_chunk = pieces(share / chunk, self.options.chunk_rows).max(PIECE_ROWS);
        let listed = pass.scans.iter().map(|scan| self.listed_bytes(scan)).max().unwrap_or(0);
        let beside_chunks = self.working_bytes(pass) + listed + READS_BYTES;
        let fixed = chunk * least_chunk + beside_chunks;
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
        // Larger chunks bring more edges to each destination, whose accumulators are then near.
        let left = self.free.saturating_sub(beside_chunks + per_row * block_rows);
        let sources = pass.scans.iter().filter_map(|scan| model.edges(scan)).map(|(.., n)| n);
        let enough = sources.max().unwrap_or(0).div_ceil(CHUNKS_OF_TABLE);
        let larger = (left / chunk).min(enough.next_multiple_of(PIECE_ROWS));
        let chunk_rows = pieces(larger, self.options.chunk_rows).max(least_chunk);
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
            scanned_bytes: pass.scans.iter().map(|scan| scanned_bytes(model, scan)).sum(),
            own_bytes: own_bytes_per_row(model, pass) * num_nodes,
            write_bytes: width * num_nodes,
            memory_bytes: chunk * chunk_rows + beside_chunks + per_row * block_rows,
            chunk_rows,
            lists_bytes: (lists + lists / LISTS_SLACK) * block_rows,
        })
    }

    /// Bytes of a source's rows in memory, in all chunks.
    fn chunk_bytes_per_row(&self, pass: &Pass) -> u64 {
        let added = |scan: &Scan| {
            let reductions = scan.reductions.iter().map(|at| &pass.reductions[*at]);
            let added = reductions.filter(|reduced| reduced.added.is_some());
            added.map(|reduced| 4 * reduced.width() as u64).sum::<u64>()
        };
        let of = |scan: &Scan| -> u64 {
            let reads = scan.reads.iter().filter_map(|value| self.model.stored.get(value));
            let read: u64 = reads.map(|stored| 4 * stored.width() as u64).sum();
            let views = scan.views.iter().map(|value| 4 * self.model.width(*value) as u64);
            CHUNKS as u64 * (read + views.sum::<u64>()) + added(scan)
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
        let edges = (self.mean_degree(scan) * TOGETHER as f64) as u64;
        self.options.threads.max(1) as u64 * edges * BYTES_PER_LISTED_EDGE
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
                Leaf::Own(value)
                | Leaf::AtSource(value)
                | Leaf::AtDestination(value)
                | Leaf::OfEdge(value) => width(*value),
                _ => 1,
            });
            4 * (found.map(width).sum::<u64>() + 2 * leaves.sum::<u64>())
        };
        let edges = pass.scans.iter().map(|scan| widths(&scan.messages)).max().unwrap_or(0);
        let rows = pass.scans.iter().map(|scan| widths(&scan.before)).max().unwrap_or(0);
        let rows = rows.max(widths(&pass.finish));
        let own = own_bytes_per_row(self.model, pass);
        let tables = pass.targets.iter().map(|value| 4 * self.model.width(*value) as u64);
        let step = ROWS_TOGETHER * STEPS_PER_THREAD as u64 * (own + tables.sum::<u64>());
        self.options.threads.max(1) as u64
            * (edges * EDGES_TOGETHER as u64).max(rows * ROWS_TOGETHER + STEPS * step)
    }
}

/// Bytes of the tables of a scan.
fn scanned_bytes(model: &Model, scan: &Scan) -> u64 {
    let reads = scan.reads.iter().filter_map(|value| model.stored.get(value));
    let per_row: u64 = reads.map(|stored| stored.read_bytes).sum();
    per_row * model.edges(scan).map_or(0, |(.., num_sources)| num_sources)
}

/// Bytes of rows that a node of a pass reads for itself.
fn own_bytes_per_row(model: &Model, pass: &Pass) -> u64 {
    let sums: HashSet<Value> = pass.reductions.iter().map(|reduced| reduced.value).collect();
    let beside = pass.scans.iter().flat_map(|scan| &scan.beside);
    let at_hand: HashSet<Value> = sums.iter().chain(beside).copied().collect();
    let bytes = |part: &Part, there: &HashSet<Value>| -> u64 {
        let read = part.leaves.iter().filter_map(|(_, leaf)| match leaf {
            Leaf::Own(value) if !there.contains(value) => model.stored.get(value),
            _ => None,
        });
        read.map(|stored| stored.read_bytes).sum()
    };
    let before = pass.scans.iter().map(|scan| bytes(&scan.before, &sums));
    before.sum::<u64>() + bytes(&pass.finish, &at_hand)
}

/// Bytes of rows that passes of one block each read.
pub(super) fn bytes_of_a_block(model: &Model) -> f64 {
    let of_pass = |pass: &Pass| {
        let scanned = pass.scans.iter().map(|scan| scanned_bytes(model, scan)).sum::<u64>();
        (scanned + own_bytes_per_row(model, pass) * model.num_nodes(pass.nodes)) as f64
    };
    model.passes.passes.iter().map(of_pass).sum()
}
