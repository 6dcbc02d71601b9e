//! The graph: values, and the nodes that make them of others.
//!
//! The invariant: a node takes values that exist when it is added, so nodes are always in
//! topological order. Graphs that come in any order go through [`super::order`].

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ng_types::Dtype;

use super::constant::Constant;
use super::dim::Dim;
use super::error::DfgError;
use super::op::Op;

/// A value of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) usize);

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Whoever runs the graph.
    Input {
        /// What it has to be; `None` if anything will do that the nodes take.
        wanted: Option<TensorType>,
    },
    /// The model.
    Weight(Constant),
    /// A node.
    Node {
        /// Its place among the nodes.
        node: usize,
        /// Which of what it gives.
        output: usize,
    },
}

/// The type and shape of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Of the elements.
    pub dtype: Dtype,
    /// The length of each dimension.
    pub shape: Vec<Dim>,
}

/// An operation with what it takes and gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// For messages.
    pub name: String,
    /// What is done.
    pub op: Op,
    /// What it takes.
    pub inputs: Vec<Value>,
    /// What it gives.
    pub outputs: Vec<Value>,
}

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub name: String,
    pub source: Source,
}

/// A dataflow graph: HolisticGNN's `createIn`, `createOp` and `createOut` (Table 2).
///
/// ```
/// use ng_infer::dfg::{Dfg, Op, Reduction, Unary};
/// let mut dfg = Dfg::default();
/// let batch = dfg.create_in("Batch", None)?;
/// let weight = dfg.create_in("Weight", None)?;
/// let prepared = dfg.create_op(Op::BatchPre, &[batch])?;
/// let mean = dfg.create_op(Op::Spmm(Reduction::Mean), &prepared)?;
/// let product = dfg.create_op(Op::MatMul, &[mean[0], weight])?;
/// let result = dfg.create_op(Op::Unary(Unary::Relu), &product)?;
/// dfg.create_out("Result", result[0])?;
/// assert_eq!(dfg.nodes().len(), 4);
/// # Ok::<(), ng_infer::dfg::DfgError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dfg {
    values: Vec<Named>,
    by_name: HashMap<String, Value>,
    nodes: Vec<Node>,
    outputs: Vec<(String, Value)>,
}

impl Dfg {
    /// Adds an input; `wanted` is its type, if it has to have a certain one.
    ///
    /// # Errors
    ///
    /// A value has the name already.
    pub fn create_in(&mut self, name: &str, wanted: Option<TensorType>) -> Result<Value, DfgError> {
        self.add(name, Source::Input { wanted })
    }

    /// Adds a tensor of the model.
    ///
    /// # Errors
    ///
    /// A value has the name already.
    pub fn create_weight(&mut self, name: &str, tensor: Constant) -> Result<Value, DfgError> {
        self.add(name, Source::Weight(tensor))
    }

    /// Adds a node, and returns what it gives. Its values are called after its place: the first
    /// one of the third node is `3_0`.
    ///
    /// # Errors
    ///
    /// The operation takes another number of values, or a value has such a name.
    pub fn create_op(&mut self, op: Op, inputs: &[Value]) -> Result<Vec<Value>, DfgError> {
        let id = self.nodes.len() + 1;
        let outputs: Vec<String> = (0..op.outputs()).map(|k| format!("{id}_{k}")).collect();
        self.create_named(&format!("node {id}"), op, inputs, &outputs)
    }

    /// Adds a node that is called `name`, and whose values are called `outputs`.
    ///
    /// # Errors
    ///
    /// As [`Dfg::create_op`].
    pub fn create_named(
        &mut self,
        name: &str,
        op: Op,
        inputs: &[Value],
        outputs: &[String],
    ) -> Result<Vec<Value>, DfgError> {
        let wrong = |problem| {
            let op = op.name().to_owned();
            Err(DfgError::Arity { node: name.to_owned(), op, problem })
        };
        let (least, most) = op.inputs();
        if !(least..=most).contains(&inputs.len()) {
            let takes = if least == most { format!("{least}") } else { format!("{least} or more") };
            return wrong(format!("takes {takes} values, got {}", inputs.len()));
        }
        if outputs.len() != op.outputs() {
            return wrong(format!(
                "returns {} values, got names for {}",
                op.outputs(),
                outputs.len()
            ));
        }
        let node = self.nodes.len();
        let add = |(output, name): (usize, &String)| self.add(name, Source::Node { node, output });
        let outputs = outputs.iter().enumerate().map(add).collect::<Result<Vec<_>, _>>()?;
        let (name, inputs) = (name.to_owned(), inputs.to_vec());
        self.nodes.push(Node { name, op, inputs, outputs: outputs.clone() });
        Ok(outputs)
    }

    /// Makes a value an output.
    ///
    /// # Errors
    ///
    /// An output has the name already.
    pub fn create_out(&mut self, name: &str, value: Value) -> Result<(), DfgError> {
        if self.outputs.iter().any(|(known, _)| known == name) {
            return Err(DfgError::Twice { name: name.to_owned() });
        }
        self.outputs.push((name.to_owned(), value));
        Ok(())
    }

    /// The same graph with other outputs.
    pub(crate) fn with_outputs(mut self, outputs: Vec<(String, Value)>) -> Self {
        self.outputs = outputs;
        self
    }

    fn add(&mut self, name: &str, source: Source) -> Result<Value, DfgError> {
        let value = Value(self.values.len());
        match self.by_name.entry(name.to_owned()) {
            Entry::Occupied(_) => return Err(DfgError::Twice { name: name.to_owned() }),
            Entry::Vacant(place) => place.insert(value),
        };
        self.values.push(Named { name: name.to_owned(), source });
        Ok(value)
    }

    /// The nodes, in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The outputs and their names.
    pub fn outputs(&self) -> &[(String, Value)] {
        &self.outputs
    }

    /// The inputs, and what each has to be.
    pub fn inputs(&self) -> impl Iterator<Item = (Value, Option<&TensorType>)> {
        self.values().filter_map(|value| match self.source(value) {
            Source::Input { wanted } => Some((value, wanted.as_ref())),
            _ => None,
        })
    }

    /// The tensors of the model.
    pub fn weights(&self) -> impl Iterator<Item = (Value, &Constant)> {
        self.values().filter_map(|value| match self.source(value) {
            Source::Weight(tensor) => Some((value, tensor)),
            _ => None,
        })
    }

    /// All values, in the order in which they were added.
    pub fn values(&self) -> impl Iterator<Item = Value> + use<> {
        (0..self.values.len()).map(Value)
    }

    /// The value of a name.
    pub fn value(&self, name: &str) -> Option<Value> {
        self.by_name.get(name).copied()
    }

    /// The name of a value of this graph.
    pub fn name(&self, value: Value) -> &str {
        &self.values[value.0].name
    }

    /// Where a value of this graph comes from.
    pub fn source(&self, value: Value) -> &Source {
        &self.values[value.0].source
    }
}
