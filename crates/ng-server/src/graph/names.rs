//! Names in requests to the types and tensors of a store. What is not there is refused with what
//! there is.

use ng_rpc::Problem;
use ng_store::{Catalog, Owner, TensorMeta, TensorRef};
use ng_types::{EdgeTypeId, NodeTypeId};

/// A node type by name; the only one if `name` is empty.
///
/// # Errors
/// There is none of that name, or there are several.
pub fn node_type(catalog: &Catalog, name: &str, field: &str) -> Result<NodeTypeId, Problem> {
    let all = || (0_u16..).map(NodeTypeId).zip(&catalog.node_types);
    let found = match name {
        "" => only(all().map(|(id, _)| id)),
        _ => all().find(|(_, meta)| meta.name == name).map(|(id, _)| id),
    };
    found.ok_or_else(|| missing("node type", name, field, all().map(|(_, meta)| meta.name.clone())))
}

/// An edge type by its relation, or by source, relation and destination; the only one if `name` is
/// empty. One that is the index of another is found by its name alone.
///
/// # Errors
/// There is none of that name, or there are several.
pub fn edge_type(catalog: &Catalog, name: &str, field: &str) -> Result<EdgeTypeId, Problem> {
    let ids = || (0..catalog.edge_types.len() as u16).map(EdgeTypeId);
    let named = || ids().filter(|id| !catalog.is_reverse_index(*id));
    let relation = |id: &EdgeTypeId| catalog.edge_types[usize::from(id.0)].relation == name;
    let found = match name {
        "" => only(named()),
        _ if name.contains(',') => ids().find(|id| triple(catalog, *id) == name),
        _ => only(named().filter(relation)).or_else(|| only(ids().filter(relation))),
    };
    let names = named().map(|id| triple(catalog, id));
    found.ok_or_else(|| missing("edge type", name, field, names))
}

/// Source, relation and destination, as requests may say them.
pub fn triple(catalog: &Catalog, id: EdgeTypeId) -> String {
    let Some(meta) = catalog.edge_types.get(usize::from(id.0)) else { return String::new() };
    let node = |id: NodeTypeId| {
        catalog.node_types.get(usize::from(id.0)).map_or("", |meta| meta.name.as_str())
    };
    format!("{},{},{}", node(meta.source), meta.relation, node(meta.destination))
}

/// A tensor of a node type by name; the only one if `name` is empty.
///
/// # Errors
/// There is none of that name, or there are several.
pub fn tensor<'a>(
    catalog: &'a Catalog,
    of: NodeTypeId,
    name: &str,
    field: &str,
) -> Result<(TensorRef, &'a TensorMeta), Problem> {
    let (owner, all) = (Owner::Node(of), &catalog.node_types[usize::from(of.0)].tensors);
    let index = match (name, all.as_slice()) {
        ("", [_]) => Some(0),
        ("", _) => None,
        _ => all.iter().position(|meta| meta.name == name),
    };
    let found = index.map(|index| (TensorRef { owner, index: index as u16 }, &all[index]));
    found.ok_or_else(|| missing("tensor", name, field, all.iter().map(|meta| meta.name.clone())))
}

fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

fn missing(kind: &str, name: &str, field: &str, all: impl Iterator<Item = String>) -> Problem {
    let all: Vec<String> = all.collect();
    let owner = if kind == "tensor" { "node type" } else { "graph" };
    let message = match (name, all.is_empty()) {
        (_, true) => format!("the {owner} has no {kind}"),
        ("", _) => format!("the request names no {kind}, and the {owner} has several"),
        _ => format!("the {owner} has no {kind} {name:?}, or the name is ambiguous"),
    };
    let problem = Problem::missing("NAME_NOT_FOUND", message).at(field);
    match all.is_empty() {
        true => problem,
        false => problem.remedy(format!("use one of {}", all.join("; "))),
    }
}
