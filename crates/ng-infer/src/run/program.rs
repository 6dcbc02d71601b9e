//! One run of a graph.

use std::collections::{BTreeSet, HashMap};

use ng_types::Dtype;
use thiserror::Error;

use super::devices::{Binding, Devices};
use crate::dfg::{Constant, Dfg, Dim, Elements, Source, TensorType, Value};
use crate::kernel::{Context, KernelError, View, ViewMut};

/// Why a run cannot begin, or ended.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RunError {
    /// An input of the graph was not given.
    #[error("input {name:?} is missing")]
    MissingInput {
        /// Its name.
        name: String,
    },
    /// Something was given that is not an input of the graph.
    #[error("the graph has no input {name:?}")]
    UnknownInput {
        /// Its name.
        name: String,
    },
    /// An input has another type or shape than the graph wants.
    #[error("input {name:?}: {problem}")]
    WrongInput {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No device has a kernel for an operation.
    #[error("{node}: no device has a kernel for {op}")]
    NoKernel {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
    },
    /// A kernel cannot do what it was given.
    #[error("{node}: {op}: {source}")]
    Kernel {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// Why.
        source: KernelError,
    },
    /// Memory is not there.
    #[error("{node}: no memory for a result of shape {dims:?}")]
    Memory {
        /// Which node.
        node: String,
        /// The shape.
        dims: Vec<usize>,
    },
}

/// Runs `dfg` on `inputs`, by name, with the threads of `context`, and returns its outputs in
/// order. Nodes that no output needs are not run; a value is given up after the last node that
/// takes it.
///
/// # Errors
///
/// An input is missing, unknown or wrong, no device has a kernel, or a kernel fails.
pub fn run(
    dfg: &Dfg,
    devices: &Devices,
    inputs: &[(&str, Constant)],
    context: &Context,
) -> Result<Vec<Constant>, RunError> {
    let (needed, mut last_use) = uses(dfg);
    let bound = bind(dfg, devices, &needed)?;
    let mut values = given(dfg, inputs)?;
    for (at, binding) in bound {
        let outputs = run_node(dfg, at, &binding, &values, context)?;
        let node = &dfg.nodes()[at];
        for value in &node.inputs {
            if last_use.get(value) == Some(&at) {
                last_use.remove(value);
                values.remove(value);
            }
        }
        values.extend(node.outputs.iter().copied().zip(outputs));
    }
    let output = |(_, value): &(String, Value)| values.get(value).cloned();
    // Every node that an output needs has run.
    Ok(dfg.outputs().iter().filter_map(output).collect())
}

/// The nodes that outputs need, and by value the last of them that takes it; outputs are kept.
fn uses(dfg: &Dfg) -> (BTreeSet<usize>, HashMap<Value, usize>) {
    let mut needed = BTreeSet::new();
    let mut wanted: Vec<Value> = dfg.outputs().iter().map(|(_, value)| *value).collect();
    while let Some(value) = wanted.pop() {
        if let Source::Node { node, .. } = dfg.source(value)
            && needed.insert(*node)
        {
            wanted.extend(&dfg.nodes()[*node].inputs);
        }
    }
    let mut last = HashMap::new();
    for node in &needed {
        last.extend(dfg.nodes()[*node].inputs.iter().map(|value| (*value, *node)));
    }
    for (_, value) in dfg.outputs() {
        last.remove(value);
    }
    (needed, last)
}

fn bind(
    dfg: &Dfg,
    devices: &Devices,
    needed: &BTreeSet<usize>,
) -> Result<Vec<(usize, Binding)>, RunError> {
    let bind = |at: &usize| {
        let node = &dfg.nodes()[*at];
        let found = devices.choose(&node.op).cloned();
        let none = || RunError::NoKernel { node: node.name.clone(), op: node.op.name() };
        Ok((*at, found.ok_or_else(none)?))
    };
    needed.iter().map(bind).collect()
}

/// The values that are there before the first node runs.
fn given(dfg: &Dfg, inputs: &[(&str, Constant)]) -> Result<HashMap<Value, Constant>, RunError> {
    for (name, _) in inputs {
        let is_input = |(value, _)| dfg.name(value) == *name;
        if !dfg.inputs().any(is_input) {
            return Err(RunError::UnknownInput { name: (*name).to_owned() });
        }
    }
    let mut values: HashMap<Value, Constant> =
        dfg.weights().map(|(value, tensor)| (value, tensor.clone())).collect();
    let mut lengths = HashMap::new();
    for (value, wanted) in dfg.inputs() {
        let name = dfg.name(value);
        let found = inputs.iter().find(|(given, _)| *given == name);
        let missing = || RunError::MissingInput { name: name.to_owned() };
        let tensor = &found.ok_or_else(missing)?.1;
        if let Some(wanted) = wanted {
            let wrong = |problem| RunError::WrongInput { name: name.to_owned(), problem };
            fits(tensor, wanted, &mut lengths).map_err(wrong)?;
        }
        values.insert(value, tensor.clone());
    }
    Ok(values)
}

/// Whether an input is what the graph wants; the same symbol stands for one length.
fn fits(
    tensor: &Constant,
    wanted: &TensorType,
    lengths: &mut HashMap<Dim, usize>,
) -> Result<(), String> {
    let dtype = tensor.elements().dtype();
    if dtype != wanted.dtype {
        return Err(format!("wanted {}, found {}", wanted.dtype.name(), dtype.name()));
    }
    let dims = tensor.dims();
    if dims.len() != wanted.shape.len() {
        return Err(format!("wanted {} dimensions, found {dims:?}", wanted.shape.len()));
    }
    for (axis, (dim, found)) in wanted.shape.iter().zip(dims).enumerate() {
        let (known, meaning) = match dim.number() {
            Some(number) => (number, String::new()),
            None => {
                let known = *lengths.entry(dim.clone()).or_insert(*found);
                (known as i64, format!(", which is {known}"))
            }
        };
        if known != *found as i64 {
            return Err(format!("axis {axis} has length {found}; wanted {dim}{meaning}"));
        }
    }
    Ok(())
}

fn run_node(
    dfg: &Dfg,
    at: usize,
    binding: &Binding,
    values: &HashMap<Value, Constant>,
    context: &Context,
) -> Result<Vec<Constant>, RunError> {
    let node = &dfg.nodes()[at];
    let failed = |source| RunError::Kernel { node: node.name.clone(), op: node.op.name(), source };
    let view = |value: &Value| {
        let tensor = &values[value];
        View::new(tensor.dims(), tensor.elements())
    };
    let inputs: Vec<View<'_>> = node.inputs.iter().map(view).collect();
    let shapes = binding.kernel.shapes(&node.op, &inputs).map_err(failed)?;
    let mut memory = Vec::with_capacity(shapes.len());
    for (dtype, dims) in &shapes {
        let none = || RunError::Memory { node: node.name.clone(), dims: dims.clone() };
        memory.push(allocate(*dtype, dims.iter().product()).ok_or_else(none)?);
    }
    let pairs = shapes.iter().zip(&mut memory);
    let mut outputs: Vec<ViewMut<'_>> =
        pairs.map(|((_, dims), elements)| ViewMut::new(dims, elements)).collect();
    binding.kernel.run(&node.op, &inputs, &mut outputs, context).map_err(failed)?;
    drop(outputs);
    let made = shapes.into_iter().zip(memory);
    Ok(made.filter_map(|((_, dims), elements)| Constant::new(dims, elements)).collect())
}

fn allocate(dtype: Dtype, len: usize) -> Option<Elements> {
    fn zeros<T: Clone>(zero: T, len: usize) -> Option<Vec<T>> {
        let mut all = Vec::new();
        all.try_reserve_exact(len).ok()?;
        all.resize(len, zero);
        Some(all)
    }
    match dtype {
        Dtype::F32 => zeros(0.0, len).map(Elements::F32),
        Dtype::I64 => zeros(0, len).map(Elements::I64),
        Dtype::Bool => zeros(false, len).map(Elements::Bool),
        _ => None,
    }
}
