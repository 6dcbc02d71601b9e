//! What is served: graphs, versions of models, aliases. It survives a restart.
//!
//! What must not live here: what requests do with a graph or a model. The invariant: a change is
//! durable before it is answered, and what cannot be opened is shown with its problem.

mod files;
mod kept;
mod names;
mod register;
mod sent;
mod take_in;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ng_engine::EmbeddingCache;
use ng_infer::run::Compute;
use ng_rpc::{Code, Problem, v1};

use crate::config::Config;
use crate::graph::Graph;
use crate::model::Model;
use kept::{Kept, KeptModel};

pub use files::plugin_place;
pub use kept::{CatalogueError, Keeper, KeptDevices, KeptPlugin};

/// What is served now. Requests under way keep what they have found.
pub struct Catalogue {
    inner: RwLock<Inner>,
    keeper: Mutex<Keeper>,
    /// One graph after the other comes and goes.
    turn: Mutex<()>,
    place: Place,
    sent: sent::SentModels,
}

/// How graphs and models are opened.
struct Place {
    folder: PathBuf,
    backups: Option<PathBuf>,
    memory: Option<u64>,
    read_only: bool,
    lanes: usize,
    threads: usize,
    /// What computes all models.
    compute: Compute,
    /// Answers that are kept, if they are.
    answers: Option<Arc<EmbeddingCache>>,
}

impl Place {
    fn graph(&self, name: &str, path: &Path) -> Result<Arc<Graph>, Problem> {
        Graph::open(name, &self.folder, path, (self.memory, self.lanes)).map(Arc::new)
    }
}

/// A version of a model, or why it cannot answer. There are few of them.
#[allow(clippy::large_enum_variant)]
enum Version {
    Ready(Arc<Model>),
    Broken(KeptModel, Problem),
}

#[derive(Default)]
struct Inner {
    graphs: BTreeMap<String, Arc<Graph>>,
    /// Graphs that do not open: where they lie, and why.
    broken: BTreeMap<String, (PathBuf, Problem)>,
    /// By graph and name, by version.
    models: BTreeMap<(String, String), BTreeMap<u32, Version>>,
    /// By graph and alias: name and version.
    aliases: BTreeMap<(String, String), (String, u32)>,
}

impl Catalogue {
    /// Opens what is served in a folder: all stores `NAME.ng` in it but those that were
    /// unregistered, and what was registered.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn open(
        config: &Config,
        keeper: Keeper,
        (compute, answers): (Compute, Option<Arc<EmbeddingCache>>),
    ) -> Result<Self, CatalogueError> {
        let place = Place {
            folder: config.folder.clone(),
            backups: config.backups.clone(),
            memory: config.memory,
            read_only: config.read_only,
            lanes: config.lanes,
            threads: config.threads,
            compute,
            answers,
        };
        let failed = |source| CatalogueError::Folder { path: config.folder.clone(), source };
        let mut paths = BTreeMap::new();
        for path in ng_io::names_in(&config.folder, "ng").map_err(failed)? {
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            if !keeper.kept().unregistered.contains(name) {
                paths.insert(name.to_owned(), path);
            }
        }
        paths.extend(keeper.kept().graphs.clone());
        let mut inner = Inner::default();
        for (name, path) in paths {
            let opened = place.graph(&name, &path).and_then(|graph| {
                // Each handle of a store would write, and see nothing of the other.
                match inner.graphs.values().find(|other| other.store.is_same_as(&graph.store)) {
                    Some(other) => Err(register::served_as(&path, other)),
                    None => Ok(graph),
                }
            });
            match opened {
                Ok(graph) => drop(inner.graphs.insert(name, graph)),
                Err(problem) => {
                    tracing::error!(graph = name, "the graph is not served: {problem}");
                    inner.broken.insert(name, (path, problem));
                }
            }
        }
        inner.open_models(keeper.kept(), &place);
        let (inner, keeper) = (RwLock::new(inner), Mutex::new(keeper));
        let (turn, sent) = (Mutex::default(), sent::SentModels::default());
        Ok(Self { inner, keeper, turn, place, sent })
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of a graph to come or to go.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a graph; the only one if `name` is empty.
    ///
    /// # Errors
    /// There is none of that name, there are several, or it does not open.
    pub fn graph(&self, name: &str) -> Result<Arc<Graph>, Problem> {
        let inner = self.read();
        let mut all = inner.graphs.values();
        let found = match (name, all.next(), all.next()) {
            ("", Some(only), None) => Some(only),
            _ => inner.graphs.get(name),
        };
        if let Some((_, problem)) = inner.broken.get(name).filter(|_| found.is_none()) {
            let message = format!("graph {name:?} is not served: {}", problem.message);
            return Err(Problem { message, ..problem.clone() }.at("graph"));
        }
        found.cloned().ok_or_else(|| {
            let all = listed(inner.graphs.keys());
            let (message, remedy) = match inner.graphs.keys().next() {
                Some(first) if name.is_empty() => (
                    format!("the request names no graph, and the server has several: {all}"),
                    format!("name a graph, such as graph='{first}'"),
                ),
                _ if name.is_empty() => {
                    ("the server has no graph".to_owned(), "register or create a graph".to_owned())
                }
                _ => (
                    format!("graph {name:?} does not exist"),
                    format!("graphs of the server: {all}"),
                ),
            };
            Problem::missing("GRAPH_NOT_FOUND", message).at("graph").remedy(remedy)
        })
    }

    /// Finds a model of a graph by name, by name and version, or by an alias.
    ///
    /// # Errors
    /// There is none, or it does not open.
    pub fn model(&self, graph: &str, name: &str) -> Result<Arc<Model>, Problem> {
        let graph = self.graph(graph)?;
        let inner = self.read();
        let found = inner.version(&graph.name, name)?.1;
        match found {
            Version::Ready(model) => Ok(Arc::clone(model)),
            Version::Broken(_, problem) => {
                let message = format!("model {name:?} cannot answer: {}", problem.message);
                Err(Problem { message, ..problem.clone() }.at("model"))
            }
        }
    }

    /// All graphs that are served, by name.
    pub fn graphs(&self) -> Vec<Arc<Graph>> {
        self.read().graphs.values().cloned().collect()
    }

    /// All versions of all models that answer, by graph, name and version.
    pub fn models(&self) -> Vec<Arc<Model>> {
        let ready = |version: &Version| match version {
            Version::Ready(model) => Some(Arc::clone(model)),
            Version::Broken(..) => None,
        };
        self.read().models.values().flat_map(BTreeMap::values).filter_map(ready).collect()
    }

    /// All graphs as messages describe them, those that do not open among them.
    pub fn graph_infos(&self) -> Vec<v1::GraphInfo> {
        // What takes long is not done under the lock.
        let graphs = self.graphs();
        let broken = self.read().broken.clone();
        let mut all: Vec<v1::GraphInfo> = graphs.iter().map(|graph| graph.info()).collect();
        all.extend(broken.into_iter().map(|(name, (path, problem))| v1::GraphInfo {
            name,
            path: path.display().to_string(),
            problem: problem.message,
            ..v1::GraphInfo::default()
        }));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// All versions of all models as messages describe them.
    pub fn model_infos(&self) -> Vec<v1::ModelInfo> {
        let inner = self.read();
        let all = inner.models.values().flat_map(BTreeMap::values);
        all.map(|version| inner.info(version)).collect()
    }
}

impl Inner {
    /// Opens the models of graphs that are served.
    fn open_models(&mut self, kept: &Kept, place: &Place) {
        for model in &kept.models {
            let opened = match self.graphs.get(&model.graph) {
                Some(graph) => register::open_model(place, Arc::clone(graph), model),
                None => {
                    let message = format!("graph {:?} is not served", model.graph);
                    Err(Problem::new(Code::FailedPrecondition, "GRAPH_NOT_SERVED", message))
                }
            };
            let version = opened.map(Version::Ready).unwrap_or_else(|problem| {
                tracing::error!(graph = model.graph, model = model.name, "{}", problem.message);
                Version::Broken(model.clone(), problem)
            });
            self.insert(model, version);
        }
        for (graph, aliases) in &kept.aliases {
            for (alias, of) in aliases {
                if let Some(of) = names::split(of) {
                    self.aliases.insert((graph.clone(), alias.clone()), of);
                }
            }
        }
    }

    fn insert(&mut self, model: &KeptModel, version: Version) {
        let key = (model.graph.clone(), model.name.clone());
        self.models.entry(key).or_default().insert(model.version, version);
    }

    /// The version that a name stands for, and its name and number.
    fn version(&self, graph: &str, name: &str) -> Result<((String, u32), &Version), Problem> {
        let of = |name: &str| self.models.get(&(graph.to_owned(), name.to_owned()));
        let (plain, wanted) = match self.aliases.get(&(graph.to_owned(), name.to_owned())) {
            Some((name, version)) => (name.clone(), Some(*version)),
            None => match names::split(name) {
                Some((name, version)) => (name, Some(version)),
                None => (name.to_owned(), None),
            },
        };
        let found = of(&plain).and_then(|versions| match wanted {
            Some(wanted) => versions.get_key_value(&wanted),
            None => versions.last_key_value(),
        });
        let found = found.map(|(number, version)| ((plain, *number), version));
        found.ok_or_else(|| {
            let models = self.models.keys().filter(|(of, _)| of == graph).map(|(_, name)| name);
            let aliases = self.aliases.keys().filter(|(of, _)| of == graph).map(|(_, name)| name);
            Problem::missing("MODEL_NOT_FOUND", format!("graph {graph:?} has no model {name:?}"))
                .at("model")
                .remedy(format!("models of the graph: {}", listed(models.chain(aliases))))
        })
    }

    fn info(&self, version: &Version) -> v1::ModelInfo {
        let (graph, name, number) = match version {
            Version::Ready(model) => (&model.graph.name, &model.name, model.version),
            Version::Broken(kept, _) => (&kept.graph, &kept.name, kept.version),
        };
        let is_it = |(of, (to, at)): &(&(String, String), &(String, u32))| {
            of.0 == *graph && to == name && *at == number
        };
        let aliases = self.aliases.iter().filter(is_it).map(|((_, alias), _)| alias.clone());
        let info = match version {
            Version::Ready(model) => model.info(),
            Version::Broken(kept, problem) => v1::ModelInfo {
                name: kept.name.clone(),
                version: kept.version,
                graph: kept.graph.clone(),
                sha256: kept.sha256.clone(),
                output: kept.output.clone(),
                devices: kept.devices.clone(),
                ready_problem: problem.message.clone(),
                ..v1::ModelInfo::default()
            },
        };
        v1::ModelInfo { aliases: aliases.collect(), ..info }
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
