//! [`Model`]: a version of a model on a graph that is served.

use std::sync::Arc;

use ng_engine::{Answer, Engine, EngineOptions, ModelFile, Prepare};
use ng_infer::run::Devices;
use ng_rpc::{Problem, problem_of, v1};
use ng_sample::Fanouts;

use crate::graph::Graph;
use crate::targets::Targets;

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
    /// Of its files.
    pub sha256: String,
}

impl Model {
    /// Makes an engine for a model on a graph.
    ///
    /// # Errors
    /// The files are no model, or the model does not fit the graph.
    pub fn open(
        (name, version): (&str, u32),
        graph: Arc<Graph>,
        request: &v1::ModelRegisterRequest,
        file: ModelFile,
        threads: usize,
    ) -> Result<Self, Problem> {
        let snapshot = graph.store.snapshot();
        let edge_types = snapshot.catalog().edge_types.len();
        let fanouts = match request.fanouts.as_slice() {
            [] => file.fanouts(snapshot.catalog()).map_err(|e| {
                problem_of(&e).at("fanouts").remedy("give fanouts, or export the model again")
            })?,
            given => {
                Fanouts::uniform(given, edge_types).map_err(|e| problem_of(&e).at("fanouts"))?
            }
        };
        let options = EngineOptions {
            fanouts,
            output: Some(request.output.clone()).filter(|output| !output.is_empty()),
            devices: Devices::default().into(),
            prepare: prepare_of(&request.prepare)?,
            threads,
            batch_nodes: 1024,
            go_on: || true,
        };
        let sha256 = file.identity.map_or(String::new(), |identity| identity.to_string());
        let engine = Engine::open(snapshot, file, options).map_err(|e| problem_of(&e))?;
        Ok(Self { name: name.to_owned(), version, graph, engine, sha256 })
    }

    /// As messages describe it, without its aliases.
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
            ..v1::ModelInfo::default()
        }
    }

    /// What answers call it.
    pub fn title(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Computes the rows of a request.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn answer(&self, targets: &Targets, seed: u64) -> Result<Answer, Problem> {
        match targets {
            Targets::Nodes(ids) => self.engine.run(ids, seed),
            Targets::Edges(from, to) => self.engine.scores((from, to), seed),
            Targets::Graphs(ids) => self.engine.graphs(ids),
        }
        .map_err(|e| problem_of(&e))
    }
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
