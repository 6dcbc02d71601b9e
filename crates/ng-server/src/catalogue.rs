//! What is served: graphs, versions of models, aliases.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use ng_rpc::{Code, Problem};

use crate::graph::Graph;
use crate::model::Model;

/// What is served now. Requests under way keep what they have found.
#[derive(Default)]
pub struct Catalogue {
    inner: RwLock<Inner>,
}

#[derive(Default)]
struct Inner {
    graphs: BTreeMap<String, Arc<Graph>>,
    /// By graph and name, by version.
    models: BTreeMap<(String, String), BTreeMap<u32, Arc<Model>>>,
}

impl Catalogue {
    /// Finds a graph; the only one if `name` is empty.
    ///
    /// # Errors
    /// There is none of that name, or there are several.
    pub fn graph(&self, name: &str) -> Result<Arc<Graph>, Problem> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = inner.graphs.values();
        let found = match (name, all.next(), all.next()) {
            ("", Some(only), None) => Some(only),
            _ => inner.graphs.get(name),
        };
        found.cloned().ok_or_else(|| {
            let names: Vec<&str> = inner.graphs.keys().map(String::as_str).collect();
            Problem::missing("GRAPH_NOT_FOUND", format!("there is no graph {name:?}"))
                .at("graph")
                .remedy(format!("the server has {}", listed(&names)))
        })
    }

    /// Finds a model of a graph by name, or by name and version.
    ///
    /// # Errors
    /// There is none.
    pub fn model(&self, graph: &str, name: &str) -> Result<Arc<Model>, Problem> {
        let graph = self.graph(graph)?;
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let (plain, version) = match name.split_once('@') {
            Some((plain, version)) => (plain, version.parse::<u32>().ok()),
            None => (name, None),
        };
        let versions = inner.models.get(&(graph.name.clone(), plain.to_owned()));
        let found = versions.and_then(|versions| match (version, name.contains('@')) {
            (Some(version), _) => versions.get(&version),
            (None, true) => None,
            (None, false) => versions.last_key_value().map(|(_, model)| model),
        });
        found.cloned().ok_or_else(|| {
            let of_graph = inner.models.keys().filter(|(of, _)| *of == graph.name);
            let names: Vec<&str> = of_graph.map(|(_, name)| name.as_str()).collect();
            let message = format!("graph {:?} has no model {name:?}", graph.name);
            Problem::missing("MODEL_NOT_FOUND", message)
                .at("model")
                .remedy(format!("it has {}", listed(&names)))
        })
    }

    /// Serves a graph from now on.
    ///
    /// # Errors
    /// The name is taken.
    pub fn add_graph(&self, graph: Arc<Graph>) -> Result<(), Problem> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        if inner.graphs.contains_key(&graph.name) {
            let message = format!("graph {:?} is served already", graph.name);
            return Err(Problem::new(Code::AlreadyExists, "GRAPH_EXISTS", message).at("graph"));
        }
        inner.graphs.insert(graph.name.clone(), graph);
        Ok(())
    }

    /// Serves a version of a model from now on.
    pub fn add_model(&self, model: Arc<Model>) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let key = (model.graph.name.clone(), model.name.clone());
        inner.models.entry(key).or_default().insert(model.version, model);
    }

    /// The version that the next model of that name gets.
    pub fn next_version(&self, graph: &str, name: &str) -> u32 {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let versions = inner.models.get(&(graph.to_owned(), name.to_owned()));
        versions.and_then(|all| all.last_key_value()).map_or(1, |(last, _)| last + 1)
    }

    /// All graphs, by name.
    pub fn graphs(&self) -> Vec<Arc<Graph>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.graphs.values().cloned().collect()
    }

    /// All versions of all models, by graph, name and version.
    pub fn models(&self) -> Vec<Arc<Model>> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.models.values().flat_map(BTreeMap::values).cloned().collect()
    }
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
