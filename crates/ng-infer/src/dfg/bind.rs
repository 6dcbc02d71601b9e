//! Inputs of a graph that get what they stand for: weights, and the batch of a store.

use std::collections::HashMap;

use super::constant::Constant;
use super::error::DfgError;
use super::graph::{Dfg, Source, Value};
use super::op::Op;

impl Dfg {
    /// The graph in which some inputs are tensors of the model.
    ///
    /// # Errors
    ///
    /// The graph has no input of a name.
    pub fn with_weights(&self, weights: &HashMap<String, Constant>) -> Result<Self, DfgError> {
        for name in weights.keys() {
            let source = self.value(name).map(|value| self.source(value));
            if !matches!(source, Some(Source::Input { .. })) {
                let (node, value) = ("a weight".to_owned(), name.clone());
                return Err(DfgError::Undefined { node, value });
            }
        }
        self.rebuilt(|dfg, value| match weights.get(self.name(value)) {
            Some(tensor) => dfg.create_weight(self.name(value), tensor.clone()).map(Some),
            None => Ok(None),
        })
    }

    /// The graph in which an engine does [`Op::BatchPre`]: what it gives are the inputs `edges` and
    /// `rows`.
    ///
    /// # Errors
    ///
    /// There are several such nodes, or a value has one of the names already.
    pub fn without_batch_pre(&self, edges: &str, rows: &str) -> Result<Self, DfgError> {
        let mut found = self.nodes().iter().filter(|node| node.op == Op::BatchPre);
        let Some(node) = found.next() else { return Ok(self.clone()) };
        if let Some(other) = found.next() {
            let (node, op) = (other.name.clone(), other.op.name());
            let problem = "occurs twice, but a graph can have only one batch".to_owned();
            return Err(DfgError::Arity { node, op, problem });
        }
        let batch = node.inputs[0];
        let takers = self.nodes().iter().filter(|other| other.inputs.contains(&batch)).count();
        let is_output = self.outputs().iter().any(|(_, value)| *value == batch);
        if takers > 1 || is_output || !matches!(self.source(batch), Source::Input { .. }) {
            let (node, op) = (node.name.clone(), node.op.name());
            let problem = "needs node ids that are an input and that no other operation uses";
            let problem = problem.to_owned();
            return Err(DfgError::Arity { node, op, problem });
        }
        self.rebuilt(|dfg, value| {
            if value == batch {
                // It has the place of the first one; nothing takes it any more.
                return dfg.create_in(edges, None).map(Some);
            }
            match node.outputs.iter().position(|output| *output == value) {
                Some(0) => Ok(dfg.value(edges)),
                Some(_) => dfg.create_in(rows, None).map(Some),
                None => Ok(None),
            }
        })
    }

    /// The graph with some of its values made in another way, which is what `other` returns.
    fn rebuilt(
        &self,
        other: impl Fn(&mut Self, Value) -> Result<Option<Value>, DfgError>,
    ) -> Result<Self, DfgError> {
        let mut dfg = Self::default();
        let mut now: HashMap<Value, Value> = HashMap::new();
        for value in self.values() {
            if now.contains_key(&value) {
                continue;
            }
            if let Some(made) = other(&mut dfg, value)? {
                now.insert(value, made);
                continue;
            }
            match self.source(value) {
                Source::Input { wanted } => {
                    now.insert(value, dfg.create_in(self.name(value), wanted.clone())?);
                }
                Source::Weight(tensor) => {
                    now.insert(value, dfg.create_weight(self.name(value), tensor.clone())?);
                }
                Source::Node { node, .. } => {
                    let node = &self.nodes()[*node];
                    let inputs: Vec<Value> = node.inputs.iter().map(|input| now[input]).collect();
                    let names = node.outputs.iter().map(|output| self.name(*output).to_owned());
                    let names: Vec<String> = names.collect();
                    let made = dfg.create_named(&node.name, node.op.clone(), &inputs, &names)?;
                    now.extend(node.outputs.iter().copied().zip(made));
                }
            }
        }
        for (name, value) in self.outputs() {
            dfg.create_out(name, now[value])?;
        }
        Ok(dfg)
    }
}
