//! One batch of a request: sampled, its rows gathered, the graph run.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use ng_infer::dfg::Elements;
use ng_infer::kernel::{Context, Data, TableRows, View};
use ng_infer::plan::{Answer as Outputs, Plan};
use ng_infer::run::Served;
use ng_sample::{
    CompactEdges, CompactSample, DisjointSample, DisjointSeeds, SampleScratch, Sampler,
};
use ng_simd::{Rows, f32_bytes_mut};
use ng_store::{Owner, Spare};
use ng_types::{Dtype, NodeId, NodeTypeId, Reservation};

use crate::bind::{Binding, Given, RowsOf};
use crate::counts::{Counters, Stage};
use crate::pinned::Pinned;
use crate::rows::Gathering;
use crate::table::RowTable;
use crate::{EngineError, ModelFile};

/// Activations take about as much as inputs, and as much again while they are made.
const BYTES_PER_INPUT_BYTE: u64 = 3;

/// What a batch is asked for.
pub(crate) struct Ask<'a> {
    /// Nodes, each once.
    pub seeds: &'a [(NodeTypeId, &'a [NodeId])],
    /// By type, the subgraph of each seed, if subgraphs shall not share nodes.
    pub subgraphs: Option<&'a [Vec<u32>]>,
    /// Which draws.
    pub stream: u64,
    /// Pairs of the seeds, by their place: sources, destinations.
    pub pairs: Option<(&'a [i64], &'a [i64])>,
    /// For graphs: the sampler of their edges, the place of each seed's graph, how many there are.
    pub graphs: Option<(&'a Sampler, &'a [i64], u64)>,
    /// What runs: the same for all batches of a request.
    pub plan: &'a Plan,
    /// Asked before each stage; false ends the request.
    pub go_on: &'a dyn Fn() -> bool,
}

impl Ask<'_> {
    /// Ends a request that nobody waits for.
    fn check(&self) -> Result<(), EngineError> {
        if (self.go_on)() { Ok(()) } else { Err(EngineError::Stopped) }
    }
}

/// What was sampled.
struct Sampled {
    sample: CompactSample,
    /// Lists that were drawn from.
    lists: u64,
    /// By node type, each node once, and which of them each node of the sample is; of subgraphs
    /// that do not share nodes.
    once: Option<(Vec<Vec<NodeId>>, Vec<Vec<u32>>)>,
}

impl Sampled {
    /// The nodes whose rows are read, and which of them each row is, if nodes repeat.
    fn once(&self, owner: Owner) -> Option<(&[NodeId], &[u32])> {
        let Owner::Node(id) = owner else { return None };
        let (ids, places) = self.once.as_ref()?;
        let (ids, places) = (ids.get(usize::from(id.0))?, places.get(usize::from(id.0))?);
        (ids.len() < places.len()).then_some((ids, places))
    }
}

/// What answers batches: shared by all threads that ask.
pub(crate) struct Server {
    pub model: ModelFile,
    pub binding: Arc<Binding>,
    pub served: Arc<Served>,
    pub context: Context,
    pub kept: Arc<Mutex<Vec<Kept>>>,
    pub counters: Counters,
}

/// Memory of a request that the next one uses again.
#[derive(Default)]
pub(crate) struct Kept {
    /// Whose budget it is of.
    of: Weak<Pinned>,
    scratch: SampleScratch,
    ids: Vec<u64>,
    /// By input of the model.
    values: Vec<Value>,
    /// What pays for values, and for those of the plan while it runs.
    held: Option<Reservation>,
}

impl Kept {
    /// Makes sure that so many bytes are paid for.
    fn pay(&mut self, pinned: &Pinned, bytes: u64) -> Result<(), EngineError> {
        let have = self.held.as_ref().map_or(0, Reservation::bytes);
        if bytes > have {
            let more = pinned.snapshot.reserve_batch(bytes - have)?;
            match &mut self.held {
                Some(held) => held.merge(more),
                none => *none = Some(more),
            }
        }
        Ok(())
    }
}

/// Memory of requests that others of the store may have when they lack it.
pub(crate) fn spare(kept: &Arc<Mutex<Vec<Kept>>>, served: &Arc<Served>) -> Arc<Spare> {
    let (kept, served) = (Arc::downgrade(kept), Arc::downgrade(served));
    Spare::new(move || {
        let (Some(kept), Some(served)) = (kept.upgrade(), served.upgrade()) else { return 0 };
        let all = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        served.plan().release();
        let held = all.iter().filter_map(|kept| kept.held.as_ref()).map(Reservation::bytes);
        held.sum::<u64>() + all.iter().map(|kept| kept.scratch.num_bytes()).sum::<u64>()
    })
}

/// An input of a run.
struct Value {
    dims: Vec<usize>,
    elements: Elements,
    /// Elements of other types than the engine computes with, before they are widened.
    raw: Vec<u8>,
    /// Where its rows are in the table of the input, or among the elements.
    slots: Vec<u32>,
    /// Whether they are in the table, in place of elements.
    lies_in_table: bool,
    /// Whether they are among the elements, which have each row once.
    repeats: bool,
    /// Rows that the elements have.
    rows: usize,
}

impl Default for Value {
    fn default() -> Self {
        Self {
            dims: Vec::new(),
            elements: Elements::F32(Vec::new()),
            raw: Vec::new(),
            slots: Vec::new(),
            lies_in_table: false,
            repeats: false,
            rows: 0,
        }
    }
}

impl Value {
    /// Finds the rows in the table; whether all are there.
    fn take_slots(&mut self, table: Option<&RowTable>, of: &RowsOf, ids: &[u64]) -> bool {
        let table = table.filter(|table| in_place(table, of).is_some());
        self.lies_in_table = table.is_some_and(|table| table.slots_of(ids, &mut self.slots));
        self.lies_in_table
    }

    /// Memory for `rows` rows of an input.
    fn room(&mut self, of: &RowsOf, rows: usize) -> &mut [u8] {
        if of.decoder.wanted() != Dtype::F32 {
            self.raw.resize(rows * of.decoder.out_bytes(), 0);
            return &mut self.raw;
        }
        if !matches!(self.elements, Elements::F32(_)) {
            self.elements = Elements::F32(Vec::new());
        }
        let Elements::F32(floats) = &mut self.elements else { return &mut [] };
        floats.resize(rows * of.width(), 0.0);
        f32_bytes_mut(floats)
    }

    fn view<'a>(&'a self, given: &'a Given, table: Option<&'a RowTable>) -> View<'a> {
        let Given::Rows(of) = given else { return View::new(&self.dims, &self.elements) };
        let in_table = table.filter(|_| self.lies_in_table).and_then(|table| in_place(table, of));
        let table = match (&self.elements, in_table) {
            (_, Some(found)) => Some(found),
            (Elements::F32(all), None) if self.repeats => Some((Rows::F32(all), self.rows)),
            _ => None,
        };
        match table {
            Some((table, len)) => {
                let rows = TableRows { table, len, rows: &self.slots };
                View { dims: &self.dims, data: Data::Rows(rows) }
            }
            None => View::new(&self.dims, &self.elements),
        }
    }
}

/// The rows of a table where they lie, and how many they are, if all are in memory and of a type
/// that kernels read.
fn in_place<'a>(table: &'a RowTable, of: &'a RowsOf) -> Option<(Rows<'a>, usize)> {
    let (bytes, len) = table.whole()?;
    Some((of.decoder.in_place(bytes)?, len))
}

impl Server {
    /// Has `take` look at what the model gives for the batch around `ask`'s seeds: rows of nodes
    /// begin with those of the seeds.
    pub fn answer<T>(
        &self,
        pinned: &Arc<Pinned>,
        ask: &Ask<'_>,
        take: impl FnOnce(&Outputs<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let of = Arc::downgrade(pinned);
        let kept = self.lock().pop().filter(|kept| kept.of.ptr_eq(&of));
        let mut kept = kept.unwrap_or_else(|| Kept { of, ..Kept::default() });
        let answered = self.answer_with(pinned, ask, &mut kept, take);
        // After an error of memory it is the scratch that others lack.
        if answered.is_ok() {
            self.lock().push(kept);
        }
        answered
    }

    fn answer_with<T>(
        &self,
        pinned: &Arc<Pinned>,
        ask: &Ask<'_>,
        kept: &mut Kept,
        take: impl FnOnce(&Outputs<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut gathering = Gathering::new(pinned, &self.binding);
        let (sampler, reads_ahead) = match ask.graphs {
            Some((induced, ..)) => (induced, false),
            // Lists in memory take no time that reads of rows could use.
            None => (pinned.sampler(), !pinned.has_lists()),
        };
        ask.check()?;
        let start = Instant::now();
        let sampled = sample(sampler, ask, (&mut kept.scratch, reads_ahead), &mut gathering)?;
        let start = self.counters.count(Stage::Sample, start);
        self.counters.lists.fetch_add(sampled.lists, Ordering::Relaxed);
        let sample = &sampled.sample;
        let bytes = self.input_bytes(sample);
        kept.pay(pinned, bytes.saturating_mul(BYTES_PER_INPUT_BYTE))?;
        ask.check()?;
        self.take_inputs(&mut gathering, (&sampled, ask), kept)?;
        let values = &kept.values;
        let start = self.counters.count(Stage::Gather, start);
        self.counters.rows.fetch_add(gathering.rows, Ordering::Relaxed);
        self.counters.rows_prepared.fetch_add(gathering.rows_prepared, Ordering::Relaxed);
        self.counters.rows_in_place.fetch_add(gathering.rows_in_place, Ordering::Relaxed);
        let named = self.binding.inputs.iter().zip(values.iter()).zip(&pinned.tables);
        let inputs: Vec<(&str, View<'_>)> = named
            .map(|((input, value), table)| {
                (input.name.as_str(), value.view(&input.given, table.get()))
            })
            .collect();
        // Graphs and pairs want rows of more nodes than those of the first hop.
        let trims = ask.graphs.is_none() && ask.pairs.is_none();
        let counted: Vec<(&str, &[usize])> = self
            .binding
            .nodes
            .iter()
            .filter(|(name, _)| trims && ask.plan.counted_nodes().any(|known| known == name))
            .map(|(name, id)| (name.as_str(), &*sample.nodes[usize::from(id.0)].per_hop))
            .collect();
        ask.check()?;
        let outputs = ask.plan.run(&inputs, &counted, &self.context)?;
        self.counters.count(Stage::Run, start);
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        take(&outputs)
    }

    /// Fills the inputs of a run. What has to be read for them is read together.
    fn take_inputs(
        &self,
        gathering: &mut Gathering<'_>,
        (sampled, ask): (&Sampled, &Ask<'_>),
        kept: &mut Kept,
    ) -> Result<(), EngineError> {
        let sample = &sampled.sample;
        let Kept { ids, values, .. } = kept;
        values.resize_with(self.binding.inputs.len(), Value::default);
        for ((at, input), value) in self.binding.inputs.iter().enumerate().zip(values.iter_mut()) {
            (value.lies_in_table, value.repeats) = (false, false);
            let of = match (&input.given, &gathering.pinned.degrees[at]) {
                (Given::Rows(of), _) => of,
                (Given::InDegrees(id, _), Some(degrees)) => {
                    let all = sample.nodes[usize::from(id.0)].ids.iter().map(|id| degrees.of(id));
                    value.elements = Elements::F32(all.collect());
                    value.dims = vec![sample.nodes[usize::from(id.0)].ids.len()];
                    continue;
                }
                (other, _) => {
                    fill(other, sample, ask, value);
                    continue;
                }
            };
            row_ids(of, sample, ids);
            value.dims.clear();
            value.dims.push(ids.len());
            value.dims.extend_from_slice(&of.shape);
            let (table, once) = (gathering.pinned.tables[at].get(), sampled.once(of.tensor.owner));
            value.rows = once.map_or(ids.len(), |(once, _)| once.len());
            if value.take_slots(table, of, ids) {
                gathering.count(value.rows);
                continue;
            }
            let rows = value.rows;
            if let Some((once, places)) = once {
                value.repeats = true;
                value.slots.clear();
                value.slots.extend_from_slice(places);
                gathering.copy((at, of), once, value.room(of, rows), &self.context)?;
                continue;
            }
            gathering.copy((at, of), ids, value.room(of, rows), &self.context)?;
        }
        gathering.read()?;
        for (at, of) in self.binding.rows() {
            let value = &mut values[at];
            if value.lies_in_table {
                continue;
            }
            let rows = value.rows;
            gathering.put((at, of), value.room(of, rows));
            if of.decoder.wanted() != Dtype::F32 {
                if value.repeats {
                    repeat(&mut value.raw, of.decoder.out_bytes(), &value.slots);
                }
                value.elements = widened(of.decoder.wanted(), &value.raw);
            }
        }
        Ok(())
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

/// Samples what a batch is asked for; `gathering` hears of nodes as they are reached.
fn sample(
    sampler: &Sampler,
    ask: &Ask<'_>,
    (scratch, reads_ahead): (&mut SampleScratch, bool),
    gathering: &mut Gathering<'_>,
) -> Result<Sampled, EngineError> {
    let (hops, queue) = (sampler.hops(), gathering.queue());
    let mut hear = |hop: usize, of: NodeTypeId, ids: &[NodeId]| {
        if reads_ahead && hop < hops {
            gathering.hear(of, ids);
        }
    };
    let Some(subgraphs) = ask.subgraphs else {
        let mut sample =
            sampler.sample_hearing(ask.seeds, ask.stream, scratch, &mut hear, &queue)?;
        if let Some((_, graph_of, _)) = ask.graphs {
            sample.edges.iter_mut().for_each(|edges| leave_graphs_out(edges, graph_of));
        }
        let lists = sample.edges.iter().map(|edges| edges.counts.len() as u64).sum();
        return Ok(Sampled { sample, lists, once: None });
    };
    let seeds = ask.seeds.iter().zip(subgraphs);
    let seeds: Vec<DisjointSeeds<'_>> = seeds
        .map(|((node_type, ids), subgraphs)| DisjointSeeds {
            node_type: *node_type,
            ids,
            subgraphs,
        })
        .collect();
    let found = sampler.sample_disjoint(&seeds, ask.stream, scratch, &mut hear, &queue)?;
    let DisjointSample { sample, distinct, places, lists } = found;
    Ok(Sampled { sample, lists, once: Some((distinct, places)) })
}

/// Takes out edges between nodes of different graphs: they belong to neither.
fn leave_graphs_out(edges: &mut CompactEdges, graph_of: &[i64]) {
    let graph = |node: usize| graph_of.get(node);
    let mut kept = Vec::with_capacity(edges.rows.len());
    let mut rows = edges.rows.iter();
    for (destination, count) in edges.counts.iter_mut().enumerate() {
        let of_list = rows.by_ref().take(*count as usize);
        let before = kept.len();
        kept.extend(of_list.map(|row| graph(*row as usize) == graph(destination)));
        *count = kept[before..].iter().filter(|is_kept| **is_kept).count() as u32;
    }
    if kept.iter().all(|is_kept| *is_kept) {
        return;
    }
    edges.per_hop = vec![kept.iter().filter(|is_kept| **is_kept).count()];
    edges.keep(&kept);
}

/// Rows of `width` bytes, each as often as `slots` name it.
fn repeat(rows: &mut Vec<u8>, width: usize, slots: &[u32]) {
    let row = |slot: &u32| rows.get(*slot as usize * width..).and_then(|rest| rest.get(..width));
    let all = slots.iter().filter_map(row).collect::<Vec<_>>().concat();
    *rows = all;
}

/// The ids whose rows an input has.
fn row_ids(of: &RowsOf, sample: &CompactSample, ids: &mut Vec<u64>) {
    ids.clear();
    match of.tensor.owner {
        Owner::Node(id) => ids.extend(sample.nodes[usize::from(id.0)].ids.iter()),
        Owner::Edge(id) => ids.extend(sample.edges[usize::from(id.0)].edge_ids.iter()),
    }
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

/// Fills an input that comes of the sample or of the request.
fn fill(given: &Given, sample: &CompactSample, ask: &Ask<'_>, value: &mut Value) {
    let of_edges = |id: &ng_types::EdgeTypeId| &sample.edges[usize::from(id.0)];
    let Value { dims, elements, .. } = value;
    dims.clear();
    if let Given::Weights(id) = given {
        let all = &of_edges(id).weights;
        dims.push(all.len());
        *elements = Elements::F32(all.clone());
        return;
    }
    if !matches!(elements, Elements::I64(_)) {
        *elements = Elements::I64(Vec::new());
    }
    let Elements::I64(out) = elements else { return };
    out.clear();
    match given {
        Given::EdgeIndex(id) => {
            let edges = of_edges(id);
            out.extend(edges.rows.iter().map(|row| i64::from(*row)));
            for (destination, count) in (0..).zip(&edges.counts) {
                out.resize(out.len() + *count as usize, destination);
            }
            dims.push(2);
        }
        Given::Pairs => {
            let (from, to) = ask.pairs.unwrap_or_default();
            out.extend_from_slice(from);
            out.extend_from_slice(to);
            dims.push(2);
        }
        Given::Times(id) => out.extend_from_slice(&of_edges(id).times),
        Given::EdgeIds(id) => out.extend(of_edges(id).edge_ids.iter().map(|id| id as i64)),
        Given::NodeIds(id) => {
            out.extend(sample.nodes[usize::from(id.0)].ids.iter().map(|id| id as i64));
        }
        Given::GraphOf(_) => out.extend_from_slice(ask.graphs.map_or(&[], |(_, of, _)| of)),
        Given::NumSeeds => {
            out.push(ask.seeds.iter().map(|(_, ids)| ids.len() as i64).sum());
            return;
        }
        Given::NumGraphs => {
            out.push(ask.graphs.map_or(0, |(.., count)| count as i64));
            return;
        }
        // The others have elements of other types.
        Given::Rows(_) | Given::Weights(_) | Given::InDegrees(..) => {}
    }
    dims.push(out.len() / dims.first().copied().unwrap_or(1));
}
