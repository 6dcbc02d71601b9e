//! Graphs whose nodes come in any order and name what they take, put into topological order.

use std::collections::{BTreeMap, HashMap};

use super::attributes::{Attribute, Attributes};
use super::error::DfgError;
use super::graph::{Dfg, Value};
use super::op::Op;

/// A node as a file has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedNode {
    /// For messages.
    pub name: String,
    /// The operation's name.
    pub op: String,
    /// Names of the values that it takes.
    pub inputs: Vec<String>,
    /// Names of the values that it gives.
    pub outputs: Vec<String>,
    /// What else the file says of it.
    pub attributes: BTreeMap<String, Attribute>,
}

impl Dfg {
    /// Adds nodes in topological order. They may take the values of the graph and of each other.
    ///
    /// # Errors
    ///
    /// An operation is unknown, a value is given twice or by nobody, or nodes form a cycle.
    pub fn create_nodes(&mut self, nodes: Vec<NamedNode>) -> Result<(), DfgError> {
        let makers = makers(&nodes)?;
        for at in sorted(self, &nodes, &makers)? {
            let NamedNode { name, op, inputs, outputs, attributes } = &nodes[at];
            let op = Op::from_name(Attributes::new(name, op, attributes.clone()))?;
            let known = |value: &String| {
                let undefined = || DfgError::Undefined { node: name.clone(), value: value.clone() };
                self.value(value).ok_or_else(undefined)
            };
            let inputs = inputs.iter().map(known).collect::<Result<Vec<Value>, _>>()?;
            self.create_named(name, op, &inputs, outputs)?;
        }
        Ok(())
    }
}

/// By name of a value, the node that gives it.
fn makers(nodes: &[NamedNode]) -> Result<HashMap<&str, usize>, DfgError> {
    let mut makers = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for output in &node.outputs {
            if makers.insert(output.as_str(), at).is_some() {
                return Err(DfgError::Twice { name: output.clone() });
            }
        }
    }
    Ok(makers)
}

/// Kahn's algorithm; of nodes that could be next, the first in the file is.
fn sorted(
    dfg: &Dfg,
    nodes: &[NamedNode],
    makers: &HashMap<&str, usize>,
) -> Result<Vec<usize>, DfgError> {
    let maker = |value: &String| match dfg.value(value) {
        Some(_) => None,
        None => makers.get(value.as_str()).copied(),
    };
    let mut waits_for: Vec<usize> = vec![0; nodes.len()];
    let mut feeds: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        for from in node.inputs.iter().filter_map(maker) {
            waits_for[at] += 1;
            feeds[from].push(at);
        }
    }
    let ready = |(at, waits): (usize, &usize)| (*waits == 0).then_some(std::cmp::Reverse(at));
    let mut free: std::collections::BinaryHeap<_> =
        waits_for.iter().enumerate().filter_map(ready).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(std::cmp::Reverse(at)) = free.pop() {
        order.push(at);
        for next in &feeds[at] {
            waits_for[*next] -= 1;
            if waits_for[*next] == 0 {
                free.push(std::cmp::Reverse(*next));
            }
        }
    }
    if order.len() < nodes.len() {
        let maker = |value: &String| maker(value).filter(|from| waits_for[*from] > 0);
        return Err(cycle(nodes, &waits_for, &maker));
    }
    Ok(order)
}

/// Follows makers that wait themselves until one comes again.
fn cycle(
    nodes: &[NamedNode],
    waits_for: &[usize],
    maker: &dyn Fn(&String) -> Option<usize>,
) -> DfgError {
    let mut path: Vec<usize> = waits_for.iter().position(|waits| *waits > 0).into_iter().collect();
    let mut place: HashMap<usize, usize> = HashMap::new();
    while let Some(at) = path.last().copied() {
        if let Some(start) = place.insert(at, path.len() - 1) {
            path.pop();
            path.drain(..start);
            break;
        }
        path.extend(nodes[at].inputs.iter().find_map(maker));
    }
    path.reverse();
    DfgError::Cycle { nodes: path.iter().map(|at| nodes[*at].name.clone()).collect() }
}
