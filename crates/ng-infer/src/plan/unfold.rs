//! The paper's `SpMM` as messages along edges, so that there is one way to fuse and trim both.

use super::draft::{Draft, Rewrite};
use crate::dfg::{Binary, DfgError, Node, Op, Reduction, Value};
use crate::run::devices::Devices;

/// The graph with `Gather` and `Scatter` in place of `SpMM`, whose inputs are known to fit.
pub(super) fn unfold(draft: &Draft, devices: &Devices) -> Result<Draft, DfgError> {
    let mut to = Rewrite::new(draft)?;
    for at in draft.needed() {
        let node = &draft.dfg.nodes()[at];
        to.work_of(&[at]);
        match node.op {
            Op::Spmm(how) if devices.may_replace(&[&node.op], &Op::Aggregate(how)) => {
                let made = spmm(how, node, &mut to)?;
                to.set(node.outputs[0], made);
            }
            _ => to.copy(at)?,
        }
    }
    to.finish()
}

fn spmm(how: Reduction, node: &Node, to: &mut Rewrite<'_>) -> Result<Value, DfgError> {
    let (edges, rows) = (to.value(node.inputs[0])?, to.value(node.inputs[1])?);
    let (first, second) = (to.number(0)?, to.number(1)?);
    let sources = to.one(Op::Gather { axis: 0 }, &[edges, first])?;
    let destinations = to.one(Op::Gather { axis: 0 }, &[edges, second])?;
    let nodes = to.one(Op::Shape { start: 0, end: Some(1) }, &[rows])?;
    let mut messages = to.one(Op::Gather { axis: 0 }, &[rows, sources])?;
    if let Some(weights) = node.inputs.get(2) {
        let (weights, last) = (to.value(*weights)?, to.list(&[1])?);
        let weights = to.one(Op::Unsqueeze, &[weights, last])?;
        messages = to.one(Op::Binary(Binary::Mul), &[messages, weights])?;
    }
    to.one(Op::Scatter(how), &[messages, destinations, nodes])
}
