//! Steps: nodes with the kernels that do them, and the memory that each result has.
//!
//! What must not live here: elements. The invariant: two tensors that are needed at one time have
//! different slots.

use std::sync::Arc;

use ng_types::Dtype;

use super::draft::Draft;
use crate::dfg::{Constant, Elements, Known, Node, Op, Source, Value};
use crate::kernel::{Kernel, View};
use crate::run::devices::Devices;
use crate::run::error::RunError;

/// Where a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// Whoever runs the plan has it.
    Input(usize),
    /// A count of nodes, from the hops of the batch.
    Count(usize),
    /// The plan has it.
    Constant(usize),
    /// The arena has it.
    Slot(usize),
    /// The copy of the rows of a table that a value is.
    Copy(usize),
    /// Where the tensor is that it is part of, which a run finds out.
    View,
}

/// How a step is done.
#[derive(Clone)]
pub(super) enum Work {
    /// No element moves.
    View,
    /// By a kernel of a device; in the elements of an input, if one has its last use here.
    Kernel { kernel: Arc<dyn Kernel>, device: Arc<str>, in_place: Option<usize> },
}

/// A node that is run.
#[derive(Clone)]
pub(super) struct Step {
    /// Its place in the graph.
    pub node: usize,
    pub op: Op,
    /// Values.
    pub inputs: Vec<usize>,
    pub outputs: Vec<usize>,
    pub work: Work,
}

/// All steps, and the memory that they need.
#[derive(Default)]
pub(super) struct Bound {
    pub steps: Vec<Step>,
    /// By value.
    pub homes: Vec<Home>,
    pub constants: Vec<Constant>,
    pub slots: usize,
}

/// Chooses kernels and slots; `counts` are the inputs that come from the hops of a batch.
pub(super) fn bind(
    draft: &Draft,
    devices: &Devices,
    known: Option<&[Known]>,
    counts: &[Value],
) -> Result<Bound, RunError> {
    let mut bound = Bound::default();
    let mut inputs = 0;
    for value in draft.dfg.values() {
        let home = match draft.dfg.source(value) {
            Source::Input { .. } => match counts.iter().position(|count| *count == value) {
                Some(count) => Home::Count(count),
                None => {
                    inputs += 1;
                    Home::Input(inputs - 1)
                }
            },
            Source::Weight(tensor) => {
                bound.constants.push(tensor.clone());
                Home::Constant(bound.constants.len() - 1)
            }
            Source::Node { .. } => Home::View,
        };
        bound.homes.push(home);
    }
    for at in draft.needed() {
        let node = &draft.dfg.nodes()[at];
        let places = |values: &[Value]| values.iter().map(|value| value.0).collect::<Vec<_>>();
        bound.steps.push(Step {
            node: at,
            op: node.op.clone(),
            inputs: places(&node.inputs),
            outputs: places(&node.outputs),
            work: work(draft, devices, node)?,
        });
    }
    Slots::new(draft, known, &bound).assign(&mut bound);
    Ok(bound)
}

fn work(draft: &Draft, devices: &Devices, node: &Node) -> Result<Work, RunError> {
    if is_view(draft, node) {
        return Ok(Work::View);
    }
    let none = || RunError::NoKernel { node: node.name.clone(), op: node.op.name() };
    let binding = devices.choose(&node.op).ok_or_else(none)?;
    let constant = |value: &Value| {
        draft.constant(*value).map(|tensor| View::new(tensor.dims(), tensor.elements()))
    };
    let constants: Vec<_> = node.inputs.iter().map(constant).collect();
    let failed = |source| RunError::Kernel { node: node.name.clone(), op: node.op.name(), source };
    let prepared = binding.kernel.prepare(&node.op, &constants).map_err(failed)?;
    let kernel = prepared.unwrap_or_else(|| Arc::clone(&binding.kernel));
    Ok(Work::Kernel { kernel, device: Arc::clone(&binding.device), in_place: None })
}

/// Whether an operation gives elements of its first input that lie one behind the other.
fn is_view(draft: &Draft, node: &Node) -> bool {
    let number = |at: usize, missing: i64| match node.inputs.get(at) {
        None => Some(missing),
        Some(value) => match draft.numbers(*value) {
            Some([number]) => Some(*number),
            _ => None,
        },
    };
    match node.op {
        Op::Identity | Op::Reshape { .. } | Op::Squeeze | Op::Unsqueeze => true,
        // Rows from a place on.
        Op::Slice => number(3, 0) == Some(0) && number(4, 1) == Some(1),
        // One row.
        Op::Gather { axis: 0 } => draft.constant(node.inputs[1]).is_some_and(|index| {
            index.dims().is_empty() && matches!(index.elements(), Elements::I64(_))
        }),
        _ => false,
    }
}

/// Gives slots to tensors by the steps that need them.
struct Slots<'a> {
    /// By value, the last step that needs its memory; the memory of views is that of others.
    last: Vec<usize>,
    /// By value, the value whose memory it is part of.
    roots: Vec<usize>,
    known: Option<&'a [Known]>,
    /// By slot, the type and shape that it had last.
    had: Vec<(Option<Dtype>, String)>,
    free: Vec<usize>,
}

impl<'a> Slots<'a> {
    fn new(draft: &Draft, known: Option<&'a [Known]>, bound: &Bound) -> Self {
        let mut roots: Vec<usize> = (0..bound.homes.len()).collect();
        let mut last = vec![0; roots.len()];
        for (at, step) in bound.steps.iter().enumerate() {
            if matches!(step.work, Work::View) {
                roots[step.outputs[0]] = roots[step.inputs[0]];
            }
            step.inputs.iter().chain(&step.outputs).for_each(|value| last[roots[*value]] = at);
        }
        for (_, value) in draft.dfg.outputs() {
            last[roots[value.0]] = usize::MAX;
        }
        Self { last, roots, known, had: Vec::new(), free: Vec::new() }
    }

    fn assign(mut self, bound: &mut Bound) {
        for at in 0..bound.steps.len() {
            let step = &mut bound.steps[at];
            if let Work::Kernel { kernel, in_place, .. } = &mut step.work {
                let dies = |input: &usize| {
                    let root = self.roots[step.inputs[*input]];
                    let is_once = step.inputs.iter().filter(|i| self.roots[**i] == root).count();
                    let is_slot = matches!(bound.homes[root], Home::Slot(_));
                    self.last[root] == at && is_once == 1 && is_slot
                };
                let can = |input: &usize| kernel.in_place(&step.op, *input) && dies(input);
                *in_place = (0..step.inputs.len()).find(can);
                if let Some(input) = *in_place {
                    // The slot goes on with the result.
                    let root = self.roots[step.inputs[input]];
                    bound.homes[step.outputs[0]] = bound.homes[root];
                    self.last[root] = usize::MAX;
                } else {
                    for output in step.outputs.clone() {
                        bound.homes[output] = Home::Slot(self.choose(output));
                    }
                }
            }
            let step = &bound.steps[at];
            let mut over: Vec<usize> =
                step.inputs.iter().chain(&step.outputs).map(|value| self.roots[*value]).collect();
            over.sort_unstable();
            over.dedup();
            for root in over.into_iter().filter(|root| self.last[*root] == at) {
                if let Home::Slot(slot) = bound.homes[root] {
                    self.free.push(slot);
                }
            }
        }
        bound.slots = self.had.len();
    }

    /// A free slot that had a tensor of the same shape, or any of the same type, or a new one.
    fn choose(&mut self, value: usize) -> usize {
        let shape = self.known.map(|known| &known[value]);
        let dtype = shape.map(|known| known.dtype);
        let shape = shape.map_or_else(String::new, |known| {
            let dims: Vec<String> = known.shape.iter().map(ToString::to_string).collect();
            dims.join(", ")
        });
        let wanted = (dtype, shape);
        let same = self.free.iter().rposition(|slot| self.had[*slot] == wanted);
        let similar = || self.free.iter().rposition(|slot| self.had[*slot].0 == dtype);
        let slot = match same.or_else(similar) {
            Some(at) => self.free.remove(at),
            None => {
                self.had.push(wanted.clone());
                self.had.len() - 1
            }
        };
        self.had[slot] = wanted;
        slot
    }
}
