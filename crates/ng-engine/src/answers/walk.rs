//! A walk from nodes to those whose lists contain them, within a limit.

use std::collections::HashSet;

use ng_store::{
    EXPAND_BYTES_PER_DESTINATION, EXPAND_BYTES_PER_ENTRY, Expansion, ReadError, Snapshot,
};
use ng_types::{EdgeTypeId, IdHash, NodeId, NodeTypeId, Reservation};

use crate::answers::affected::{WalkLimit, Walked, WhyAll};

/// Lists that are read together, and entries of them.
const LISTS_TOGETHER: usize = 512;
const ENTRIES_TOGETHER: u64 = 1 << 15;

/// What a found node takes.
const BYTES_PER_NODE: u64 = 48;

/// Memory for found nodes is taken in steps of this.
const STEP_BYTES: u64 = 256 << 10;

/// Why a walk ended early.
pub(super) enum Stopped {
    Because(WhyAll),
    Read(ReadError),
}

impl From<ReadError> for Stopped {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Nodes of a type in the order in which they were found.
#[derive(Default)]
struct Found {
    order: Vec<NodeId>,
    known: HashSet<NodeId, IdHash>,
}

/// A walk.
pub(super) struct Walk<'a> {
    pub snapshot: &'a Snapshot,
    pub walked: Walked,
    limit: WalkLimit,
    /// By node type.
    found: Vec<Found>,
    /// By edge type, how many of its sources were walked from already.
    done: Vec<usize>,
    held: Option<Reservation>,
}

impl<'a> Walk<'a> {
    pub fn new(snapshot: &'a Snapshot, limit: WalkLimit) -> Self {
        let catalog = snapshot.catalog();
        Self {
            snapshot,
            walked: Walked::default(),
            limit,
            found: catalog.node_types.iter().map(|_| Found::default()).collect(),
            done: vec![0; catalog.edge_types.len()],
            held: None,
        }
    }

    /// Adds nodes to those that were found.
    pub fn add(&mut self, node_type: NodeTypeId, nodes: &[NodeId]) -> Result<(), Stopped> {
        let wanted = (self.walked.nodes + nodes.len() as u64) * BYTES_PER_NODE;
        let held = self.held.as_ref().map_or(0, Reservation::bytes);
        if wanted > held {
            let more = self.reserve(wanted.next_multiple_of(STEP_BYTES) - held)?;
            match &mut self.held {
                Some(held) => held.merge(more),
                None => self.held = Some(more),
            }
        }
        let Some(found) = self.found.get_mut(usize::from(node_type.0)) else { return Ok(()) };
        for node in nodes {
            if found.known.insert(*node) {
                found.order.push(*node);
                self.walked.nodes += 1;
            }
        }
        Ok(())
    }

    /// Adds the destinations of `edge_types` whose lists contain a node that was found before.
    pub fn step(&mut self, edge_types: &[EdgeTypeId]) -> Result<(), Stopped> {
        let ends: Vec<usize> = self.found.iter().map(|found| found.order.len()).collect();
        for id in edge_types {
            let meta = self.snapshot.catalog().edge_type(*id)?;
            let (from, to) = (usize::from(meta.source.0), meta.destination);
            let start = std::mem::replace(&mut self.done[usize::from(id.0)], ends[from]);
            let nodes = self.found[from].order[start..ends[from]].to_vec();
            if nodes.is_empty() {
                continue;
            }
            let Some(reverse) = meta.reverse else {
                let edge_type = meta.relation.clone();
                return Err(Stopped::Because(WhyAll::NoReverse { edge_type }));
            };
            for some in nodes.chunks(LISTS_TOGETHER) {
                self.walk_from(reverse, some, to)?;
            }
        }
        Ok(())
    }

    /// Adds what is in the lists of `nodes`.
    fn walk_from(
        &mut self,
        lists_of: EdgeTypeId,
        nodes: &[NodeId],
        to: NodeTypeId,
    ) -> Result<(), Stopped> {
        self.walked.lists += nodes.len() as u64;
        self.check_limit(0)?;
        let _held = self.reserve_lists(nodes.len() as u64, ENTRIES_TOGETHER)?;
        let (mut sum, mut long, mut lists) = (0, Vec::new(), Expansion::default());
        let mut draw = |place: usize, degree: u64, positions: &mut Vec<u64>| {
            // Long lists are read one by one, when there is memory for them.
            match sum + degree <= ENTRIES_TOGETHER {
                true => positions.extend(0..degree),
                false => long.push((nodes[place], degree)),
            }
            sum += if sum + degree <= ENTRIES_TOGETHER { degree } else { 0 };
        };
        self.snapshot.expand(lists_of, nodes, &mut draw, &mut lists)?;
        self.check_limit(lists.sources.len() as u64)?;
        self.add(to, &lists.sources)?;
        for (node, degree) in long {
            self.check_limit(degree)?;
            let _held = self.reserve_lists(1, degree)?;
            self.snapshot.neighbors(lists_of, &[node], &mut lists)?;
            self.add(to, &lists.sources)?;
        }
        Ok(())
    }

    /// Counts entries.
    fn check_limit(&mut self, entries: u64) -> Result<(), Stopped> {
        self.walked.entries += entries;
        let WalkLimit { lists, entries } = self.limit;
        if self.walked.lists <= lists && self.walked.entries <= entries {
            return Ok(());
        }
        Err(Stopped::Because(WhyAll::TooMany { lists, entries }))
    }

    fn reserve_lists(&self, lists: u64, entries: u64) -> Result<Reservation, Stopped> {
        let bytes = lists * EXPAND_BYTES_PER_DESTINATION;
        self.reserve(bytes.saturating_add(entries.saturating_mul(EXPAND_BYTES_PER_ENTRY)))
    }

    fn reserve(&self, bytes: u64) -> Result<Reservation, Stopped> {
        self.snapshot.reserve(bytes).map_err(|_| Stopped::Because(WhyAll::NoMemory))
    }

    /// What was found, by node type, ascending.
    pub fn into_nodes(self) -> (Vec<Vec<NodeId>>, Walked) {
        let sorted = |found: Found| {
            let mut nodes = found.order;
            nodes.sort_unstable();
            nodes
        };
        (self.found.into_iter().map(sorted).collect(), self.walked)
    }
}
