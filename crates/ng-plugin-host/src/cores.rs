//! Plain cores: what `cpu-scalar` does, with the rows of the result divided among the threads.
//!
//! What must not live here: arithmetic. The invariant: each row is computed by one thread as
//! `cpu-scalar` computes it, so the bytes are the same for any number of threads.

use std::ops::Range;

use ng_infer::dfg::Op;
use ng_infer::kernel::{Context, Data, DataMut, Kernel, KernelError, Scalar, View, ViewMut};
use rayon::prelude::*;

/// Fewer elements than this are not worth another thread.
const ELEMENTS_MIN: usize = 1 << 12;

/// The device of plain cores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cores;

/// What the rows of a part need of an input.
enum Need {
    All,
    /// The same rows.
    Rows,
    /// Offsets of lists: those of the rows, beginning with 0.
    Offsets,
    /// What belongs to the lists of the rows.
    Edges,
}

/// What each input of an operation gives to a part; `None` if the operation is not divided.
fn needs(op: &Op, inputs: &[View<'_>]) -> Option<Vec<Need>> {
    let plain = inputs.iter().all(|input| !matches!(input.data, Data::Rows(_)));
    let rank = |at: usize| inputs.get(at).map_or(0, |input: &View<'_>| input.dims.len());
    let rows_then_all = || {
        let need = |at| if at == 0 { Need::Rows } else { Need::All };
        (0..inputs.len()).map(need).collect()
    };
    match op {
        _ if !plain => None,
        Op::Unary(_) | Op::Elu { .. } | Op::LeakyRelu { .. } => (rank(0) > 0).then(rows_then_all),
        Op::MatMul => ((rank(0), rank(1)) == (2, 2)).then(rows_then_all),
        Op::Linear { .. } => (rank(0) == 2).then(rows_then_all),
        Op::Gemm { trans_a: false, .. } => (rank(2) < 2).then(rows_then_all),
        Op::Aggregate(_) => {
            let need = |at| match at {
                0 => Need::All,
                1 => Need::Offsets,
                _ => Need::Edges,
            };
            Some((0..inputs.len()).map(need).collect())
        }
        Op::Sddmm(_) => {
            let need = |at| if at < 2 { Need::All } else { Need::Rows };
            Some((0..inputs.len()).map(need).collect())
        }
        Op::Binary(_) => {
            let same = rank(0) > 0 && inputs[0].dims == inputs[1].dims;
            same.then(|| vec![Need::Rows, Need::Rows])
        }
        _ => None,
    }
}

impl Kernel for Cores {
    fn is_exact_by_row(&self) -> bool {
        true
    }

    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError> {
        let (Some(pool), [out]) = (context.pool(), &mut *outputs) else {
            return Scalar.run(op, inputs, outputs, context);
        };
        let count: usize = out.dims.iter().product();
        let rows = out.dims.first().copied().unwrap_or(1);
        let lists = inputs.get(1).filter(|_| matches!(op, Op::Aggregate(_)));
        let offsets = lists.map(View::i64);
        // Lists that are not in order are what `cpu-scalar` says in its own words.
        let is_whole = offsets.is_none_or(|all| {
            let edges = inputs[2].dims.first().map_or(0, |edges| *edges as i64);
            all.is_sorted() && all.first() == Some(&0) && all.last() == Some(&edges)
        });
        let Some(needs) = needs(op, inputs).filter(|_| is_whole && count >= ELEMENTS_MIN) else {
            return Scalar.run(op, inputs, outputs, context);
        };
        let each = rows.div_ceil(context.threads());
        let width = count / rows;
        let part = |(at, data): (usize, DataMut<'_>)| {
            let rows = at * each..((at + 1) * each).min(rows);
            let part = Part { rows: rows.clone(), offsets };
            let owned: Vec<Owned> =
                inputs.iter().zip(&needs).map(|(input, need)| part.of(input, need)).collect();
            let views: Vec<View<'_>> =
                inputs.iter().zip(&owned).map(|(input, owned)| owned.view(input)).collect();
            let mut dims = out.dims.to_vec();
            dims[0] = rows.len();
            Scalar.run(op, &views, &mut [ViewMut { dims: &dims, data }], &Context::default())
        };
        let len = each * width;
        let done = pool.install(|| match &mut out.data {
            DataMut::F32(all) => {
                let parts = all.par_chunks_mut(len).map(DataMut::F32).enumerate();
                parts.try_for_each(part)
            }
            DataMut::I64(all) => {
                let parts = all.par_chunks_mut(len).map(DataMut::I64).enumerate();
                parts.try_for_each(part)
            }
            DataMut::Bool(all) => {
                let parts = all.par_chunks_mut(len).map(DataMut::Bool).enumerate();
                parts.try_for_each(part)
            }
            DataMut::F16(_) | DataMut::I8(_) => Err(KernelError::NotServed(op.name())),
        });
        // An error names places in the whole tensor, and the first one.
        done.or_else(|_: KernelError| Scalar.run(op, inputs, outputs, context))
    }
}

/// Some rows of a result.
struct Part<'a> {
    rows: Range<usize>,
    offsets: Option<&'a [i64]>,
}

/// What a part has of an input.
struct Owned {
    dims: Vec<usize>,
    /// The first element, and behind the last one.
    elements: Range<usize>,
    /// In place of those of the input.
    offsets: Option<Vec<i64>>,
}

impl Part<'_> {
    fn of(&self, input: &View<'_>, need: &Need) -> Owned {
        let mut dims = input.dims.to_vec();
        let width: usize = dims.iter().skip(1).product();
        let of = |dims: Vec<usize>, rows: Range<usize>| {
            let elements = rows.start * width..rows.end * width;
            Owned { dims, elements, offsets: None }
        };
        match (need, self.offsets) {
            (Need::Rows, _) => {
                dims[0] = self.rows.len();
                of(dims, self.rows.clone())
            }
            (Need::Offsets, Some(offsets)) => {
                let lists = &offsets[self.rows.start..=self.rows.end];
                let offsets: Vec<i64> = lists.iter().map(|offset| offset - lists[0]).collect();
                dims[0] = offsets.len();
                Owned { dims, elements: 0..0, offsets: Some(offsets) }
            }
            (Need::Edges, Some(offsets)) => {
                let edge = |row: usize| offsets[row] as usize;
                let edges = edge(self.rows.start)..edge(self.rows.end);
                dims[0] = edges.len();
                of(dims, edges)
            }
            _ => {
                let all = 0..dims.iter().product();
                Owned { dims, elements: all, offsets: None }
            }
        }
    }
}

impl Owned {
    fn view<'a>(&'a self, input: &View<'a>) -> View<'a> {
        let range = self.elements.clone();
        let data = match (&self.offsets, input.data) {
            (Some(offsets), _) => Data::I64(offsets),
            (None, Data::F32(all)) => Data::F32(&all[range]),
            (None, Data::I64(all)) => Data::I64(&all[range]),
            (None, Data::Bool(all)) => Data::Bool(&all[range]),
            (None, Data::F16(all)) => Data::F16(&all[range]),
            (None, Data::I8(all)) => Data::I8(&all[range]),
            (None, Data::Rows(rows)) => Data::Rows(rows),
        };
        View { dims: &self.dims, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{Case, cases, is_offered};
    use ng_infer::dfg::{Constant, Elements};

    fn run(kernel: &dyn Kernel, case: &Case, threads: usize) -> Result<Vec<Elements>, String> {
        let view = |tensor| View::new(Constant::dims(tensor), tensor.elements());
        let inputs: Vec<View<'_>> = case.inputs.iter().map(view).collect();
        let text = |error: KernelError| error.to_string();
        let shapes = kernel.shapes(&case.op, &inputs).map_err(text)?;
        let zeros = |(dtype, dims): &(_, Vec<usize>)| match dtype {
            ng_types::Dtype::I64 => Elements::I64(vec![0; dims.iter().product()]),
            ng_types::Dtype::Bool => Elements::Bool(vec![false; dims.iter().product()]),
            _ => Elements::F32(vec![0.0; dims.iter().product()]),
        };
        let mut memory: Vec<Elements> = shapes.iter().map(zeros).collect();
        let pairs = shapes.iter().zip(&mut memory);
        let mut outputs: Vec<_> = pairs.map(|((_, dims), all)| ViewMut::new(dims, all)).collect();
        kernel.run(&case.op, &inputs, &mut outputs, &Context::new(threads)).map_err(text)?;
        drop(outputs);
        Ok(memory)
    }

    #[test]
    fn cores_give_the_bytes_of_the_reference_device() {
        let mut divided = 0;
        for name in Op::names().filter(|name| is_offered(name)) {
            for case in cases(&name).expect("cases") {
                let wanted = run(&Scalar, &case, 1);
                let found = run(&Cores, &case, 3);
                assert_eq!(format!("{found:?}"), format!("{wanted:?}"), "{name}: {}", case.what);
                let view = |tensor| View::new(Constant::dims(tensor), tensor.elements());
                let inputs: Vec<View<'_>> = case.inputs.iter().map(view).collect();
                divided += usize::from(needs(&case.op, &inputs).is_some());
            }
        }
        assert!(divided > 100, "{divided}");
    }

    #[test]
    fn large_lists_and_products_are_divided() {
        let f32s = |dims: &[usize]| {
            let all = (0..dims.iter().product::<usize>()).map(|i| (i % 17) as f32 - 8.0).collect();
            Constant::new(dims.to_vec(), Elements::F32(all)).expect("fits")
        };
        let i64s =
            |all: Vec<i64>| Constant::new(vec![all.len()], Elements::I64(all)).expect("fits");
        let offsets: Vec<i64> = (0..=100).map(|list| list * list / 5).collect();
        let edges = offsets[100];
        let sources = i64s((0..edges).map(|edge| edge * 7 % 100).collect());
        let weights = f32s(&[edges as usize]);
        let inputs = vec![f32s(&[100, 64]), i64s(offsets), sources, weights];
        for op in [Op::Aggregate(ng_infer::dfg::Reduction::Mean), Op::MatMul] {
            let inputs = match op {
                Op::MatMul => vec![f32s(&[100, 64]), f32s(&[64, 50])],
                _ => inputs.clone(),
            };
            let case = Case { what: "large", op, inputs };
            let wanted = run(&Scalar, &case, 1);
            assert!(wanted.is_ok());
            for threads in [2, 3, 7] {
                assert_eq!(run(&Cores, &case, threads), wanted, "{threads} threads");
            }
        }
    }
}
