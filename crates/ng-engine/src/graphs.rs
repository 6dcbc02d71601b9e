//! What models give for whole graphs, and which nodes make which graph, where a store holds many small ones: the node tensor `graph_id`
//! says it, and the nodes of a graph stand side by side.

use ng_store::{Owner, ReadError, Snapshot};
use ng_types::{Dtype, NodeTypeId, Reservation};

use crate::answer::{Answer, Collected};
use crate::bind::{Counts, GRAPH_ID, Given};
use crate::each::{Asking, How, rows_to};
use crate::engine::{check_below, distinct, of};
use crate::request::Ask;
use crate::{Engine, EngineError};

/// The first node of each graph, and the end of the last one.
#[derive(Debug)]
pub(crate) struct GraphsOf {
    starts: Vec<u64>,
    _held: Reservation,
}

impl GraphsOf {
    /// Reads the tensor once.
    pub fn read(snapshot: &Snapshot, node_type: NodeTypeId) -> Result<Self, EngineError> {
        let wrong = |problem: String| EngineError::Input { input: "batch".to_owned(), problem };
        let owner = Owner::Node(node_type);
        let missing = || wrong(format!("the store has no node tensor {GRAPH_ID:?}"));
        let tensor = snapshot.catalog().find_tensor(owner, GRAPH_ID).ok_or_else(missing)?;
        let meta = snapshot.catalog().tensor(tensor).ok_or_else(missing)?;
        let has_order = snapshot
            .catalog()
            .node_types
            .get(usize::from(node_type.0))
            .is_some_and(ng_store::NodeTypeMeta::has_order);
        if meta.dtype != Dtype::I64 || !meta.shape.is_empty() || has_order {
            return Err(wrong(format!(
                "{GRAPH_ID:?} has to be one i64 a node, with nodes in the order of their ids"
            )));
        }
        let held = snapshot.reserve_batch(meta.num_rows.saturating_mul(8))?;
        let (mut starts, mut bad) = (Vec::new(), None);
        snapshot.scan_tensor::<ReadError>(tensor, &mut |first, rows| {
            for (node, row) in (first..).zip(rows.as_chunks::<8>().0) {
                let graph = i64::from_le_bytes(*row);
                let known = starts.len() as i64;
                if graph == known {
                    starts.push(node);
                } else if graph + 1 != known {
                    bad = bad.or(Some((node, graph)));
                }
            }
            Ok(())
        })?;
        if let Some((node, graph)) = bad {
            return Err(wrong(format!(
                "node {node} is of graph {graph}; graphs have to be numbered from 0 in the order \
                 of their nodes"
            )));
        }
        starts.push(meta.num_rows);
        starts.shrink_to_fit();
        Ok(Self { starts, _held: held })
    }

    /// How many graphs there are.
    pub fn len(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    /// The nodes of a graph.
    pub fn nodes(&self, graph: u64) -> std::ops::Range<u64> {
        self.starts[graph as usize]..self.starts[graph as usize + 1]
    }
}

impl Engine {
    /// What the model gives for whole graphs, a row for each.
    ///
    /// # Errors
    /// As [`Engine::run`]; [`EngineError::Question`] if the model is none of graphs.
    pub fn graphs(&self, graphs: &[u64]) -> Result<Answer, EngineError> {
        self.whole_graphs(graphs, &Asking::new(self, How::Together, &|| true))
    }

    pub(crate) fn whole_graphs(
        &self,
        graphs: &[u64],
        asking: &Asking<'_>,
    ) -> Result<Answer, EngineError> {
        let found = self.server.binding.inputs.iter().find_map(|input| match input.given {
            Given::GraphOf(id) => Some(id),
            _ => None,
        });
        let node_type = found.ok_or_else(|| EngineError::Question {
            problem: "the model takes no batch, which says the graph of each node, so it is not a \
                      model of graphs"
                .to_owned(),
        })?;
        let pinned = &asking.pinned;
        let of_graphs = match pinned.graphs.get() {
            Some(known) => known,
            None => {
                let read = GraphsOf::read(&pinned.snapshot, node_type)?;
                pinned.graphs.get_or_init(|| read)
            }
        };
        check_below("graphs", graphs, of_graphs.len())?;
        let induced = pinned.induced()?;
        let (unique, numbers) = distinct(graphs);
        let (place, _) = self.output(|counts| *counts == Counts::Graphs)?;
        let mut collected = Collected::new(graphs.len());
        self.server.counters.ask(graphs.len(), unique.len());
        let order = asking.how.order(&numbers, unique.len());
        let (most, mut first) = (asking.how.most(self.options.batch_nodes), 0);
        while first < unique.len() {
            let (mut nodes, mut of_nodes, mut end) = (Vec::new(), Vec::new(), first);
            while end < unique.len() && (end == first || nodes.len() < most) {
                nodes.extend(of_graphs.nodes(unique[end]));
                of_nodes.resize(nodes.len(), (end - first) as i64);
                end += 1;
            }
            let graphs = Some((&induced, of_nodes.as_slice(), (end - first) as u64));
            let seeds = [(node_type, nodes.as_slice())];
            let ask = Ask { graphs, ..asking.ask(&seeds, 0) };
            self.answer(pinned, &ask, |outputs| {
                let rows = rows_to(&order, first..end).map(|(n, to)| (n - first, to));
                collected.take(of(outputs, place)?, rows)
            })?;
            first = end;
        }
        Ok(collected.into_answer(self.row(place)))
    }
}
