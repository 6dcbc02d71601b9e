//! A copy of a graph in which some nodes and weights are others.
//!
//! The invariant: a weight is copied when a node takes it, so weights that nothing takes any more
//! are left out.

use std::collections::HashMap;

use crate::dfg::{Constant, Dfg, DfgError, Elements, Node, Op, Source, Value};

/// A copy in the making.
pub(super) struct Copy<'a> {
    pub from: &'a Dfg,
    pub to: Dfg,
    /// By value of the graph that is copied, what stands for it.
    made: HashMap<Value, Value>,
    /// Weights that were made of others, by what they were made of and for what.
    derived: HashMap<(Value, String), Value>,
}

impl<'a> Copy<'a> {
    /// With all inputs, and nothing else yet.
    pub fn new(from: &'a Dfg) -> Result<Self, DfgError> {
        let (to, made, derived) = (Dfg::default(), HashMap::new(), HashMap::new());
        let mut this = Self { from, to, made, derived };
        for (value, wanted) in from.inputs() {
            let input = this.to.create_in(from.name(value), wanted.cloned())?;
            this.made.insert(value, input);
        }
        Ok(this)
    }

    /// A weight of single precision.
    pub fn weight(&self, value: Value) -> Option<(&'a Constant, &'a [f32])> {
        let Source::Weight(tensor) = self.from.source(value) else { return None };
        match tensor.elements() {
            Elements::F32(all) => Some((tensor, all)),
            _ => None,
        }
    }

    /// What stands for a value; a weight is copied first.
    pub fn value(&mut self, old: Value) -> Result<Value, DfgError> {
        if let Some(made) = self.made.get(&old) {
            return Ok(*made);
        }
        // Nodes come in topological order, so what is not there is a weight.
        let Source::Weight(tensor) = self.from.source(old) else { unreachable!() };
        let made = self.constant(self.from.name(old), tensor.clone())?;
        self.made.insert(old, made);
        Ok(made)
    }

    /// Whether something stands for a value already.
    pub fn has(&self, old: Value) -> bool {
        self.made.contains_key(&old)
    }

    /// Lets `new` stand for `old`.
    pub fn set(&mut self, old: Value, new: Value) {
        self.made.insert(old, new);
    }

    /// A weight, under the name or one like it that is free.
    pub fn constant(&mut self, name: &str, tensor: Constant) -> Result<Value, DfgError> {
        let name = self.free(name);
        self.to.create_weight(&name, tensor)
    }

    /// The weight that is made of `old` for a purpose; `make` is called once.
    pub fn derived<E: From<DfgError>>(
        &mut self,
        old: Value,
        purpose: &str,
        make: impl FnOnce() -> Result<Constant, E>,
    ) -> Result<Value, E> {
        let key = (old, purpose.to_owned());
        if let Some(known) = self.derived.get(&key) {
            return Ok(*known);
        }
        let name = format!("{}{purpose}", self.from.name(old));
        let made = self.constant(&name, make()?)?;
        self.derived.insert(key, made);
        Ok(made)
    }

    /// A node that gives one value, which is called `name` or like it.
    pub fn node(
        &mut self,
        label: &str,
        op: Op,
        inputs: &[Value],
        name: &str,
    ) -> Result<Value, DfgError> {
        let name = self.free(name);
        Ok(self.to.create_named(label, op, inputs, &[name])?[0])
    }

    /// A node as it is.
    pub fn same(&mut self, node: &Node) -> Result<(), DfgError> {
        let inputs = node.inputs.iter().map(|value| self.value(*value));
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        self.with_inputs(node, &inputs)
    }

    /// A node as it is, but for what it takes.
    pub fn with_inputs(&mut self, node: &Node, inputs: &[Value]) -> Result<(), DfgError> {
        let names = node.outputs.iter().map(|value| self.free(self.from.name(*value)));
        let names: Vec<String> = names.collect();
        let made = self.to.create_named(&node.name, node.op.clone(), inputs, &names)?;
        self.made.extend(node.outputs.iter().copied().zip(made));
        Ok(())
    }

    /// The graph, with the outputs of the one that was copied.
    pub fn finish(mut self) -> Result<Dfg, DfgError> {
        for (name, value) in self.from.outputs() {
            let value = self.value(*value)?;
            self.to.create_out(name, value)?;
        }
        Ok(self.to)
    }

    fn free(&self, name: &str) -> String {
        let is_free = |name: &String| self.to.value(name).is_none();
        let others = (1_usize..).map(|n| format!("{name}~{n}"));
        // There are more numbers than values.
        std::iter::once(name.to_owned()).chain(others).find(is_free).unwrap_or_default()
    }
}
