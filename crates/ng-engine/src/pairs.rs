//! Scores of pairs of nodes.

use std::collections::HashMap;

use ng_infer::dfg::{Constant, Elements};
use ng_infer::kernel::{Data, View};
use ng_types::{NodeId, NodeTypeId};

use crate::answer::{Answer, Collected};
use crate::ask::Ask;
use crate::bind::{Counts, Given};
use crate::each::{Asking, How, rows_to};
use crate::engine::{check_ids, distinct, of};
use crate::pinned::Pinned;
use crate::{Engine, EngineError, schema};

/// The nodes at both ends of pairs, as seeds, and which of them each pair has.
struct Ends {
    /// By type, nodes; of types without nodes there are none.
    seeds: Vec<(NodeTypeId, Vec<NodeId>)>,
    /// The subgraph of each, if subgraphs do not share nodes.
    subgraphs: Option<Vec<Vec<u32>>>,
    from: Vec<usize>,
    to: Vec<usize>,
}

impl Ends {
    /// Each node once.
    fn together(types: [NodeTypeId; 2], from: &[NodeId], to: &[NodeId]) -> Self {
        if types[0] != types[1] {
            let ((sources, from), (destinations, to)) = (distinct(from), distinct(to));
            let seeds = vec![(types[0], sources), (types[1], destinations)];
            return Self { seeds, subgraphs: None, from, to };
        }
        let (nodes, mut numbers) = distinct(&[from, to].concat());
        let to = numbers.split_off(from.len());
        Self { seeds: vec![(types[0], nodes)], subgraphs: None, from: numbers, to }
    }

    /// The nodes of each pair by themselves.
    fn apart(types: [NodeTypeId; 2], from: &[NodeId], to: &[NodeId]) -> Self {
        let pairs = from.len() as u32;
        if types[0] != types[1] {
            let numbers: Vec<usize> = (0..from.len()).collect();
            let seeds = vec![(types[0], from.to_vec()), (types[1], to.to_vec())];
            let subgraphs = Some(vec![(0..pairs).collect(); 2]);
            return Self { seeds, subgraphs, from: numbers.clone(), to: numbers };
        }
        let (mut nodes, mut subgraphs) = (Vec::new(), Vec::new());
        let (mut of_from, mut of_to) = (Vec::new(), Vec::new());
        for (pair, (source, destination)) in (0..pairs).zip(from.iter().zip(to)) {
            of_from.push(nodes.len());
            nodes.push(*source);
            subgraphs.push(pair);
            if source != destination {
                nodes.push(*destination);
                subgraphs.push(pair);
            }
            of_to.push(nodes.len() - 1);
        }
        let subgraphs = Some(vec![subgraphs]);
        Self { seeds: vec![(types[0], nodes)], subgraphs, from: of_from, to: of_to }
    }
}

impl Engine {
    /// Returns a score per pair of nodes: the model's output for pairs, or the dot product of its
    /// outputs for both nodes.
    ///
    /// # Errors
    /// As [`Engine::run`]; [`EngineError::Question`] if the outputs of the model cannot be scored.
    pub fn scores(&self, pairs: (&[NodeId], &[NodeId]), seed: u64) -> Result<Answer, EngineError> {
        self.pairs(pairs, seed, &Asking::new(self, How::Together, &|| true))
    }

    pub(crate) fn pairs(
        &self,
        pairs: (&[NodeId], &[NodeId]),
        seed: u64,
        asking: &Asking<'_>,
    ) -> Result<Answer, EngineError> {
        let decodes = self.server.binding.has(|given| matches!(given, Given::Pairs));
        let mut collected = Collected::new(pairs.0.len());
        let ends = self.ends(&asking.pinned)?;
        check_ids(&asking.pinned, ends[0], pairs.0)?;
        check_ids(&asking.pinned, ends[1], pairs.1)?;
        let place = decodes.then(|| self.output(|counts| *counts == Counts::Pairs)).transpose()?;
        let row = place.and_then(|(place, _)| self.row(place));
        // Pairs that share nodes make another batch if one of them is left out.
        let ((from, to), numbers) = match asking.how {
            How::Together => ((pairs.0.to_vec(), pairs.1.to_vec()), (0..pairs.0.len()).collect()),
            How::Apart | How::Alone => distinct_pairs(pairs),
        };
        self.server.counters.ask(2 * pairs.0.len(), 2 * from.len());
        let order = asking.how.order(&numbers, from.len());
        let batch = (self.batch_nodes(asking) / 2).max(1);
        let together = from.chunks(batch).zip(to.chunks(batch));
        for (first, (from, to)) in (0..).step_by(batch).zip(together) {
            let scored = self.score(asking, ends, (from, to), (place.map(|at| at.0), seed))?;
            let scored = View::new(scored.dims(), scored.elements());
            let rows = rows_to(&order, first..first + from.len());
            collected.take(scored, rows.map(|(n, to)| (n - first, to)))?;
        }
        Ok(collected.into_answer(row))
    }

    fn score(
        &self,
        asking: &Asking<'_>,
        types: [NodeTypeId; 2],
        (from, to): (&[NodeId], &[NodeId]),
        (place, seed): (Option<usize>, u64),
    ) -> Result<Constant, EngineError> {
        let make = if asking.how.is_apart() { Ends::apart } else { Ends::together };
        let ends = make(types, from, to);
        let seeds: Vec<(NodeTypeId, &[NodeId])> =
            ends.seeds.iter().map(|(id, nodes)| (*id, nodes.as_slice())).collect();
        let local = |all: &[usize]| all.iter().map(|n| *n as i64).collect::<Vec<i64>>();
        let (rows, cols) = (local(&ends.from), local(&ends.to));
        let pairs = place.map(|_| (rows.as_slice(), cols.as_slice()));
        let ask = asking.ask(&seeds, seed);
        let ask = Ask { pairs, subgraphs: ends.subgraphs.as_deref(), ..ask };
        self.answer(&asking.pinned, &ask, |outputs| {
            if let Some(place) = place {
                return copied(of(outputs, place)?);
            }
            let find = |id: NodeTypeId| {
                let is_of = |counts: &Counts| *counts == Counts::Nodes(id);
                self.output(is_of).and_then(|(place, _)| of(outputs, place))
            };
            dot((find(types[0])?, &ends.from), (find(types[1])?, &ends.to))
        })
    }

    /// The node types of both ends of pairs.
    fn ends(&self, pinned: &Pinned) -> Result<[NodeTypeId; 2], EngineError> {
        let catalog = pinned.snapshot.catalog();
        if let [_] = catalog.node_types.as_slice() {
            return Ok([NodeTypeId(0); 2]);
        }
        let named: Vec<_> = schema::edge_types(catalog).collect();
        match named.first() {
            Some((id, _)) if catalog.node_types.len() == 2 => {
                let meta = &catalog.edge_types[usize::from(id.0)];
                Ok([meta.source, meta.destination])
            }
            _ => Err(EngineError::Question {
                problem: "pairs can be scored in stores with one or two node types, and this \
                          store has more"
                    .to_owned(),
            }),
        }
    }
}

/// Ids of both ends.
type Both = (Vec<NodeId>, Vec<NodeId>);

/// The distinct pairs in the order in which they are met, and which of them each is.
fn distinct_pairs(pairs: (&[NodeId], &[NodeId])) -> (Both, Vec<usize>) {
    let (mut known, mut unique) = (HashMap::new(), Both::default());
    let number = |pair: (&NodeId, &NodeId)| {
        *known.entry((*pair.0, *pair.1)).or_insert_with(|| {
            unique.0.push(*pair.0);
            unique.1.push(*pair.1);
            unique.0.len() - 1
        })
    };
    let numbers = pairs.0.iter().zip(pairs.1).map(number).collect();
    (unique, numbers)
}

fn copied(of: View<'_>) -> Result<Constant, EngineError> {
    let elements = match of.data {
        Data::F32(all) => Elements::F32(all.to_vec()),
        Data::I64(all) => Elements::I64(all.to_vec()),
        Data::Bool(all) => Elements::Bool(all.to_vec()),
        Data::F16(all) => Elements::F16(all.to_vec()),
        Data::I8(all) => Elements::I8(all.to_vec()),
        Data::Rows(_) => Elements::F32(Vec::new()),
    };
    let wrong =
        || EngineError::Output { problem: "the model returned an incomplete output".to_owned() };
    Constant::new(of.dims.to_vec(), elements).ok_or_else(wrong)
}

/// The dot products of rows.
fn dot(
    (from, sources): (View<'_>, &[usize]),
    (to, destinations): (View<'_>, &[usize]),
) -> Result<Constant, EngineError> {
    let wrong = |problem: &str| EngineError::Question { problem: problem.to_owned() };
    let width = |of: View<'_>| match of.dims {
        [_, width] => Some(*width),
        _ => None,
    };
    let (Data::F32(a), Data::F32(b)) = (from.data, to.data) else {
        return Err(wrong(
            "scores of pairs need f32 embeddings, but the model returns another dtype",
        ));
    };
    let width = width(from).filter(|one| width(to) == Some(*one)).ok_or_else(|| {
        wrong("the model does not return embeddings of equal length for both ends of a pair")
    })?;
    let row = |at: usize| at * width..(at + 1) * width;
    let one = |(i, j): (&usize, &usize)| {
        let (a, b) = (a.get(row(*i))?, b.get(row(*j))?);
        Some(a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>())
    };
    let scores: Option<Vec<f32>> = sources.iter().zip(destinations).map(one).collect();
    let scores =
        scores.ok_or_else(|| wrong("the model returns fewer rows than the request has nodes"))?;
    let count = scores.len();
    Constant::new(vec![count], Elements::F32(scores)).ok_or_else(|| wrong("there are no scores"))
}
