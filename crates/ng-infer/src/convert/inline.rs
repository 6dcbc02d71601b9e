//! Nodes of a file, one after the other: those that are operations, and calls of functions, whose
//! bodies come in their place.

use std::collections::BTreeMap;

use super::ReadTensor;
use super::adapt::{Adapted, adapt};
use super::error::ConvertError;
use super::to_onnx::{DOMAIN, op_of};
use super::weights::widened;
use crate::dfg::{Attribute, Constant, Dfg, NamedNode};
use crate::onnx::{AttributeValue, Function, Model, Node};

/// The names of values inside a body, and what they are called outside.
type Names = BTreeMap<String, String>;

/// What is needed while nodes are added.
pub(super) struct Scope<'a, 'r> {
    model: &'a Model,
    read: &'a mut ReadTensor<'r>,
    calls: usize,
}

impl<'a, 'r> Scope<'a, 'r> {
    pub fn new(model: &'a Model, read: &'a mut ReadTensor<'r>) -> Self {
        Self { model, read, calls: 0 }
    }

    /// Adds nodes; `attributes` are those of the call whose body they are, `prefix` sets their
    /// values apart from those of other calls.
    pub fn add(
        &mut self,
        dfg: &mut Dfg,
        nodes: &[Node],
        prefix: &str,
        attributes: &BTreeMap<String, Attribute>,
    ) -> Result<(), ConvertError> {
        self.add_renamed(dfg, nodes, &Names::new(), prefix, attributes)
    }

    fn add_renamed(
        &mut self,
        dfg: &mut Dfg,
        nodes: &[Node],
        names: &Names,
        prefix: &str,
        outer: &BTreeMap<String, Attribute>,
    ) -> Result<(), ConvertError> {
        let name = |value: &String| match (names.get(value), value.is_empty()) {
            (_, true) => String::new(),
            (Some(outside), _) => outside.clone(),
            (None, _) => format!("{prefix}{value}"),
        };
        // BatchPre is a node before those of a file.
        let first = if prefix.is_empty() { dfg.nodes().len() + 1 } else { 1 };
        for (at, node) in nodes.iter().enumerate() {
            let label = match node.name.is_empty() {
                true => format!("{prefix}node {}", first + at),
                false => format!("{prefix}node {:?}", node.name),
            };
            let named = NamedNode {
                name: label,
                op: node.op_type.clone(),
                inputs: node.inputs.iter().map(name).collect(),
                outputs: node.outputs.iter().map(name).collect(),
                attributes: self.attributes(node, outer)?,
            };
            self.add_node(dfg, &node.domain, named)?;
        }
        Ok(())
    }

    fn add_node(
        &mut self,
        dfg: &mut Dfg,
        domain: &str,
        mut node: NamedNode,
    ) -> Result<(), ConvertError> {
        let own = op_of(&node.op).filter(|_| domain == DOMAIN);
        let is_own = own.is_some();
        let function =
            self.model.functions.iter().find(|f| f.domain == domain && f.name == node.op);
        if let (false, Some(function)) = (is_own, function) {
            return self.call(dfg, function, node);
        }
        if !is_own && !domain.is_empty() {
            let problem =
                "the engine does not support this operator, and the file has no function for it"
                    .to_owned();
            return Err(ConvertError::Unsupported { node: node.name, op: node.op, problem });
        }
        node.op = own.unwrap_or(node.op);
        let Adapted { weights, nodes } = adapt(dfg, node, is_own)?;
        for (name, tensor) in weights {
            dfg.create_weight(&name, tensor)?;
        }
        Ok(dfg.create_nodes(nodes)?)
    }

    fn call(
        &mut self,
        dfg: &mut Dfg,
        function: &Function,
        node: NamedNode,
    ) -> Result<(), ConvertError> {
        self.calls += 1;
        let prefix = format!("{}#{}/", function.name, self.calls);
        let mut names = Names::new();
        let given = node.inputs.iter().chain(std::iter::repeat(&NOTHING));
        for (inside, outside) in function.inputs.iter().zip(given) {
            names.insert(inside.clone(), outside.clone());
        }
        let mut passed = Vec::new();
        for (inside, outside) in function.outputs.iter().zip(&node.outputs) {
            if outside.is_empty() {
                continue;
            }
            match names.get(inside) {
                // What goes in comes out.
                Some(taken) => passed.push((taken.clone(), outside.clone())),
                None => drop(names.insert(inside.clone(), outside.clone())),
            }
        }
        let mut attributes = node.attributes;
        for default in &function.defaults {
            if !attributes.contains_key(&default.name) {
                let value = self.value(&node.name, &node.op, &default.value)?;
                attributes.insert(default.name.clone(), value);
            }
        }
        self.add_renamed(dfg, &function.nodes, &names, &prefix, &attributes)?;
        let copy = |(from, to): (String, String)| NamedNode {
            name: format!("{prefix}{to}"),
            op: "Identity".to_owned(),
            inputs: vec![from],
            outputs: vec![to],
            attributes: BTreeMap::new(),
        };
        Ok(dfg.create_nodes(passed.into_iter().map(copy).collect())?)
    }

    fn attributes(
        &mut self,
        node: &Node,
        outer: &BTreeMap<String, Attribute>,
    ) -> Result<BTreeMap<String, Attribute>, ConvertError> {
        let mut all = BTreeMap::new();
        for attribute in &node.attributes {
            let value = match &attribute.value {
                AttributeValue::Reference(name) => match outer.get(name) {
                    Some(value) => value.clone(),
                    None => continue, // An attribute that the call leaves out is left out inside.
                },
                value => self.value(&node.name, &node.op_type, value)?,
            };
            all.insert(attribute.name.clone(), value);
        }
        Ok(all)
    }

    fn value(
        &mut self,
        node: &str,
        op: &str,
        value: &AttributeValue,
    ) -> Result<Attribute, ConvertError> {
        Ok(match value {
            AttributeValue::Int(number) => Attribute::Int(*number),
            AttributeValue::Float(number) => Attribute::Float(*number),
            AttributeValue::Ints(numbers) => Attribute::Ints(numbers.clone()),
            AttributeValue::Str(text) => Attribute::Text(text.clone()),
            AttributeValue::Floats(numbers) => {
                let dims = vec![numbers.len()];
                let elements = crate::dfg::Elements::F32(numbers.clone());
                // As many elements as the shape says.
                Attribute::Tensor(Constant::new(dims, elements).unwrap_or_else(|| unreachable!()))
            }
            AttributeValue::Tensor(tensor) => {
                let bytes = (self.read)(tensor)?;
                Attribute::Tensor(widened(tensor, &bytes)?)
            }
            AttributeValue::Strs(_) | AttributeValue::Reference(_) => {
                let (node, op) = (node.to_owned(), op.to_owned());
                let problem = "lists of strings are not supported".to_owned();
                return Err(ConvertError::Unsupported { node, op, problem });
            }
        })
    }
}

static NOTHING: String = String::new();
