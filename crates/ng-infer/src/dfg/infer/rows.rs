//! Products, reductions, and operations on graphs.

use ng_types::Dtype;

use super::{Known, Unknown, broadcast, place, same};
use crate::dfg::Dim;
use crate::dfg::op::Binary;

pub(super) fn mat_mul(one: &Known, other: &Known) -> Result<Known, String> {
    one.wants(Dtype::F32)?;
    other.wants(Dtype::F32)?;
    let ([.., m, k], [.., inner, n]) = (&one.shape[..], &other.shape[..]) else {
        return Err("expected matrices".to_owned());
    };
    same(k, inner, "the inner dimensions of the matrices differ")?;
    let stacks = |known: &Known| known.shape[..known.rank() - 2].to_vec();
    let mut shape = broadcast(&stacks(one), &stacks(other))?;
    shape.extend([m.clone(), n.clone()]);
    Ok(Known::new(Dtype::F32, shape))
}

pub(super) fn gemm(inputs: &[&Known], trans_a: bool, trans_b: bool) -> Result<Known, String> {
    let side = |known: &Known, is_turned: bool| match (&known.shape[..], is_turned) {
        ([rows, columns], false) => Ok((rows.clone(), columns.clone())),
        ([rows, columns], true) => Ok((columns.clone(), rows.clone())),
        _ => Err("expected matrices".to_owned()),
    };
    for known in inputs {
        known.wants(Dtype::F32)?;
    }
    let ((m, k), (inner, n)) = (side(inputs[0], trans_a)?, side(inputs[1], trans_b)?);
    same(&k, &inner, "the inner dimensions of the matrices differ")?;
    let shape = vec![m, n];
    if let Some(added) = inputs.get(2)
        && broadcast(&shape, &added.shape)?.len() != 2
    {
        return Err("input C has more than two dimensions".to_owned());
    }
    Ok(Known::new(Dtype::F32, shape))
}

pub(super) fn linear(inputs: &[&Known]) -> Result<Known, String> {
    for known in inputs {
        known.wants(Dtype::F32)?;
    }
    inputs[1].wants_rank(2)?;
    let Some((inner, rest)) = inputs[0].shape.split_last() else {
        return Err("expected a tensor with rows, found a scalar".to_owned());
    };
    same(inner, &inputs[1].shape[0], "the inner dimensions of the matrices differ")?;
    let width = &inputs[1].shape[1];
    if let Some(bias) = inputs.get(2) {
        bias.wants_rank(1)?;
        same(width, &bias.shape[0], "the number of columns and the length of the bias differ")?;
    }
    let shape = [rest, std::slice::from_ref(width)].concat();
    if let Some(rows) = inputs.get(3) {
        rows.wants_rank(shape.len())?;
        for (one, other) in rows.shape.iter().zip(&shape) {
            same(one, other, "the product and the added rows differ in a dimension")?;
        }
    }
    Ok(Known::new(Dtype::F32, shape))
}

/// The shape of rows times a matrix.
fn product(rows: &Known, matrix: &Known) -> Result<Vec<Dim>, String> {
    matrix.wants_rank(2)?;
    let (inner, rest) =
        rows.shape.split_last().ok_or("expected a tensor with rows, found a scalar")?;
    same(inner, &matrix.shape[0], "the inner dimensions of the matrices differ")?;
    Ok([rest, &matrix.shape[1..]].concat())
}

pub(super) fn quantised_linear(inputs: &[&Known]) -> Result<Known, String> {
    let (rows, steps) = (inputs[0], inputs[1]);
    rows.wants(Dtype::F32)?;
    steps.wants(Dtype::I8)?;
    let shape = product(rows, steps)?;
    for column in &inputs[2..] {
        column.wants(Dtype::F32)?;
        column.wants_rank(1)?;
        let what = "the number of columns and the number of their scales or biases differ";
        same(&steps.shape[1], &column.shape[0], what)?;
    }
    Ok(Known::new(Dtype::F32, shape))
}

pub(super) fn fixed_mat_mul(rows: &Known, matrix: &Known) -> Result<Known, String> {
    rows.wants(Dtype::I64)?;
    if matrix.dtype != Dtype::I8 {
        matrix.wants(Dtype::I64)?;
    }
    Ok(Known::new(Dtype::I64, product(rows, matrix)?))
}

pub(super) fn reduce(
    inputs: &[&Known],
    keep_dims: bool,
    unknown: &mut Unknown,
) -> Result<Known, String> {
    let of = inputs[0];
    if of.dtype == Dtype::Bool {
        return Err("expected numbers, found bool".to_owned());
    }
    let rank = of.rank();
    let axes = match inputs.get(1) {
        None => (0..rank).collect(),
        Some(list) => {
            list.wants(Dtype::I64)?;
            match list.numbers() {
                Some(axes) if axes.is_empty() => (0..rank).collect(),
                Some(axes) => {
                    axes.iter().map(|a| place(*a, rank)).collect::<Result<Vec<_>, _>>()?
                }
                None if keep_dims => {
                    let shape = (0..rank).map(|_| unknown.next()).collect();
                    return Ok(Known::new(of.dtype, shape));
                }
                None => return Err("the axes are not constant".to_owned()),
            }
        }
    };
    let dim = |(axis, dim): (usize, &Dim)| match (axes.contains(&axis), keep_dims) {
        (true, true) => Some(Dim::from(1)),
        (true, false) => None,
        (false, _) => Some(dim.clone()),
    };
    Ok(Known::new(of.dtype, of.shape.iter().enumerate().filter_map(dim).collect()))
}

/// How many there are, as a number of its own.
fn count(known: &Known, unknown: &mut Unknown) -> Result<Dim, String> {
    known.wants(Dtype::I64)?;
    if !known.is_number() {
        return Err("expected a scalar as the count".to_owned());
    }
    let content = known.content.as_ref().and_then(|all| all.first().cloned());
    match content {
        Some(dim) if dim.number().is_some_and(|n| n < 0) => {
            Err(format!("the count {dim} is negative"))
        }
        Some(dim) => Ok(dim),
        None => Ok(unknown.next()),
    }
}

/// An index with one entry for each of the first axis of `of`.
fn indexed(of: &Known, index: &Known) -> Result<(), String> {
    index.wants(Dtype::I64)?;
    index.wants_rank(1)?;
    let first = of.shape.first().ok_or("expected a tensor with rows, found a scalar")?;
    same(first, &index.shape[0], "the number of rows and the length of the index differ").map(drop)
}

pub(super) fn scatter(
    dtype: Dtype,
    inputs: &[&Known],
    unknown: &mut Unknown,
) -> Result<Known, String> {
    let of = inputs[0];
    of.wants(dtype)?;
    indexed(of, inputs[1])?;
    let mut known = Known::new(of.dtype, of.shape.clone());
    known.shape[0] = count(inputs[2], unknown)?;
    Ok(known)
}

/// Two indices of one length; which.
fn ends(one: &Known, other: &Known) -> Result<Dim, String> {
    for index in [one, other] {
        index.wants(Dtype::I64)?;
        index.wants_rank(1)?;
    }
    same(&one.shape[0], &other.shape[0], "sources and destinations differ in number")
}

pub(super) fn edge_lists(inputs: &[&Known], unknown: &mut Unknown) -> Result<Vec<Known>, String> {
    let edges = ends(inputs[0], inputs[1])?;
    let offsets = count(inputs[2], unknown)? + Dim::from(1);
    let list = |len: Dim| Known::new(Dtype::I64, vec![len]);
    Ok(vec![list(offsets), list(edges.clone()), list(edges)])
}

/// Lengths of a row.
fn row_shape(rows: &Known) -> Result<&[Dim], String> {
    rows.wants(Dtype::F32)?;
    rows.shape.get(1..).ok_or_else(|| "expected a tensor with rows, found a scalar".to_owned())
}

pub(super) fn aggregate(inputs: &[&Known]) -> Result<Known, String> {
    let (rows, offsets, sources) = (inputs[0], inputs[1], inputs[2]);
    let row = row_shape(rows)?;
    for list in [offsets, sources] {
        list.wants(Dtype::I64)?;
        list.wants_rank(1)?;
    }
    if let Some(weights) = inputs.get(3) {
        weights.wants(Dtype::F32)?;
        let first = weights.shape.first().ok_or("expected one weight per edge, found a scalar")?;
        same(&sources.shape[0], first, "edges and weights differ in number")?;
        let heads = weights.shape.iter().rposition(|dim| dim.number() != Some(1)).unwrap_or(0);
        let heads = weights.shape.get(1..=heads).unwrap_or_default();
        if heads.len() > row.len() {
            return Err("weights have more dimensions than messages".to_owned());
        }
        for (head, dim) in heads.iter().zip(row) {
            same(head, dim, "weights and messages differ in a dimension")?;
        }
    }
    let lists = offsets.shape[0].clone() - Dim::from(1);
    Ok(Known::new(Dtype::F32, [std::slice::from_ref(&lists), row].concat()))
}

pub(super) fn sddmm(binary: Binary, inputs: &[&Known]) -> Result<Known, String> {
    if !binary.is_arithmetic() {
        return Err(format!("{} does not return numbers", binary.name()));
    }
    let (one, other) = (row_shape(inputs[0])?, row_shape(inputs[1])?);
    if one.len() != other.len() {
        let (one, other) = (one.len(), other.len());
        return Err(format!("the rows of the two inputs have {one} and {other} dimensions"));
    }
    let mut shape = vec![ends(inputs[2], inputs[3])?];
    for (one, other) in one.iter().zip(other) {
        shape.push(same(one, other, "the rows of the two inputs differ in a dimension")?);
    }
    Ok(Known::new(Dtype::F32, shape))
}

pub(super) fn edge_softmax(inputs: &[&Known]) -> Result<Known, String> {
    inputs[0].wants(Dtype::F32)?;
    indexed(inputs[0], inputs[1])?;
    inputs[2].wants(Dtype::I64)?;
    Ok(Known::new(Dtype::F32, inputs[0].shape.clone()))
}

/// Edges as `[2, edges]`; how many.
fn edges(known: &Known) -> Result<Dim, String> {
    known.wants(Dtype::I64)?;
    known.wants_rank(2)?;
    let first = &known.shape[0];
    let wrong = |_| format!("an edge index needs the shape [2, edges], found {first} rows");
    same(first, &Dim::from(2), "").map_err(wrong)?;
    Ok(known.shape[1].clone())
}

pub(super) fn spmm(inputs: &[&Known]) -> Result<Known, String> {
    let (count, rows) = (edges(inputs[0])?, inputs[1]);
    rows.wants(Dtype::F32)?;
    rows.wants_rank(2)?;
    if let Some(weights) = inputs.get(2) {
        weights.wants(Dtype::F32)?;
        weights.wants_rank(1)?;
        same(&count, &weights.shape[0], "edges and weights differ in number")?;
    }
    Ok(Known::new(Dtype::F32, rows.shape.clone()))
}

pub(super) fn add_self_loops(
    of: &Known,
    nodes: &Known,
    unknown: &mut Unknown,
) -> Result<Known, String> {
    let all = edges(of)? + count(nodes, unknown)?;
    Ok(Known::new(Dtype::I64, vec![Dim::from(2), all]))
}

pub(super) fn remove_self_loops(of: &Known, unknown: &mut Unknown) -> Result<Known, String> {
    edges(of)?;
    Ok(Known::new(Dtype::I64, vec![Dim::from(2), unknown.next()]))
}

pub(super) fn remove_self_loops_attr(
    of: &Known,
    rows: &Known,
    unknown: &mut Unknown,
) -> Result<Vec<Known>, String> {
    of_edges(&edges(of)?, rows)?;
    let kept = remove_self_loops(of, unknown)?;
    let mut shape = rows.shape.clone();
    shape[0] = kept.shape[1].clone();
    Ok(vec![kept, Known::new(rows.dtype, shape)])
}

/// F32 rows, one for each of `edges`.
fn of_edges(edges: &Dim, rows: &Known) -> Result<(), String> {
    rows.wants(Dtype::F32)?;
    let first = rows.shape.first().ok_or("expected a tensor with rows, found a scalar")?;
    same(edges, first, "edges and rows differ in number").map(drop)
}

pub(super) fn self_loop_attr(inputs: &[&Known]) -> Result<Known, String> {
    let (rows, fill) = (inputs[1], inputs[2]);
    of_edges(&edges(inputs[0])?, rows)?;
    fill.wants(Dtype::F32)?;
    fill.wants_rank(rows.rank())?;
    for (one, other) in rows.shape.iter().zip(&fill.shape).skip(1) {
        same(one, other, "the rows of edges and the fill values differ in a dimension")?;
    }
    Ok(Known::new(Dtype::F32, fill.shape.clone()))
}

pub(super) fn gcn_norm(inputs: &[&Known], unknown: &mut Unknown) -> Result<Known, String> {
    inputs[1].wants_rank(1)?;
    of_edges(&edges(inputs[0])?, inputs[1])?;
    count(inputs[2], unknown)?;
    Ok(Known::new(Dtype::F32, inputs[1].shape.clone()))
}

pub(super) fn degree(index: &Known, nodes: &Known, unknown: &mut Unknown) -> Result<Known, String> {
    index.wants(Dtype::I64)?;
    index.wants_rank(1)?;
    Ok(Known::new(Dtype::F32, vec![count(nodes, unknown)?]))
}

pub(super) fn segment_matmul(inputs: &[&Known]) -> Result<Known, String> {
    let (rows, matrices) = (inputs[0], inputs[2]);
    rows.wants(Dtype::F32)?;
    rows.wants_rank(2)?;
    indexed(rows, inputs[1])?;
    matrices.wants(Dtype::F32)?;
    matrices.wants_rank(3)?;
    same(&rows.shape[1], &matrices.shape[1], "the inner dimensions of the matrices differ")?;
    Ok(Known::new(Dtype::F32, vec![rows.shape[0].clone(), matrices.shape[2].clone()]))
}

pub(super) fn batch_pre(nodes: &Known) -> Result<Vec<Known>, String> {
    nodes.wants(Dtype::I64)?;
    nodes.wants_rank(1)?;
    let edges = vec![Dim::from(2), Dim::symbol("edges")];
    let rows = vec![Dim::symbol("nodes"), Dim::symbol("width")];
    Ok(vec![Known::new(Dtype::I64, edges), Known::new(Dtype::F32, rows)])
}
