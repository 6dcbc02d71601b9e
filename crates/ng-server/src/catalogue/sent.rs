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

/// One token has this part of the places and of the bytes at most.
const PART: usize = 2;

/// What tells models that were sent apart.
#[derive(PartialEq, Eq)]
struct Wanted {
    sha256: String,
    fanouts: Vec<i64>,
    output: String,
}

/// A place for a model, which is empty until it has been opened. Who holds its lock opens it.
type Place = Arc<Mutex<Option<Arc<Model>>>>;

/// A model that was sent, and by whom.
struct Sent {
    graph: Arc<Graph>,
    wanted: Wanted,
    /// The name of its token; none of local callers.
    owner: Option<String>,
    bytes: u64,
    place: Place,
}

impl Sent {
    /// Whether nobody opens it or asks it. Who holds the list finds no place meanwhile.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.place) == 1
            && lock(&self.place).as_ref().is_none_or(|model| Arc::strong_count(model) == 1)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that are open or being opened; the one that was used last stands last.
#[derive(Default)]
pub(super) struct SentModels(Mutex<Vec<Sent>>);

impl SentModels {
    /// Lets those go that nobody waits for, the oldest first, until an owner has room for one more.
    fn make_room(
        all: &mut Vec<Sent>,
        owner: Option<&str>,
        bytes: u64,
    ) -> Result<Vec<Sent>, Problem> {
        let mut gone = Vec::new();
        loop {
            let has = |of: &dyn Fn(&&Sent) -> bool| {
                let of = || all.iter().filter(of);
                (of().count(), of().map(|sent| sent.bytes).sum::<u64>() + bytes)
            };
            let is_own = |sent: &&Sent| sent.owner.as_deref() == owner;
            let ((count, held), (own, own_held)) = (has(&|_| true), has(&is_own));
            // What a token sends alone may take all bytes that it may have.
            let part = (MODELS_MAX / PART, (BYTES_MAX / PART as u64).max(bytes));
            let is_over = owner.is_some() && (own >= part.0 || own_held > part.1);
            if !is_over && count < MODELS_MAX && held <= BYTES_MAX {
                return Ok(gone);
            }
            let idle = all.iter().position(|sent| (!is_over || is_own(&sent)) && sent.is_idle());
            let Some(idle) = idle else {
                let message = "too many models that came with requests are in use";
                return Err(Problem::new(Code::ResourceExhausted, "SENT_MODELS_FULL", message)
                    .at("files")
                    .remedy("try again later, or register the model")
                    .retry_about(RETRY_AFTER));
            };
            gone.push(all.remove(idle));
        }
    }

    /// Lets go of models of a graph that is served no more.
    pub fn forget(&self, graph: &str) {
        let gone: Vec<Sent> =
            lock(&self.0).extract_if(.., |sent| sent.graph.name == graph).collect();
        drop(gone);
    }

    /// Lets go of a place whose model does not open.
    fn give_up(&self, place: &Place) {
        lock(&self.0).retain(|sent| !Arc::ptr_eq(&sent.place, place));
    }
}

impl Catalogue {
    /// Opens a model that comes with a request of `owner`, unless it is open. Reads the graph, so
    /// it may take a while; others wait for it only if they send the same.
    ///
    /// # Errors
    /// The files are no model or do not fit the graph, or there is no room for one more.
    pub fn sent_model(
        &self,
        graph: &str,
        files: v1::ModelFiles,
        (fanouts, output): (Vec<i64>, String),
        owner: Option<&str>,
    ) -> Result<Arc<Model>, Problem> {
        let v1::ModelFiles { model_onnx, model_safetensors, manifest_json, .. } = &files;
        let bytes = (model_onnx.len() + model_safetensors.len() + manifest_json.len()) as u64;
        if bytes > BYTES_MAX {
            let message =
                format!("the model has {bytes} bytes, and the limit in a request is {BYTES_MAX}");
            return Err(Problem::argument("files", message).remedy("register the model"));
        }
        let wanted = Wanted { sha256: identity_of(&files), fanouts, output };
        let request = v1::ModelRegisterRequest {
            fanouts: wanted.fanouts.clone(),
            output: wanted.output.clone(),
            ..v1::ModelRegisterRequest::default()
        };
        let name = format!("sha256:{}", wanted.sha256);
        let (graph, place) = self.place_for(graph, wanted, (owner, bytes))?;
        let mut open = lock(&place);
        if let Some(model) = &*open {
            return Ok(Arc::clone(model));
        }
        let opened = self.open_sent((&name, graph), &request, files);
        match &opened {
            Ok(model) => *open = Some(Arc::clone(model)),
            Err(_) => self.sent.give_up(&place),
        }
        opened
    }

    /// A graph, and the place of a model of it. It is looked up and the place taken under one lock:
    /// a graph that is unregistered afterwards takes its places along.
    fn place_for(
        &self,
        graph: &str,
        wanted: Wanted,
        (owner, bytes): (Option<&str>, u64),
    ) -> Result<(Arc<Graph>, Place), Problem> {
        let mut all = lock(&self.sent.0);
        let graph = self.graph(graph)?;
        let is_it = |sent: &Sent| Arc::ptr_eq(&sent.graph, &graph) && sent.wanted == wanted;
        if let Some(at) = all.iter().position(is_it) {
            let found = all.remove(at);
            let place = Arc::clone(&found.place);
            all.push(found);
            return Ok((graph, place));
        }
        // Room is made before the model takes memory, and held by nobody else meanwhile.
        let gone = SentModels::make_room(&mut all, owner, bytes)?;
        let (place, owner) = (Place::default(), owner.map(str::to_owned));
        let sent =
            Sent { graph: Arc::clone(&graph), wanted, owner, bytes, place: Arc::clone(&place) };
        all.push(sent);
        drop(all);
        drop(gone);
        Ok((graph, place))
    }

    fn open_sent(
        &self,
        (name, graph): (&str, Arc<Graph>),
        request: &v1::ModelRegisterRequest,
        files: v1::ModelFiles,
    ) -> Result<Arc<Model>, Problem> {
        let manifest = Some(files.manifest_json.as_slice()).filter(|bytes| !bytes.is_empty());
        let both = (files.model_onnx, files.model_safetensors);
        let file = ModelFile::of_bytes(Path::new("the model"), manifest, both);
        let file = file.map_err(|e| problem_of(&e).at("files"))?;
        let place = &self.place;
        let how = (place.compute.clone(), place.threads, place.answers.clone());
        Model::open((name, 0), graph, request, file, how).map(Arc::new)
    }

    /// Models that were sent along and are open.
    pub fn sent_models(&self) -> Vec<Arc<Model>> {
        // One that is being opened is waited for, and not under the lock of all.
        let places: Vec<Place> = lock(&self.sent.0).iter().map(|s| Arc::clone(&s.place)).collect();
        places.iter().filter_map(|place| lock(place).clone()).collect()
    }

    /// Lets go of models that were sent along and that nobody waits for.
    pub fn close_idle_sent(&self) {
        let gone: Vec<Sent> = lock(&self.sent.0).extract_if(.., |sent| sent.is_idle()).collect();
        drop(gone);
    }
}
