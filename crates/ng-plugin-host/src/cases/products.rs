//! Cases of products of matrices and of reductions.

use ng_infer::dfg::{Op, Reduction};

use super::case::{Case, EMPTY, MISFIT, ODD, ORDINARY};
use super::draws::{f32s, given, indices, list};

pub(super) fn reduce(how: Reduction) -> Vec<Case> {
    let op = |keep_dims| Op::Reduce { how, keep_dims };
    vec![
        Case::new(ORDINARY, op(true), [f32s(&[16, 8]), list(&[1])]),
        Case::new(ORDINARY, op(false), [f32s(&[16, 8]), list(&[0])]),
        Case::new(ODD, op(false), [f32s(&[7, 5, 3]), list(&[0, -1])]),
        Case::new(ODD, op(true), [f32s(&[5, 3])]),
        Case::new(ODD, op(false), [f32s(&[1])]),
        Case::new(EMPTY, op(false), [f32s(&[0, 5]), list(&[1])]),
        Case::new(EMPTY, op(true), [f32s(&[0, 5]), list(&[-1])]),
    ]
}

/// Rows, inner length and columns.
const PRODUCTS: [(&str, usize, usize, usize); 9] = [
    (ORDINARY, 16, 8, 12),
    (ORDINARY, 70, 64, 33),
    (ODD, 7, 5, 3),
    (ODD, 1, 1, 1),
    (ODD, 1, 17, 1),
    (ODD, 5, 1, 9),
    (EMPTY, 0, 5, 3),
    (EMPTY, 3, 0, 4),
    (EMPTY, 3, 4, 0),
];

/// Those that are alone of their kind.
pub(super) fn alone(name: &str) -> Option<Vec<Case>> {
    let all = match name {
        "MatMul" => {
            let stacks = [
                Case::new(ODD, Op::MatMul, [f32s(&[2, 3, 4]), f32s(&[2, 4, 5])]),
                Case::new(ODD, Op::MatMul, [f32s(&[2, 3, 4]), f32s(&[4, 5])]),
            ];
            let of = |(what, m, k, n): &(&'static str, usize, usize, usize)| {
                Case::new(what, Op::MatMul, [f32s(&[*m, *k]), f32s(&[*k, *n])])
            };
            PRODUCTS.iter().map(of).chain(stacks).collect()
        }
        "GEMM" => PRODUCTS.iter().flat_map(gemm).collect(),
        "Linear" => PRODUCTS.iter().flat_map(linear).collect(),
        "LinearSum" => PRODUCTS.iter().flat_map(linear_sum).collect(),
        "SegmentMatmul" => {
            let case = |what, rows: usize, k: usize, kinds: usize, n: usize| {
                let of = indices(&[rows], kinds as u64);
                Case::new(what, Op::SegmentMatmul, [f32s(&[rows, k]), of, f32s(&[kinds, k, n])])
            };
            let wrong = [f32s(&[2, 3]), given(&[2], &[0, 4]), f32s(&[4, 3, 5])];
            vec![
                case(ORDINARY, 20, 8, 4, 6),
                case(ODD, 7, 3, 1, 5),
                case(EMPTY, 0, 3, 2, 5),
                Case::new(MISFIT, Op::SegmentMatmul, wrong),
            ]
        }
        _ => return None,
    };
    Some(all)
}

fn gemm((what, m, k, n): &(&'static str, usize, usize, usize)) -> Vec<Case> {
    let op = |trans_a, trans_b| Op::Gemm { alpha: 0.5, beta: 1.5, trans_a, trans_b };
    let (a, b) = (f32s(&[*m, *k]), f32s(&[*k, *n]));
    let (turned_a, turned_b) = (f32s(&[*k, *m]), f32s(&[*n, *k]));
    vec![
        Case::new(what, op(false, false), [a.clone(), b.clone()]),
        Case::new(what, op(false, false), [a.clone(), b.clone(), f32s(&[*n])]),
        Case::new(what, op(true, false), [turned_a, b, f32s(&[*m, 1])]),
        Case::new(what, op(false, true), [a, turned_b, f32s(&[*m, *n])]),
    ]
}

fn linear_sum((what, m, k, n): &(&'static str, usize, usize, usize)) -> Vec<Case> {
    let all = [f32s(&[*m, *k]), f32s(&[*k, *n]), f32s(&[*n]), f32s(&[*m, *n])];
    let case = |relu| Case::new(what, Op::LinearSum { relu }, all.clone());
    vec![case(false), case(true)]
}

fn linear((what, m, k, n): &(&'static str, usize, usize, usize)) -> Vec<Case> {
    let (x, weight) = (f32s(&[*m, *k]), f32s(&[*k, *n]));
    vec![
        Case::new(what, Op::Linear { relu: false }, [x.clone(), weight.clone()]),
        Case::new(what, Op::Linear { relu: true }, [x, weight, f32s(&[*n])]),
    ]
}
