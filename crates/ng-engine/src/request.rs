//! One batch of a request: sampled, its rows gathered, the graph run.

use std::sync::{Arc, Mutex, PoisonError};

use ng_infer::dfg::{Constant, Elements};
use ng_infer::kernel::Context;
use ng_infer::run::{Devices, run};
use ng_sample::{CompactEdges, CompactSample, SampleScratch, Sampler};
use ng_simd::f32_bytes_mut;
use ng_store::Owner;
use ng_types::{Dtype, NodeId, NodeTypeId};

use crate::bind::{Binding, Given, RowsOf};
use crate::helper::Helper;
use crate::pinned::Pinned;
use crate::rows::Gathering;
use crate::{EngineError, ModelFile};

/// Activations take about as much as inputs, and as much again while they are made.
const BYTES_PER_INPUT_BYTE: u64 = 3;

/// What a batch is asked for.
pub(crate) struct Ask<'a> {
    /// Nodes, each once.
    pub seeds: &'a [(NodeTypeId, &'a [NodeId])],
    /// Which draws.
    pub stream: u64,
    /// Pairs of the seeds, by their place: sources, destinations.
    pub pairs: Option<(&'a [i64], &'a [i64])>,
    /// For graphs: the sampler of their edges, the place of each seed's graph, how many there are.
    pub graphs: Option<(&'a Sampler, &'a [i64], u64)>,
}

/// What answers batches: shared by all threads that ask.
pub(crate) struct Server {
    pub model: ModelFile,
    pub binding: Arc<Binding>,
    pub devices: Devices,
    pub context: Context,
    pub helper: Helper,
    pub kept: Mutex<Vec<Kept>>,
}

/// Memory of a request that the next one uses again.
#[derive(Default)]
pub(crate) struct Kept {
    scratch: SampleScratch,
    /// By input, for rows of f32.
    floats: Vec<Vec<f32>>,
}

impl Server {
    /// The outputs of the model on the batch around `ask`'s seeds, which are its first nodes.
    pub fn answer(
        &self,
        pinned: &Arc<Pinned>,
        ask: &Ask<'_>,
    ) -> Result<Vec<Constant>, EngineError> {
        let mut kept = self.lock().pop().unwrap_or_default();
        let answered = self.answer_with(pinned, ask, &mut kept);
        // After an error of memory it is the scratch that others lack.
        if answered.is_ok() {
            self.lock().push(kept);
        }
        answered
    }

    fn answer_with(
        &self,
        pinned: &Arc<Pinned>,
        ask: &Ask<'_>,
        kept: &mut Kept,
    ) -> Result<Vec<Constant>, EngineError> {
        let mut gathering = Gathering::new(pinned, &self.binding, &self.helper);
        let (sampler, reads_ahead) = match ask.graphs {
            Some((induced, ..)) => (induced, false),
            // Lists in memory take no time that reads of rows could use.
            None => (pinned.sampler(), !pinned.has_lists()),
        };
        let hops = sampler.hops();
        let sample = sampler.sample_hearing(
            ask.seeds,
            ask.stream,
            &mut kept.scratch,
            &mut |hop, of, ids| {
                if reads_ahead && hop < hops {
                    gathering.hear(of, ids);
                }
            },
        )?;
        let bytes = self.input_bytes(&sample);
        let _held = pinned.snapshot.reserve_batch(bytes.saturating_mul(BYTES_PER_INPUT_BYTE))?;
        let mut inputs = Vec::with_capacity(self.binding.inputs.len());
        kept.floats.resize_with(self.binding.inputs.len(), Vec::new);
        for (at, input) in self.binding.inputs.iter().enumerate() {
            let value = match &input.given {
                Given::Rows(of) => {
                    let floats = std::mem::take(&mut kept.floats[at]);
                    self.rows(&mut gathering, (at, of), &sample, floats)?
                }
                other => other_input(other, &sample, ask),
            };
            inputs.push((input.name.as_str(), value));
        }
        let outputs = run(&self.model.graph, &self.devices, &inputs, &self.context)?;
        for ((_, value), floats) in inputs.into_iter().zip(&mut kept.floats) {
            if let Some(Elements::F32(all)) = value.into_elements() {
                *floats = all;
            }
        }
        Ok(outputs)
    }

    fn rows(
        &self,
        gathering: &mut Gathering<'_>,
        (input, of): (usize, &RowsOf),
        sample: &CompactSample,
        mut floats: Vec<f32>,
    ) -> Result<Constant, EngineError> {
        let ids: Vec<u64> = match of.tensor.owner {
            Owner::Node(id) => sample.nodes[usize::from(id.0)].ids.iter().collect(),
            Owner::Edge(id) => sample.edges[usize::from(id.0)].edge_ids.iter().collect(),
        };
        let dims = [&[ids.len()], of.shape.as_slice()].concat();
        let len = ids.len() * of.width();
        if of.decoder.wanted() == Dtype::F32 {
            floats.resize(len, 0.0);
            let bytes = f32_bytes_mut(&mut floats);
            gathering.finish(input, of, &ids, bytes, &self.context)?;
            return Ok(constant(dims, Elements::F32(floats)));
        }
        let mut bytes = vec![0; ids.len() * of.decoder.out_bytes()];
        gathering.finish(input, of, &ids, &mut bytes, &self.context)?;
        Ok(constant(dims, widened(of.decoder.wanted(), &bytes)))
    }

    /// Bytes of all inputs.
    fn input_bytes(&self, sample: &CompactSample) -> u64 {
        let rows = |of: &RowsOf| match of.tensor.owner {
            Owner::Node(id) => sample.nodes[usize::from(id.0)].ids.len(),
            Owner::Edge(id) => sample.edges[usize::from(id.0)].edge_ids.len(),
        };
        let all = self.binding.rows().map(|(_, of)| rows(of) * of.width() * 4);
        all.sum::<usize>() as u64 + sample.batch_bytes()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A tensor of so many elements as `dims` say, which all callers here make sure of.
fn constant(dims: Vec<usize>, elements: Elements) -> Constant {
    let empty = || Constant::new(vec![0], Elements::F32(Vec::new()));
    Constant::new(dims, elements).or_else(empty).unwrap_or_else(|| unreachable!("0 elements are 0"))
}

/// Whole numbers and flags as the engine computes with them.
fn widened(dtype: Dtype, bytes: &[u8]) -> Elements {
    let ints = |width: usize, read: fn(&[u8]) -> i64| {
        Elements::I64(bytes.chunks_exact(width).map(read).collect())
    };
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.first_chunk().copied().unwrap_or([0; N])
    }
    match dtype {
        Dtype::I64 => ints(8, |b| i64::from_le_bytes(array(b))),
        Dtype::I32 => ints(4, |b| i64::from(i32::from_le_bytes(array(b)))),
        Dtype::I16 => ints(2, |b| i64::from(i16::from_le_bytes(array(b)))),
        Dtype::I8 => ints(1, |b| i64::from(i8::from_le_bytes(array(b)))),
        Dtype::Bool => Elements::Bool(bytes.iter().map(|byte| *byte != 0).collect()),
        // The others are not bound.
        _ => ints(1, |b| i64::from(b[0])),
    }
}

/// An input that comes of the sample or of the request.
fn other_input(given: &Given, sample: &CompactSample, ask: &Ask<'_>) -> Constant {
    let of_edges = |id: &ng_types::EdgeTypeId| &sample.edges[usize::from(id.0)];
    let ints = |all: Vec<i64>| constant(vec![all.len()], Elements::I64(all));
    let number = |n: u64| constant(Vec::new(), Elements::I64(vec![n as i64]));
    match given {
        Given::EdgeIndex(id) => edge_index(of_edges(id)),
        Given::Weights(id) => {
            let all = of_edges(id).weights.clone();
            constant(vec![all.len()], Elements::F32(all))
        }
        Given::Times(id) => ints(of_edges(id).times.clone()),
        Given::EdgeIds(id) => ints(of_edges(id).edge_ids.iter().map(|id| id as i64).collect()),
        Given::NodeIds(id) => {
            let ids = &sample.nodes[usize::from(id.0)].ids;
            ints(ids.iter().map(|id| id as i64).collect())
        }
        Given::NumSeeds => number(ask.seeds.iter().map(|(_, ids)| ids.len() as u64).sum()),
        Given::Pairs => {
            let (from, to) = ask.pairs.unwrap_or_default();
            constant(vec![2, from.len()], Elements::I64([from, to].concat()))
        }
        Given::GraphOf(_) => ints(ask.graphs.map_or_else(Vec::new, |(_, of, _)| of.to_vec())),
        Given::NumGraphs => number(ask.graphs.map_or(0, |(.., count)| count)),
        // Rows are gathered by the caller.
        Given::Rows(_) => ints(Vec::new()),
    }
}

fn edge_index(edges: &CompactEdges) -> Constant {
    let count = edges.rows.len();
    let mut all: Vec<i64> = Vec::with_capacity(2 * count);
    all.extend(edges.rows.iter().map(|row| i64::from(*row)));
    for (destination, count) in (0..).zip(&edges.counts) {
        all.resize(all.len() + *count as usize, destination);
    }
    constant(vec![2, count], Elements::I64(all))
}
