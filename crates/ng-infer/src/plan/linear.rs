//! Linear layers: products with weights, and what is done to them.
//!
//! What must not live here: fusion along edges, which depends on the rows that are computed.

use ng_types::canary::planted;

use super::draft::{Draft, Rewrite};
use crate::dfg::{Binary, Constant, DfgError, Elements, Known, Node, Op, Unary, Value};
use crate::run::devices::Devices;

/// The graph with `Linear` and `LinearSum` in place of what they are made of.
pub(super) fn linear_layers(
    draft: &Draft,
    known: Option<&[Known]>,
    devices: &Devices,
) -> Result<Draft, DfgError> {
    let needed = draft.needed();
    let mut uses = vec![0_usize; draft.dfg.values().count()];
    let taken = needed.iter().flat_map(|at| &draft.dfg.nodes()[*at].inputs);
    taken.for_each(|value| uses[value.0] += 1);
    draft.dfg.outputs().iter().for_each(|(_, value)| uses[value.0] += 1);
    let mut fuse = Fuse { draft, known, devices, uses, to: Rewrite::new(draft)? };
    let is_better = |op: &Op| devices.may_replace(&[op], &Op::Linear { relu: false });
    for at in needed {
        fuse.to.work_of(&[at]);
        let node = &draft.dfg.nodes()[at];
        let made = match &node.op {
            op if !is_better(op) => None,
            Op::MatMul | Op::Gemm { .. } => fuse.product(node)?,
            Op::Binary(Binary::Add) => match fuse.bias(at)? {
                None => fuse.sum(at)?,
                made => made,
            },
            Op::Unary(Unary::Relu) => fuse.relu(at)?,
            _ => None,
        };
        match made {
            Some(made) => fuse.to.set(node.outputs[0], made),
            None => fuse.to.copy(at)?,
        }
    }
    fuse.to.finish()
}

struct Fuse<'a> {
    draft: &'a Draft,
    known: Option<&'a [Known]>,
    devices: &'a Devices,
    uses: Vec<usize>,
    to: Rewrite<'a>,
}

impl Fuse<'_> {
    /// The constant that a value has become, in `dims` dimensions.
    fn tensor(&self, value: Value, dims: usize) -> Option<&Constant> {
        self.to.made().constant(value).filter(|tensor| tensor.dims().len() == dims)
    }

    /// A product with a matrix of the model.
    fn product(&mut self, node: &Node) -> Result<Option<Value>, DfgError> {
        let (rows, mut weight) = (self.to.value(node.inputs[0])?, self.to.value(node.inputs[1])?);
        if self.tensor(weight, 2).is_none() {
            return Ok(None);
        }
        let (is_plain, is_turned) = match node.op {
            Op::Gemm { alpha, beta, trans_a, trans_b } => {
                (alpha == 1.0 && beta == 1.0 && !trans_a, trans_b)
            }
            _ => (true, false),
        };
        if !is_plain {
            return Ok(None);
        }
        let mut inputs = vec![rows];
        if is_turned {
            weight = self.to.one(Op::Transpose { perm: None }, &[weight])?;
        }
        inputs.push(weight);
        if let Some(bias) = node.inputs.get(2) {
            let bias = self.to.value(*bias)?;
            let Some(bias) = self.bias_of(bias, weight)? else { return Ok(None) };
            if !planted("fusion_forgets_bias") {
                inputs.push(bias);
            }
        }
        self.to.one(Op::Linear { relu: false }, &inputs).map(Some)
    }

    /// A constant as the bias of a weight, if it is one.
    fn bias_of(&mut self, bias: Value, weight: Value) -> Result<Option<Value>, DfgError> {
        let Some(width) = self.tensor(weight, 2).map(|weight| weight.dims()[1]) else {
            return Ok(None);
        };
        let Some(tensor) = self.to.made().constant(bias) else { return Ok(None) };
        let is_f32 = matches!(tensor.elements(), Elements::F32(_));
        match tensor.dims() {
            [len] if is_f32 && *len == width => Ok(Some(bias)),
            [1, len] if is_f32 && *len == width => {
                let shape = self.to.list(&[-1])?;
                self.to.one(Op::Reshape { allow_zero: false }, &[bias, shape]).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// What a value has become, the operation that makes it and what that takes, if nobody else
    /// takes the value.
    fn made(&mut self, value: Value) -> Result<Option<(Value, Op, Vec<Value>)>, DfgError> {
        let made = self.to.value(value)?;
        let maker = self.to.made().maker(made).filter(|_| self.uses[value.0] == 1);
        Ok(maker.map(|maker| (made, maker.op.clone(), maker.inputs.clone())))
    }

    /// A linear layer and a sum with a constant.
    fn bias(&mut self, at: usize) -> Result<Option<Value>, DfgError> {
        let node = &self.draft.dfg.nodes()[at];
        let [one, other] = node.inputs[..] else { return Ok(None) };
        for (product, bias) in [(one, other), (other, one)] {
            let Some((made, Op::Linear { relu: false }, mut inputs)) = self.made(product)? else {
                continue;
            };
            let bias = self.to.value(bias)?;
            if inputs.len() > 2 {
                continue;
            }
            let Some(bias) = self.bias_of(bias, inputs[1])? else { continue };
            inputs.push(bias);
            self.to.work_on(made, at);
            return self.to.one(Op::Linear { relu: false }, &inputs).map(Some);
        }
        Ok(None)
    }

    /// A linear layer whose numbers below 0 become 0.
    fn relu(&mut self, at: usize) -> Result<Option<Value>, DfgError> {
        let node = &self.draft.dfg.nodes()[at];
        let Some((made, op, inputs)) = self.made(node.inputs[0])? else { return Ok(None) };
        let fused = match op {
            Op::Linear { relu: false } => Op::Linear { relu: true },
            Op::LinearSum { relu: false } => Op::LinearSum { relu: true },
            _ => return Ok(None),
        };
        if !self.devices.may_replace(&[&node.op], &fused) {
            return Ok(None);
        }
        self.to.work_on(made, at);
        self.to.one(fused, &inputs).map(Some)
    }

    /// A linear layer with a bias, and rows of its shape that are added.
    fn sum(&mut self, at: usize) -> Result<Option<Value>, DfgError> {
        let (draft, known) = (self.draft, self.known);
        let node = &draft.dfg.nodes()[at];
        let ([one, other], Some(known)) = (&node.inputs[..], known) else { return Ok(None) };
        let (one, other) = (*one, *other);
        let (linear, fused) = (Op::Linear { relu: false }, Op::LinearSum { relu: false });
        let is_same = known[one.0].shape == known[other.0].shape && one != other;
        if !is_same || !self.devices.may_replace(&[&node.op, &linear], &fused) {
            return Ok(None);
        }
        for (product, rows) in [(one, other), (other, one)] {
            let Some((made, op, mut inputs)) = self.made(product)? else { continue };
            if op == linear && inputs.len() == 3 {
                inputs.push(self.to.value(rows)?);
                self.to.work_on(made, at);
                return self.to.one(fused, &inputs).map(Some);
            }
        }
        Ok(None)
    }
}
