//! Sets of rows: nodes of a type, edges of a type with or without loops, and others.

use crate::dfg::{Dfg, Dim, Op, Source, TensorType, Value};

/// Which set of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpaceId(pub(super) usize);

/// An end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Where it comes from: the first row of an edge index.
    Source,
    /// Where it leads: the second row.
    Destination,
}

/// What becomes of the edges from a node to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Loops {
    /// Those of the batch are left out.
    pub removed: bool,
    /// Then each node has one, behind all other edges.
    pub added: bool,
}

/// A set of rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Space {
    /// Those of an input that is counted by `count`: nodes of a type.
    Nodes {
        /// How many.
        count: Dim,
    },
    /// Edges.
    Edges {
        /// The input that holds them.
        input: Value,
        /// Which loops are among them.
        loops: Loops,
        /// The nodes that they come from, once rows were gathered from there.
        sources: Option<SpaceId>,
        /// The nodes that they lead to, once rows were gathered or reduced there.
        destinations: Option<SpaceId>,
    },
    /// Pairs of nodes that nothing is reduced along.
    Pairs {
        /// The input that holds them.
        input: Value,
    },
    /// Other rows whose number is an unknown of its own, such as the graphs of a batch.
    Other {
        /// How many.
        count: Dim,
    },
}

/// All sets of rows, and by which lengths each is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Spaces {
    pub all: Vec<Space>,
    lengths: Vec<(Dim, SpaceId)>,
}

/// The input that the ends of edges in `value` come from.
fn edge_input(dfg: &Dfg, types: &[TensorType], value: Value) -> Vec<Value> {
    let (mut wanted, mut found) = (vec![value], Vec::new());
    while let Some(value) = wanted.pop() {
        match dfg.source(value) {
            Source::Input { .. } if is_pairs(&types[value.0]) => found.push(value),
            Source::Node { node, .. } => wanted.extend(&dfg.nodes()[*node].inputs),
            _ => {}
        }
    }
    found
}

/// `[2, something]` of whole numbers.
pub(super) fn is_pairs(of: &TensorType) -> bool {
    matches!(&of.shape[..], [two, many]
        if of.dtype == ng_types::Dtype::I64 && two.number() == Some(2) && many.number().is_none())
}

impl Spaces {
    /// The spaces of the inputs of a graph.
    pub fn new(dfg: &Dfg, types: &[TensorType]) -> Self {
        let mut this = Self::default();
        let reduced: Vec<Value> = dfg
            .nodes()
            .iter()
            .filter_map(|node| Some(node.inputs[of_edges(&node.op)?]))
            .flat_map(|index| edge_input(dfg, types, index))
            .collect();
        let inputs: Vec<Value> = dfg.inputs().map(|(value, _)| value).collect();
        for input in inputs.iter().filter(|input| is_pairs(&types[input.0])) {
            let length = types[input.0].shape[1].clone();
            let space = if reduced.contains(input) {
                let (sources, destinations) = (None, None);
                Space::Edges { input: *input, loops: Loops::default(), sources, destinations }
            } else {
                Space::Pairs { input: *input }
            };
            this.add(space, length);
        }
        for input in inputs.iter().filter(|input| !is_pairs(&types[input.0])) {
            if let Some(count) = types[input.0].shape.first()
                && count.number().is_none()
                && this.of_length(count).is_none()
            {
                this.add(Space::Nodes { count: count.clone() }, count.clone());
            }
        }
        this
    }

    fn add(&mut self, space: Space, length: Dim) -> SpaceId {
        let id = SpaceId(self.all.len());
        self.all.push(space);
        self.lengths.push((length, id));
        id
    }

    /// The space of so many rows.
    pub fn of_length(&self, length: &Dim) -> Option<SpaceId> {
        self.lengths.iter().find(|(known, _)| known == length).map(|(_, id)| *id)
    }

    /// The space of a length that is so many times its members.
    pub fn of_multiple(&self, length: &Dim) -> Option<(SpaceId, usize)> {
        self.lengths.iter().find_map(|(known, id)| {
            let times = times(length, known)?;
            Some((*id, times))
        })
    }

    /// How many times the members of `id` a length is.
    pub fn multiple(&self, length: &Dim, id: SpaceId) -> Option<usize> {
        let mut known = self.lengths.iter().filter(|(_, known)| *known == id);
        known.find_map(|(known, _)| times(length, known))
    }

    /// Rows whose number nothing else has.
    pub fn other(&mut self, count: &Dim) -> SpaceId {
        let known = self.of_length(count);
        known.unwrap_or_else(|| self.add(Space::Other { count: count.clone() }, count.clone()))
    }

    /// The edges of `of` with other loops, which have a length of their own.
    pub fn with_loops(&mut self, of: SpaceId, loops: Loops, length: &Dim) -> Option<SpaceId> {
        let Space::Edges { input, sources, destinations, .. } = self.all[of.0] else { return None };
        let same = |space: &Space| {
            matches!(space, Space::Edges { input: known, loops: has, .. }
                if *known == input && *has == loops)
        };
        if let Some(at) = self.all.iter().position(same) {
            self.lengths.push((length.clone(), SpaceId(at)));
            return Some(SpaceId(at));
        }
        Some(self.add(Space::Edges { input, loops, sources, destinations }, length.clone()))
    }

    /// Says which nodes are at an end of edges; an error if others are.
    pub fn tie(&mut self, edges: SpaceId, end: End, nodes: SpaceId) -> Result<(), String> {
        if let Space::Edges { sources, destinations, .. } = &mut self.all[edges.0] {
            let known = if end == End::Source { sources } else { destinations };
            match known {
                Some(known) if *known != nodes => {
                    let problem = "the same edges connect rows of two different sets of nodes";
                    return Err(problem.to_owned());
                }
                _ => *known = Some(nodes),
            }
        }
        Ok(())
    }
}

/// How many times `of` a length is.
fn times(length: &Dim, of: &Dim) -> Option<usize> {
    length.ratio(of).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0)
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
