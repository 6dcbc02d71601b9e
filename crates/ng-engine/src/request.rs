//! One batch of a request: sampled, its rows gathered, the graph run.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ng_infer::dfg::Elements;
use ng_infer::kernel::{Context, View};
use ng_infer::plan::Answer as Outputs;
use ng_infer::run::Served;
use ng_sample::{CompactSample, SampleScratch};
use ng_store::{Owner, Spare};
use ng_types::{Budget, Dtype, Reservation};

use crate::ask::Ask;
use crate::bind::{Binding, Given, RowsOf};
use crate::counts::{Counters, Stage};
use crate::measured::{Done, Measured};
use crate::pinned::Pinned;
use crate::rows::Gathering;
use crate::sampled::{Sampled, sample};
use crate::value::{Value, fill, repeat, row_ids, widened};
use crate::{EngineError, ModelFile};

/// Activations take about as much as inputs, and as much again while they are made.
pub(crate) const BYTES_PER_INPUT_BYTE: u64 = 3;

/// What answers batches: shared by all threads that ask.
pub(crate) struct Server {
    pub model: ModelFile,
    pub binding: Arc<Binding>,
    pub served: Arc<Served>,
    pub context: Context,
    pub kept: Arc<Mutex<Vec<Kept>>>,
    pub counters: Counters,
    pub measured: Measured,
}

/// Memory of a request that the next one uses again.
#[derive(Default)]
pub(crate) struct Kept {
    scratch: SampleScratch,
    ids: Vec<u64>,
    /// By input of the model.
    values: Vec<Value>,
    /// Lists, rows and bytes of the last batch.
    did: Option<(u64, u64, u64)>,
    /// What pays for values, and for those of the plan while it runs.
    held: Option<Reservation>,
}

impl Kept {
    /// Whether a budget pays for it: that of an open store, whichever version is asked.
    pub fn is_of(&self, budget: &Budget) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_of(budget))
    }

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

impl Server {
    /// What answers for a model on a store.
    pub fn new(
        model: ModelFile,
        binding: Arc<Binding>,
        served: Arc<Served>,
        context: Context,
        kept: Arc<Mutex<Vec<Kept>>>,
    ) -> Self {
        let (counters, measured) = Default::default();
        Self { model, binding, served, context, kept, counters, measured }
    }

    /// Has `take` look at what the model gives for the batch around `ask`'s seeds: rows of nodes
    /// begin with those of the seeds.
    pub fn answer<T>(
        &self,
        pinned: &Arc<Pinned>,
        ask: &Ask<'_>,
        take: impl FnOnce(&Outputs<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let (io, budget) = (pinned.snapshot.io_stats(), pinned.snapshot.budget());
        let mut kept = self.lock().pop().filter(|kept| kept.is_of(budget)).unwrap_or_default();
        self.measured.begin(io);
        let start = Instant::now();
        let answered = self.answer_with(pinned, ask, &mut kept, take);
        let done = answered.as_ref().ok().and(kept.did).map(|(lists, rows, memory_bytes)| {
            let nodes = ask.seeds.iter().map(|(_, ids)| ids.len()).sum();
            Done { nodes, lists, rows, memory_bytes, seconds: start.elapsed().as_secs_f64() }
        });
        self.measured.end(io, done);
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
            None => {
                let is_apart = ask.subgraphs.is_some();
                (pinned.sampler(is_apart), !pinned.has_lists(is_apart))
            }
        };
        ask.check()?;
        let start = Instant::now();
        let sampled = sample(sampler, ask, (&mut kept.scratch, reads_ahead), &mut gathering)?;
        let start = self.counters.count(Stage::Sample, start);
        self.counters.lists.fetch_add(sampled.lists, Ordering::Relaxed);
        if let Some(reaches) = ask.reaches {
            let seeds = ask.seeds.iter().map(|(_, ids)| ids.len()).sum();
            reaches.borrow_mut().extend(sampled.reaches(sampler.hops(), seeds));
        }
        let sample = &sampled.sample;
        let bytes = self.input_bytes(sample).saturating_mul(BYTES_PER_INPUT_BYTE);
        kept.pay(pinned, bytes)?;
        ask.check()?;
        self.take_inputs(&mut gathering, (&sampled, ask), kept)?;
        let values = &kept.values;
        let start = self.counters.count(Stage::Gather, start);
        kept.did = Some((sampled.lists, gathering.rows, bytes + sample.num_bytes()));
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
