//! int8 with scales: weights of linear layers in steps of 8 bits, with a scale for each column.
//!
//! Activations get a scale for each row when they are there ([`Op::QuantisedLinear`]), so nothing
//! has to be measured beforehand.

use std::sync::Arc;

use ng_simd::{ColumnRange, RowEncoder};
use ng_types::Dtype;

use super::Quantised;
use super::copy::Copy;
use super::error::QuantiseError;
use crate::dfg::{Constant, Dfg, Elements, Node, Op, Unary, Value};

/// More rows of a matrix could sum up to more than an i32.
const DEPTH_MAX: usize = 1 << 16;

/// A product with a matrix of the model.
struct Linear {
    rows: Value,
    matrix: Value,
    /// What the matrix is multiplied with.
    alpha: f32,
    is_turned: bool,
    /// What is added to each row, and what it is multiplied with.
    bias: Option<(Value, f32)>,
    relu: bool,
}

/// The graph with its linear layers in steps of 8 bits: products with a matrix that belongs to the
/// model, with or without a bias. Products of two values of a batch, and matrices by kind, stay as
/// they are.
///
/// # Errors
///
/// A weight is not finite, or there is no linear layer.
pub fn steps(dfg: &Dfg) -> Result<Quantised, QuantiseError> {
    let mut copy = Copy::new(dfg)?;
    let mut narrowed = Vec::new();
    for node in dfg.nodes() {
        match linear(&copy, node) {
            Some(linear) => {
                quantised(&mut copy, node, &linear)?;
                narrowed.push(dfg.name(linear.matrix).to_owned());
            }
            None => copy.same(node)?,
        }
    }
    let matrix = |(value, tensor): (Value, &Constant)| {
        let stays = copy.has(value) && tensor.dims().len() > 1;
        let name = stays.then(|| dfg.name(value).to_owned())?;
        (tensor.elements().dtype() == Dtype::F32).then_some((name, why(tensor)))
    };
    let kept: Vec<_> = dfg.weights().filter_map(matrix).collect();
    if narrowed.is_empty() {
        return Err(QuantiseError::Nothing { kept });
    }
    narrowed.sort_unstable();
    narrowed.dedup();
    Ok(Quantised { dfg: copy.finish()?, narrowed, kept })
}

fn why(tensor: &Constant) -> String {
    match tensor.dims() {
        [depth, _] if *depth > DEPTH_MAX => format!("has more than {DEPTH_MAX} rows"),
        _ => "is used other than as the matrix of a linear layer".to_owned(),
    }
}

/// What a node does, if it is a linear layer.
fn linear(copy: &Copy<'_>, node: &Node) -> Option<Linear> {
    let (alpha, beta, is_turned, relu) = match node.op {
        Op::MatMul => (1.0, 1.0, false, false),
        Op::Gemm { alpha, beta, trans_a: false, trans_b } => (alpha, beta, trans_b, false),
        Op::Linear { relu } => (1.0, 1.0, false, relu),
        _ => return None,
    };
    let (rows, matrix) = (node.inputs[0], node.inputs[1]);
    let [one, other] = *copy.weight(matrix)?.0.dims() else { return None };
    let (depth, width) = if is_turned { (other, one) } else { (one, other) };
    let bias = match node.inputs.get(2) {
        None => None,
        Some(bias) => {
            let dims = copy.weight(*bias)?.0.dims();
            let fits = matches!(dims, [] | [1] | [1, 1]) || dims == [width] || dims == [1, width];
            Some((*bias, beta)).filter(|_| fits).map(Some)?
        }
    };
    let linear = Linear { rows, matrix, alpha, is_turned, bias, relu };
    (depth <= DEPTH_MAX).then_some(linear)
}

fn quantised(copy: &mut Copy<'_>, node: &Node, of: &Linear) -> Result<(), QuantiseError> {
    let name = copy.from.name(of.matrix);
    // It is one.
    let Some((tensor, all)) = copy.weight(of.matrix) else { unreachable!() };
    let (dims, all) = turned(tensor.dims(), all, of);
    let (steps, scales) = encoded(name, dims, &all)?;
    let purpose = if of.is_turned { ".T" } else { "" };
    let purpose =
        if of.alpha == 1.0 { purpose.to_owned() } else { format!("{purpose}*{}", of.alpha) };
    let matrix = constant(&dims, Elements::I8(steps));
    let matrix = copy.derived(of.matrix, &purpose, || Ok::<_, QuantiseError>(matrix))?;
    let scales = constant(&dims[1..], Elements::F32(scales));
    let purpose = format!("{purpose}.scales");
    let scales = copy.derived(of.matrix, &purpose, || Ok::<_, QuantiseError>(scales))?;
    let bias = match of.bias {
        None => {
            let zeros = constant(&dims[1..], Elements::F32(vec![0.0; dims[1]]));
            copy.derived(of.matrix, ".bias", || Ok::<_, QuantiseError>(zeros))?
        }
        Some((bias, beta)) => {
            let (_, all) = copy.weight(bias).unwrap_or_else(|| unreachable!());
            let all = all.iter().map(|x| x * beta).cycle().take(dims[1]).collect();
            let tensor = constant(&dims[1..], Elements::F32(all));
            let purpose = if beta == 1.0 { ".row".to_owned() } else { format!("*{beta}") };
            copy.derived(bias, &purpose, || finite(copy.from.name(bias).to_owned(), tensor))?
        }
    };
    let rows = copy.value(of.rows)?;
    let inputs = [rows, matrix, scales, bias];
    let out = copy.from.name(node.outputs[0]);
    let product = if of.relu { format!("{out}.sum") } else { out.to_owned() };
    let mut made = copy.node(&node.name, Op::QuantisedLinear, &inputs, &product)?;
    if of.relu {
        made = copy.node(&node.name, Op::Unary(Unary::Relu), &[made], out)?;
    }
    copy.set(node.outputs[0], made);
    Ok(())
}

/// As many elements as the shape says.
fn constant(dims: &[usize], elements: Elements) -> Constant {
    Constant::new(dims.to_vec(), elements).unwrap_or_else(|| unreachable!())
}

fn finite(name: String, tensor: Constant) -> Result<Constant, QuantiseError> {
    let Elements::F32(all) = tensor.elements() else { return Ok(tensor) };
    match all.iter().position(|x| !x.is_finite()) {
        None => Ok(tensor),
        Some(at) => {
            let problem = format!("column {at} is {}", all[at]);
            Err(QuantiseError::Weight { name, problem })
        }
    }
}

/// The matrix as rows are multiplied with it, times the factor.
fn turned(dims: &[usize], all: &[f32], of: &Linear) -> ([usize; 2], Vec<f32>) {
    let (rows, columns) = (dims[0], dims[1]);
    if !of.is_turned {
        return ([rows, columns], all.iter().map(|x| x * of.alpha).collect());
    }
    let at = |i: usize| all[i % rows * columns + i / rows] * of.alpha;
    ([columns, rows], (0..all.len()).map(at).collect())
}

/// Steps and scales of a matrix.
fn encoded(
    name: &str,
    dims: [usize; 2],
    all: &[f32],
) -> Result<(Vec<i8>, Vec<f32>), QuantiseError> {
    let wrong = |problem: String| QuantiseError::Weight { name: name.to_owned(), problem };
    let bytes: Vec<u8> = all.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut range = ColumnRange::new(dims[1]);
    range.add_rows(&bytes).map_err(|misfit| wrong(misfit.to_string()))?;
    let scales = range.scales();
    let mut out = Vec::new();
    let encoder = RowEncoder::new(Dtype::I8, dims[1], Some(Arc::from(&scales[..])));
    let encoder = encoder.map_err(|error| wrong(error.to_string()))?;
    encoder.encode_rows(&bytes, &mut out).map_err(|misfit| wrong(misfit.to_string()))?;
    Ok((out.into_iter().map(|step| step as i8).collect(), scales))
}
