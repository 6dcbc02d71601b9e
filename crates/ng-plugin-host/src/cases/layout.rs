//! Cases of operations that move elements.

use ng_infer::dfg::Op;
use ng_types::Dtype;

use super::case::{Case, EMPTY, MISFIT, ODD, ORDINARY};
use super::draws::{bools, f32s, float, given, i64s, indices, list, number};

/// Those that are alone of their kind.
pub(super) fn alone(name: &str) -> Option<Vec<Case>> {
    let all = match name {
        "Shape" => shape(),
        "Reshape" => {
            let op = Op::Reshape { allow_zero: false };
            vec![
                Case::new(ORDINARY, op.clone(), [f32s(&[16, 8]), list(&[8, 16])]),
                Case::new(ODD, op.clone(), [f32s(&[7, 5, 3]), list(&[-1, 3])]),
                Case::new(ODD, op, [i64s(&[6]), list(&[2, 3])]),
                Case::new(EMPTY, Op::Reshape { allow_zero: true }, [f32s(&[0, 5]), list(&[5, 0])]),
            ]
        }
        "Expand" | "Tile" => {
            let op = || if name == "Tile" { Op::Tile } else { Op::Expand };
            let (ordinary, odd, empty) = match name {
                "Tile" => ([2, 3], [1, 5], [4, 0]),
                _ => ([16, 8], [7, 5], [0, 5]),
            };
            vec![
                Case::new(ORDINARY, op(), [f32s(&[16, 8]), list(&ordinary)]),
                Case::new(ODD, op(), [f32s(&[7, 1]), list(&odd)]),
                Case::new(ODD, op(), [i64s(&[7, 1]), list(&odd)]),
                Case::new(EMPTY, op(), [f32s(&[1, 5]), list(&empty)]),
            ]
        }
        "Transpose" => {
            let op = |perm: Option<&[usize]>| Op::Transpose { perm: perm.map(<[usize]>::to_vec) };
            vec![
                Case::new(ORDINARY, op(None), [f32s(&[16, 8])]),
                Case::new(ORDINARY, op(Some(&[1, 0])), [f32s(&[16, 8])]),
                Case::new(ODD, op(Some(&[2, 0, 1])), [f32s(&[7, 5, 3])]),
                Case::new(ODD, op(None), [i64s(&[5])]),
                Case::new(EMPTY, op(None), [f32s(&[0, 5])]),
            ]
        }
        "Concat" => {
            let op = |axis| Op::Concat { axis };
            vec![
                Case::new(ORDINARY, op(1), [f32s(&[16, 8]), f32s(&[16, 4])]),
                Case::new(ODD, op(0), [f32s(&[7, 3]), f32s(&[0, 3]), f32s(&[1, 3])]),
                Case::new(ODD, op(-1), [f32s(&[7, 3])]),
                Case::new(ODD, op(0), [i64s(&[2]), i64s(&[3])]),
                Case::new(EMPTY, op(1), [f32s(&[0, 3]), f32s(&[0, 2])]),
            ]
        }
        "Slice" => slice(),
        "Squeeze" => vec![
            Case::new(ORDINARY, Op::Squeeze, [f32s(&[16, 1, 8]), list(&[1])]),
            Case::new(ODD, Op::Squeeze, [f32s(&[1, 7, 1])]),
            Case::new(EMPTY, Op::Squeeze, [f32s(&[0, 1]), list(&[-1])]),
        ],
        "Unsqueeze" => vec![
            Case::new(ORDINARY, Op::Unsqueeze, [f32s(&[16, 8]), list(&[1])]),
            Case::new(ODD, Op::Unsqueeze, [f32s(&[7]), list(&[0, 2])]),
            Case::new(EMPTY, Op::Unsqueeze, [f32s(&[0]), list(&[-1])]),
        ],
        _ => return chosen(name),
    };
    Some(all)
}

/// Those that choose elements, or make them of nothing.
fn chosen(name: &str) -> Option<Vec<Case>> {
    let all = match name {
        "Gather" => gather(),
        "GatherND" => vec![
            Case::new(ORDINARY, Op::GatherNd, [f32s(&[16, 8]), indices(&[9, 1], 16)]),
            Case::new(ODD, Op::GatherNd, [f32s(&[7, 5, 3]), indices(&[4, 2, 2], 5)]),
            Case::new(ODD, Op::GatherNd, [f32s(&[7, 5]), given(&[2, 1], &[-1, 0])]),
            Case::new(EMPTY, Op::GatherNd, [f32s(&[7, 5]), indices(&[0, 1], 7)]),
            Case::new(MISFIT, Op::GatherNd, [f32s(&[7, 5]), given(&[2, 1], &[7, 0])]),
        ],
        "GatherElements" => {
            let op = |axis| Op::GatherElements { axis };
            vec![
                Case::new(ORDINARY, op(0), [f32s(&[16, 8]), indices(&[4, 8], 16)]),
                Case::new(ODD, op(-1), [f32s(&[7, 5]), indices(&[7, 2], 5)]),
                Case::new(EMPTY, op(0), [f32s(&[7, 5]), indices(&[0, 5], 7)]),
                Case::new(MISFIT, op(0), [f32s(&[3, 1]), given(&[2, 1], &[0, 3])]),
            ]
        }
        "Compress" => {
            let op = |axis| Op::Compress { axis };
            vec![
                Case::new(ORDINARY, op(Some(0)), [f32s(&[16, 8]), bools(&[16])]),
                Case::new(ODD, op(Some(-1)), [f32s(&[7, 5]), bools(&[3])]),
                Case::new(ODD, op(None), [f32s(&[3, 3]), bools(&[8])]),
                Case::new(EMPTY, op(Some(0)), [f32s(&[0, 5]), bools(&[0])]),
            ]
        }
        "Range" => vec![
            Case::new(ORDINARY, Op::Range, [number(0), number(16), number(1)]),
            Case::new(ODD, Op::Range, [number(9), number(-4), number(-3)]),
            Case::new(ODD, Op::Range, [float(0.0), float(1.0), float(0.25)]),
            Case::new(EMPTY, Op::Range, [number(4), number(4), number(1)]),
        ],
        "ConstantOfShape" => {
            let op = |value, dtype| Op::ConstantOfShape { value, dtype };
            vec![
                Case::new(ORDINARY, op(1.5, Dtype::F32), [list(&[16, 8])]),
                Case::new(ODD, op(-3.0, Dtype::I64), [list(&[7])]),
                Case::new(ODD, op(1.0, Dtype::Bool), [list(&[])]),
                Case::new(EMPTY, op(1.0, Dtype::F32), [list(&[0, 5])]),
            ]
        }
        _ => return None,
    };
    Some(all)
}

fn shape() -> Vec<Case> {
    let op = |start, end| Op::Shape { start, end };
    vec![
        Case::new(ORDINARY, op(0, None), [f32s(&[16, 8])]),
        Case::new(ODD, op(-2, Some(-1)), [f32s(&[7, 5, 3])]),
        Case::new(EMPTY, op(0, None), [f32s(&[0, 5])]),
        Case::new(EMPTY, op(0, None), [f32s(&[])]),
    ]
}

fn slice() -> Vec<Case> {
    let all = |starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]| {
        [list(starts), list(ends), list(axes), list(steps)]
    };
    let with = |data, rest: [_; 4]| {
        let [starts, ends, axes, steps] = rest;
        [data, starts, ends, axes, steps]
    };
    let last = with(f32s(&[7, 5, 3]), all(&[-1, 0], &[i64::MIN, 3], &[0, 1], &[-2, 2]));
    vec![
        Case::new(ORDINARY, Op::Slice, with(f32s(&[16, 8]), all(&[2], &[10], &[0], &[1]))),
        Case::new(ODD, Op::Slice, last),
        Case::new(ODD, Op::Slice, [f32s(&[7, 5]), list(&[1, 2]), list(&[6, 100])]),
        Case::new(EMPTY, Op::Slice, with(f32s(&[7, 5]), all(&[3], &[3], &[1], &[1]))),
    ]
}

fn gather() -> Vec<Case> {
    let op = |axis| Op::Gather { axis };
    vec![
        Case::new(ORDINARY, op(0), [f32s(&[16, 8]), indices(&[20], 16)]),
        Case::new(ORDINARY, op(1), [f32s(&[16, 8]), indices(&[5], 8)]),
        Case::new(ODD, op(0), [f32s(&[7, 5, 3]), indices(&[2, 3], 7)]),
        Case::new(ODD, op(0), [f32s(&[7, 5]), list(&[-1, -7, 0])]),
        Case::new(ODD, op(0), [i64s(&[7]), number(3)]),
        Case::new(EMPTY, op(0), [f32s(&[7, 5]), indices(&[0], 7)]),
        Case::new(MISFIT, op(0), [f32s(&[7, 5]), list(&[0, 7])]),
        Case::new(MISFIT, op(0), [f32s(&[7, 5]), list(&[-8])]),
    ]
}
