//! Adding edges from a chunk of sources to some destinations of a block, on one thread.

use std::collections::HashMap;

use ng_infer::dfg::{Elements, Value};
use ng_infer::kernel::{Context, Data};
use ng_infer::plan::Answer;
use ng_simd::prefetch;

use super::accumulate::Part as Sums;
use super::chunk::Chunk;
use super::error::LayerwiseError;
use super::lists::Lists;
use super::model::{EdgeRows, Model};
use super::part::{Given, Leaf, f32s, refused};
use super::passes::{How, Message, Reduced, Scan};
use super::plan::EDGES_TOGETHER;
use super::rows::{elements, gathered};

/// What all pieces of a block share in a scan.
pub(super) struct Shared<'a> {
    pub model: &'a Model,
    pub lists: &'a Lists,
    pub scan: &'a Scan,
    pub reductions: Vec<&'a Reduced>,
    pub beside: &'a HashMap<Value, Elements>,
}

/// Destinations that one thread works on.
pub(super) struct Piece<'a> {
    /// The place of the first in the block.
    pub first: usize,
    /// How many edges of each list were added.
    pub cursors: &'a mut [u32],
    /// By reduction of the scan.
    pub sums: Vec<Sums<'a>>,
}

/// Edges that are computed on together.
#[derive(Default)]
struct Batch {
    /// Places of destinations in the piece.
    to: Vec<u32>,
    /// Places in the lists.
    edges: Vec<usize>,
    /// Destinations that add rows of their own, each before the edge at a place of the batch.
    own: Vec<(usize, u32)>,
}

/// In place of an edge: what the destination adds.
const OWN: usize = usize::MAX;

/// How many edges ahead rows are brought near.
const AHEAD: usize = 3;

impl Piece<'_> {
    /// Adds all edges from the sources of a chunk.
    pub fn add(&mut self, shared: &Shared<'_>, chunk: &Chunk) -> Result<(), LayerwiseError> {
        let lists = shared.lists;
        let end = chunk.rows.end;
        let ends: Vec<u32> = (0..self.cursors.len())
            .map(|at| {
                let edges = lists.edges(self.first + at);
                let from = edges.start + self.cursors[at] as usize;
                let sources = &lists.sources[from..edges.end];
                let count = sources.iter().take_while(|source| u64::from(**source) < end).count();
                self.cursors[at] + count as u32
            })
            .collect();
        let steps = self.steps(shared, chunk, &ends);
        for (place, reduced) in shared.reductions.iter().enumerate() {
            if let Message::Row { table, .. } = reduced.message
                && reduced.is_plain()
            {
                self.add_rows(shared, chunk, place, table, &steps);
            }
        }
        if !shared.scan.messages.graph.outputs().is_empty() {
            self.add_batches(shared, chunk, &steps)?;
        }
        self.cursors.copy_from_slice(&ends);
        Ok(())
    }

    /// What is added, in its order: by destination its edges, and behind those from nodes up to
    /// itself what the destination adds.
    fn steps(&self, shared: &Shared<'_>, chunk: &Chunk, ends: &[u32]) -> Vec<(u32, usize)> {
        let lists = shared.lists;
        let mut steps = Vec::with_capacity(ends.len());
        for (at, end) in ends.iter().enumerate() {
            let start = lists.edges(self.first + at).start;
            let edges = start + self.cursors[at] as usize..start + *end as usize;
            let node = lists.first + (self.first + at) as u64;
            if chunk.added.is_empty() || !chunk.rows.contains(&node) {
                steps.extend(edges.map(|edge| (at as u32, edge)));
                continue;
            }
            let sources = &lists.sources[edges.clone()];
            let before = sources.partition_point(|source| u64::from(*source) <= node);
            let middle = edges.start + before;
            steps.extend((edges.start..middle).map(|edge| (at as u32, edge)));
            steps.push((at as u32, OWN));
            steps.extend((middle..edges.end).map(|edge| (at as u32, edge)));
        }
        steps
    }

    /// Adds what a destination adds to a reduction, if it adds anything.
    fn add_own(&mut self, shared: &Shared<'_>, chunk: &Chunk, place: usize, at: u32) {
        let (reduced, at) = (shared.reductions[place], at as usize);
        let node = shared.lists.first + (self.first + at) as u64;
        if reduced.added.is_some()
            && let Some(row) = chunk.added(reduced.value, node, reduced.width())
        {
            let messages = shared.lists.edges(self.first + at).len();
            self.sums[place].add_own(at, row, messages);
        }
    }

    /// Adds rows as they are.
    fn add_rows(
        &mut self,
        shared: &Shared<'_>,
        chunk: &Chunk,
        place: usize,
        table: Value,
        steps: &[(u32, usize)],
    ) {
        let rows = chunk.f32s(table);
        let width = shared.reductions[place].width();
        let row = |edge: usize| {
            let source = u64::from(*shared.lists.sources.get(edge)?);
            let from = source.checked_sub(chunk.rows.start)? as usize * width;
            rows.get(from..from + width)
        };
        for (step, (at, edge)) in steps.iter().enumerate() {
            if let Some((at, edge)) = steps.get(step + AHEAD) {
                row(*edge).into_iter().for_each(prefetch);
                prefetch(self.sums[place].row(*at as usize));
            }
            if *edge == OWN {
                self.add_own(shared, chunk, place, *at);
            } else {
                row(*edge).into_iter().for_each(|row| self.sums[place].add(*at as usize, row));
            }
        }
    }

    fn add_batches(
        &mut self,
        shared: &Shared<'_>,
        chunk: &Chunk,
        steps: &[(u32, usize)],
    ) -> Result<(), LayerwiseError> {
        let mut batch = Batch::default();
        for (at, edge) in steps {
            if *edge == OWN {
                batch.own.push((batch.to.len(), *at));
                continue;
            }
            batch.to.push(*at);
            batch.edges.push(*edge);
            if batch.to.len() == EDGES_TOGETHER {
                self.add_batch(shared, chunk, &batch)?;
                batch.to.clear();
                batch.edges.clear();
                batch.own.clear();
            }
        }
        if !batch.to.is_empty() {
            return self.add_batch(shared, chunk, &batch);
        }
        for (place, reduced) in shared.reductions.iter().enumerate() {
            if !reduced.is_plain() {
                batch.own.iter().for_each(|(_, at)| self.add_own(shared, chunk, place, *at));
            }
        }
        Ok(())
    }

    fn add_batch(
        &mut self,
        shared: &Shared<'_>,
        chunk: &Chunk,
        batch: &Batch,
    ) -> Result<(), LayerwiseError> {
        let leaves = shared.scan.messages.leaves.iter();
        let given = leaves.map(|(_, leaf)| self.leaf(shared, chunk, batch, *leaf));
        let given = given.collect::<Result<Vec<_>, _>>()?;
        let found = shared.scan.messages.run(&Context::default(), &given)?;
        for (place, reduced) in shared.reductions.iter().enumerate() {
            if reduced.is_plain() {
                continue;
            }
            let places = places(shared, reduced, batch, &found, self.sums[place].len())?;
            let width = reduced.width();
            let mut own = batch.own.iter().peekable();
            for at in 0..=batch.to.len() {
                while let Some((_, to)) = own.next_if(|(before, _)| *before == at) {
                    self.add_own(shared, chunk, place, *to);
                }
                if at == batch.to.len() {
                    break;
                }
                if reduced.how == How::LastLoop
                    && !shared.lists.is_loop(self.first + batch.to[at] as usize, batch.edges[at])
                {
                    continue;
                }
                let (sums, to) = (&mut self.sums[place], places[at]);
                match reduced.message {
                    Message::Row { table, factor } => {
                        let source = u64::from(shared.lists.sources[batch.edges[at]]);
                        let from = (source - chunk.rows.start) as usize;
                        let row = &chunk.f32s(table)[from * width..(from + 1) * width];
                        match factor.map(|factor| f32s(&found, factor)) {
                            None => sums.add(to, row),
                            Some(all) => {
                                let heads = all.len() / batch.to.len();
                                sums.add_scaled(to, row, &all[at * heads..(at + 1) * heads]);
                            }
                        }
                    }
                    Message::Computed(output) => {
                        sums.add(to, &f32s(&found, output)[at * width..(at + 1) * width]);
                    }
                }
            }
        }
        Ok(())
    }

    /// What a part that computes messages takes.
    fn leaf(
        &self,
        shared: &Shared<'_>,
        chunk: &Chunk,
        batch: &Batch,
        leaf: Leaf,
    ) -> Result<Given<'static>, LayerwiseError> {
        let (model, lists, count) = (shared.model, shared.lists, batch.to.len());
        let dims = |value| -> Vec<usize> {
            model.lengths(value, count).iter().map(|n| *n as usize).collect()
        };
        let rows = |value: Value, elements: Elements| Given::own(dims(value), elements);
        Ok(match leaf {
            Leaf::AtSource(value) => {
                let source = |edge: &usize| u64::from(lists.sources[*edge]) - chunk.rows.start;
                let places = batch.edges.iter().map(|edge| source(edge) as usize);
                rows(value, gathered(chunk.elements(value), model.width(value), places))
            }
            Leaf::AtDestination(value) => {
                let places = batch.to.iter().map(|at| self.first + *at as usize);
                let of = shared.beside.get(&value).ok_or_else(|| {
                    refused(model.graph(), value, "its rows are not available for destinations")
                })?;
                rows(value, gathered(of, model.width(value), places))
            }
            Leaf::OfEdge(value) => rows(value, of_edges(shared, batch, value)?),
            Leaf::Destinations(value) => {
                let all = batch.to.iter().map(|at| i64::from(*at)).collect();
                rows(value, Elements::I64(all))
            }
            Leaf::Lengths(value) => Given::numbers(model.lengths(value, count)),
            Leaf::IsAdded(value) => {
                let is_added =
                    |(at, edge): (&u32, &usize)| lists.is_added(self.first + *at as usize, *edge);
                let all = batch.to.iter().zip(&batch.edges).map(is_added).collect();
                let mut ones = vec![1; dims(value).len()];
                ones[0] = count;
                Given::own(ones, Elements::Bool(all))
            }
            Leaf::IsLoop(value) => {
                let is_loop =
                    |(at, edge): (&u32, &usize)| lists.is_loop(self.first + *at as usize, *edge);
                let all = batch.to.iter().zip(&batch.edges).map(is_loop).collect();
                rows(value, Elements::Bool(all))
            }
            Leaf::Own(value) => {
                return Err(refused(
                    model.graph(),
                    value,
                    "rows of edges are computed from all of its rows at once",
                ));
            }
        })
    }
}

/// The rows of an input for the edges of a batch; loops that were added get any.
fn of_edges(shared: &Shared<'_>, batch: &Batch, value: Value) -> Result<Elements, LayerwiseError> {
    match shared.model.edge_rows.get(&value) {
        Some(EdgeRows::Tensor(of)) => {
            let ids: Vec<u64> = batch.edges.iter().map(|edge| shared.lists.ids[*edge]).collect();
            let mut bytes = vec![0; ids.len() * of.decoder.out_bytes()];
            let snapshot = &shared.model.snapshot;
            snapshot.gather_decoded(of.tensor, &of.decoder, &ids, &mut bytes)?;
            Ok(elements(of.decoder.wanted(), &bytes))
        }
        Some(EdgeRows::Weights) => {
            let weights = batch.edges.iter().map(|edge| shared.lists.weights[*edge]);
            Ok(Elements::F32(weights.collect()))
        }
        None => Err(refused(shared.model.graph(), value, "it has no rows for edges")),
    }
}

/// Where the messages of a batch go.
fn places(
    shared: &Shared<'_>,
    reduced: &Reduced,
    batch: &Batch,
    found: &Answer<'_>,
    len: usize,
) -> Result<Vec<usize>, LayerwiseError> {
    let Some(output) = reduced.index else {
        return Ok(batch.to.iter().map(|at| *at as usize).collect());
    };
    let Data::I64(all) = found.output(output).data else { return Ok(Vec::new()) };
    all.iter()
        .map(|place| {
            let at = usize::try_from(*place).ok().filter(|at| *at < len);
            let graph = shared.model.graph();
            at.ok_or_else(|| refused(graph, reduced.value, "the type of an edge is out of range"))
        })
        .collect()
}
