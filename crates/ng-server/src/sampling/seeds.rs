//! The seeds that a request names: ids, a split, or all nodes.

use std::sync::Arc;

use ng_rpc::{Code, Problem, problem_of, v1};
use ng_sample::Inputs;
use ng_store::{Catalog, NodeTypeMeta, Owner, Snapshot};
use ng_types::NodeTypeId;

/// Rows of a split that are read at once.
const ROWS: u64 = 1 << 16;

/// What a split is called, and the number that stands for it in its tensor.
const SPLITS: [(&str, u8); 3] = [("train", 1), ("val", 2), ("test", 3)];
/// The tensor that has splits.
const SPLIT: &str = "split_0";

/// The seeds, and how many they are.
pub fn inputs(
    snapshot: &Snapshot,
    request: &v1::SampleRequest,
) -> Result<(Arc<Inputs>, u64), Problem> {
    let catalog = snapshot.catalog();
    let seeds = request.seeds.clone().unwrap_or_default();
    let is_split = !request.split.is_empty();
    let (id, meta) = node_type(catalog, &seeds.node_type, is_split)?;
    if is_split && !seeds.ids.is_empty() {
        return Err(Problem::argument("split", "the request has both ids and a split")
            .remedy("leave out either the ids or the split"));
    }
    if is_split {
        let ids = of_split(snapshot, (id, meta), &request.split)?;
        let count = ids.len() as u64;
        return Ok((Arc::new(Inputs::listed(id, ids)), count));
    }
    if seeds.ids.is_empty() {
        let deleted = snapshot.dead_nodes(id).map_err(|e| problem_of(&e))?;
        let count = meta.num_nodes - deleted.len() as u64;
        return Ok((Arc::new(Inputs::live(id, &deleted)), count));
    }
    if let Some(bad) = seeds.ids.iter().find(|node| **node >= meta.num_nodes) {
        let message = format!(
            "node {bad} is out of range: node type {:?} has {} ids",
            meta.name, meta.num_nodes
        );
        let problem = Problem::new(Code::OutOfRange, "NODE_OUT_OF_RANGE", message);
        return Err(problem.at("seeds.ids").remedy("use ids of existing nodes"));
    }
    let count = seeds.ids.len() as u64;
    Ok((Arc::new(Inputs::listed(id, seeds.ids)), count))
}

/// The node type of a name; the only one, or the only one with splits, if it is empty.
fn node_type<'c>(
    catalog: &'c Catalog,
    name: &str,
    is_split: bool,
) -> Result<(NodeTypeId, &'c NodeTypeMeta), Problem> {
    let all = || (0..).map(NodeTypeId).zip(&catalog.node_types);
    let fits = |meta: &NodeTypeMeta| match name {
        "" => !is_split || meta.tensor(SPLIT).is_some(),
        name => meta.name == name,
    };
    let mut found = all().filter(|(_, meta)| fits(meta));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        _ => {
            let names: Vec<&str> = all().map(|(_, meta)| meta.name.as_str()).collect();
            let message = match name {
                "" if is_split => {
                    "the request names no node type, and none or several of the node types have \
                     splits"
                        .to_owned()
                }
                "" => "the request names no node type, and the graph has several".to_owned(),
                name => format!("node type {name:?} does not exist"),
            };
            Err(Problem::missing("NAME_NOT_FOUND", message)
                .at("seeds.node_type")
                .remedy(format!("use one of {}", names.join(", "))))
        }
    }
}

/// The nodes of a split, in the order of their ids.
fn of_split(
    snapshot: &Snapshot,
    (id, meta): (NodeTypeId, &NodeTypeMeta),
    name: &str,
) -> Result<Vec<u64>, Problem> {
    let plain = name.strip_suffix("_mask").unwrap_or(name);
    let code = SPLITS.iter().find(|(known, _)| *known == plain).map(|(_, code)| *code);
    let code = code.ok_or_else(|| {
        Problem::missing("NAME_NOT_FOUND", format!("split={name:?} is not valid"))
            .at("split")
            .remedy("use \"train\", \"val\" or \"test\"")
    })?;
    let tensor = snapshot.catalog().find_tensor(Owner::Node(id), SPLIT);
    let has_several = meta.tensor("split_1").is_some();
    let (Some(tensor), false) = (tensor, has_several) else {
        let message = format!(
            "node type {:?} has no division into train, val and test, or several of them",
            meta.name
        );
        return Err(Problem::argument("split", message).remedy("give the ids of the seeds instead"));
    };
    let (mut ids, mut start) = (Vec::new(), 0);
    while start < meta.num_nodes {
        let nodes: Vec<u64> = (start..meta.num_nodes.min(start + ROWS)).collect();
        let mut codes = vec![0; nodes.len()];
        snapshot.gather(tensor, &nodes, &mut codes).map_err(|e| problem_of(&e))?;
        let of = nodes.iter().zip(&codes).filter(|(_, found)| **found == code);
        ids.extend(of.map(|(node, _)| *node));
        start += ROWS;
    }
    Ok(ids)
}
