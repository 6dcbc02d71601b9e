//! Products of matrices. Weights are packed, once for a model where they are constants.

use ng_simd::{Finish, GraphKernels};

use super::broadcast::Lines;
use super::parallel::by_rows;
use super::weights::{Layer, Matrix, Precision};
use crate::dfg::Op;
use crate::kernel::context::Context;
use crate::kernel::error::KernelError;
use crate::kernel::view::{Data, View, ViewMut};

/// The matrices of a node whose weights are constants; `None` if they are not, or not matrices.
pub(super) fn prepare(
    op: &Op,
    constants: &[Option<View<'_>>],
    precision: Precision,
) -> Result<Option<Vec<Matrix>>, KernelError> {
    let constant = |at: usize| {
        let view = constants.get(at).copied().flatten()?;
        if let Data::F32(elements) = view.data { Some((view.dims, elements)) } else { None }
    };
    if let (Op::QuantisedLinear, [_, Some(steps), Some(scales), ..]) = (op, constants)
        && let (Data::I8(steps), Data::F32(scales)) = (steps.data, scales.data)
    {
        return Ok(Some(vec![Matrix::of_steps(steps, scales)?]));
    }
    let is_turned = matches!(op, Op::Gemm { trans_b: true, .. });
    match (op, constant(1), constant(2)) {
        (
            Op::MatMul | Op::Gemm { .. } | Op::Linear { .. } | Op::LinearSum { .. },
            Some(([rows, columns], all)),
            _,
        ) => {
            let matrix = Matrix::of_constant(all, (*rows, *columns), is_turned, precision)?;
            Ok(Some(vec![matrix]))
        }
        (Op::SegmentMatmul, _, Some(([kinds, k, n], all))) => {
            let each = (0..*kinds).map(|kind| &all[kind * k * n..(kind + 1) * k * n]);
            let pack = |all| Matrix::of_constant(all, (*k, *n), false, precision);
            Ok(Some(each.map(pack).collect::<Result<_, _>>()?))
        }
        _ => Ok(None),
    }
}

/// The one matrix that was packed before, or what `pack` makes now.
fn matrix_or<'a>(
    packed: &'a [Matrix],
    made: &'a mut Option<Matrix>,
    pack: impl FnOnce() -> Result<Matrix, KernelError>,
) -> Result<&'a Matrix, KernelError> {
    match packed.first() {
        Some(matrix) => Ok(matrix),
        None => Ok(made.insert(pack()?)),
    }
}

/// A matrix of f32, or its transpose.
fn pack(view: &View<'_>, is_turned: bool) -> Result<Matrix, KernelError> {
    Matrix::pack(view.f32(), (view.dims[0], view.dims[1]), is_turned)
}

/// A product with all that follows; rows that are added are copied first.
pub(super) fn linear(
    kernels: GraphKernels,
    packed: &[Matrix],
    (op, inputs): (&Op, &[View<'_>]),
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    if let (Op::LinearSum { .. }, [others @ .., rows]) = (op, inputs) {
        let from = rows.f32();
        by_rows(context, from.len(), 1, out.f32(), |first, to| {
            to.copy_from_slice(&from[first..first + to.len()]);
            Ok(())
        })?;
        return linear_onto(kernels, packed, (op, others), out, context);
    }
    linear_onto(kernels, packed, (op, inputs), out, context)
}

/// The same where the rows that are added stand in `out`.
pub(super) fn linear_onto(
    kernels: GraphKernels,
    packed: &[Matrix],
    (op, inputs): (&Op, &[View<'_>]),
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let is_of_steps = *op == Op::QuantisedLinear;
    let mut made = None;
    let matrix = matrix_or(packed, &mut made, || match is_of_steps {
        // Steps, with the scale of each column.
        true => Matrix::of_steps(inputs[1].i8(), inputs[2].f32()),
        false => pack(&inputs[1], false),
    })?;
    let finish = Finish {
        bias: inputs.get(if is_of_steps { 3 } else { 2 }).map(View::f32),
        is_added: matches!(op, Op::LinearSum { .. }),
        is_rectified: matches!(op, Op::Linear { relu: true } | Op::LinearSum { relu: true }),
    };
    Layer { matrix, finish }.run(kernels, &inputs[0], out.f32(), context)
}

pub(super) fn mat_mul(
    kernels: GraphKernels,
    packed: &[Matrix],
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let (one, other) = (&inputs[0], &inputs[1]);
    let mut made = None;
    if other.dims.len() == 2 {
        let matrix = matrix_or(packed, &mut made, || pack(other, false))?;
        return Layer::new(matrix).run(kernels, one, out.f32(), context);
    }
    let of_stack = |dims: &[usize]| dims[dims.len() - 2] * dims[dims.len() - 1];
    let stacks = |dims: &[usize]| dims[..dims.len() - 2].to_vec();
    let all = stacks(out.dims);
    let lines = Lines::new(&all, [&stacks(one.dims), &stacks(other.dims)]);
    let dims = &other.dims[other.dims.len() - 2..];
    let [rows_len, matrix_len, out_len] = [one.dims, other.dims, out.dims].map(of_stack);
    let rows = one.f32();
    for (stack, out) in out.f32().chunks_exact_mut(out_len.max(1)).enumerate() {
        let [row, column] = lines.places(stack);
        let elements = &other.f32()[column * matrix_len..(column + 1) * matrix_len];
        let matrix = &Matrix::pack(elements, (dims[0], dims[1]), false)?;
        let rows = Data::F32(&rows[row * rows_len..(row + 1) * rows_len]);
        let rows = View { dims: &one.dims[one.dims.len() - 2..], data: rows };
        Layer::new(matrix).run(kernels, &rows, out, context)?;
    }
    Ok(())
}

pub(super) fn gemm(
    kernels: GraphKernels,
    packed: &[Matrix],
    (op, inputs): (&Op, &[View<'_>]),
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let Op::Gemm { alpha, beta, trans_a, trans_b } = op else {
        return Err(KernelError::NotServed(op.name()));
    };
    let mut made = None;
    let matrix = matrix_or(packed, &mut made, || pack(&inputs[1], *trans_b))?;
    let mut rows = inputs[0];
    let turned: Vec<f32>;
    if *trans_a {
        let (depth, count) = (rows.dims[0], rows.dims[1]);
        let from = rows.f32();
        turned = (0..from.len()).map(|at| from[at % depth * count + at / depth]).collect();
        rows.data = Data::F32(&turned);
    }
    let added = inputs.get(2);
    let of_columns = |view: &&View<'_>| {
        let is_row = view.dims.iter().rev().skip(1).all(|len| *len == 1);
        is_row && view.dims.last() == Some(&out.dims[1])
    };
    let bias = added.filter(of_columns).filter(|_| *alpha == 1.0 && *beta == 1.0);
    let layer = Layer { matrix, finish: Finish::with(bias.map(View::f32)) };
    let dims = out.dims;
    let to = out.f32();
    layer.run(kernels, &rows, to, context)?;
    if *alpha != 1.0 {
        to.iter_mut().for_each(|to| *to *= alpha);
    }
    if let Some(added) = added.filter(|_| bias.is_none()) {
        let mut to = to.iter_mut();
        Lines::new(dims, [added.dims]).each(0, to.len(), |count, [part]| {
            let added = added.f32()[part].iter().cycle();
            to.by_ref().take(count).zip(added).for_each(|(to, added)| *to += beta * added);
        });
    }
    Ok(())
}

pub(super) fn segment_matmul(
    kernels: GraphKernels,
    packed: &[Matrix],
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
    context: &Context,
) -> Result<(), KernelError> {
    let (rows, kinds, dims) = (inputs[0].f32(), inputs[1].i64(), inputs[2].dims);
    let (len, k, n) = (dims[0], dims[1], dims[2]);
    let is_kind = |kind: &i64| usize::try_from(*kind).is_ok_and(|kind| kind < len);
    if let Some(place) = kinds.iter().position(|kind| !is_kind(kind)) {
        return Err(KernelError::Index { index: kinds[place], place, len });
    }
    let to = out.f32();
    if to.is_empty() {
        return Ok(());
    }
    let runs = |kinds: &[i64], rows: &[f32], to: &mut [f32]| {
        let mut first = 0;
        for run in kinds.chunk_by(|one, other| one == other) {
            let kind = run[0] as usize;
            let of_kind = &inputs[2].f32()[kind * k * n..(kind + 1) * k * n];
            let dims = [run.len(), k];
            let end = first + run.len();
            let rows = View { dims: &dims, data: Data::F32(&rows[first * k..end * k]) };
            let (mut made, packed) = (None, packed.get(kind..).unwrap_or_default());
            let matrix = matrix_or(packed, &mut made, || Matrix::pack(of_kind, (k, n), false))?;
            let to = &mut to[first * n..end * n];
            Layer::new(matrix).run(kernels, &rows, to, context)?;
            first = end;
        }
        Ok(())
    };
    if kinds.is_sorted() {
        return runs(kinds, rows, to);
    }
    let mut order: Vec<usize> = (0..kinds.len()).collect();
    order.sort_by_key(|place| kinds[*place]);
    let sorted: Vec<i64> = order.iter().map(|place| kinds[*place]).collect();
    let mut moved = Vec::with_capacity(rows.len());
    order.iter().for_each(|place| moved.extend_from_slice(&rows[place * k..(place + 1) * k]));
    let mut found = vec![0.0; to.len()];
    runs(&sorted, &moved, &mut found)?;
    for (place, row) in order.iter().zip(found.chunks_exact(n)) {
        to[place * n..(place + 1) * n].copy_from_slice(row);
    }
    Ok(())
}
