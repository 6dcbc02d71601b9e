//! [`Engine`]: a model on a store, and the questions that it answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::thread::Builder;

use ng_infer::dfg::{Constant, Elements};
use ng_infer::kernel::{Context, Data, View};
use ng_infer::plan::{Answer as Outputs, Options, Plan};
use ng_infer::run::{Compute, RunError};
use ng_sample::Fanouts;
use ng_store::Snapshot;
use ng_types::canary::planted;
use ng_types::{Dtype, NodeId, NodeTypeId};

use crate::answer::{Answer, Collected};
use crate::bind::{Binding, Counts, Given};
use crate::counts::{Counters, EngineStats};
use crate::graphs::GraphsOf;
use crate::pinned::Pinned;
use crate::prepare::{Prepare, Preparing};
use crate::request::{Ask, Server, spare};
use crate::{EngineError, ModelFile, schema};

/// Ids that an error names.
const NAMED_IDS: usize = 5;

/// How an engine is opened.
#[derive(Clone)]
pub struct EngineOptions {
    /// Neighbours by edge type and hop.
    pub fanouts: Fanouts,
    /// The output that answers, if the model has several.
    pub output: Option<String>,
    /// What computes; devices may change while requests go on.
    pub devices: Compute,
    /// What is brought into memory.
    pub prepare: Prepare,
    /// Threads of a request.
    pub threads: usize,
    /// Nodes of a request that are sampled together at most. Another number is another draw.
    pub batch_nodes: usize,
    /// Asked before each batch of a request; false ends it.
    pub go_on: fn() -> bool,
}

/// A trained model that answers from one snapshot of a store at a time. Many threads may ask.
pub struct Engine {
    pub(crate) server: Server,
    options: EngineOptions,
    pinned: RwLock<Arc<Pinned>>,
    preparing: Preparing,
    /// One version comes after the other.
    refreshing: Mutex<()>,
}

impl Engine {
    /// A model on `snapshot`. What is prepared beside page tables and indexes comes in the
    /// background.
    ///
    /// # Errors
    /// [`EngineError::Schema`], [`EngineError::Input`] if the model takes what the store does not
    /// have, [`EngineError::Output`], [`EngineError::TooLarge`], [`EngineError::Sample`] if the
    /// fanouts do not fit the store, [`EngineError::Read`].
    pub fn open(
        snapshot: Arc<Snapshot>,
        model: ModelFile,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        schema::check(&model, snapshot.catalog())?;
        // A request samples and gathers by itself what this operation stands for.
        let graph = model.graph.without_batch_pre("edge_index", "x").map_err(RunError::from)?;
        let model = ModelFile { graph: Arc::new(graph), ..model };
        let binding = Arc::new(Binding::new(&model.graph, &snapshot)?);
        let node_type = asked_type(&binding, options.output.as_deref(), &snapshot)?;
        let preparing = Preparing {
            how: options.prepare,
            binding: Arc::clone(&binding),
            fanouts: options.fanouts.clone(),
            node_type,
        };
        let wanted = Options { types: binding.types.clone(), ..Options::default() };
        let served = options.devices.serve(Arc::clone(&model.graph), wanted)?;
        // New threads look for work for a while, so they start before what takes time, and sleep
        // when the first request comes.
        let context = Context::new(options.threads);
        let kept = Arc::default();
        let spare = spare(&kept, &served);
        let pinned = Arc::new(Pinned::new(snapshot, &binding, &options.fanouts, spare)?);
        preparing.check(&pinned)?;
        let this = Self {
            server: Server { model, binding, served, context, kept, counters: Counters::default() },
            options,
            pinned: RwLock::new(Arc::clone(&pinned)),
            preparing,
            refreshing: Mutex::default(),
        };
        this.prepare(&pinned, &Weak::new())?;
        Ok(this)
    }

    fn prepare(&self, pinned: &Arc<Pinned>, before: &Weak<Pinned>) -> Result<(), EngineError> {
        let (preparing, weak) = (self.preparing.clone(), Arc::downgrade(pinned));
        if preparing.how == Prepare::Metadata {
            preparing.run(&weak, &Weak::new());
            return Ok(());
        }
        let before = Weak::clone(before);
        let thread = Builder::new().name("ng-engine-load".into());
        let started = thread.spawn(move || preparing.run(&weak, &before));
        started.map(drop).map_err(|source| EngineError::NoThread { source })
    }

    /// Answers from `snapshot` from now on; requests under way finish on the one before. Returns
    /// whether it does: an older snapshot of the same open store, which somebody else may have
    /// overtaken, and one with the same content change nothing.
    ///
    /// # Errors
    /// As [`Engine::open`]; the engine goes on with what it has.
    pub fn refresh(&self, snapshot: Arc<Snapshot>) -> Result<bool, EngineError> {
        let _turn = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.pinned();
        let is_same = old.snapshot.fingerprint() == snapshot.fingerprint();
        if is_same || snapshot.is_older_than(&old.snapshot) {
            return Ok(false);
        }
        let spare = spare(&self.server.kept, &self.server.served);
        let binding = &self.server.binding;
        let new = Arc::new(Pinned::new(snapshot, binding, &self.options.fanouts, spare)?);
        self.preparing.check(&new)?;
        new.take_tables(&old, binding)?;
        *self.pinned.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&new);
        // It belongs to the version that was left, and to its budget.
        self.server.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let before = Arc::downgrade(&old);
        drop(old);
        self.prepare(&new, &before)?;
        Ok(true)
    }

    pub(crate) fn pinned(&self) -> Arc<Pinned> {
        Arc::clone(&self.pinned.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The snapshot that answers come from.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.pinned().snapshot)
    }

    /// The model.
    pub fn model(&self) -> &ModelFile {
        &self.server.model
    }

    /// The type of the nodes that [`Engine::run`] is asked for.
    pub fn node_type(&self) -> NodeTypeId {
        self.preparing.node_type
    }

    /// How many neighbours are sampled, by edge type and hop.
    pub fn fanouts(&self) -> &Fanouts {
        &self.options.fanouts
    }

    /// The share of what shall be in memory that is there, from 0 to 1.
    pub fn ready(&self) -> f64 {
        self.pinned().progress.ready()
    }

    /// What was done since it was opened.
    pub fn stats(&self) -> EngineStats {
        self.server.counters.stats()
    }

    /// Whether preparing has come to its end, and why it did not bring all that it should.
    pub fn prepared(&self) -> Option<Result<(), String>> {
        let pinned = self.pinned();
        pinned.progress.is_over().then(|| pinned.progress.failure().map_or(Ok(()), Err))
    }

    /// What the model gives for nodes, a row for each in the order of `ids`, which may repeat.
    /// Equal ids, `seed` and snapshot give equal bytes.
    ///
    /// # Errors
    /// [`EngineError::Unknown`], [`EngineError::Question`] if the model answers for graphs or
    /// pairs, [`EngineError::Sample`], [`EngineError::Read`], [`EngineError::Run`],
    /// [`EngineError::Stopped`].
    pub fn run(&self, ids: &[NodeId], seed: u64) -> Result<Answer, EngineError> {
        let (place, counts) = self.output(|counts| matches!(counts, Counts::Nodes(_)))?;
        if self.server.binding.has(|given| matches!(given, Given::Pairs | Given::NumGraphs)) {
            let problem = "the model takes pairs or graphs; ask it for scores or for graphs";
            return Err(EngineError::Question { problem: problem.to_owned() });
        }
        let node_type = match counts {
            Some(Counts::Nodes(id)) => id,
            _ => self.node_type(),
        };
        let (pinned, plan) = (self.pinned(), self.server.served.plan());
        check_ids(&pinned, node_type, ids)?;
        let (unique, numbers) = distinct(ids);
        let mut collected = Collected::new(ids.len());
        let batch = self.options.batch_nodes.max(1);
        for (first, seeds) in (0..).step_by(batch).zip(unique.chunks(batch)) {
            let seeds_of = [(node_type, seeds)];
            let (pairs, graphs) = (None, None);
            let ask = Ask { seeds: &seeds_of, stream: seed, pairs, graphs, plan: &plan };
            let of_batch = first..first + seeds.len();
            let pairs = numbers.iter().enumerate().filter(|(_, n)| of_batch.contains(n));
            self.answer(&pinned, &ask, |outputs| {
                collected.take(of(outputs, place)?, pairs.map(|(to, n)| (n - first, to)))
            })?;
        }
        Ok(collected.into_answer(self.row(place)))
    }

    /// A score for each pair of nodes: what the model gives for pairs, or the dot product of what
    /// it gives for both nodes.
    ///
    /// # Errors
    /// As [`Engine::run`]; [`EngineError::Question`] if the model gives nothing to score with.
    pub fn scores(&self, pairs: (&[NodeId], &[NodeId]), seed: u64) -> Result<Answer, EngineError> {
        let (pinned, plan) = (self.pinned(), self.server.served.plan());
        let decodes = self.server.binding.has(|given| matches!(given, Given::Pairs));
        let batch = (self.options.batch_nodes / 2).max(1);
        let mut collected = Collected::new(pairs.0.len());
        let ends = self.ends(&pinned)?;
        check_ids(&pinned, ends[0], pairs.0)?;
        check_ids(&pinned, ends[1], pairs.1)?;
        let place = decodes.then(|| self.output(|counts| *counts == Counts::Pairs)).transpose()?;
        let row = place.and_then(|(place, _)| self.row(place));
        let together = pairs.0.chunks(batch).zip(pairs.1.chunks(batch));
        for (first, (from, to)) in (0..).step_by(batch).zip(together) {
            let scored = self.score((&pinned, &plan), ends, (from, to), (place, seed))?;
            let scored = View::new(scored.dims(), scored.elements());
            collected.take(scored, (0..from.len()).map(|at| (at, first + at)))?;
        }
        Ok(collected.into_answer(row))
    }

    fn score(
        &self,
        (pinned, plan): (&Arc<Pinned>, &Plan),
        ends: [NodeTypeId; 2],
        (from, to): (&[NodeId], &[NodeId]),
        (place, seed): (Option<(usize, Option<Counts>)>, u64),
    ) -> Result<Constant, EngineError> {
        let is_one_type = ends[0] == ends[1];
        let all = [from, if is_one_type { to } else { &[] }].concat();
        let (sources, mut numbers) = distinct(&all);
        let (destinations, of_destinations) =
            if is_one_type { (Vec::new(), numbers.split_off(from.len())) } else { distinct(to) };
        let one = [(ends[0], sources.as_slice())];
        let two = [(ends[0], sources.as_slice()), (ends[1], destinations.as_slice())];
        let seeds: &[(NodeTypeId, &[NodeId])] = if is_one_type { &one } else { &two };
        let local = |all: &[usize]| all.iter().map(|n| *n as i64).collect::<Vec<i64>>();
        let (rows, cols) = (local(&numbers), local(&of_destinations));
        let pairs = place.map(|_| (rows.as_slice(), cols.as_slice()));
        let ask = Ask { seeds, stream: seed, pairs, graphs: None, plan };
        self.answer(pinned, &ask, |outputs| {
            if let Some((place, _)) = place {
                return copied(of(outputs, place)?);
            }
            let find = |id: NodeTypeId| {
                let is_of = |counts: &Counts| *counts == Counts::Nodes(id);
                self.output(is_of).and_then(|(place, _)| of(outputs, place))
            };
            dot((find(ends[0])?, &numbers), (find(ends[1])?, &of_destinations))
        })
    }

    /// What a batch gives, unless nobody waits for it any more.
    fn answer<T>(
        &self,
        pinned: &Arc<Pinned>,
        ask: &Ask<'_>,
        take: impl FnOnce(&Outputs<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        if !(self.options.go_on)() && !planted("stop_is_not_heard") {
            return Err(EngineError::Stopped);
        }
        self.server.answer(pinned, ask, take)
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
                problem: "pairs can be scored between nodes of one type or of two, and this store \
                          has more types"
                    .to_owned(),
            }),
        }
    }

    /// What the model gives for whole graphs, a row for each.
    ///
    /// # Errors
    /// As [`Engine::run`]; [`EngineError::Question`] if the model is none of graphs.
    pub fn graphs(&self, graphs: &[u64]) -> Result<Answer, EngineError> {
        let found = self.server.binding.inputs.iter().find_map(|input| match input.given {
            Given::GraphOf(id) => Some(id),
            _ => None,
        });
        let node_type = found.ok_or_else(|| EngineError::Question {
            problem: "the model takes no batch, which says the graph of each node, so it is not a \
                      model of graphs"
                .to_owned(),
        })?;
        let (pinned, plan) = (self.pinned(), self.server.served.plan());
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
        let mut first = 0;
        while first < unique.len() {
            let (mut nodes, mut of_nodes, mut end) = (Vec::new(), Vec::new(), first);
            while end < unique.len() && (end == first || nodes.len() < self.options.batch_nodes) {
                nodes.extend(of_graphs.nodes(unique[end]));
                of_nodes.resize(nodes.len(), (end - first) as i64);
                end += 1;
            }
            let graphs = Some((&induced, of_nodes.as_slice(), (end - first) as u64));
            let seeds = [(node_type, nodes.as_slice())];
            let ask = Ask { seeds: &seeds, stream: 0, pairs: None, graphs, plan: &plan };
            let pairs = numbers.iter().enumerate().filter(|(_, n)| (first..end).contains(n));
            self.answer(&pinned, &ask, |outputs| {
                collected.take(of(outputs, place)?, pairs.map(|(to, n)| (n - first, to)))
            })?;
            first = end;
        }
        Ok(collected.into_answer(self.row(place)))
    }

    /// The dtype and lengths of a row of an output, where the graph tells.
    fn row(&self, place: usize) -> Option<&(Dtype, Vec<usize>)> {
        self.server.binding.row_types.get(place)?.as_ref()
    }

    /// The place of the output that answers: the one that was asked for, the only one, or the only
    /// one that counts what is wanted.
    fn output(
        &self,
        is_wanted: impl Fn(&Counts) -> bool,
    ) -> Result<(usize, Option<Counts>), EngineError> {
        choose(&self.server.binding, self.options.output.as_deref(), is_wanted)
    }
}

fn choose(
    binding: &Binding,
    name: Option<&str>,
    is_wanted: impl Fn(&Counts) -> bool,
) -> Result<(usize, Option<Counts>), EngineError> {
    let all = &binding.outputs;
    let names = || {
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    if let Some(name) = name {
        let at = all.iter().position(|(known, _)| known == name);
        let missing = || EngineError::Output {
            problem: format!("the model has no output {name:?}; it has {}", names()),
        };
        let at = at.ok_or_else(missing)?;
        return Ok((at, all[at].1));
    }
    let fitting: Vec<usize> =
        (0..all.len()).filter(|at| all[*at].1.as_ref().is_some_and(&is_wanted)).collect();
    match (fitting.as_slice(), all.len()) {
        ([at], _) => Ok((*at, all[*at].1)),
        ([], 1) => Ok((0, all[0].1)),
        _ => Err(EngineError::Output {
            problem: format!("the model has several outputs; name one of {}", names()),
        }),
    }
}

/// The type of the nodes that the model answers for.
fn asked_type(
    binding: &Binding,
    output: Option<&str>,
    snapshot: &Snapshot,
) -> Result<NodeTypeId, EngineError> {
    if let [_] = snapshot.catalog().node_types.as_slice() {
        if output.is_some() {
            choose(binding, output, |_| true)?;
        }
        return Ok(NodeTypeId(0));
    }
    let of_nodes = |counts: &Counts| matches!(counts, Counts::Nodes(_));
    match choose(binding, output, of_nodes) {
        Ok((_, Some(Counts::Nodes(id)))) => Ok(id),
        Err(error) if output.is_some() => Err(error),
        _ => Ok(NodeTypeId(0)),
    }
}

fn of<'a>(outputs: &'a Outputs<'_>, place: usize) -> Result<View<'a>, EngineError> {
    let found = (place < outputs.len()).then(|| outputs.output(place));
    found.ok_or_else(|| EngineError::Output {
        problem: format!("the model gave {} outputs, and number {place} is wanted", outputs.len()),
    })
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
    let wrong = || EngineError::Output { problem: "the model gave part of an output".to_owned() };
    Constant::new(of.dims.to_vec(), elements).ok_or_else(wrong)
}

/// The distinct ids in the order in which they are met, and which of them each is.
fn distinct(ids: &[u64]) -> (Vec<u64>, Vec<usize>) {
    let mut unique = Vec::with_capacity(ids.len());
    let mut known = HashMap::with_capacity(ids.len());
    let number = |id: &u64| {
        *known.entry(*id).or_insert_with(|| {
            unique.push(*id);
            unique.len() - 1
        })
    };
    let numbers = ids.iter().map(number).collect();
    (unique, numbers)
}

fn check_ids(pinned: &Pinned, node_type: NodeTypeId, ids: &[u64]) -> Result<(), EngineError> {
    let meta = pinned.snapshot.catalog().node_types.get(usize::from(node_type.0));
    let name = meta.map_or("", |meta| meta.name.as_str());
    check_below(&format!("nodes of {name:?}"), ids, pinned.num_nodes(node_type))
}

fn check_below(what: &str, ids: &[u64], bound: u64) -> Result<(), EngineError> {
    let mut unknown = ids.iter().filter(|id| **id >= bound);
    let named: Vec<String> = unknown.by_ref().take(NAMED_IDS).map(u64::to_string).collect();
    if named.is_empty() {
        return Ok(());
    }
    let more = unknown.count();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let ids = format!("{}{rest}", named.join(", "));
    Err(EngineError::Unknown { what: what.to_owned(), ids, bound })
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
        return Err(wrong("the model gives whole numbers or flags, which have no dot product"));
    };
    let width = width(from).filter(|one| width(to) == Some(*one)).ok_or_else(|| {
        wrong("the model gives no embeddings of one length for both ends of a pair")
    })?;
    let row = |at: usize| at * width..(at + 1) * width;
    let one = |(i, j): (&usize, &usize)| {
        let (a, b) = (a.get(row(*i))?, b.get(row(*j))?);
        Some(a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>())
    };
    let scores: Option<Vec<f32>> = sources.iter().zip(destinations).map(one).collect();
    let scores = scores.ok_or_else(|| wrong("the model gives fewer rows than there are nodes"))?;
    let count = scores.len();
    Constant::new(vec![count], Elements::F32(scores)).ok_or_else(|| wrong("no scores"))
}
