//! [`Model`]: a version of a model on a served graph, and its cached answers.
//!
//! The invariants: the version that a request gets is at least as new as the last commit
//! acknowledged before it, unless the request allows an older one; cached answers are separate for
//! each set of devices, so no answer mixes rows of old and new devices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ng_engine::{
    AnswerKey, Computing, EmbeddingCache, Engine, EngineOptions, ModelFile, ModelKey, Prepare,
    Reach, Version,
};
use ng_infer::run::Compute;
use ng_rpc::{Problem, problem_of, v1};
use ng_sample::Fanouts;
use ng_store::Snapshot;
use ng_types::canary::planted;

use crate::graph::Graph;
use crate::rows::Rows;
use crate::targets::Targets;

/// Nodes of a group before the time per node is known.
const TARGETS_UNKNOWN: usize = 16;
/// The time after a commit in which another one is expected.
const CHANGES_EXPECTED: Duration = Duration::from_secs(3600);
/// The share of a graph's memory that the batch of a group may take.
const GROUP_SHARE: u64 = 10;

/// The next number of a model. Numbers are not reused.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

/// A version of a model, ready to answer.
pub struct Model {
    /// Its name.
    pub name: String,
    /// Its version, from 1; 0 of one that is not registered.
    pub version: u32,
    /// What it answers about.
    pub graph: Arc<Graph>,
    /// What answers.
    pub engine: Engine,
    /// Of its files.
    pub sha256: String,
    /// Another one once what computes was replaced.
    generation: RwLock<Arc<Generation>>,
    cache: Option<Arc<EmbeddingCache>>,
    /// One commit comes after the other: up to this one it is noted what changed, if answers are
    /// kept.
    advancing: Mutex<Arc<Snapshot>>,
    opened: Instant,
    /// How many seconds after that a commit was noted last; 0 before the first.
    changed: AtomicU64,
    /// An older version that was asked for lately, as pieces of a job do, and when.
    older: Mutex<Option<(Version, Instant)>>,
    targets_max: usize,
}

/// Answers of a model that the same kernels gave.
pub struct Generation {
    computing: Computing,
    /// What tells them from all others.
    key: ModelKey,
    /// What a row looks like, once there was one.
    like: OnceLock<Rows>,
}

impl Generation {
    fn new(computing: Computing) -> Arc<Self> {
        let key = ModelKey(NEXT_KEY.fetch_add(1, Ordering::Relaxed));
        Arc::new(Self { computing, key, like: OnceLock::new() })
    }

    /// What rows look like, once there was one.
    pub fn like(&self) -> Option<&Rows> {
        self.like.get()
    }
}

impl Model {
    /// Opens an engine for a model on a graph. `cache` holds its answers.
    ///
    /// # Errors
    /// The model does not fit the graph, or an option of the request is not valid.
    pub fn open(
        (name, version): (&str, u32),
        graph: Arc<Graph>,
        request: &v1::ModelRegisterRequest,
        file: ModelFile,
        (compute, threads, cache): (Compute, usize, Option<Arc<EmbeddingCache>>),
    ) -> Result<Self, Problem> {
        let snapshot = graph.store.snapshot();
        let lsn = snapshot.lsn();
        let options = options_of(request, &file, &graph, (compute, threads))?;
        let sha256 = file.identity.map_or(String::new(), |identity| identity.to_string());
        let engine =
            Engine::open(Arc::clone(&snapshot), file, options).map_err(|e| problem_of(&e))?;
        let generation = Generation::new(engine.computing());
        if let Some(cache) = &cache {
            cache.add_model(generation.key, lsn);
        }
        let limit = graph.store.budget().limit_bytes() / GROUP_SHARE;
        let of_node = engine.foresee(1).memory_bytes.max(1);
        let targets_max = (limit / of_node).clamp(1, 1 << 20) as usize;
        Ok(Self {
            name: name.to_owned(),
            version,
            graph,
            engine,
            sha256,
            generation: RwLock::new(generation),
            cache,
            advancing: Mutex::new(snapshot),
            opened: Instant::now(),
            changed: AtomicU64::new(0),
            older: Mutex::default(),
            targets_max,
        })
    }

    /// The description for messages, without aliases.
    pub fn info(&self) -> v1::ModelInfo {
        let snapshot = self.graph.store.snapshot();
        let node_type = snapshot.catalog().node_types.get(usize::from(self.engine.node_type().0));
        v1::ModelInfo {
            name: self.name.clone(),
            version: self.version,
            graph: self.graph.name.clone(),
            sha256: self.sha256.clone(),
            node_type: node_type.map_or(String::new(), |meta| meta.name.clone()),
            ready: self.engine.ready(),
            ready_problem: self.engine.prepared().and_then(Result::err).unwrap_or_default(),
            groups: self.engine.groups(),
            output: self.engine.output_name().unwrap_or_default().to_owned(),
            devices: self.engine.devices(),
            ..v1::ModelInfo::default()
        }
    }

    /// The name in answers.
    pub fn title(&self) -> String {
        match self.version {
            0 => self.name.clone(),
            version => format!("{}@{version}", self.name),
        }
    }

    /// Whether the model scores pairs. Otherwise the score is the dot product of both nodes' rows.
    pub fn decodes(&self) -> bool {
        self.engine.decodes_pairs()
    }

    /// The number of nodes that can be computed together within a time and the memory for a group.
    pub fn nodes_within(&self, time: Duration) -> usize {
        let by_time = self.engine.per_node().map_or(TARGETS_UNKNOWN, |node| {
            let found = time.as_secs_f64() / node.seconds;
            if found.is_finite() { found as usize } else { TARGETS_UNKNOWN }
        });
        by_time.clamp(1, self.targets_max)
    }

    /// Whether this number of nodes has taken less than `time` so far, and no new commit has to be
    /// processed first.
    pub fn is_quick(&self, nodes: usize, time: Duration) -> bool {
        let took = self.engine.per_node().map(|node| node.seconds * nodes as f64);
        took.is_some_and(|took| took <= time.as_secs_f64())
            && self.engine.version().snapshot().lsn() == self.graph.store.snapshot().lsn()
    }

    /// The version for answers: that of the newest commit, or one that is at most `lag` commits
    /// older.
    ///
    /// # Errors
    /// The newest one cannot be read.
    pub fn version(&self, lag: u64) -> Result<Version, Problem> {
        let newest = self.graph.store.snapshot();
        let version = self.engine.version();
        if newest.lsn().saturating_sub(version.snapshot().lsn()) <= lag {
            return Ok(version);
        }
        self.advance()
    }

    /// Brings the engine to the newest commit, and the answers that are kept.
    fn advance(&self) -> Result<Version, Problem> {
        let mut noted = self.advancing.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = self.graph.store.snapshot();
        if newest.lsn() > self.engine.version().snapshot().lsn() {
            self.engine.refresh(Arc::clone(&newest)).map_err(|e| problem_of(&e))?;
        }
        let version = self.engine.version();
        let (from, to) = (noted.lsn(), version.snapshot().lsn());
        if to > from {
            if let Some(cache) = &self.cache {
                let changed = self.engine.changed(version.snapshot(), &noted);
                cache.note(self.newest().key, &changed, (from, to));
            }
            *noted = Arc::clone(version.snapshot());
            self.changed.store(self.opened.elapsed().as_secs().max(1), Ordering::Relaxed);
        }
        Ok(version)
    }

    /// Releases snapshots without recent requests. Pages that commits replaced stay on the disk
    /// while a snapshot has them.
    ///
    /// # Errors
    /// The newest commit cannot be read.
    pub fn keep_up(&self, lately: Duration) -> Result<(), Problem> {
        let mut older = self.older.lock().unwrap_or_else(PoisonError::into_inner);
        older.take_if(|(_, used)| used.elapsed() > lately);
        drop(older);
        if self.quiet() >= lately.as_secs() { self.version(0).map(drop) } else { Ok(()) }
    }

    /// Seconds since a commit was noted, or since the model was opened.
    fn quiet(&self) -> u64 {
        let changed = self.changed.load(Ordering::Relaxed);
        self.opened.elapsed().as_secs().saturating_sub(changed)
    }

    /// Whether cached answers have the nodes they depend on, so that they can survive commits. That
    /// takes about 2 bytes per node, which without commits could hold other answers.
    pub fn keeps_reaches(&self) -> bool {
        let changed = self.changed.load(Ordering::Relaxed);
        changed > 0 && self.quiet() < CHANGES_EXPECTED.as_secs()
    }

    /// The version of a snapshot.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn version_of(&self, snapshot: &Arc<Snapshot>) -> Result<Version, Problem> {
        let version = self.engine.version();
        if version.snapshot().lsn() == snapshot.lsn() {
            return Ok(version);
        }
        let mut older = self.older.lock().unwrap_or_else(PoisonError::into_inner);
        let known = older.take().filter(|(known, _)| known.snapshot().lsn() == snapshot.lsn());
        let version = match known {
            Some((version, _)) => version.computed_by(self.engine.computing()),
            None => self.engine.version_of(Arc::clone(snapshot)).map_err(|e| problem_of(&e))?,
        };
        *older = Some((version.clone(), Instant::now()));
        Ok(version)
    }

    /// Whether all targets exist, as far as this can be checked without the engine.
    pub fn knows(&self, targets: &Targets) -> bool {
        let ids = match targets {
            Targets::Nodes(ids) => [ids.as_slice(), &[]],
            Targets::Edges(sources, destinations) if !self.decodes() => {
                [sources.as_slice(), destinations.as_slice()]
            }
            Targets::Edges(..) | Targets::Graphs(_) => return true,
        };
        let snapshot = self.graph.store.snapshot();
        let meta = snapshot.catalog().node_types.get(usize::from(self.engine.node_type().0));
        let bound = meta.map_or(0, |meta| meta.num_nodes);
        ids.into_iter().flatten().all(|id| *id < bound)
    }

    /// Rows of the form of the answers, after one was cached.
    pub fn like(&self) -> Option<Rows> {
        self.generation(&self.engine.computing())?.like().cloned()
    }

    fn newest(&self) -> Arc<Generation> {
        Arc::clone(&self.generation.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The cached answers of `computing`, or `None` if other devices have replaced it.
    pub fn generation(&self, computing: &Computing) -> Option<Arc<Generation>> {
        let newest = self.newest();
        if newest.computing == *computing || planted("rows_of_devices_mix") {
            return Some(newest);
        }
        self.renew();
        Some(self.newest()).filter(|newest| newest.computing == *computing)
    }

    /// Drops cached answers of old devices, if the devices were replaced.
    pub fn renew(&self) {
        let _turn = self.advancing.lock().unwrap_or_else(PoisonError::into_inner);
        let computing = self.engine.computing();
        if self.newest().computing == computing {
            return;
        }
        let new = Generation::new(computing);
        if let Some(cache) = &self.cache {
            cache.add_model(new.key, self.engine.version().snapshot().lsn());
        }
        let mut newest = self.generation.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *newest, new);
        drop(newest);
        if let Some(cache) = &self.cache {
            cache.drop_model(old.key);
        }
    }

    fn answer_key(&self, (of, seed): (&Generation, u64), node: u64) -> AnswerKey {
        AnswerKey { model: of.key, node_type: self.engine.node_type(), node, parameters: seed }
    }

    /// The cached row of a node for a commit, or for one that is at most `lag` older, with the
    /// commit for which it is valid. `of` is the generation and the seed.
    pub fn kept(
        &self,
        of: (&Generation, u64),
        node: u64,
        (lsn, lag): (u64, u64),
    ) -> Option<(Arc<[u8]>, u64)> {
        let found = self.cache.as_ref()?.get(&self.answer_key(of, node), lsn, lag)?;
        Some((found.row, found.lsn))
    }

    /// The cached rows of all nodes, or `None` if one is missing; then nothing is counted.
    pub fn all_kept(
        &self,
        of: (&Generation, u64),
        nodes: &[u64],
        (lsn, lag): (u64, u64),
    ) -> Option<Vec<(Arc<[u8]>, u64)>> {
        let keys = nodes.iter().map(|node| self.answer_key(of, *node));
        let found = self.cache.as_ref()?.get_all(keys, lsn, lag)?;
        Some(found.into_iter().map(|kept| (kept.row, kept.lsn)).collect())
    }

    /// Caches the row of a node that was computed on a commit, with the nodes it depends on if they
    /// are known. `all` has the row.
    pub fn keep(
        &self,
        of: (&Generation, u64),
        (node, lsn): (u64, u64),
        (all, row): (&Rows, &[u8]),
        reach: Option<&Reach>,
    ) {
        let Some(cache) = &self.cache else { return };
        of.0.like.get_or_init(|| all.like(0));
        cache.put(&self.answer_key(of, node), lsn, row, reach);
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if let Some(cache) = &self.cache {
            cache.drop_model(self.newest().key);
        }
    }
}

/// The options for the engine of a model.
fn options_of(
    request: &v1::ModelRegisterRequest,
    file: &ModelFile,
    graph: &Graph,
    (devices, threads): (Compute, usize),
) -> Result<EngineOptions, Problem> {
    if !request.devices.is_empty() {
        let problem =
            Problem::argument("devices", "a model on a server cannot have its own devices");
        return Err(problem.remedy("set the devices of all models with the method Program"));
    }
    let snapshot = graph.store.snapshot();
    let fanouts = match request.fanouts.as_slice() {
        [] => file.fanouts(snapshot.catalog()).map_err(|e| {
            problem_of(&e).at("fanouts").remedy("give fanouts=, or export the model again")
        })?,
        hops => Fanouts::uniform(hops, snapshot.catalog().edge_types.len())
            .map_err(|e| problem_of(&e).at("fanouts"))?,
    };
    Ok(EngineOptions {
        fanouts,
        output: Some(request.output.clone()).filter(|output| !output.is_empty()),
        devices,
        prepare: prepare_of(&request.prepare)?,
        threads,
        batch_nodes: 1024,
        go_on: || true,
    })
}

fn prepare_of(word: &str) -> Result<Prepare, Problem> {
    match word {
        "" | "metadata" => Ok(Prepare::Metadata),
        "hot" => Ok(Prepare::Hot),
        "all" => Ok(Prepare::All),
        other => Err(Problem::argument("prepare", format!("prepare={other:?} is not valid"))
            .remedy("use \"metadata\", \"hot\" or \"all\"")),
    }
}
