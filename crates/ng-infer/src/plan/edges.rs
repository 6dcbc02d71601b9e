//! Sets of edges: which indices are ends of edges, and which edges come to which nodes.
//!
//! The invariant: of a set that may be cut, the edges to nodes of hop `k` come from nodes of hop
//! `k + 1` at most, if the batch is in hop order.

use std::collections::BTreeSet;

use super::draft::Draft;
use crate::dfg::{Dim, Known, Op, Source, Value, place};

/// The edges that an index sends to nodes: those of one `Scatter` or `EdgeSoftmax`.
#[derive(Clone, Debug)]
pub(super) struct EdgeSet {
    /// The node that each edge comes to.
    pub index: Value,
    /// How many nodes there are.
    pub size: Value,
    /// Both ends of the edges, if the index is the second.
    pub ends: Option<Value>,
    /// The symbol of the nodes that edges come to, if edges may be cut to those of some hops.
    pub nodes: Option<String>,
}

/// A graph with what is known of its values.
pub(super) struct Facts<'a> {
    pub draft: &'a Draft,
    pub known: &'a [Known],
    /// The symbols that count nodes.
    pub nodes: BTreeSet<String>,
}

impl<'a> Facts<'a> {
    pub fn new(draft: &'a Draft, known: &'a [Known]) -> Self {
        let mut this = Self { draft, known, nodes: BTreeSet::new() };
        let named = draft.dfg.inputs().filter_map(|(value, _)| known[value.0].shape.first());
        let mut nodes: BTreeSet<String> = named
            .filter_map(Dim::name)
            .filter(|name| name.starts_with("nodes"))
            .map(str::to_owned)
            .collect();
        for node in draft.dfg.nodes() {
            let counts = match node.op {
                Op::Gather { .. } => this.gathered(node.outputs[0]).and_then(|(rows, index)| {
                    this.end(index)?;
                    known[rows.0].shape.first()
                }),
                Op::Scatter(_) | Op::FixedScatter(_) | Op::EdgeSoftmax => {
                    let content = known[node.inputs[2].0].content.as_ref();
                    this.end(node.inputs[1]).and_then(|_| content?.first())
                }
                _ => None,
            };
            nodes.extend(counts.and_then(Dim::name).map(str::to_owned));
        }
        nodes.retain(|name| this.input_of(name).is_some());
        this.nodes = nodes;
        this
    }

    pub fn known(&self, value: Value) -> &'a Known {
        &self.known[value.0]
    }

    /// An input whose first length is a symbol.
    pub fn input_of(&self, symbol: &str) -> Option<Value> {
        let has =
            |value: &Value| self.known[value.0].shape.first().and_then(Dim::name) == Some(symbol);
        self.draft.dfg.inputs().map(|(value, _)| value).find(has)
    }

    /// The symbol of the nodes that a value has rows of.
    pub fn nodes_of(&self, value: Value) -> Option<&'a str> {
        let symbol = self.known(value).shape.first().and_then(Dim::name)?;
        self.nodes.contains(symbol).then_some(symbol)
    }

    /// Rows and an index of one axis, if a value is the former gathered by the latter.
    pub fn gathered(&self, value: Value) -> Option<(Value, Value)> {
        let node = self.draft.maker(value)?;
        let Op::Gather { axis } = node.op else { return None };
        let (rows, index) = (node.inputs[0], node.inputs[1]);
        let is_first = place(axis, self.known(rows).shape.len()) == Ok(0);
        (is_first && self.known(index).shape.len() == 1).then_some((rows, index))
    }

    /// The edges that an index is an end of, and which end: 0 is the source.
    pub fn end(&self, index: Value) -> Option<(Value, i64)> {
        let node = self.draft.maker(index)?;
        let (edges, row) = (*node.inputs.first()?, *node.inputs.get(1)?);
        let is_row = matches!(node.op, Op::Gather { axis: 0 }) && self.known(row).shape.is_empty();
        let [end @ (0 | 1)] = *self.draft.numbers(row).filter(|_| is_row)? else { return None };
        let has_two = self.known(edges).shape.first().and_then(Dim::number) == Some(2);
        (has_two && self.edge_input(edges).is_some()).then_some((edges, end))
    }

    /// The input that edges come from, with loops added or removed.
    fn edge_input(&self, edges: Value) -> Option<Value> {
        let mut root = edges;
        while let Some(node) = self.draft.maker(root) {
            let is_edges =
                matches!(node.op, Op::AddSelfLoops | Op::RemoveSelfLoops | Op::RemoveSelfLoopsAttr);
            if !is_edges || node.outputs[0] != root {
                return None;
            }
            root = node.inputs[0];
        }
        matches!(self.draft.dfg.source(root), Source::Input { .. }).then_some(root)
    }

    /// The inputs whose numbers are rows to gather: edges, and pairs of nodes.
    pub fn edge_inputs(&self) -> BTreeSet<Value> {
        let nodes = self.draft.dfg.nodes().iter();
        let gathered = nodes.filter_map(|node| self.gathered(*node.outputs.first()?));
        gathered.filter_map(|(_, index)| self.edge_input(self.end(index)?.0)).collect()
    }

    /// The edges of an index into `size` nodes; they may be cut if `is_cut`.
    pub fn edge_set(&self, index: Value, size: Value, is_cut: bool) -> EdgeSet {
        let ends = self.end(index).filter(|(_, end)| *end == 1).map(|(edges, _)| edges);
        let count = self.known(size).content.as_ref().and_then(|content| content.first());
        let symbol = count.and_then(Dim::name).filter(|name| self.nodes.contains(*name));
        let nodes = symbol.filter(|_| is_cut && ends.is_some()).map(str::to_owned);
        EdgeSet { index, size, ends, nodes }
    }
}
