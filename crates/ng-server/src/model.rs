//! [`Model`]: a version of a model on a graph that is served.

use std::io;
use std::sync::Arc;

use ng_engine::{Answer, Engine, EngineOptions, ModelFile, Prepare};
use ng_infer::dfg::Dfg;
use ng_infer::onnx::{ExternalFiles, Model as Onnx, Range};
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
        threads: usize,
    ) -> Result<Self, Problem> {
        let Some(v1::model_register_request::Source::Files(files)) = &request.source else {
            return Err(Problem::argument("source", "the request has no model")
                .remedy("give the files of a model, or a path in the served folder"));
        };
        let file = model_of(files)?;
        let snapshot = graph.store.snapshot();
        let edge_types = snapshot.catalog().edge_types.len();
        let hops: Vec<i64> = match request.fanouts.as_slice() {
            [] => file.said("fanouts").and_then(|said| serde_json::from_str(said).ok()),
            given => Some(given.to_vec()),
        }
        .ok_or_else(|| {
            Problem::argument(
                "fanouts",
                "the model file does not say how many neighbours to sample",
            )
            .remedy("give fanouts")
        })?;
        let options = EngineOptions {
            fanouts: Fanouts::uniform(&hops, edge_types).map_err(|e| problem_of(&e))?,
            output: Some(request.output.clone()).filter(|output| !output.is_empty()),
            devices: Devices::default().into(),
            prepare: prepare_of(&request.prepare)?,
            threads,
            batch_nodes: 1024,
            go_on: || true,
        };
        let engine = Engine::open(snapshot, file, options).map_err(|e| problem_of(&e))?;
        Ok(Self { name: name.to_owned(), version, graph, engine })
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

fn model_of(files: &v1::ModelFiles) -> Result<ModelFile, Problem> {
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
    Ok(ModelFile { graph: Arc::new(graph), metadata: model.metadata.clone() })
}
