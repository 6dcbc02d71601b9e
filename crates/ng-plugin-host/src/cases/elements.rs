//! Cases of operations on elements.

use ng_infer::dfg::{Binary, Constant, Op, Unary};
use ng_types::Dtype;

use super::case::{Case, EMPTY, ODD, ORDINARY};
use super::draws::{bools, f32s, float, i64s, positive};

/// Shapes for one tensor.
pub(super) const SHAPES: [(&str, &[usize]); 7] = [
    (ORDINARY, &[16, 8]),
    (ORDINARY, &[70, 64]),
    (ODD, &[7, 5, 3]),
    (ODD, &[1]),
    (ODD, &[]),
    (EMPTY, &[0, 5]),
    (EMPTY, &[3, 0]),
];

/// Shapes that broadcast.
const PAIRS: [(&str, &[usize], &[usize]); 9] = [
    (ORDINARY, &[16, 8], &[16, 8]),
    (ORDINARY, &[70, 64], &[64]),
    (ODD, &[7, 1], &[5]),
    (ODD, &[5], &[7, 1]),
    (ODD, &[2, 1, 3], &[4, 1]),
    (ODD, &[], &[3]),
    (ODD, &[1], &[]),
    (EMPTY, &[0, 5], &[5]),
    (EMPTY, &[1, 5], &[0, 1]),
];

fn each(op: &Op, draw: fn(&[usize]) -> Constant) -> impl Iterator<Item = Case> {
    SHAPES.iter().map(move |(what, dims)| Case::new(what, op.clone(), [draw(dims)]))
}

pub(super) fn unary(unary: Unary) -> Vec<Case> {
    let op = Op::Unary(unary);
    match unary {
        Unary::Not => each(&op, bools).collect(),
        Unary::Log | Unary::Sqrt | Unary::Reciprocal => each(&op, positive).collect(),
        Unary::Abs | Unary::Neg => each(&op, f32s).chain(each(&op, i64s)).collect(),
        _ => each(&op, f32s).collect(),
    }
}

pub(super) fn binary(binary: Binary) -> Vec<Case> {
    let op = Op::Binary(binary);
    let pairs = |left: fn(&[usize]) -> Constant, right: fn(&[usize]) -> Constant| {
        let case = |(what, one, other): &(&'static str, &[usize], &[usize])| {
            Case::new(what, op.clone(), [left(one), right(other)])
        };
        PAIRS.iter().map(case).collect::<Vec<_>>()
    };
    match binary {
        Binary::And | Binary::Or => pairs(bools, bools),
        Binary::Pow => pairs(positive, f32s),
        Binary::Div => [pairs(f32s, positive), pairs(i64s, i64s)].concat(),
        _ => [pairs(f32s, f32s), pairs(i64s, i64s)].concat(),
    }
}

/// Those that are alone of their kind.
pub(super) fn alone(name: &str) -> Option<Vec<Case>> {
    let all = match name {
        "Elu" => each(&Op::Elu { alpha: 0.7 }, f32s).collect(),
        "LeakyRelu" => each(&Op::LeakyRelu { alpha: 0.2 }, f32s).collect(),
        "Identity" => {
            let op = Op::Identity;
            each(&op, f32s).chain(each(&op, i64s)).chain(each(&op, bools)).collect()
        }
        "Cast" => {
            let (f32, i64) = (Op::Cast(Dtype::F32), Op::Cast(Dtype::I64));
            let floats = each(&f32, i64s).chain(each(&f32, bools));
            floats.chain(each(&i64, f32s)).chain(each(&Op::Cast(Dtype::Bool), i64s)).collect()
        }
        "Softmax" | "LogSoftmax" => {
            let op = |axis| match name {
                "Softmax" => Op::Softmax { axis },
                _ => Op::LogSoftmax { axis },
            };
            vec![
                Case::new(ORDINARY, op(-1), [f32s(&[16, 8])]),
                Case::new(ORDINARY, op(0), [f32s(&[16, 8])]),
                Case::new(ODD, op(1), [f32s(&[7, 5, 3])]),
                Case::new(ODD, op(0), [f32s(&[1])]),
                Case::new(EMPTY, op(-1), [f32s(&[0, 5])]),
            ]
        }
        "Where" => {
            let case = |what, a: &[usize], b: &[usize], c: &[usize]| {
                Case::new(what, Op::Where, [bools(a), f32s(b), f32s(c)])
            };
            vec![
                case(ORDINARY, &[16, 8], &[16, 8], &[16, 8]),
                case(ODD, &[7, 1], &[5], &[]),
                case(ODD, &[], &[1, 3], &[4, 1]),
                case(EMPTY, &[0, 1], &[5], &[1]),
                Case::new(ODD, Op::Where, [bools(&[5]), i64s(&[3, 1]), i64s(&[])]),
                Case::new(ODD, Op::Where, [bools(&[5]), float(1.5), f32s(&[5])]),
            ]
        }
        _ => return None,
    };
    Some(all)
}
