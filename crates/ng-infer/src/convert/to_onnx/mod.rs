//! From dataflow graphs to model files.
//!
//! What lives here: the order of the steps, and what has no place in a file. What must not: files
//! on disk. The invariant: a file that is written here is read as the same graph, and standard
//! runtimes compute the same with it.

mod functions;
mod nodes;
mod values;
mod weights;

use std::collections::{BTreeSet, HashMap};

use ng_types::explain;
use prost::Message;
use thiserror::Error;

use super::batch_pre::BatchPreNode;
use crate::dfg::{Dfg, DfgError, Op, Source, Value};
use crate::onnx::proto::{GraphProto, ModelProto, OperatorSetIdProto, StringStringEntryProto};
pub(super) use functions::{DOMAIN, op_of};
use functions::{DOMAIN_VERSION, body};
pub use nodes::has_counterpart;

/// Version of the standard operators in files.
const OPSET: i64 = 20;
/// Version of the file format that opset 20 came with.
const IR_VERSION: i64 = 9;

/// Errors of writing a graph as a model file.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SaveError {
    /// Types or shapes do not fit, an input has no type, or there is no output.
    #[error(transparent)]
    Dfg(#[from] DfgError),
    /// ONNX has no equivalent.
    #[error("{node}: {op} cannot be written as ONNX: {problem}")]
    NoCounterpart {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// The reason.
        problem: String,
    },
    /// An output has the name of another value. ONNX has one namespace for values and outputs.
    #[error("output {name:?} has the same name as another value; rename the output")]
    Name {
        /// The name.
        name: String,
    },
    /// A name is empty. In ONNX, an empty name means an omitted value.
    #[error("{what} has an empty name; give it a name")]
    NoName {
        /// What has none.
        what: &'static str,
    },
    /// A weight is not finite.
    #[error("weight {name:?} has {value} at index {index}, and weights must be finite")]
    NotFinite {
        /// The weight's name.
        name: String,
        /// The place of the element.
        index: usize,
        /// The element, as text.
        value: String,
    },
    /// The file exceeds the limit of protobuf.
    #[error("the ONNX file would have {bytes} bytes; protobuf limits files to less than 2 GiB")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
}

explain! {
    SaveError {
        NoCounterpart | TooLarge => UnsupportedModel,
        Name | NoName => InvalidModel,
        NotFinite => InvalidModel [TrainAgain],
    }
    of Dfg.0
}

/// The bytes of a model file.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFiles {
    /// The ONNX file.
    pub model: Vec<u8>,
    /// The larger weights as safetensors, external data of the ONNX file.
    pub weights: Vec<u8>,
}

impl Dfg {
    /// The graph as an ONNX file, with its larger weights in a file beside it, called
    /// `weights_name`. `metadata` are keys and values of the caller.
    ///
    /// [`Op::BatchPre`] is not computed by a runtime: what it gives become inputs of the file, and
    /// the node is kept in its metadata.
    ///
    /// # Errors
    ///
    /// The graph is not valid, an input has no type, or a node has no counterpart in ONNX.
    pub fn to_onnx(
        &self,
        metadata: &[(String, String)],
        weights_name: &str,
    ) -> Result<ModelFiles, SaveError> {
        let types = self.check(&[])?;
        let batch_pre = batch_pre(self)?;
        let outside = |value: &Value| batch_pre.as_ref().is_some_and(|node| node.hides(*value));
        let names = names(self, &batch_pre)?;
        let mut graph = GraphProto { name: Some("neargraph".to_owned()), ..GraphProto::default() };
        for value in self.values() {
            let is_input = matches!(self.source(value), Source::Input { .. });
            let is_given = batch_pre.as_ref().is_some_and(|node| node.gives(value));
            if (is_input && !outside(&value)) || is_given {
                graph.input.push(values::described(&names[&value], &types[value.0]));
            }
        }
        let packed = weights::packed(self, weights_name)?;
        graph.initializer = packed.initializers;
        let (mut used, mut labels) = (BTreeSet::new(), BTreeSet::new());
        let first = usize::from(batch_pre.is_some());
        for node in self.nodes().iter().filter(|node| node.op != Op::BatchPre) {
            let label = format!("node {}", first + graph.node.len() + 1);
            let mut proto = nodes::written(node, &names, &label)?;
            // Operations that one operator became have its name together.
            if proto.name.as_ref().is_some_and(|name| !labels.insert(name.clone())) {
                proto.name = None;
            }
            if proto.domain.is_some() {
                used.extend(proto.op_type.clone());
            }
            graph.node.push(proto);
        }
        for (name, value) in self.outputs() {
            if *name != names[value] {
                graph.node.push(nodes::copy(&names[value], name));
            }
            graph.output.push(values::described(name, &types[value.0]));
        }
        let mut metadata = metadata.to_vec();
        metadata.extend(batch_pre.map(|node| node.entry(self)));
        let model = finished(graph, &used, metadata).encode_to_vec();
        match i32::try_from(model.len()) {
            Ok(_) => Ok(ModelFiles { model, weights: packed.file }),
            Err(_) => Err(SaveError::TooLarge { bytes: model.len() }),
        }
    }
}

fn finished(
    graph: GraphProto,
    used: &BTreeSet<String>,
    metadata: Vec<(String, String)>,
) -> ModelProto {
    let opset = |domain: &str, version| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    let mut opset_import = vec![opset("", OPSET)];
    if !used.is_empty() {
        opset_import.push(opset(DOMAIN, DOMAIN_VERSION));
    }
    let entry = |(key, value)| StringStringEntryProto { key: Some(key), value: Some(value) };
    ModelProto {
        ir_version: Some(IR_VERSION),
        graph: Some(graph),
        opset_import,
        metadata_props: metadata.into_iter().map(entry).collect(),
        training_info: Vec::new(),
        functions: used.iter().filter_map(|name| body(name)).collect(),
    }
}

/// The node that a file has in its metadata.
fn batch_pre(dfg: &Dfg) -> Result<Option<BatchPreNode>, SaveError> {
    let mut found = dfg.nodes().iter().filter(|node| node.op == Op::BatchPre);
    let Some(node) = found.next() else { return Ok(None) };
    let refused = |problem: &str| {
        let (node, op) = (node.name.clone(), node.op.name());
        Err(SaveError::NoCounterpart { node, op, problem: problem.to_owned() })
    };
    if found.next().is_some() {
        return refused("a file can contain only one operation of this kind");
    }
    let batch = node.inputs[0];
    let takers = dfg.nodes().iter().filter(|node| node.inputs.contains(&batch)).count();
    let is_output = dfg.outputs().iter().any(|(_, value)| *value == batch);
    if !matches!(dfg.source(batch), Source::Input { .. }) || takers > 1 || is_output {
        return refused("its node ids must be an input of the graph that no other operation uses");
    }
    Ok(Some(BatchPreNode { batch, gives: node.outputs.clone() }))
}

/// The names that values have in the file: that of the output for a value that is one, if it is
/// made by a node. Other outputs are copies.
fn names(dfg: &Dfg, batch_pre: &Option<BatchPreNode>) -> Result<HashMap<Value, String>, SaveError> {
    let mut names: HashMap<Value, String> =
        dfg.values().map(|value| (value, dfg.name(value).to_owned())).collect();
    for (name, value) in dfg.outputs() {
        if name.is_empty() {
            return Err(SaveError::NoName { what: "an output" });
        }
        if dfg.value(name).is_some_and(|other| other != *value) {
            return Err(SaveError::Name { name: name.clone() });
        }
        let is_made = matches!(dfg.source(*value), Source::Node { .. })
            && !batch_pre.as_ref().is_some_and(|node| node.gives(*value));
        if is_made && names[value] == dfg.name(*value) {
            names.insert(*value, name.clone());
        }
    }
    if names.values().any(String::is_empty) {
        return Err(SaveError::NoName { what: "a value" });
    }
    Ok(names)
}
