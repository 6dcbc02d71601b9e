//! The edges into a block of destinations: sources in ascending order, list by list.
//!
//! Sources ascend so that a scan of their rows from front to back meets the edges of a list one
//! after the other, and so that sums have one order, however nodes are cut into blocks and chunks.
//! Edges from one source keep the order of the list; a loop that is added comes last of them.

use std::ops::Range;

use ng_infer::dfg::levels::Loops;
use ng_infer::kernel::Context;
use ng_store::{Expansion, ReadError, Snapshot};
use ng_types::EdgeTypeId;
use rayon::prelude::*;

/// Destinations whose lists are asked for together.
pub(super) const TOGETHER: u64 = 8192;

/// Edges that memory is reserved for at once; pages that are not used cost nothing.
const EDGES_RESERVED_MAX: usize = 1 << 28;

/// Bytes that an edge takes, and what else it takes where edges have rows.
pub(super) const EDGE_BYTES: u64 = 4;
pub(super) const EDGE_ID_BYTES: u64 = 8;
pub(super) const EDGE_WEIGHT_BYTES: u64 = 4;
/// Bytes that a destination takes: where its list begins, and how far a scan has come in it.
pub(super) const LIST_BYTES: u64 = 12;

/// What is wanted of edges beside their sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub ids: bool,
    pub weights: bool,
}

impl Wanted {
    /// Bytes of an edge.
    pub fn edge_bytes(self) -> u64 {
        let ids = if self.ids { EDGE_ID_BYTES } else { 0 };
        let weights = if self.weights { EDGE_WEIGHT_BYTES } else { 0 };
        EDGE_BYTES + ids + weights
    }
}

/// Edges into a block of destinations.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// The first destination.
    pub first: u64,
    /// Edges of the destination at place `i` are `starts[i]..starts[i + 1]`.
    pub starts: Vec<u64>,
    pub sources: Vec<u32>,
    pub ids: Vec<u64>,
    pub weights: Vec<f32>,
    /// Whether the last edge from a node to itself is one that was added.
    pub loops: Loops,
}

/// Which lists there are to read.
pub(super) struct ListsOf<'a> {
    pub snapshot: &'a Snapshot,
    pub edge_type: EdgeTypeId,
    pub loops: Loops,
    pub wanted: Wanted,
}

/// An edge while its list is sorted.
#[derive(Clone, Copy)]
struct Edge {
    source: u32,
    id: u64,
    weight: f32,
}

impl Lists {
    /// Reads lists until all of `nodes` have theirs, or the next ones would not fit in `bytes`. At
    /// least those that are asked for together are read.
    pub fn read(
        of: &ListsOf<'_>,
        nodes: Range<u64>,
        bytes: u64,
        context: &Context,
    ) -> Result<Self, ReadError> {
        let new = |first| Self { first, starts: vec![0], loops: of.loops, ..Self::default() };
        let mut this = new(nodes.start);
        let edges_max = bytes / of.wanted.edge_bytes();
        this.sources.reserve_exact((edges_max as usize).min(EDGES_RESERVED_MAX));
        let mut from = nodes.start;
        let one = |first: u64| {
            let mut part = new(first);
            part.read_some(of, first..nodes.end.min(first + TOGETHER))?;
            Ok::<Self, ReadError>(part)
        };
        while from < nodes.end {
            let to = nodes.end.min(from + TOGETHER * context.threads() as u64);
            let firsts: Vec<u64> = (from..to).step_by(TOGETHER as usize).collect();
            let parts: Result<Vec<Self>, ReadError> = match context.pool() {
                None => firsts.into_iter().map(one).collect(),
                Some(pool) => pool.install(|| firsts.into_par_iter().map(one).collect()),
            };
            for part in parts? {
                let is_first = this.len() == 0;
                let all = this.sources.len() + part.sources.len();
                if !is_first && all as u64 > edges_max {
                    return Ok(this);
                }
                this.append(part);
            }
            from = to;
        }
        Ok(this)
    }

    fn read_some(&mut self, of: &ListsOf<'_>, nodes: Range<u64>) -> Result<(), ReadError> {
        let (mut expansion, mut list) = (Expansion::default(), Vec::new());
        let ids: Vec<u64> = nodes.collect();
        of.snapshot.neighbors(of.edge_type, &ids, &mut expansion)?;
        for (at, node) in ids.iter().enumerate() {
            self.push(*node as u32, &expansion, at, of.wanted, &mut list);
        }
        Ok(())
    }

    /// The lists of the destinations that follow.
    fn append(&mut self, other: Self) {
        let before = self.sources.len() as u64;
        self.starts.extend(other.starts[1..].iter().map(|start| before + start));
        self.sources.extend(other.sources);
        self.ids.extend(other.ids);
        self.weights.extend(other.weights);
    }

    /// Appends the list of a destination.
    fn push(
        &mut self,
        node: u32,
        from: &Expansion,
        at: usize,
        wanted: Wanted,
        list: &mut Vec<Edge>,
    ) {
        list.clear();
        for place in from.offsets[at]..from.offsets[at + 1] {
            let source = from.sources[place] as u32;
            if !self.loops.removed || source != node {
                let id = from.edge_ids.get(place).copied().unwrap_or(0);
                let weight = from.weights.get(place).copied().unwrap_or(1.0);
                list.push(Edge { source, id, weight });
            }
        }
        if self.loops.added {
            list.push(Edge { source: node, id: 0, weight: 0.0 });
        }
        if !list.is_sorted_by_key(|edge| edge.source) {
            list.sort_by_key(|edge| edge.source);
        }
        self.sources.extend(list.iter().map(|edge| edge.source));
        if wanted.ids {
            self.ids.extend(list.iter().map(|edge| edge.id));
        }
        if wanted.weights {
            self.weights.extend(list.iter().map(|edge| edge.weight));
        }
        self.starts.push(self.sources.len() as u64);
    }

    /// How many destinations there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Leaves out the destinations behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.starts.truncate(len + 1);
        let edges = self.starts.last().map_or(0, |end| *end as usize);
        self.sources.truncate(edges);
        self.ids.truncate(edges);
        self.weights.truncate(edges);
    }

    /// The edges of the destination at a place.
    pub fn edges(&self, place: usize) -> Range<usize> {
        self.starts[place] as usize..self.starts[place + 1] as usize
    }

    /// Whether an edge of a destination leads from it to itself.
    pub fn is_loop(&self, place: usize, edge: usize) -> bool {
        self.sources[edge] == (self.first + place as u64) as u32
    }

    /// Whether an edge of a destination is a loop that was added.
    pub fn is_added(&self, place: usize, edge: usize) -> bool {
        let node = (self.first + place as u64) as u32;
        self.loops.added
            && self.is_loop(place, edge)
            && (edge + 1 == self.edges(place).end || self.sources[edge + 1] != node)
    }
}
