//! From the bytes of a model file to a [`Model`].
//!
//! What lives here: the order of the checks. What must not: checks of parts. The invariant: bounds
//! come before decoding, and each part is checked before what refers to it.

use std::collections::HashSet;

use prost::Message;

use super::error::{OnnxError, quoted};
use super::external::{check_finite, check_overlaps};
use super::functions::{check_functions, read_function};
use super::model::{Data, Graph, Model, Tensor, Value};
use super::names::{check_unique, required};
use super::nodes::{check_references, read_nodes};
use super::opsets::{read_opsets, standard_opset};
use super::proto::{GraphProto, ModelProto, StringStringEntryProto, TensorProto};
use super::scan::check_counts;
use super::tensors::{read_tensor, tensor_place};
use super::values::{check_order, read_value};

/// Bytes of a model file that [`Model::decode`] reads, external data not counted: 256 MiB.
pub const FILE_BYTES: u64 = 256 << 20;
/// Bytes that a model file may have at all: protobuf's own bound of 2 GiB.
pub const FILE_BYTES_MAX: u64 = (2 << 30) - 1;

impl Model {
    /// Reads a model file of at most [`FILE_BYTES`].
    ///
    /// ```
    /// use ng_infer::onnx::{Model, OnnxError};
    /// assert!(matches!(Model::decode(b"\xFF"), Err(OnnxError::NotProtobuf { .. })));
    /// ```
    ///
    /// # Errors
    /// An [`OnnxError`] for the first thing that is refused.
    pub fn decode(bytes: &[u8]) -> Result<Self, OnnxError> {
        Self::decode_within(bytes, FILE_BYTES)
    }

    /// Reads a model file of at most `file_bytes` and at most [`FILE_BYTES_MAX`]. The decoded
    /// messages take at most [`EXPANSION_MAX`](super::EXPANSION_MAX) times as much memory, and the
    /// spare room of growing vectors may double that.
    ///
    /// # Errors
    /// An [`OnnxError`] for the first thing that is refused.
    pub fn decode_within(bytes: &[u8], file_bytes: u64) -> Result<Self, OnnxError> {
        let limit = file_bytes.min(FILE_BYTES_MAX);
        if bytes.len() as u64 > limit {
            return Err(OnnxError::TooLarge { bytes: bytes.len() as u64, limit });
        }
        check_counts(bytes, limit)?;
        let decoded = ModelProto::decode(bytes);
        let proto =
            decoded.map_err(|error| OnnxError::NotProtobuf { reason: error.to_string() })?;
        read_model(proto)
    }
}

fn read_model(proto: ModelProto) -> Result<Model, OnnxError> {
    let place = || "the model".to_owned();
    if !proto.training_info.is_empty() {
        return Err(OnnxError::Unsupported { place: place(), what: "training_info".to_owned() });
    }
    let Some(ir_version) = proto.ir_version else {
        return Err(OnnxError::Missing { place: place(), what: "ir_version" });
    };
    let Some(graph) = proto.graph else {
        return Err(OnnxError::Missing { place: place(), what: "graph" });
    };
    let mut opsets = read_opsets(proto.opset_import, place)?;
    let opset = standard_opset(&opsets, place)?;
    opsets.retain(|(domain, _)| !domain.is_empty());
    let functions = proto.functions.into_iter();
    let functions = functions.map(|function| read_function(function, opset));
    let functions = functions.collect::<Result<Vec<_>, _>>()?;
    let metadata = read_metadata(proto.metadata_props)?;
    let graph = read_graph(graph)?;
    let model = Model { ir_version, opset, opsets, graph, functions, metadata };
    check_functions(&model)?;
    check_overlaps(&model)?;
    Ok(model)
}

fn read_metadata(entries: Vec<StringStringEntryProto>) -> Result<Vec<(String, String)>, OnnxError> {
    let place = || "the model".to_owned();
    let mut metadata = Vec::with_capacity(entries.len());
    for entry in entries {
        let key = required(entry.key, "key of an entry of its metadata", place)?;
        metadata.push((key, entry.value.unwrap_or_default()));
    }
    check_unique(metadata.iter().map(|(key, _)| key.as_str()), "the metadata key", place)?;
    Ok(metadata)
}

fn read_graph(graph: GraphProto) -> Result<Graph, OnnxError> {
    let name = graph.name.unwrap_or_default();
    let place = || format!("graph {}", quoted(&name));
    if !graph.sparse_initializer.is_empty() {
        let what = "a sparse initializer".to_owned();
        return Err(OnnxError::Unsupported { place: place(), what });
    }
    let inputs = graph.input.into_iter().map(|value| read_value(value, "input"));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let outputs = graph.output.into_iter().map(|value| read_value(value, "output"));
    let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
    let initializers = graph.initializer.into_iter().map(read_initializer);
    let initializers = initializers.collect::<Result<Vec<_>, _>>()?;
    check_defaults(&inputs, &initializers)?;
    let nodes = read_nodes(graph.node, &place)?;
    check_references(&nodes, &[].into())?;
    let wanted = || outputs.iter().map(|value| value.name.as_str());
    check_unique(wanted(), "the output", place)?;
    let given = inputs.iter().map(|value| value.name.as_str());
    let given = given.chain(initializers.iter().map(|tensor| tensor.name.as_str()));
    check_order(&nodes, given, wanted(), &place)?;
    Ok(Graph { name, inputs, outputs, initializers, nodes })
}

/// ONNX lets an initializer be the default value of an input, which old exporters did with all of
/// them. Then the weights are not constant, so it is refused.
fn check_defaults(inputs: &[Value], initializers: &[Tensor]) -> Result<(), OnnxError> {
    let names: HashSet<&str> = initializers.iter().map(|tensor| tensor.name.as_str()).collect();
    match inputs.iter().find(|input| names.contains(input.name.as_str())) {
        Some(input) => {
            let place = format!("input {}", quoted(&input.name));
            let what = "an initializer as its default value".to_owned();
            Err(OnnxError::Unsupported { place, what })
        }
        None => Ok(()),
    }
}

/// Reads an initializer. One of several elements is a weight, and weights are finite; a scalar may
/// be a constant of the computation, such as the minus infinity that a maximum starts with.
fn read_initializer(tensor: TensorProto) -> Result<Tensor, OnnxError> {
    let name = required(tensor.name.clone(), "name", || "an initializer".to_owned())?;
    let place = || tensor_place(&name);
    let tensor = read_tensor(tensor, &place)?;
    if let Data::Inline(bytes) = &tensor.data
        && bytes.len() > tensor.dtype.size_bytes()
    {
        check_finite(bytes, tensor.dtype, &place)?;
    }
    Ok(tensor)
}
