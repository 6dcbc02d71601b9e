//! What models give for whole graphs, where a store holds many small ones.

use crate::answer::{Answer, Collected};
use crate::ask::Ask;
use crate::bind::{Counts, Given};
use crate::each::{Asking, How, rows_to};
use crate::engine::{check_below, distinct, of};
use crate::graphs::GraphsOf;
use crate::{Engine, EngineError};

impl Engine {
    /// Runs the model for whole graphs. Returns one row per graph.
    ///
    /// # Errors
    /// As [`Engine::run`]; [`EngineError::Question`] if the model is not a model of graphs.
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
            problem: "the model does not compute whole graphs: it has no input \"batch\", which \
                      assigns nodes to graphs"
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
