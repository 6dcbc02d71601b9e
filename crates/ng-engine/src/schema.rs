//! The types of a store as a model file has them, beside those of the store that it shall run on.
//!
//! Tensors that a model takes are checked one by one where it is bound to a store (`bind.rs`), so
//! a store may have more of them than the one that a model comes from.

use ng_store::Catalog;
use ng_types::{EdgeTypeId, NodeTypeId};
use serde::Deserialize;

use crate::{EngineError, ModelFile};

/// The entry of the file.
const ENTRY: &str = "schema";

/// A tensor: name, dtype, shape of a row.
type Tensor = (String, String, Vec<u64>);

/// Types and their tensors, as JSON has them.
#[derive(Debug, Deserialize)]
struct Schema {
    nodes: Vec<(String, Vec<Tensor>)>,
    edges: Vec<([String; 3], Vec<Tensor>)>,
}

/// Refuses a store that lacks a type of the model's store, or has another one.
pub(crate) fn check(model: &ModelFile, catalog: &Catalog) -> Result<(), EngineError> {
    let Some(text) = model.said(ENTRY) else { return Ok(()) };
    let schema: Schema = serde_json::from_str(text).map_err(|error| EngineError::Metadata {
        entry: ENTRY.to_owned(),
        problem: error.to_string(),
    })?;
    let nodes: Vec<String> = schema.nodes.iter().map(|(name, _)| name.clone()).collect();
    let edges: Vec<String> = schema.edges.iter().map(|(triple, _)| triple.join("__")).collect();
    let here: Vec<String> = catalog.node_types.iter().map(|meta| meta.name.clone()).collect();
    compare("node type", &nodes, &here)?;
    compare("edge type", &edges, &edge_types(catalog).map(|(_, name)| name).collect::<Vec<_>>())
}

/// The edge types of the graph by id, called as in model files.
pub(crate) fn edge_types(catalog: &Catalog) -> impl Iterator<Item = (EdgeTypeId, String)> {
    let ids = (0..catalog.edge_types.len() as u16).map(EdgeTypeId);
    let named = ids.filter(|id| !catalog.is_reverse_index(*id));
    named.map(|id| (id, edge_type_names(catalog, id).join("__")))
}

/// The source's type, the relation and the destination's type.
pub(crate) fn edge_type_names(catalog: &Catalog, id: EdgeTypeId) -> [&str; 3] {
    let Some(meta) = catalog.edge_types.get(usize::from(id.0)) else { return [""; 3] };
    let name = |id: NodeTypeId| {
        catalog.node_types.get(usize::from(id.0)).map_or("", |meta| meta.name.as_str())
    };
    [name(meta.source), &meta.relation, name(meta.destination)]
}

fn compare(what: &str, wanted: &[String], found: &[String]) -> Result<(), EngineError> {
    let lacks = |all: &[String], name: &&String| !all.contains(*name);
    let list = |names: Vec<&String>| {
        names.into_iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
    };
    let missing = list(wanted.iter().filter(|name| lacks(found, name)).collect());
    let more = list(found.iter().filter(|name| lacks(wanted, name)).collect());
    let difference = match (missing.is_empty(), more.is_empty()) {
        (true, true) => return Ok(()),
        (false, true) => format!("the store lacks {what} {missing}"),
        (true, false) => format!("the store also has {what} {more}"),
        (false, false) => format!("the store has {what} {more} and lacks {missing}"),
    };
    Err(EngineError::Schema { difference })
}
