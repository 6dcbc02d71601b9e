//! [`Engine`]: a model on a store, and the questions that it answers.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use ng_infer::kernel::{Context, View};
use ng_infer::plan::{Answer as Outputs, Options};
use ng_infer::run::{Compute, RunError};
use ng_sample::Fanouts;
use ng_store::Snapshot;
use ng_types::canary::planted;
use ng_types::{Dtype, NodeId, NodeTypeId};

use crate::answer::{Answer, Collected};
use crate::ask::Ask;
use crate::bind::{Binding, Counts, Given};
use crate::counts::EngineStats;
use crate::each::{Asking, How, rows_to};
use crate::mixes::Mixes;
use crate::pinned::{Before, Pinned};
use crate::prepare::{Prepare, Preparing};
use crate::request::{Server, spare};
use crate::versions::Versions;
use crate::{EngineError, ModelFile, schema};

/// The part of the memory that a batch takes which can be of any size.
const BATCH_SHARE: u64 = 16;

/// Ids that an error names.
const NAMED_IDS: usize = 5;

/// How an engine is opened.
#[derive(Clone)]
pub struct EngineOptions {
    /// Neighbours by edge type and hop.
    pub fanouts: Fanouts,
    /// The output that answers, if the model has several.
    pub output: Option<String>,
    /// The devices; they may change while requests run.
    pub devices: Compute,
    /// The data that is loaded into memory.
    pub prepare: Prepare,
    /// Threads of a request.
    pub threads: usize,
    /// Nodes of a request that are sampled together at most. Another number is another draw.
    pub batch_nodes: usize,
    /// Asked before each batch of a request; false ends it.
    pub go_on: fn() -> bool,
}

/// A trained model on one snapshot of a store at a time. Many threads may use it.
pub struct Engine {
    pub(crate) server: Server,
    pub(crate) options: EngineOptions,
    /// What of the model depends on all rows of a batch.
    pub(crate) mixes: Mixes,
    versions: Arc<Versions>,
}

impl Engine {
    /// Opens a model on `snapshot`. Everything but page tables and indexes is loaded in the
    /// background.
    ///
    /// # Errors
    /// [`EngineError::Schema`], [`EngineError::Input`] if an input of the model is not in the
    /// store, [`EngineError::Output`], [`EngineError::TooLarge`], [`EngineError::Sample`] if the
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
        let mixes = Mixes::of(&model.graph, &binding.types);
        let preparing = Preparing {
            how: options.prepare,
            binding: Arc::clone(&binding),
            fanouts: options.fanouts.clone(),
            node_type,
        };
        let bytes_max = usize::try_from(snapshot.budget().limit_bytes()).unwrap_or(usize::MAX);
        let wanted = Options { types: binding.types.clone(), bytes_max, ..Options::default() };
        let served = options.devices.serve(Arc::clone(&model.graph), wanted)?;
        // New threads look for work for a while, so they start before what takes time, and sleep
        // when the first request comes.
        let context = Context::new(options.threads);
        let kept = Arc::default();
        let spare = spare(&kept, &served);
        let pinned = Pinned::new(snapshot, &binding, &options.fanouts, spare, (None, None))?;
        let pinned = Arc::new(pinned);
        preparing.check(&pinned)?;
        let this = Self {
            server: Server::new(model, binding, served, context, kept),
            options,
            mixes,
            versions: Versions::new(pinned, preparing),
        };
        this.versions.prepare(&mut this.versions.turn(), None)?;
        Ok(this)
    }

    /// Uses `snapshot` for new requests; running requests finish on the previous one. Returns
    /// whether it switched: an older snapshot of the same open store, or one with equal content,
    /// changes nothing.
    ///
    /// # Errors
    /// As [`Engine::open`]; the engine then keeps its snapshot.
    pub fn refresh(&self, snapshot: Arc<Snapshot>) -> Result<bool, EngineError> {
        let mut turn = self.versions.turn();
        let old = self.pinned();
        let is_same = old.snapshot.fingerprint() == snapshot.fingerprint();
        if is_same || snapshot.is_older_than(&old.snapshot) {
            return Ok(false);
        }
        let changes = snapshot.changes_since(&old.snapshot);
        let mut new = self.pinned_at(snapshot, (Some(&old), changes.as_ref()))?;
        if turn.is_loading {
            new.progress = Arc::clone(&old.progress);
        }
        self.versions.preparing.check(&new)?;
        new.take(&old, &self.versions.preparing, changes.as_ref())?;
        let new = Arc::new(new);
        self.versions.set(Arc::clone(&new));
        // Of another open store it would hold the budget that was left.
        let mut kept = self.server.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.is_of(new.snapshot.budget()));
        drop(kept);
        self.versions.prepare(&mut turn, Some(old))?;
        Ok(true)
    }

    /// A snapshot to answer from.
    pub(crate) fn pinned_at(
        &self,
        snapshot: Arc<Snapshot>,
        before: Before<'_>,
    ) -> Result<Pinned, EngineError> {
        let spare = spare(&self.server.kept, &self.server.served);
        Pinned::new(snapshot, &self.server.binding, &self.options.fanouts, spare, before)
    }

    pub(crate) fn pinned(&self) -> Arc<Pinned> {
        self.versions.newest()
    }

    /// The snapshot that answers come from.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.pinned().snapshot)
    }

    /// The model.
    pub fn model(&self) -> &ModelFile {
        &self.server.model
    }

    /// Returns the type of the nodes of [`Engine::run`].
    pub fn node_type(&self) -> NodeTypeId {
        self.versions.preparing.node_type
    }

    /// How many neighbours are sampled, by edge type and hop.
    pub fn fanouts(&self) -> &Fanouts {
        &self.options.fanouts
    }

    /// The name of the output that answers requests for nodes, or for pairs or graphs where it has
    /// none for nodes.
    pub fn output_name(&self) -> Option<&str> {
        let kinds: [fn(&Counts) -> bool; 3] = [
            |counts| matches!(counts, Counts::Nodes(_)),
            |counts| matches!(counts, Counts::Pairs),
            |counts| matches!(counts, Counts::Graphs),
        ];
        let (place, _) = kinds.into_iter().find_map(|kind| self.output(kind).ok())?;
        self.server.binding.outputs.get(place).map(|(name, _)| name.as_str())
    }

    /// Returns the names of the active devices.
    pub fn devices(&self) -> Vec<String> {
        match &self.options.devices {
            Compute::Devices(shared) => {
                let devices = shared.devices();
                devices.priorities().into_iter().map(|(name, _)| name.to_owned()).collect()
            }
            Compute::Model(model) => vec![model.device.to_string()],
        }
    }

    /// Returns the loaded share of the data that is to be in memory, from 0 to 1.
    pub fn ready(&self) -> f64 {
        self.pinned().progress.ready()
    }

    /// Returns the counters since it was opened.
    pub fn stats(&self) -> EngineStats {
        self.server.counters.stats()
    }

    /// Whether preparing has come to its end, and why it did not bring all that it should.
    pub fn prepared(&self) -> Option<Result<(), String>> {
        let pinned = self.pinned();
        pinned.progress.is_over().then(|| pinned.progress.failure().map_or(Ok(()), Err))
    }

    /// Runs the model for nodes. Returns one row per node in the order of `ids`, which may repeat.
    /// Equal ids, `seed` and snapshot give equal bytes.
    ///
    /// # Errors
    /// [`EngineError::Unknown`], [`EngineError::Question`] if the model is for graphs or pairs,
    /// [`EngineError::Sample`], [`EngineError::Read`], [`EngineError::Run`],
    /// [`EngineError::Stopped`].
    pub fn run(&self, ids: &[NodeId], seed: u64) -> Result<Answer, EngineError> {
        self.nodes(ids, seed, &Asking::new(self, How::Together, &|| true))
    }

    /// The rows of nodes.
    pub(crate) fn nodes(
        &self,
        ids: &[NodeId],
        seed: u64,
        asking: &Asking<'_>,
    ) -> Result<Answer, EngineError> {
        let (place, counts) = self.output(|counts| matches!(counts, Counts::Nodes(_)))?;
        if self.server.binding.has(|given| matches!(given, Given::Pairs | Given::NumGraphs)) {
            let problem = "the model takes pairs of nodes or whole graphs, not single nodes; \
                           request scores of pairs, or graphs";
            return Err(EngineError::Question { problem: problem.to_owned() });
        }
        let node_type = match counts {
            Some(Counts::Nodes(id)) => id,
            _ => self.node_type(),
        };
        check_ids(&asking.pinned, node_type, ids)?;
        let (unique, numbers) = distinct(ids);
        self.server.counters.ask(ids.len(), unique.len());
        let mut collected = Collected::new(ids.len());
        let order = asking.how.order(&numbers, unique.len());
        let (mut first, mut rest) = (0, unique.as_slice());
        while !rest.is_empty() {
            let batch = self.batch_nodes(asking).min(rest.len());
            let (seeds, others) = rest.split_at(batch);
            rest = others;
            let seeds_of = [(node_type, seeds)];
            let subgraphs = [(0..seeds.len() as u32).collect()];
            let ask = asking.ask(&seeds_of, seed);
            let ask = Ask { subgraphs: asking.how.is_apart().then_some(&subgraphs), ..ask };
            let of_batch = first..first + seeds.len();
            self.answer(&asking.pinned, &ask, |outputs| {
                let pairs = rows_to(&order, of_batch).map(|(n, to)| (n - first, to));
                collected.take(of(outputs, place)?, pairs)
            })?;
            first += batch;
        }
        Ok(collected.into_answer(self.row(place)))
    }

    /// Nodes of the next batch of a request at most. Where they are in subgraphs of their own, they
    /// leave others as much memory as [`BATCH_SHARE`] says.
    pub(crate) fn batch_nodes(&self, asking: &Asking<'_>) -> usize {
        let most = self.options.batch_nodes;
        if !asking.how.is_apart() {
            return asking.how.most(most);
        }
        let share = asking.pinned.snapshot.budget().limit_bytes() / BATCH_SHARE;
        let of_node = match self.per_node() {
            Some(node) => node.memory_bytes,
            None => self.foresee(1).memory_bytes as f64,
        };
        ((share as f64 / of_node.max(1.0)) as usize).clamp(1, most.max(1))
    }

    /// What a batch gives, unless nobody waits for it any more.
    pub(crate) fn answer<T>(
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

    /// The dtype and lengths of a row of an output, where the graph tells.
    pub(crate) fn row(&self, place: usize) -> Option<&(Dtype, Vec<usize>)> {
        self.server.binding.row_types.get(place)?.as_ref()
    }

    /// The place of the output that answers: the one that was asked for, the only one, or the only
    /// one that counts what is wanted.
    pub(crate) fn output(
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
            problem: format!("the model has no output {name:?}; its outputs are {}", names()),
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
            problem: format!("the model has several outputs ({}); choose one of them", names()),
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

pub(crate) fn of<'a>(outputs: &'a Outputs<'_>, place: usize) -> Result<View<'a>, EngineError> {
    let found = (place < outputs.len()).then(|| outputs.output(place));
    found.ok_or_else(|| EngineError::Output {
        problem: format!(
            "the model returned {} outputs, but output {place} was requested",
            outputs.len()
        ),
    })
}

/// The distinct ids in the order in which they are met, and which of them each is.
pub(crate) fn distinct(ids: &[u64]) -> (Vec<u64>, Vec<usize>) {
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

pub(crate) fn check_ids(
    pinned: &Pinned,
    node_type: NodeTypeId,
    ids: &[u64],
) -> Result<(), EngineError> {
    let meta = pinned.snapshot.catalog().node_types.get(usize::from(node_type.0));
    let name = meta.map_or("", |meta| meta.name.as_str());
    check_below(&format!("node type {name:?}"), ids, pinned.num_nodes(node_type))
}

pub(crate) fn check_below(what: &str, ids: &[u64], bound: u64) -> Result<(), EngineError> {
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
