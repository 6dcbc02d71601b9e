//! Messages of the interface from arguments of Python.

use std::collections::HashMap;
use std::time::Duration;

use ng_rpc::v1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use v1::{change::Change, node_ref::Node};

use crate::arrays::Ids;

/// Graph, model, kind and type of targets, ids, other ids, seed, snapshot, lag.
pub type RunArgs = (String, ModelArgs, String, String, Ids, Ids, u64, Option<u64>, u64);
/// Graph, weights and manifest of a model.
pub type FilesArgs = (Vec<u8>, Vec<u8>, Vec<u8>);
/// The name of a model, or its files in place of it; fanouts, output.
type ModelArgs = (String, Option<FilesArgs>, Vec<i64>, String);
/// A code of `Dtype`, a shape, the bytes.
type TensorArgs = (i32, Vec<u64>, Vec<u8>);
/// Whether the number is that of a node that the batch adds, and the number.
type RefArgs = (bool, u64);

pub fn run_request(run: RunArgs) -> PyResult<v1::RunRequest> {
    use v1::targets::Targets;
    let (graph, model, kind, of_type, ids, others, seed, at_snapshot, max_lag_commits) = run;
    let targets = match kind.as_str() {
        "nodes" => Targets::Nodes(v1::Nodes { node_type: of_type, ids: ids.0 }),
        "edges" => {
            Targets::Edges(v1::Edges { edge_type: of_type, sources: ids.0, destinations: others.0 })
        }
        "graphs" => Targets::Graphs(v1::Graphs { ids: ids.0 }),
        other => {
            return Err(PyValueError::new_err(format!(
                "{other:?} is not a valid kind of targets: expected \"nodes\", \"edges\" or \
                 \"graphs\""
            )));
        }
    };
    let (name, files, fanouts, output) = model;
    let dfg = files.map(files_of).map(v1::run_request::Dfg::Files);
    Ok(v1::RunRequest {
        graph,
        dfg: dfg.or(Some(v1::run_request::Dfg::Model(name))),
        fanouts,
        output,
        targets: Some(v1::Targets { targets: Some(targets) }),
        seed,
        at_snapshot,
        max_lag_commits,
    })
}

pub fn files_of((model_onnx, model_safetensors, manifest_json): FilesArgs) -> v1::ModelFiles {
    v1::ModelFiles { model_onnx, model_safetensors, manifest_json }
}

pub fn change(given: &Bound<'_, PyAny>) -> PyResult<v1::Change> {
    let (kind, rest): (String, Bound<'_, PyAny>) = given.extract()?;
    let change = match kind.as_str() {
        "add_node" => {
            let (node_type, rows): (String, HashMap<String, TensorArgs>) = rest.extract()?;
            let rows = rows.into_iter().map(|(name, rows)| (name, tensor_of(rows))).collect();
            Change::AddVertex(v1::AddVertex { node_type, rows })
        }
        "delete_node" => {
            let (node_type, id) = rest.extract()?;
            Change::DeleteVertex(v1::DeleteVertex { node_type, id })
        }
        "add_edge" => {
            type Args = (String, RefArgs, RefArgs, Option<i64>, Option<f32>);
            let (edge_type, source, destination, time, weight): Args = rest.extract()?;
            let (source, destination) = (Some(node_ref(source)?), Some(node_ref(destination)?));
            Change::AddEdge(v1::AddEdge { edge_type, source, destination, time, weight })
        }
        "delete_edge" => {
            let (edge_type, source, destination, edge_id) = rest.extract()?;
            Change::DeleteEdge(v1::DeleteEdge { edge_type, source, destination, edge_id })
        }
        "update_rows" => {
            type Args = (String, String, Vec<RefArgs>, TensorArgs);
            let (node_type, tensor, nodes, rows): Args = rest.extract()?;
            let nodes = nodes.into_iter().map(node_ref).collect::<PyResult<_>>()?;
            let rows = Some(tensor_of(rows));
            Change::UpdateEmbed(v1::UpdateEmbed { node_type, tensor, nodes, rows })
        }
        other => {
            return Err(PyValueError::new_err(format!(
                "{other:?} is not a valid kind of change: expected add_node, delete_node, \
                 add_edge, delete_edge or update_rows"
            )));
        }
    };
    Ok(v1::Change { change: Some(change) })
}

fn tensor_of((dtype, shape, data): TensorArgs) -> v1::Tensor {
    v1::Tensor { dtype, shape, data: data.into() }
}

fn node_ref((is_added, number): RefArgs) -> PyResult<v1::NodeRef> {
    let node = match is_added {
        true => Node::Added(u32::try_from(number)?),
        false => Node::Id(number),
    };
    Ok(v1::NodeRef { node: Some(node) })
}

pub fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{seconds} is not a valid number of seconds")))
}

/// A message from JSON.
pub fn of_json<T: serde::de::DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
}
