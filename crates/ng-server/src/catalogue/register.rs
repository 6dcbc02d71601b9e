//! Changes of what is served. Each is durable before requests see it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ng_rpc::{Code, Problem, v1};

use super::kept::{Kept, KeptDevices, KeptModel};
use super::{Catalogue, Place, Version, files, names};
use crate::graph::Graph;
use crate::guard::read_only;
use crate::model::Model;

/// Models that are registered at a time.
const MODELS_MAX: usize = 4096;

/// Makes the engine of a model that is kept.
pub(super) fn open_model(
    place: &Place,
    graph: Arc<Graph>,
    kept: &KeptModel,
) -> Result<Arc<Model>, Problem> {
    let file = files::open_kept(&place.folder, &kept.sha256)?;
    engine(place, graph, kept, file)
}

fn engine(
    place: &Place,
    graph: Arc<Graph>,
    kept: &KeptModel,
    file: ng_engine::ModelFile,
) -> Result<Arc<Model>, Problem> {
    let request = v1::ModelRegisterRequest {
        model: kept.name.clone(),
        graph: kept.graph.clone(),
        source: None,
        prepare: kept.prepare.clone(),
        fanouts: kept.fanouts.clone(),
        output: kept.output.clone(),
        devices: kept.devices.clone(),
    };
    let name = (kept.name.as_str(), kept.version);
    let how = (place.compute.clone(), place.threads, place.answers.clone());
    Model::open(name, graph, &request, file, how).map(Arc::new)
}

fn exists(reason: &str, message: String, field: &str) -> Problem {
    Problem::new(Code::AlreadyExists, reason, message).at(field)
}

/// Why a store is not served once more.
pub(super) fn served_as(path: &Path, graph: &Graph) -> Problem {
    let message = format!("{} is already served as graph {:?}", path.display(), graph.name);
    exists("GRAPH_EXISTS", message, "path")
}

impl Catalogue {
    /// An error if nothing may be changed.
    ///
    /// # Errors
    /// The server is read only.
    pub fn check_writable(&self) -> Result<(), Problem> {
        if !self.place.read_only {
            return Ok(());
        }
        Err(read_only("the request"))
    }

    /// Changes what is kept.
    pub(super) fn keep(&self, change: impl FnOnce(&mut Kept)) -> Result<(), Problem> {
        let mut keeper = self.keeper();
        let mut kept = keeper.kept().clone();
        change(&mut kept);
        keeper.replace(kept)
    }

    /// Keeps what computes all models.
    ///
    /// # Errors
    /// Nothing may be changed, or it cannot be written; nothing has changed then.
    pub fn keep_devices(&self, devices: KeptDevices) -> Result<(), Problem> {
        self.check_writable()?;
        self.keep(|kept| kept.devices = Some(devices))
    }

    /// Where the store of a graph is that may be registered.
    ///
    /// # Errors
    /// The name is taken or not one, or nothing may be changed.
    pub(super) fn place_of_graph(&self, name: &str, path: &str) -> Result<PathBuf, Problem> {
        let path = self.place_of_source(name, path)?;
        let twice = self.graphs().into_iter().find(|graph| graph.path == path);
        twice.map_or(Ok(path.clone()), |graph| Err(served_as(&path, &graph)))
    }

    /// Where a store is that a graph is made of; another graph may be served from it.
    ///
    /// # Errors
    /// As [`Catalogue::place_of_graph`], but for that.
    pub(super) fn place_of_source(&self, name: &str, path: &str) -> Result<PathBuf, Problem> {
        self.check_writable()?;
        names::check(name, "graph")?;
        self.check_free(name)?;
        match path {
            "" => Ok(default_path(name)),
            path => files::inside(path),
        }
    }

    fn check_free(&self, name: &str) -> Result<(), Problem> {
        if !self.read().graphs.contains_key(name) {
            return Ok(());
        }
        let message = format!("graph {name:?} is already served");
        Err(exists("GRAPH_EXISTS", message, "graph"))
    }

    /// Serves a store of the served folder.
    pub(super) fn serve_graph(&self, name: &str, path: PathBuf) -> Result<Arc<Graph>, Problem> {
        let _turn = self.turn();
        self.serve_in_turn(name, path)
    }

    /// Serves a store that was made for it: where that fails, nothing is left of it.
    pub(super) fn serve_made(&self, name: &str, path: &Path) -> Result<Arc<Graph>, Problem> {
        let _turn = self.turn();
        self.serve_in_turn(name, path.to_owned()).or_else(|problem| {
            match self.graphs().into_iter().find(|graph| graph.path == path) {
                // It was registered as soon as it was there.
                Some(graph) if graph.name == name => Ok(graph),
                None if problem.field != "path" || problem.reason != "GRAPH_EXISTS" => {
                    self.remove_made(path);
                    Err(problem)
                }
                Some(_) | None => Err(problem),
            }
        })
    }

    /// Removes a store that was made and that nobody serves.
    pub(super) fn remove_made(&self, path: &Path) {
        let folder = self.place.folder.join(path);
        if let Err(error) = ng_io::remove_folder(&folder) {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "cannot remove a graph that is not served");
        }
    }

    fn serve_in_turn(&self, name: &str, path: PathBuf) -> Result<Arc<Graph>, Problem> {
        self.check_free(name)?;
        let graph = self.place.graph(name, &path).map_err(|problem| problem.at("path"))?;
        // A link may lead to a store that is served.
        if let Some(other) = self.graphs().iter().find(|one| one.store.is_same_as(&graph.store)) {
            return Err(served_as(&path, other));
        }
        self.keep(|kept| {
            kept.unregistered.remove(name);
            kept.graphs.insert(name.to_owned(), path);
        })?;
        let models: Vec<KeptModel> = self.keeper().kept().models.clone();
        let models = models.into_iter().filter(|model| model.graph == name);
        let opened: Vec<_> = models
            .map(|model| (open_model(&self.place, Arc::clone(&graph), &model), model))
            .collect();
        let mut inner = self.write();
        inner.broken.remove(name);
        inner.graphs.insert(name.to_owned(), Arc::clone(&graph));
        for (version, model) in opened {
            let broken = |problem| Version::Broken(model.clone(), problem);
            inner.insert(&model, version.map_or_else(broken, Version::Ready));
        }
        Ok(graph)
    }

    /// Serves a graph no more, and its models neither. Its store stays.
    ///
    /// # Errors
    /// There is none, or nothing may be changed.
    pub fn unregister_graph(&self, name: &str) -> Result<(), Problem> {
        self.check_writable()?;
        let _turn = self.turn();
        let broken = self.read().broken.get(name).map(|(path, _)| path.clone());
        let (name, path) = match broken {
            Some(path) => (name.to_owned(), path),
            None => {
                // Without a name it is the only graph.
                let graph = self.graph(name)?;
                (graph.name.clone(), graph.path.clone())
            }
        };
        let name = name.as_str();
        let is_own = path.starts_with(files::own_graphs());
        let mut gone = Vec::new();
        self.keep(|kept| {
            kept.graphs.remove(name);
            if path == default_path(name) || is_own {
                kept.unregistered.insert(name.to_owned());
            }
            kept.aliases.remove(name);
            gone.extend(kept.models.extract_if(.., |model| model.graph == name));
        })?;
        let mut inner = self.write();
        let graph = inner.graphs.remove(name);
        inner.broken.remove(name);
        inner.aliases.retain(|(of, _), _| of != name);
        let (ended, left): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut inner.models).into_iter().partition(|((of, _), _)| of == name);
        inner.models = left;
        drop(inner);
        self.sent.forget(name);
        // The last one that holds the store writes a checkpoint, which others need not wait for.
        drop((ended, graph));
        self.remove_files(&gone);
        if is_own {
            // Requests under way read on from what they have open.
            let folder = self.place.folder.join(path);
            if let Err(error) = ng_io::remove_folder(&folder) {
                tracing::warn!(folder = %folder.display(), %error, "cannot remove a copied graph");
            }
        }
        Ok(())
    }

    /// Serves a new version of a model.
    ///
    /// # Errors
    /// The files are no model or do not fit the graph, or nothing may be changed.
    pub fn register_model(
        &self,
        request: &v1::ModelRegisterRequest,
    ) -> Result<Arc<Model>, Problem> {
        self.check_writable()?;
        names::check(&request.model, "model")?;
        let graph = self.graph(&request.graph)?;
        let (of, name) = (graph.name.clone(), request.model.clone());
        if self.read().aliases.contains_key(&(of.clone(), name.clone())) {
            let message = format!("graph {of:?} already has an alias {name:?}");
            return Err(exists("MODEL_EXISTS", message, "model").remedy("choose another name"));
        }
        let last = {
            let keeper = self.keeper();
            let kept = keeper.kept();
            if kept.models.len() >= MODELS_MAX {
                let message = format!("{MODELS_MAX} models are registered, which is the limit");
                return Err(Problem::new(Code::ResourceExhausted, "TOO_MANY_MODELS", message)
                    .remedy("unregister unused versions"));
            }
            kept.versions.get(&of).and_then(|of| of.get(&name)).copied().unwrap_or(0)
        };
        let (sha256, file) = files::keep(&self.place.folder, request.source.as_ref())?;
        let kept_model = KeptModel {
            graph: of.clone(),
            name: name.clone(),
            version: last + 1,
            sha256,
            prepare: request.prepare.clone(),
            fanouts: request.fanouts.clone(),
            output: request.output.clone(),
            devices: request.devices.clone(),
        };
        let model = engine(&self.place, graph, &kept_model, file);
        let model = model.inspect_err(|_| self.remove_files(std::slice::from_ref(&kept_model)))?;
        self.keep(|kept| {
            kept.versions.entry(of).or_default().insert(name, kept_model.version);
            kept.models.push(kept_model.clone());
        })?;
        self.write().insert(&kept_model, Version::Ready(Arc::clone(&model)));
        Ok(model)
    }

    /// Serves a version of a model no more; all of them if `name` names none. Aliases of what goes
    /// go with it.
    ///
    /// # Errors
    /// There is none, or nothing may be changed.
    pub fn unregister_model(&self, graph: &str, name: &str) -> Result<(), Problem> {
        self.check_writable()?;
        let of = self.graph_name(graph)?;
        let (plain, version) = {
            let inner = self.read();
            let ((plain, version), _) = inner.version(&of, name)?;
            let one = name.contains('@') || plain != name;
            (plain, one.then_some(version))
        };
        let goes = |number: u32| version.is_none_or(|version| version == number);
        let mut gone = Vec::new();
        self.keep(|kept| {
            gone.extend(kept.models.extract_if(.., |model| {
                model.graph == of && model.name == plain && goes(model.version)
            }));
            if let Some(aliases) = kept.aliases.get_mut(&of) {
                aliases.retain(|_, to| {
                    names::split(to).is_none_or(|(name, at)| name != plain || !goes(at))
                });
            }
        })?;
        let mut inner = self.write();
        inner.aliases.retain(|(graph, _), (name, at)| *graph != of || *name != plain || !goes(*at));
        let key = (of, plain);
        let versions = inner.models.remove(&key).unwrap_or_default();
        let (ended, left): (BTreeMap<_, _>, BTreeMap<_, _>) =
            versions.into_iter().partition(|(number, _)| goes(*number));
        if !left.is_empty() {
            inner.models.insert(key, left);
        }
        drop(inner);
        drop(ended);
        self.remove_files(&gone);
        Ok(())
    }

    /// Lets a name stand for a version of a model; for none any more if `model` is empty.
    ///
    /// # Errors
    /// There is no such version, the alias is a model's name, or nothing may be changed.
    pub fn set_alias(&self, graph: &str, alias: &str, model: &str) -> Result<(), Problem> {
        self.check_writable()?;
        names::check(alias, "alias")?;
        let of = self.graph_name(graph)?;
        let key = (of.clone(), alias.to_owned());
        let target = {
            let inner = self.read();
            if inner.models.contains_key(&key) {
                let message = format!("graph {of:?} already has a model {alias:?}");
                return Err(exists("MODEL_EXISTS", message, "alias").remedy("choose another alias"));
            }
            match model {
                "" if !inner.aliases.contains_key(&key) => {
                    let message = format!("graph {of:?} has no alias {alias:?}");
                    return Err(Problem::missing("ALIAS_NOT_FOUND", message).at("alias"));
                }
                "" => None,
                _ => Some(inner.version(&of, model)?.0),
            }
        };
        self.keep(|kept| {
            let aliases = kept.aliases.entry(of).or_default();
            match &target {
                Some((name, version)) => {
                    aliases.insert(alias.to_owned(), format!("{name}@{version}"));
                }
                None => drop(aliases.remove(alias)),
            }
        })?;
        let mut inner = self.write();
        match target {
            Some(target) => drop(inner.aliases.insert(key, target)),
            None => drop(inner.aliases.remove(&key)),
        }
        Ok(())
    }

    /// A model as messages describe it.
    pub fn model_info(&self, model: &Arc<Model>) -> v1::ModelInfo {
        self.read().info(&Version::Ready(Arc::clone(model)))
    }

    /// The name of a graph, which need not open.
    fn graph_name(&self, name: &str) -> Result<String, Problem> {
        if self.read().broken.contains_key(name) {
            return Ok(name.to_owned());
        }
        Ok(self.graph(name)?.name.clone())
    }

    /// Removes the files of models that nobody has any more.
    fn remove_files(&self, gone: &[KeptModel]) {
        let keeper = self.keeper();
        for model in gone {
            if keeper.kept().models.iter().any(|other| other.sha256 == model.sha256) {
                continue;
            }
            let folder = files::folder_of(&self.place.folder, &model.sha256);
            if let Err(error) = ng_io::remove_folder(&folder) {
                tracing::warn!(folder = %folder.display(), %error, "cannot remove a model's files");
            }
        }
    }
}

fn default_path(name: &str) -> PathBuf {
    PathBuf::from(format!("{name}.ng"))
}
