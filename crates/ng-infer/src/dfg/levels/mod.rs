//! Which rows each value has, and how far from the seeds the nodes may be whose rows it needs.
//!
//! What lives here: domains, levels and cuts of a graph, found from types and operations alone.
//! What must not: batches, kernels, plans. The invariant: of a graph that is analysed, each
//! operation treats rows one by one, unless it gathers or reduces them along edges or is listed as
//! a barrier. So a value may be computed for some rows alone.
//!
//! Levels count hops. Inputs have level 0, and an operation on rows has the largest level of what
//! it takes. Rows that edges gather from their sources have half a level more, and what edges
//! reduce is rounded up: a node of level `l` depends on nodes up to `l` hops away.

mod edges;
mod elements;
mod error;
mod layout;
mod rules;
mod spaces;

use std::fmt;

pub use error::LevelsError;
pub use spaces::{End, Loops, Space, SpaceId};

use super::graph::{Dfg, Source, TensorType, Value};
use super::op::Op;
use rules::Analysis;

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
    fn gathered(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Of what edges reduce.
    fn reduced(self) -> Self {
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

/// Domains, levels and cuts of a graph.
///
/// ```
/// use ng_infer::dfg::levels::{Domain, Level};
/// use ng_infer::dfg::{Dfg, Dim, TensorType};
/// use ng_types::Dtype;
/// let dfg = Dfg::from_text(
///     r#"1: "SpMM_Mean"
///          in={"edge_index", "x"}
///          out={"1_0"}"#,
/// )?;
/// let typed = |dtype, shape: [Dim; 2]| TensorType { dtype, shape: shape.into() };
/// let levels = dfg.levels(&[
///     ("x", typed(Dtype::F32, [Dim::symbol("nodes"), Dim::from(8)])),
///     ("edge_index", typed(Dtype::I64, [Dim::from(2), Dim::symbol("edges")])),
/// ])?;
/// let out = dfg.outputs()[0].1;
/// assert_eq!(levels.fact(out).level, Level::hops(1));
/// assert_eq!(levels.cuts()[0].table, dfg.value("x").expect("an input"));
/// # Ok::<(), ng_infer::dfg::levels::LevelsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Levels {
    facts: Vec<Fact>,
    types: Vec<TensorType>,
    spaces: Vec<Space>,
    cuts: Vec<Cut>,
    barriers: Vec<Barrier>,
}

impl Levels {
    /// What is known of a value.
    pub fn fact(&self, value: Value) -> &Fact {
        &self.facts[value.0]
    }

    /// The type of a value.
    pub fn type_of(&self, value: Value) -> &TensorType {
        &self.types[value.0]
    }

    /// A set of rows.
    pub fn space(&self, id: SpaceId) -> &Space {
        &self.spaces[id.0]
    }

    /// All sets of rows.
    pub fn spaces(&self) -> impl Iterator<Item = (SpaceId, &Space)> {
        self.spaces.iter().enumerate().map(|(at, space)| (SpaceId(at), space))
    }

    /// The gathers by source, in the order of the nodes.
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    /// Operations that need all rows at once.
    pub fn barriers(&self) -> &[Barrier] {
        &self.barriers
    }

    /// The largest level of an output: how many hops the graph needs.
    pub fn depth(&self, dfg: &Dfg) -> u32 {
        let levels = dfg.outputs().iter().map(|(_, value)| self.fact(*value).level.ceil());
        levels.max().unwrap_or(0)
    }
}

impl Dfg {
    /// Finds domains, levels and cuts; `given` are the types of inputs that have none.
    ///
    /// # Errors
    ///
    /// Types do not fit, or an operation treats rows in a way that cannot be followed: it is named.
    pub fn levels(&self, given: &[(&str, TensorType)]) -> Result<Levels, LevelsError> {
        let types = self.check(given)?;
        let mut analysis = Analysis::new(self, &types);
        for value in self.values() {
            let fact = match self.source(value) {
                Source::Input { .. } => analysis.input(value)?,
                Source::Weight(_) => Fact::new(Domain::Constant, MadeOf::Weights),
                Source::Node { node, output: 0 } => {
                    analysis.node(*node)?;
                    continue;
                }
                Source::Node { .. } => continue,
            };
            analysis.set(value, fact);
        }
        let Analysis { facts, spaces, cuts, barriers, .. } = analysis;
        let all = facts.into_iter().map(|fact| fact.unwrap_or(Fact::CONSTANT)).collect();
        Ok(Levels { facts: all, types, spaces: spaces.all, cuts, barriers })
    }
}

impl Fact {
    const CONSTANT: Self =
        Self { domain: Domain::Constant, level: Level(0), made_of: MadeOf::Weights, pointer: None };

    fn new(domain: Domain, made_of: MadeOf) -> Self {
        Self { domain, made_of, ..Self::CONSTANT }
    }

    fn rows(&self) -> Option<Rows> {
        match self.domain {
            Domain::Rows(rows) => Some(rows),
            _ => None,
        }
    }
}

/// Whether an operation reduces along edges, or makes edges of others: what says that pairs of
/// nodes are edges. The second is the place of the input that holds the edges or their ends.
fn of_edges(op: &Op) -> Option<usize> {
    match op {
        Op::Scatter(_) | Op::EdgeSoftmax => Some(1),
        Op::Spmm(_)
        | Op::AddSelfLoops
        | Op::RemoveSelfLoops
        | Op::RemoveSelfLoopsAttr
        | Op::SelfLoopAttr
        | Op::GcnNorm
        | Op::Degree => Some(0),
        _ => None,
    }
}
