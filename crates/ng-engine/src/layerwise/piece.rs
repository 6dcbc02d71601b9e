//! Adding edges from a chunk of sources to some destinations of a block, on one thread.

use std::collections::HashMap;

use ng_infer::dfg::{Constant, Elements, Value};
use ng_infer::kernel::Context;
use ng_infer::run::Devices;
use ng_simd::prefetch;

use super::accumulate::Part as Sums;
use super::chunk::Chunk;
use super::error::LayerwiseError;
use super::lists::Lists;
use super::model::{EdgeRows, Model};
use super::part::{Leaf, numbers, refused, tensor};
use super::passes::{Message, Reduced, Scan};
use super::plan::EDGES_TOGETHER;
use super::rows::{elements, gathered};

/// What all pieces of a block share in a scan.
pub(super) struct Shared<'a> {
    pub model: &'a Model,
    pub devices: &'a Devices,
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
}

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
        for (place, reduced) in shared.reductions.iter().enumerate() {
            if let Message::Row { table, factor: None } = reduced.message
                && reduced.index.is_none()
            {
                self.add_rows(shared, chunk, place, table, &ends);
            }
        }
        if !shared.scan.messages.graph.outputs().is_empty() {
            self.add_batches(shared, chunk, &ends)?;
        }
        self.cursors.copy_from_slice(&ends);
        Ok(())
    }

    /// Adds rows as they are.
    fn add_rows(
        &mut self,
        shared: &Shared<'_>,
        chunk: &Chunk,
        place: usize,
        table: Value,
        ends: &[u32],
    ) {
        let rows = chunk.f32s(table);
        let width = shared.reductions[place].width();
        let sums = &mut self.sums[place];
        for (at, end) in ends.iter().enumerate() {
            let start = shared.lists.edges(self.first + at).start;
            for edge in start + self.cursors[at] as usize..start + *end as usize {
                let row = |edge: usize| {
                    let source = u64::from(*shared.lists.sources.get(edge)?);
                    let from = source.checked_sub(chunk.rows.start)? as usize * width;
                    rows.get(from..from + width)
                };
                // The row of the next edge is on its way while this one is added.
                row(edge + 1).into_iter().for_each(prefetch);
                row(edge).into_iter().for_each(|row| sums.add(at, row));
            }
        }
    }

    fn add_batches(
        &mut self,
        shared: &Shared<'_>,
        chunk: &Chunk,
        ends: &[u32],
    ) -> Result<(), LayerwiseError> {
        let mut batch = Batch::default();
        for (at, end) in ends.iter().enumerate() {
            let start = shared.lists.edges(self.first + at).start;
            for edge in start + self.cursors[at] as usize..start + *end as usize {
                batch.to.push(at as u32);
                batch.edges.push(edge);
                if batch.to.len() == EDGES_TOGETHER {
                    self.add_batch(shared, chunk, &batch)?;
                    batch.to.clear();
                    batch.edges.clear();
                }
            }
        }
        if batch.to.is_empty() { Ok(()) } else { self.add_batch(shared, chunk, &batch) }
    }

    fn add_batch(
        &mut self,
        shared: &Shared<'_>,
        chunk: &Chunk,
        batch: &Batch,
    ) -> Result<(), LayerwiseError> {
        let mut give = |leaf: Leaf| self.leaf(shared, chunk, batch, leaf);
        let found = shared.scan.messages.run(shared.devices, &Context::default(), &mut give)?;
        for (place, reduced) in shared.reductions.iter().enumerate() {
            let is_plain = matches!(reduced.message, Message::Row { factor: None, .. });
            if is_plain && reduced.index.is_none() {
                continue;
            }
            let places = places(shared, reduced, batch, &found, self.sums[place].len())?;
            let (sums, width) = (&mut self.sums[place], reduced.width());
            match reduced.message {
                Message::Row { table, factor } => {
                    let rows = chunk.f32s(table);
                    let factors = factor.map(|at| f32s(&found[at]));
                    for (at, (place, edge)) in places.iter().zip(&batch.edges).enumerate() {
                        let source = u64::from(shared.lists.sources[*edge]);
                        let from = (source - chunk.rows.start) as usize;
                        let row = &rows[from * width..(from + 1) * width];
                        match factors {
                            None => sums.add(*place, row),
                            Some(all) => {
                                let heads = all.len() / batch.to.len();
                                let own = &all[at * heads..(at + 1) * heads];
                                sums.add_scaled(*place, row, own);
                            }
                        }
                    }
                }
                Message::Computed(output) => {
                    let rows = f32s(&found[output]).chunks_exact(width.max(1));
                    places.iter().zip(rows).for_each(|(place, row)| sums.add(*place, row));
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
    ) -> Result<Constant, LayerwiseError> {
        let (model, lists, count) = (shared.model, shared.lists, batch.to.len());
        let dims = |value| -> Vec<usize> {
            model.lengths(value, count).iter().map(|n| *n as usize).collect()
        };
        let rows = |value: Value, elements: Elements| {
            let dims = dims(value);
            tensor(dims[0], &dims[1..], elements)
        };
        Ok(match leaf {
            Leaf::AtSource(value) => {
                let source = |edge: &usize| u64::from(lists.sources[*edge]) - chunk.rows.start;
                let places = batch.edges.iter().map(|edge| source(edge) as usize);
                rows(value, gathered(chunk.elements(value), model.width(value), places))
            }
            Leaf::AtDestination(value) => {
                let places = batch.to.iter().map(|at| self.first + *at as usize);
                let of = shared.beside.get(&value).ok_or_else(|| {
                    refused(model.graph(), value, "is not at hand for destinations")
                })?;
                rows(value, gathered(of, model.width(value), places))
            }
            Leaf::OfEdge(value) => rows(value, of_edges(shared, batch, value)?),
            Leaf::Destinations(value) => {
                let all = batch.to.iter().map(|at| i64::from(*at)).collect();
                rows(value, Elements::I64(all))
            }
            Leaf::Lengths(value) => numbers(model.lengths(value, count)),
            Leaf::IsAdded(value) => {
                let is_added =
                    |(at, edge): (&u32, &usize)| lists.is_added(self.first + *at as usize, *edge);
                let all = batch.to.iter().zip(&batch.edges).map(is_added).collect();
                let ones = vec![1; dims(value).len() - 1];
                tensor(count, &ones, Elements::Bool(all))
            }
            Leaf::IsLoop(value) => {
                let is_loop =
                    |(at, edge): (&u32, &usize)| lists.is_loop(self.first + *at as usize, *edge);
                let all = batch.to.iter().zip(&batch.edges).map(is_loop).collect();
                rows(value, Elements::Bool(all))
            }
            Leaf::Own(value) => {
                return Err(refused(model.graph(), value, "is taken by edges as a whole"));
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
        None => Err(refused(shared.model.graph(), value, "has no rows for edges")),
    }
}

/// Where the messages of a batch go.
fn places(
    shared: &Shared<'_>,
    reduced: &Reduced,
    batch: &Batch,
    found: &[Constant],
    len: usize,
) -> Result<Vec<usize>, LayerwiseError> {
    let Some(output) = reduced.index else {
        return Ok(batch.to.iter().map(|at| *at as usize).collect());
    };
    let Elements::I64(all) = found[output].elements() else { return Ok(Vec::new()) };
    all.iter()
        .map(|place| {
            let at = usize::try_from(*place).ok().filter(|at| *at < len);
            let graph = shared.model.graph();
            at.ok_or_else(|| refused(graph, reduced.value, "a kind of edge is out of range"))
        })
        .collect()
}

fn f32s(of: &Constant) -> &[f32] {
    match of.elements() {
        Elements::F32(all) => all,
        _ => &[],
    }
}
