//! [`Model`]: a version of a model on a graph that is served, and the answers of it that are kept.
//!
//! The invariant: a version that is asked for is at least as new as the last commit that was
//! acknowledged before, unless the request allows an older one.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ng_engine::{
    AnswerKey, EmbeddingCache, Engine, EngineOptions, ModelFile, ModelKey, Prepare, Version,
    WalkLimit,
};
use ng_infer::dfg::Dfg;
use ng_infer::onnx::{ExternalFiles, Model as Onnx, Range};
use ng_infer::run::Devices;
use ng_rpc::{Problem, problem_of, v1};
use ng_sample::Fanouts;
use ng_store::Snapshot;

use crate::graph::Graph;
use crate::rows::Rows;

/// Nodes of a group before anything is known of the time that they take.
const TARGETS_UNKNOWN: usize = 16;
/// The share of a graph's memory that the batch of a group may take.
const GROUP_SHARE: u64 = 10;

/// Numbers of models are given once.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

/// A version of a model, ready to answer.
pub struct Model {
    /// Its name.
    pub name: String,
    /// Its version, from 1.
    pub version: u32,
    /// What it answers about.
    pub graph: Arc<Graph>,
    /// What answers.
    pub engine: Engine,
    key: ModelKey,
    cache: Option<Arc<EmbeddingCache>>,
    /// One commit comes after the other.
    advancing: Mutex<()>,
    /// What a row looks like, once there was one.
    like: OnceLock<Rows>,
    targets_max: usize,
}

impl Model {
    /// Makes an engine for a model on a graph; its answers are kept in `cache`.
    ///
    /// # Errors
    /// The model does not fit the graph.
    pub fn open(
        (name, version): (&str, u32),
        graph: Arc<Graph>,
        file: ModelFile,
        options: EngineOptions,
        cache: Option<Arc<EmbeddingCache>>,
    ) -> Result<Self, Problem> {
        let snapshot = graph.store.snapshot();
        let lsn = snapshot.lsn();
        let engine = Engine::open(snapshot, file, options).map_err(|e| problem_of(&e))?;
        let key = ModelKey(NEXT_KEY.fetch_add(1, Ordering::Relaxed));
        if let Some(cache) = &cache {
            cache.add_model(key, lsn);
        }
        let limit = graph.store.budget().limit_bytes() / GROUP_SHARE;
        let of_node = engine.foresee(1).memory_bytes.max(1);
        let targets_max = (limit / of_node).clamp(1, 1 << 20) as usize;
        Ok(Self {
            name: name.to_owned(),
            version,
            graph,
            engine,
            key,
            cache,
            advancing: Mutex::default(),
            like: OnceLock::new(),
            targets_max,
        })
    }

    /// What answers call it.
    pub fn title(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Whether it takes pairs itself; otherwise their score is the dot product of both nodes' rows.
    pub fn decodes(&self) -> bool {
        self.engine.decodes_pairs()
    }

    /// How many targets can be computed together within a time, and within the memory for it.
    pub fn targets_within(&self, time: Duration) -> usize {
        let by_time = self.engine.per_node().map_or(TARGETS_UNKNOWN, |node| {
            let seconds = node.seconds.max(node.device_seconds);
            if seconds <= 0.0 { TARGETS_UNKNOWN } else { (time.as_secs_f64() / seconds) as usize }
        });
        by_time.clamp(1, self.targets_max)
    }

    /// The version that answers come from: that of the newest commit, or one that is at most `lag`
    /// commits older.
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

    /// Brings the engine and the answers that are kept to the newest commit.
    fn advance(&self) -> Result<Version, Problem> {
        let _turn = self.advancing.lock().unwrap_or_else(PoisonError::into_inner);
        let older = self.engine.version();
        let newest = self.graph.store.snapshot();
        if newest.lsn() <= older.snapshot().lsn() {
            return Ok(older);
        }
        self.engine.refresh(Arc::clone(&newest)).map_err(|e| problem_of(&e))?;
        if let Some(cache) = &self.cache {
            let affected = self.engine.affected(&newest, older.snapshot(), WalkLimit::default());
            let affected = affected.map_err(|e| problem_of(&e))?;
            let (from, to) = (older.snapshot().lsn(), newest.lsn());
            cache.invalidate(self.key, &affected.answers, from, to);
        }
        Ok(self.engine.version())
    }

    /// A snapshot as a version to answer from.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn version_of(&self, snapshot: &Arc<Snapshot>) -> Result<Version, Problem> {
        let version = self.engine.version();
        if version.snapshot().lsn() == snapshot.lsn() {
            return Ok(version);
        }
        self.engine.version_of(Arc::clone(snapshot)).map_err(|e| problem_of(&e))
    }

    /// What rows look like, once there was one.
    pub fn like(&self) -> Option<&Rows> {
        self.like.get()
    }

    fn answer_key(&self, node: u64, seed: u64) -> AnswerKey {
        AnswerKey { model: self.key, node_type: self.engine.node_type(), node, parameters: seed }
    }

    /// The row of a node that is right for a commit, or for one that is at most `lag` older, with
    /// the commit that it is right for.
    pub fn kept(&self, node: u64, seed: u64, (lsn, lag): (u64, u64)) -> Option<(Arc<[u8]>, u64)> {
        let found = self.cache.as_ref()?.get(&self.answer_key(node, seed), lsn, lag)?;
        Some((found.row, found.lsn))
    }

    /// Keeps the row of a node that was computed on a commit; `all` is what it is of.
    pub fn keep(&self, node: u64, seed: u64, lsn: u64, all: &Rows, row: &[u8]) {
        let Some(cache) = &self.cache else { return };
        self.like.get_or_init(|| all.like(0));
        cache.put(&self.answer_key(node, seed), lsn, row);
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if let Some(cache) = &self.cache {
            cache.drop_model(self.key);
        }
    }
}

/// How the engine of a model is opened.
///
/// # Errors
/// The request names a way to prepare that there is not, or the file says no fanouts.
pub fn options_of(
    request: &v1::ModelRegisterRequest,
    file: &ModelFile,
    graph: &Graph,
    threads: usize,
) -> Result<EngineOptions, Problem> {
    let snapshot = graph.store.snapshot();
    let fanouts = match request.fanouts.as_slice() {
        [] => file.fanouts(snapshot.catalog()).map_err(|e| problem_of(&e))?,
        hops => Fanouts::uniform(hops, snapshot.catalog().edge_types.len())
            .map_err(|e| problem_of(&e).at("fanouts"))?,
    };
    Ok(EngineOptions {
        fanouts,
        output: Some(request.output.clone()).filter(|output| !output.is_empty()),
        devices: Devices::with_cpu().into(),
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
        other => Err(Problem::argument("prepare", format!("there is no way {other:?} to prepare"))
            .remedy("use metadata, hot or all")),
    }
}

/// The model of files that came with a request.
///
/// # Errors
/// They are no model.
pub fn model_of(files: &v1::ModelFiles) -> Result<ModelFile, Problem> {
    let model = Onnx::decode(&files.model_onnx).map_err(|e| problem_of(&e))?;
    let weights = &files.model_safetensors;
    let read = |range: &Range, to: &mut [u8]| {
        let start = range.offset as usize;
        let bytes = weights.get(start..start.saturating_add(range.length as usize));
        to.copy_from_slice(bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    };
    let mut external = ExternalFiles::new(&model, |_| Ok(weights.len() as u64), read)
        .map_err(|e| problem_of(&e))?;
    let mut bytes = |tensor: &_| external.bytes(tensor).map(|bytes| bytes.into_owned());
    let graph = Dfg::from_onnx(&model, &mut bytes).map_err(|e| problem_of(&e))?;
    Ok(ModelFile { metadata: model.metadata.clone(), ..ModelFile::of_graph(graph) })
}
