//! Models that come with a request (HolisticGNN's `Run(DFG, batch)`): opened for it, and kept for
//! those that bring the same one soon.
//!
//! What must not live here: models that are registered. The invariant: those that are open are few,
//! and their files together bounded, whoever sends them; nothing of them is on the disk.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ng_engine::ModelFile;
use ng_rpc::{Code, Problem, problem_of, v1};

use super::Catalogue;
use super::files::identity_of;
use crate::graph::Graph;
use crate::model::Model;

/// Models that are open at a time.
const MODELS_MAX: usize = 8;
/// Bytes of all their files.
const BYTES_MAX: u64 = 256 << 20;
/// When a model that found no room may be sent again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// A model that was sent, and how it was asked.
struct Sent {
    fanouts: Vec<i64>,
    output: String,
    bytes: u64,
    model: Arc<Model>,
}

/// All that are open; the one that was used last stands last.
#[derive(Default)]
pub(super) struct SentModels(Mutex<Vec<Sent>>);

impl SentModels {
    fn lock(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, graph: &Arc<Graph>, wanted: &Wanted) -> Option<Arc<Model>> {
        let mut all = self.lock();
        let is_it = |sent: &Sent| {
            Arc::ptr_eq(&sent.model.graph, graph)
                && sent.model.sha256 == wanted.sha256
                && (&sent.fanouts, &sent.output) == (&wanted.fanouts, &wanted.output)
        };
        let at = all.iter().position(is_it)?;
        let found = all.remove(at);
        let model = Arc::clone(&found.model);
        all.push(found);
        Some(model)
    }

    /// Lets those go that nobody waits for, the oldest first, until one more has room.
    fn make_room(all: &mut Vec<Sent>, bytes: u64) -> Result<Vec<Sent>, Problem> {
        let mut gone = Vec::new();
        loop {
            let held: u64 = all.iter().map(|sent| sent.bytes).sum();
            if all.len() < MODELS_MAX && held + bytes <= BYTES_MAX {
                return Ok(gone);
            }
            let idle = all.iter().position(|sent| Arc::strong_count(&sent.model) == 1);
            let Some(idle) = idle else {
                let message = "other models that were sent along are computed at the moment";
                return Err(Problem::new(Code::ResourceExhausted, "SENT_MODELS_FULL", message)
                    .at("files")
                    .remedy("send it again a little later, or register it")
                    .retry_after(RETRY_AFTER));
            };
            gone.push(all.remove(idle));
        }
    }

    /// Lets go of models of a graph that is served no more.
    pub fn forget(&self, graph: &str) {
        let gone: Vec<Sent> =
            self.lock().extract_if(.., |sent| sent.model.graph.name == graph).collect();
        drop(gone);
    }
}

/// A model that comes with a request.
struct Wanted {
    sha256: String,
    fanouts: Vec<i64>,
    output: String,
}

impl Catalogue {
    /// Opens a model that comes with a request, unless it is open. Reads the graph, so it may take
    /// a while.
    ///
    /// # Errors
    /// The files are no model or do not fit the graph, or there is no room for one more.
    pub fn sent_model(
        &self,
        graph: &str,
        files: v1::ModelFiles,
        (fanouts, output): (Vec<i64>, String),
    ) -> Result<Arc<Model>, Problem> {
        let graph = self.graph(graph)?;
        let v1::ModelFiles { model_onnx, model_safetensors, .. } = &files;
        let bytes = (model_onnx.len() + model_safetensors.len()) as u64;
        if bytes > BYTES_MAX {
            let message = format!("a model of {bytes} bytes, of {BYTES_MAX} at most");
            return Err(Problem::argument("files", message).remedy("register it"));
        }
        let wanted = Wanted { sha256: identity_of(&files), fanouts, output };
        if let Some(model) = self.sent.find(&graph, &wanted) {
            return Ok(model);
        }
        let manifest = Some(files.manifest_json.as_slice()).filter(|bytes| !bytes.is_empty());
        let both = (files.model_onnx, files.model_safetensors);
        let file = ModelFile::of_bytes(Path::new("the model"), manifest, both);
        let file = file.map_err(|e| problem_of(&e).at("files"))?;
        let Wanted { sha256, fanouts, output } = wanted;
        let request = v1::ModelRegisterRequest {
            fanouts: fanouts.clone(),
            output: output.clone(),
            ..v1::ModelRegisterRequest::default()
        };
        // Room is made before it takes memory, and held by nobody else meanwhile.
        let mut all = self.sent.lock();
        let gone = SentModels::make_room(&mut all, bytes)?;
        let place = &self.place;
        let how = (place.compute.clone(), place.threads, place.answers.clone());
        let name = format!("sha256:{sha256}");
        let model = Arc::new(Model::open((&name, 0), graph, &request, file, how)?);
        all.push(Sent { fanouts, output, bytes, model: Arc::clone(&model) });
        drop(all);
        drop(gone);
        Ok(model)
    }

    /// Models that were sent along and are open.
    pub fn sent_models(&self) -> Vec<Arc<Model>> {
        self.sent.lock().iter().map(|sent| Arc::clone(&sent.model)).collect()
    }
}
