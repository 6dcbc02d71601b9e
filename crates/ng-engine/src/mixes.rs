//! Which models give a row that depends on other rows of its batch than those of its own subgraph.
//!
//! The invariant: a model that is not understood is taken to be one.

use ng_infer::dfg::levels::{Domain, Levels};
use ng_infer::dfg::{Dfg, Node, Op, TensorType};

/// What depends on all rows of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mixes {
    /// Rows of nodes and pairs.
    pub nodes: bool,
    /// Rows of graphs.
    pub graphs: bool,
}

impl Mixes {
    /// Those of a graph; `types` are the types of inputs that have none.
    pub fn of(graph: &Dfg, types: &[(String, TensorType)]) -> Self {
        let types: Vec<_> = types.iter().map(|(name, of)| (name.as_str(), of.clone())).collect();
        let Ok(levels) = graph.levels(&types) else { return Self { nodes: true, graphs: true } };
        let counts = graph.nodes().iter().any(|node| computes_with_counts(node, &levels));
        let has_rows = |fact: &Domain| matches!(fact, Domain::Rows(rows) if rows.is_plain());
        let outputs = graph.outputs().iter();
        let others = outputs.map(|(_, value)| levels.fact(*value).domain).any(|of| !has_rows(&of));
        let by_graph =
            |node: usize| matches!(graph.nodes()[node].op, Op::Scatter(_) | Op::EdgeSoftmax);
        Self {
            nodes: counts || others || !levels.barriers().is_empty(),
            graphs: counts || others || !levels.barriers().iter().all(|of| by_graph(of.node)),
        }
    }
}

/// Whether elements are computed of how many rows there are, which is another number in another
/// batch. Sizes of what is made are not elements.
fn computes_with_counts(node: &Node, levels: &Levels) -> bool {
    let is_count = |value| levels.fact(value).domain == Domain::Counts;
    if node.outputs.iter().all(|value| is_count(*value)) {
        return false;
    }
    let sizes_from = match node.op {
        Op::ConstantOfShape { .. } => 0,
        Op::Scatter(_) | Op::EdgeSoftmax => 2,
        Op::Reshape { .. }
        | Op::Expand
        | Op::Tile
        | Op::Degree
        | Op::AddSelfLoops
        | Op::GcnNorm => 1,
        _ => usize::MAX,
    };
    node.inputs.iter().enumerate().any(|(at, value)| at < sizes_from && is_count(*value))
}
