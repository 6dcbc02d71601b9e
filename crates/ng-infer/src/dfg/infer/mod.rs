//! Types and shapes of all values before a batch is there, with counts as symbols.
//!
//! What lives here: what each operation demands of what it takes, and what it gives. What must not:
//! elements, but for small lists of whole numbers, which are shapes more often than not. Lengths
//! that only the elements of a batch tell become new symbols; where two symbols have to be equal,
//! the batch has to show it.

mod elements;
mod layout;
mod rows;

pub(crate) use layout::places;

use ng_types::Dtype;

use super::constant::{Constant, Elements};
use super::dim::Dim;
use super::error::DfgError;
use super::graph::{Dfg, Source, TensorType};
use super::op::Op;

/// Longer lists of whole numbers are not shapes.
const CONTENT_MAX: usize = 64;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<Dim>,
    /// The elements of a list, or of a single number, of I64.
    pub(crate) content: Option<Vec<Dim>>,
}

impl Known {
    fn new(dtype: Dtype, shape: Vec<Dim>) -> Self {
        Self { dtype, shape, content: None }
    }

    fn of_constant(tensor: &Constant) -> Self {
        let content = match tensor.elements() {
            Elements::I64(all) if tensor.dims().len() < 2 && all.len() <= CONTENT_MAX => {
                Some(all.iter().copied().map(Dim::from).collect())
            }
            _ => None,
        };
        let shape = tensor.dims().iter().map(|dim| Dim::from(*dim as i64)).collect();
        Self { dtype: tensor.elements().dtype(), shape, content }
    }

    /// The elements as numbers.
    pub(crate) fn numbers(&self) -> Option<Vec<i64>> {
        self.content.as_ref()?.iter().map(Dim::number).collect()
    }

    fn rank(&self) -> usize {
        self.shape.len()
    }

    fn is_number(&self) -> bool {
        self.shape.iter().all(|dim| dim.number() == Some(1))
    }

    fn wants(&self, dtype: Dtype) -> Result<(), String> {
        let (found, wanted) = (self.dtype.name(), dtype.name());
        if self.dtype == dtype { Ok(()) } else { Err(format!("expected {wanted}, found {found}")) }
    }

    fn wants_rank(&self, rank: usize) -> Result<(), String> {
        let found = self.rank();
        if found == rank {
            Ok(())
        } else {
            Err(format!("expected {rank} dimensions, found {found}"))
        }
    }

    /// The place of an axis that may count from the end.
    fn axis(&self, axis: i64) -> Result<usize, String> {
        place(axis, self.rank())
    }
}

/// The place of an axis that may count from the end, of `rank`.
pub(crate) fn place(axis: i64, rank: usize) -> Result<usize, String> {
    let at = if axis < 0 { axis.saturating_add(rank as i64) } else { axis };
    let is_one = (0..rank as i64).contains(&at);
    is_one
        .then_some(at as usize)
        .ok_or_else(|| format!("axis {axis} is out of range: there are {rank} axes"))
}

/// Gives lengths that nobody knows yet.
pub(super) struct Unknown(usize);

impl Unknown {
    fn next(&mut self) -> Dim {
        self.0 += 1;
        Dim::symbol(&format!("u{}", self.0))
    }
}

/// What a batch tells of a value: type, shape, and its elements if they are whole numbers.
pub(crate) type Given<'a> = (Dtype, &'a [usize], Option<&'a [i64]>);

/// A type with the shape that a batch has.
pub(crate) type Exact = (Dtype, Vec<usize>);

/// The types of what `op` gives for certain tensors. `None` if elements tell it that are not a
/// short list of whole numbers.
pub(crate) fn exact(op: &Op, inputs: &[Given<'_>]) -> Result<Option<Vec<Exact>>, String> {
    let known: Vec<Known> = inputs
        .iter()
        .map(|(dtype, dims, elements)| {
            let numbers = elements.filter(|all| dims.len() < 2 && all.len() <= CONTENT_MAX);
            let content = numbers.map(|all| all.iter().copied().map(Dim::from).collect());
            let shape = dims.iter().map(|dim| Dim::from(*dim as i64)).collect();
            Known { dtype: *dtype, shape, content }
        })
        .collect();
    let inputs: Vec<&Known> = known.iter().collect();
    let number = |dim: &Dim| dim.number().map(|n| n as usize);
    let exact = |known: &Known| {
        Some((known.dtype, known.shape.iter().map(number).collect::<Option<Vec<_>>>()?))
    };
    Ok(infer(op, &inputs, &mut Unknown(0))?.iter().map(exact).collect())
}

impl Dfg {
    /// The types of all values, in the order of [`Dfg::values`]; `given` for those inputs that have
    /// no type of their own.
    ///
    /// # Errors
    ///
    /// A type or shape does not fit an operation, an input has no type, there is no output, or two
    /// lengths that must be equal are different numbers.
    pub fn check(&self, given: &[(&str, TensorType)]) -> Result<Vec<TensorType>, DfgError> {
        let typed = |Known { dtype, shape, .. }| TensorType { dtype, shape };
        Ok(self.known(given)?.into_iter().map(typed).collect())
    }

    /// What is known of all values, in the order of [`Dfg::values`].
    pub(crate) fn known(&self, given: &[(&str, TensorType)]) -> Result<Vec<Known>, DfgError> {
        if self.outputs().is_empty() {
            return Err(DfgError::NoOutput);
        }
        let mut known: Vec<Known> = Vec::new();
        let mut unknown = Unknown(0);
        let mut made = Vec::new();
        for value in self.values() {
            let name = self.name(value);
            known.push(match self.source(value) {
                Source::Weight(tensor) => Known::of_constant(tensor),
                Source::Input { wanted } => {
                    let found = given.iter().find(|(known, _)| *known == name).map(|(_, t)| t);
                    let TensorType { dtype, shape } = wanted
                        .as_ref()
                        .or(found)
                        .cloned()
                        .ok_or_else(|| DfgError::NoType { name: name.to_owned() })?;
                    check_input(name, dtype, &shape)?;
                    Known::new(dtype, shape)
                }
                Source::Node { node, output } => {
                    if *output == 0 {
                        made = self.check_node(*node, &known, &mut unknown)?;
                    }
                    made[*output].clone()
                }
            });
        }
        Ok(known)
    }

    fn check_node(
        &self,
        node: usize,
        known: &[Known],
        unknown: &mut Unknown,
    ) -> Result<Vec<Known>, DfgError> {
        let node = &self.nodes()[node];
        let inputs: Vec<&Known> = node.inputs.iter().map(|value| &known[value.0]).collect();
        infer(&node.op, &inputs, unknown).map_err(|problem| {
            let (name, op) = (node.name.clone(), node.op.name());
            DfgError::Type { node: name, op, problem }
        })
    }
}

/// What an operation gives.
fn infer(op: &Op, inputs: &[&Known], unknown: &mut Unknown) -> Result<Vec<Known>, String> {
    let narrow = inputs.iter().find(|known| matches!(known.dtype, Dtype::F16 | Dtype::I8));
    if let (Some(known), false) = (narrow, elements::takes_narrow(op)) {
        return Err(format!("it does not support {}; cast the input first", known.dtype.name()));
    }
    let all = of_op(op, inputs, unknown)?;
    let lengths = all.iter().flat_map(|known| &known.shape);
    match lengths.filter_map(Dim::number).find(|n| *n < 0) {
        Some(negative) => Err(format!("length {negative} is negative")),
        None => Ok(all),
    }
}

fn of_op(op: &Op, inputs: &[&Known], unknown: &mut Unknown) -> Result<Vec<Known>, String> {
    use Op::*;
    let one = match op {
        Unary(_) | Elu { .. } | LeakyRelu { .. } | Softmax { .. } | LogSoftmax { .. } => {
            elements::unary(op, inputs[0])?
        }
        Binary(binary) => elements::binary(*binary, inputs[0], inputs[1])?,
        Where => elements::choose(inputs[0], inputs[1], inputs[2])?,
        Cast(dtype) => elements::cast(*dtype, inputs[0])?,
        Identity => inputs[0].clone(),
        MatMul => rows::mat_mul(inputs[0], inputs[1])?,
        QuantisedLinear => rows::quantised_linear(inputs)?,
        ToFixed(_) => elements::converted(inputs[0], Dtype::F32, Dtype::I64)?,
        FromFixed { .. } => elements::converted(inputs[0], Dtype::I64, Dtype::F32)?,
        FixedRescale { .. } => elements::converted(inputs[0], Dtype::I64, Dtype::I64)?,
        FixedMatMul => rows::fixed_mat_mul(inputs[0], inputs[1])?,
        FixedScatter(_) => rows::scatter(Dtype::I64, inputs, unknown)?,
        Gemm { trans_a, trans_b, .. } => rows::gemm(inputs, *trans_a, *trans_b)?,
        Reduce { keep_dims, .. } => rows::reduce(inputs, *keep_dims, unknown)?,
        Shape { start, end } => layout::shape(inputs[0], *start, *end)?,
        Reshape { allow_zero } => layout::reshape(inputs[0], inputs[1], *allow_zero, unknown)?,
        Expand => layout::expand(inputs[0], inputs[1], unknown)?,
        Transpose { perm } => layout::transpose(inputs[0], perm.as_deref())?,
        Concat { axis } => layout::concat(inputs, *axis)?,
        Slice => layout::slice(inputs, unknown)?,
        Squeeze => layout::squeeze(inputs)?,
        Unsqueeze => layout::unsqueeze(inputs[0], inputs[1])?,
        Gather { axis } => layout::gather(inputs[0], inputs[1], *axis)?,
        GatherElements { axis } => layout::gather_elements(inputs[0], inputs[1], *axis)?,
        Tile => layout::tile(inputs[0], inputs[1], unknown)?,
        GatherNd => layout::gather_nd(inputs[0], inputs[1])?,
        Compress { axis } => layout::compress(inputs[0], inputs[1], *axis, unknown)?,
        Range => layout::range(inputs, unknown)?,
        ConstantOfShape { dtype, .. } => layout::filled(*dtype, inputs[0], unknown)?,
        Scatter(_) => rows::scatter(Dtype::F32, inputs, unknown)?,
        EdgeLists => return rows::edge_lists(inputs, unknown),
        Aggregate(_) => rows::aggregate(inputs)?,
        Sddmm(binary) => rows::sddmm(*binary, inputs)?,
        Linear { .. } | LinearSum { .. } => rows::linear(inputs)?,
        EdgeSoftmax => rows::edge_softmax(inputs)?,
        Spmm(_) => rows::spmm(inputs)?,
        AddSelfLoops => rows::add_self_loops(inputs[0], inputs[1], unknown)?,
        RemoveSelfLoops => rows::remove_self_loops(inputs[0], unknown)?,
        RemoveSelfLoopsAttr => return rows::remove_self_loops_attr(inputs[0], inputs[1], unknown),
        SelfLoopAttr => rows::self_loop_attr(inputs)?,
        GcnNorm => rows::gcn_norm(inputs, unknown)?,
        Degree => rows::degree(inputs[0], inputs[1], unknown)?,
        SegmentMatmul => rows::segment_matmul(inputs)?,
        BatchPre => return rows::batch_pre(inputs[0]),
    };
    Ok(vec![one])
}

fn check_input(name: &str, dtype: Dtype, shape: &[Dim]) -> Result<(), DfgError> {
    let wrong = |problem| {
        let (node, op) = (format!("input {name:?}"), "input".to_owned());
        Err(DfgError::Type { node, op, problem })
    };
    if !matches!(dtype, Dtype::F32 | Dtype::I64 | Dtype::Bool) {
        return wrong(format!("it is {}, expected f32, i64 or bool", dtype.name()));
    }
    match shape.iter().filter_map(Dim::number).find(|n| *n < 0) {
        Some(negative) => wrong(format!("length {negative} is negative")),
        None => Ok(()),
    }
}

/// The length that two have to have; an error only where both are numbers and differ.
fn same(one: &Dim, other: &Dim, what: &str) -> Result<Dim, String> {
    match (one.number(), (one.clone() - other.clone()).number()) {
        (_, Some(difference)) if difference != 0 => Err(format!("{what}: {one} and {other}")),
        (Some(_), _) => Ok(one.clone()),
        (None, _) => Ok(other.clone()),
    }
}

/// The shape that two broadcast to.
fn broadcast(one: &[Dim], other: &[Dim]) -> Result<Vec<Dim>, String> {
    let rank = one.len().max(other.len());
    let at = |shape: &[Dim], axis: usize| {
        let missing = rank - shape.len();
        axis.checked_sub(missing).map_or(Dim::from(1), |axis| shape[axis].clone())
    };
    let dim = |axis| {
        let (one, other) = (at(one, axis), at(other, axis));
        match (one.number(), other.number()) {
            (Some(1), _) => Ok(other),
            (_, Some(1)) => Ok(one),
            _ => same(&one, &other, "the lengths cannot be broadcast"),
        }
    };
    (0..rank).map(dim).collect()
}
