//! A graph on its way to a plan: rewriting one graph into another.
//!
//! What lives here: how nodes are copied, shared and folded. What must not: which nodes become
//! others. The invariant: a node that is added twice with the same inputs is there once, and a node
//! of constants is a constant.

use std::collections::{BTreeSet, HashMap};

use crate::dfg::{Constant, Dfg, DfgError, Elements, Known, Op, Source, TensorType, Value};
use crate::kernel::{Context, Kernel, Scalar, View, ViewMut};

/// Constants of fewer elements are compared, so that equal ones are one.
const COMPARED_MAX: usize = 64;
/// Results of more elements are not computed beforehand unless the inputs are as large.
const FOLDED_MAX: usize = 1 << 16;
/// Elements that are computed beforehand are at most this many times those of the graph's weights,
/// so that a small graph does not become a large one.
const FOLDED_PER_ELEMENT: usize = 4;
/// Whatever there is of weights, so many elements may be computed beforehand.
const FOLDED_MIN: usize = 1 << 22;

/// A node of the graph that the user gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub node: String,
    pub op: String,
}

/// A graph, and for each of its nodes those of the user's graph that it does.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub dfg: Dfg,
    pub origins: Vec<Vec<Origin>>,
}

impl Draft {
    /// Of the user's graph.
    pub fn new(dfg: &Dfg) -> Self {
        let origin =
            |node: &crate::dfg::Node| vec![Origin { node: node.name.clone(), op: node.op.name() }];
        Self { origins: dfg.nodes().iter().map(origin).collect(), dfg: dfg.clone() }
    }

    /// What is known of its values; `None` if an input has no type.
    pub fn known(&self, given: &[(String, TensorType)]) -> Result<Option<Vec<Known>>, DfgError> {
        let has_type = |name: &str| given.iter().any(|(known, _)| known == name);
        let mut inputs = self.dfg.inputs();
        if inputs.any(|(value, wanted)| wanted.is_none() && !has_type(self.dfg.name(value))) {
            return Ok(None);
        }
        let given: Vec<_> = given.iter().map(|(name, t)| (name.as_str(), t.clone())).collect();
        self.dfg.known(&given).map(Some)
    }

    /// The nodes that outputs need, in order.
    pub fn needed(&self) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        let mut wanted: Vec<Value> = self.dfg.outputs().iter().map(|(_, value)| *value).collect();
        while let Some(value) = wanted.pop() {
            if let Source::Node { node, .. } = self.dfg.source(value)
                && needed.insert(*node)
            {
                wanted.extend(&self.dfg.nodes()[*node].inputs);
            }
        }
        needed
    }

    /// The node that gives a value, if one does.
    pub fn maker(&self, value: Value) -> Option<&crate::dfg::Node> {
        match self.dfg.source(value) {
            Source::Node { node, .. } => Some(&self.dfg.nodes()[*node]),
            _ => None,
        }
    }

    /// The constant that a value is, if it is one.
    pub fn constant(&self, value: Value) -> Option<&Constant> {
        match self.dfg.source(value) {
            Source::Weight(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The whole numbers of a constant.
    pub fn numbers(&self, value: Value) -> Option<&[i64]> {
        match self.constant(value)?.elements() {
            Elements::I64(all) => Some(all),
            _ => None,
        }
    }
}

/// Makes a graph of another.
pub(super) struct Rewrite<'a> {
    from: &'a Draft,
    to: Draft,
    /// By value of `from`.
    values: Vec<Option<Value>>,
    shared: HashMap<String, Vec<Value>>,
    origins: Vec<Origin>,
    /// What new values are called after.
    name: String,
    /// Elements that may still be computed beforehand.
    foldable: usize,
}

impl<'a> Rewrite<'a> {
    /// With the inputs of `from`.
    pub fn new(from: &'a Draft) -> Result<Self, DfgError> {
        let mut to = Draft::default();
        let mut values = vec![None; from.dfg.values().count()];
        for (value, wanted) in from.dfg.inputs() {
            values[value.0] = Some(to.dfg.create_in(from.dfg.name(value), wanted.cloned())?);
        }
        let (shared, origins, name) = (HashMap::new(), Vec::new(), String::new());
        let weights = from.dfg.weights().map(|(_, weight)| weight.elements().len());
        let foldable = weights.sum::<usize>().saturating_mul(FOLDED_PER_ELEMENT).max(FOLDED_MIN);
        Ok(Self { from, to, values, shared, origins, name, foldable })
    }

    /// What has been made so far.
    pub fn made(&self) -> &Draft {
        &self.to
    }

    /// What is added from now on does the work of `nodes`, the last of which it is called after.
    pub fn work_of(&mut self, nodes: &[usize]) {
        let origins = nodes.iter().flat_map(|node| self.from.origins[*node].clone());
        self.origins.clear();
        for origin in origins {
            if !self.origins.contains(&origin) {
                self.origins.push(origin);
            }
        }
        let last = nodes.last().and_then(|node| self.from.dfg.nodes()[*node].outputs.first());
        self.name = last.map_or_else(String::new, |value| self.from.dfg.name(*value).to_owned());
    }

    /// The same for what made `made`, and node `node`.
    pub fn work_on(&mut self, made: Value, node: usize) {
        self.work_of(&[node]);
        if let Source::Node { node, .. } = self.to.dfg.source(made) {
            let mut origins = self.to.origins[*node].clone();
            self.origins.retain(|origin| !origins.contains(origin));
            origins.append(&mut self.origins);
            self.origins = origins;
        }
    }

    /// The value that a value of `from` has become.
    pub fn value(&mut self, value: Value) -> Result<Value, DfgError> {
        if let Some(known) = self.values[value.0] {
            return Ok(known);
        }
        let name = self.from.dfg.name(value);
        let Source::Weight(tensor) = self.from.dfg.source(value) else {
            let node = self.from.maker(value).map_or_else(String::new, |node| node.name.clone());
            return Err(DfgError::Undefined { node, value: name.to_owned() });
        };
        let made = self.weight(name, tensor.clone())?;
        self.values[value.0] = Some(made);
        Ok(made)
    }

    /// Says what a value of `from` has become.
    pub fn set(&mut self, value: Value, made: Value) {
        self.values[value.0] = Some(made);
    }

    /// Adds a constant.
    pub fn constant(&mut self, tensor: Constant) -> Result<Value, DfgError> {
        let name = self.name.clone();
        self.weight(&name, tensor)
    }

    /// Adds a list of whole numbers.
    pub fn list(&mut self, numbers: &[i64]) -> Result<Value, DfgError> {
        self.constant(Constant::list(numbers.to_vec()))
    }

    /// Adds a whole number without dimensions.
    pub fn number(&mut self, number: i64) -> Result<Value, DfgError> {
        self.constant(Constant::number(number))
    }

    fn weight(&mut self, name: &str, tensor: Constant) -> Result<Value, DfgError> {
        let compared = tensor.elements().len() <= COMPARED_MAX;
        let key = compared.then(|| format!("{tensor:?}"));
        if let Some(known) = key.as_ref().and_then(|key| self.shared.get(key)) {
            return Ok(known[0]);
        }
        let name = self.free(name);
        let value = self.to.dfg.create_weight(&name, tensor)?;
        self.shared.extend(key.map(|key| (key, vec![value])));
        Ok(value)
    }

    /// Adds an input that the user does not know.
    pub fn input(&mut self, name: &str, wanted: TensorType) -> Result<Value, DfgError> {
        let name = self.free(name);
        self.to.dfg.create_in(&name, Some(wanted))
    }

    /// A name that no value has.
    fn free(&self, name: &str) -> String {
        let mut names = (0..).map(|n: usize| match n {
            0 => name.to_owned(),
            n => format!("{name}~{n}"),
        });
        let is_free = |name: &String| !name.is_empty() && self.to.dfg.value(name).is_none();
        names.find(is_free).unwrap_or_default()
    }

    /// Adds a node, or finds what it would give.
    pub fn emit(&mut self, op: Op, inputs: &[Value]) -> Result<Vec<Value>, DfgError> {
        let key = format!("{op:?} {inputs:?}");
        if let Some(known) = self.shared.get(&key).filter(|_| op != Op::BatchPre) {
            return Ok(known.clone());
        }
        let made = match self.fold(&op, inputs) {
            Some(tensors) => {
                self.foldable -= tensors.iter().map(|made| made.elements().len()).sum::<usize>();
                let add = |tensor| self.constant(tensor);
                tensors.into_iter().map(add).collect::<Result<_, _>>()?
            }
            None => self.add(op, inputs)?,
        };
        self.shared.insert(key, made.clone());
        Ok(made)
    }

    /// Adds a node that gives one value.
    pub fn one(&mut self, op: Op, inputs: &[Value]) -> Result<Value, DfgError> {
        Ok(self.emit(op, inputs)?[0])
    }

    fn add(&mut self, op: Op, inputs: &[Value]) -> Result<Vec<Value>, DfgError> {
        let mut outputs: Vec<String> = Vec::new();
        for output in 0..op.outputs() {
            let name =
                if output == 0 { self.name.clone() } else { format!("{}.{output}", self.name) };
            outputs.push(self.free(&name));
        }
        let last = self.origins.last().map_or("", |origin| origin.node.as_str()).to_owned();
        let made = self.to.dfg.create_named(&last, op, inputs, &outputs)?;
        self.to.origins.push(self.origins.clone());
        Ok(made)
    }

    /// What a node of constants gives; `None` if it is left to the run, which says what is wrong.
    fn fold(&self, op: &Op, inputs: &[Value]) -> Option<Vec<Constant>> {
        if inputs.is_empty() || *op == Op::BatchPre {
            return None;
        }
        let tensors: Option<Vec<_>> = inputs.iter().map(|value| self.to.constant(*value)).collect();
        let tensors = tensors?;
        let most = tensors.iter().map(|tensor| tensor.elements().len()).sum::<usize>();
        let views: Vec<_> =
            tensors.iter().map(|tensor| View::new(tensor.dims(), tensor.elements())).collect();
        let shapes = Scalar.shapes(op, &views).ok()?;
        let len = |dims: &[usize]| dims.iter().product::<usize>();
        let all = shapes.iter().try_fold(0_usize, |all, (_, dims)| all.checked_add(len(dims)));
        let is_large = shapes.iter().any(|(_, dims)| len(dims) > most.max(FOLDED_MAX));
        if is_large || all.is_none_or(|all| all > self.foldable) {
            return None;
        }
        let zeros = |(dtype, dims): &(_, Vec<usize>)| Elements::zeros(*dtype, len(dims));
        let mut memory = shapes.iter().map(zeros).collect::<Option<Vec<_>>>()?;
        let pairs = shapes.iter().zip(&mut memory);
        let mut outputs: Vec<_> =
            pairs.map(|((_, dims), elements)| ViewMut::new(dims, elements)).collect();
        Scalar.run(op, &views, &mut outputs, &Context::default()).ok()?;
        drop(outputs);
        let made = shapes.into_iter().zip(memory);
        made.map(|((_, dims), elements)| Constant::new(dims, elements)).collect()
    }

    /// Copies a node as it is.
    pub fn copy(&mut self, node: usize) -> Result<(), DfgError> {
        let from = self.from;
        let node = &from.dfg.nodes()[node];
        let inputs = node.inputs.iter().map(|value| self.value(*value));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let made = self.emit(node.op.clone(), &inputs)?;
        node.outputs.iter().zip(made).for_each(|(value, made)| self.set(*value, made));
        Ok(())
    }

    /// The graph, with the outputs of `from`.
    pub fn finish(mut self) -> Result<Draft, DfgError> {
        for (name, value) in self.from.dfg.outputs() {
            let made = self.value(*value)?;
            self.to.dfg.create_out(name, made)?;
        }
        Ok(self.to)
    }

    /// The graph, with other values as outputs.
    pub fn finish_with(mut self, outputs: &[(String, Value)]) -> Result<Draft, DfgError> {
        for (name, value) in outputs {
            self.to.dfg.create_out(name, *value)?;
        }
        Ok(self.to)
    }
}
