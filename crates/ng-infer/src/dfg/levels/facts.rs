//! What is known of a value: its rows, its level, what it is made of.

use std::fmt;

use super::spaces::{End, SpaceId};
use crate::dfg::Value;

/// Hops, counted in halves: `0`, `0.5`, `1` and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Level(u32);

impl Level {
    /// So many hops.
    pub fn hops(count: u32) -> Self {
        Self(count.saturating_mul(2))
    }

    /// The hops that are needed to compute it.
    pub fn ceil(self) -> u32 {
        self.0.div_ceil(2)
    }

    /// Of rows that edges gather from their sources.
    pub(super) fn gathered(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Of what edges reduce.
    pub(super) fn reduced(self) -> Self {
        Self::hops(self.ceil())
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&(self.0 / 2).to_string())?;
        if self.0 % 2 == 1 { f.write_str(".5") } else { Ok(()) }
    }
}

/// The rows of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// The same for every graph.
    Constant,
    /// Counts of rows, and numbers that are made of them.
    Counts,
    /// Rows of the members of a space.
    Rows(Rows),
    /// Both ends of each edge of a space: `[2, edges]`.
    Edges(SpaceId),
    /// What a barrier gives: it depends on all rows of a space.
    Whole,
}

/// Where in a tensor the rows of a space are. Along `axis` come `outer` times all members, each of
/// which has `inner` places: `outer * members * inner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Whose rows they are.
    pub space: SpaceId,
    /// Along which axis they lie.
    pub axis: usize,
    /// How often all members come.
    pub outer: usize,
    /// How many places each member has.
    pub inner: usize,
}

impl Rows {
    /// One row for each member, along an axis.
    pub fn plain(space: SpaceId, axis: usize) -> Self {
        Self { space, axis, outer: 1, inner: 1 }
    }

    /// Whether there is one row for each member along the first axis.
    pub fn is_plain(&self) -> bool {
        (self.axis, self.outer, self.inner) == (0, 1, 1)
    }
}

/// What a value is made of; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MadeOf {
    /// Weights alone.
    Weights,
    /// Counts of rows.
    Counts,
    /// Edges, without what is said of each of them.
    Topology,
    /// Inputs with a row for each edge.
    EdgeRows,
    /// Inputs with a row for each node, or for something else.
    NodeRows,
}

/// A value that holds one end of each edge: numbers of nodes, times `times`, plus something that is
/// less than `times`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Whose ends they are.
    pub edges: SpaceId,
    /// Which of them.
    pub end: End,
    /// How many places each node has.
    pub times: usize,
}

/// What is known of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Its rows.
    pub domain: Domain,
    /// How far away nodes may be that it depends on.
    pub level: Level,
    /// What it is made of. Up to [`MadeOf::EdgeRows`] it is a function of all edges of the batch,
    /// and leaving out edges that do not reach the seeds changes it.
    pub made_of: MadeOf,
    /// The ends of edges that it holds.
    pub pointer: Option<Pointer>,
}

/// A value whose rows edges gather from their sources. Computed for all nodes, it is a table from
/// which the next layer is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// What is gathered.
    pub table: Value,
    /// The place of the node that gathers it.
    pub node: usize,
    /// Along which edges.
    pub edges: SpaceId,
}

/// An operation that needs all rows at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// Its place among the nodes.
    pub node: usize,
    /// Whose rows it reduces.
    pub space: SpaceId,
}

impl Fact {
    pub(super) const CONSTANT: Self =
        Self { domain: Domain::Constant, level: Level(0), made_of: MadeOf::Weights, pointer: None };

    pub(super) fn new(domain: Domain, made_of: MadeOf) -> Self {
        Self { domain, made_of, ..Self::CONSTANT }
    }

    pub(super) fn rows(&self) -> Option<Rows> {
        match self.domain {
            Domain::Rows(rows) => Some(rows),
            _ => None,
        }
    }
}
