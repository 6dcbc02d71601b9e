//! Quantised and fixed-point operations on the reference device.

use std::slice::from_ref;

use crate::common::{f32s, i64s, run_op};
use ng_infer::dfg::{Attribute, Attributes, Constant, Elements, FixedFormat, Op, Reduction};
use ng_types::Dtype;

fn i8s(dims: &[usize], all: &[i8]) -> Constant {
    Constant::new(dims.to_vec(), Elements::I8(all.to_vec())).expect("as many as the shape says")
}

fn check(op: &Op, inputs: &[Constant], wanted: &Constant) {
    let found = run_op(op, inputs).unwrap_or_else(|error| panic!("{op:?}: {error}"));
    assert_eq!(found, *wanted, "{op:?} of {inputs:?}");
}

fn refused(op: &Op, inputs: &[Constant], words: &str) {
    let error = run_op(op, inputs).expect_err("does not fit").to_string();
    assert!(error.contains(words), "{op:?}: {error}");
}

fn fixed(bits: u32, fraction: i32) -> Op {
    Op::ToFixed(FixedFormat { bits, fraction })
}

#[test]
fn a_row_has_127_steps_to_either_side() {
    let steps = i8s(&[2, 2], &[1, 2, -3, 4]);
    let (scales, bias) = (f32s(&[2], &[0.5, 1.0]), f32s(&[2], &[10.0, 0.0]));
    let run = |rows: Constant| {
        run_op(&Op::QuantisedLinear, &[rows, steps.clone(), scales.clone(), bias.clone()])
    };
    let rows = f32s(&[2, 2], &[127.0, -127.0, 63.4, 127.0]);
    let wanted = f32s(&[2, 2], &[264.0, -254.0, -149.0, 634.0]);
    assert_eq!(run(rows), Ok(wanted));
    // Rows of zeros give the bias, and so do rows whose step would be subnormal.
    let rows = f32s(&[2, 2], &[0.0, -0.0, 1e-40, 0.0]);
    assert_eq!(run(rows), Ok(f32s(&[2, 2], &[10.0, 0.0, 10.0, 0.0])));
    assert_eq!(run(f32s(&[0, 2], &[])), Ok(f32s(&[0, 2], &[])));
    // An outlier takes all steps of its row, and of no other.
    let rows = f32s(&[2, 2], &[1e30, 1.0, 1.0, 1.0]);
    let Elements::F32(all) = run(rows).expect("fits").elements().clone() else { panic!("f32") };
    assert_eq!(all[2..], [127.0 * -2.0 / 127.0 * 0.5 + 10.0, 6.0]);
    assert!((all[0] - 5e29).abs() < 1e24, "{}", all[0]);
}

#[test]
fn rows_that_have_no_steps_give_nan_and_others_are_as_before() {
    let columns = [i8s(&[2, 1], &[1, 2]), f32s(&[1], &[1.0]), f32s(&[1], &[0.0])];
    let with = |rows: Constant| [&[rows], &columns[..]].concat();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let rows = f32s(&[2, 2], &[127.0, 0.0, 3.0, bad]);
        let found = run_op(&Op::QuantisedLinear, &with(rows)).expect("fits");
        let Elements::F32(all) = found.elements() else { panic!("f32") };
        assert!(all[0] == 127.0 && all[1].is_nan(), "{bad}: {all:?}");
    }
    let words = "the inner dimensions of the matrices differ";
    refused(&Op::QuantisedLinear, &with(f32s(&[1, 3], &[0.0; 3])), words);
    // Width 1 and depth 0 are matrices, too.
    check(&Op::QuantisedLinear, &with(f32s(&[1, 2], &[127.0, 0.0])), &f32s(&[1, 1], &[127.0]));
    let empty = [f32s(&[1, 0], &[]), i8s(&[0, 1], &[]), f32s(&[1], &[1.0]), f32s(&[1], &[3.0])];
    check(&Op::QuantisedLinear, &empty, &f32s(&[1, 1], &[3.0]));
}

#[test]
fn numbers_are_rounded_to_a_format_and_saturate() {
    let x = f32s(&[6], &[0.25, 0.75, -0.25, -0.75, 9.0, -9.0]);
    check(&fixed(4, 1), from_ref(&x), &i64s(&[6], &[0, 2, 0, -2, 7, -8]));
    let large = f32s(&[3], &[f32::INFINITY, f32::NEG_INFINITY, 3.0e38]);
    check(&fixed(8, 0), from_ref(&large), &i64s(&[3], &[127, -128, 127]));
    // The point may be to the right of all bits.
    check(&fixed(8, -2), &[f32s(&[2], &[6.0, 1000.0])], &i64s(&[2], &[2, 127]));
    refused(&fixed(8, 0), &[f32s(&[2], &[0.0, f32::NAN])], "element 1 is NaN");
    let back = Op::FromFixed { fraction: 3 };
    check(&back, &[i64s(&[2], &[-1, 20])], &f32s(&[2], &[-0.125, 2.5]));
}

#[test]
fn fewer_fraction_bits_are_rounded_to_even() {
    let x = i64s(&[8], &[1, 2, 3, -1, -2, -3, 6, i64::MAX]);
    let op = |bits, shift| Op::FixedRescale { bits, shift };
    check(&op(62, 2), from_ref(&x), &i64s(&[8], &[0, 0, 1, 0, 0, -1, 2, (1 << 61) - 1]));
    check(&op(4, -1), from_ref(&x), &i64s(&[8], &[2, 4, 6, -2, -4, -6, 7, 7]));
    check(&op(8, 62), &[i64s(&[2], &[i64::MAX, i64::MIN])], &i64s(&[2], &[2, -2]));
}

#[test]
fn products_of_whole_numbers_are_exact_or_saturate() {
    let large = 1 << 40;
    let rows = i64s(&[2, 2], &[large, 1, 0, i64::MAX]);
    let wanted = i64s(&[2, 2], &[(large << 20) + 1, -large, i64::MAX, 0]);
    check(&Op::FixedMatMul, &[rows, i64s(&[2, 2], &[1 << 20, -1, 1, 0])], &wanted);
    let rows = i64s(&[1, 2], &[i64::MAX, 2]);
    check(&Op::FixedMatMul, &[rows, i8s(&[2, 1], &[2, 3])], &i64s(&[1, 1], &[i64::MAX]));
    refused(&Op::FixedMatMul, &[f32s(&[1, 1], &[1.0]), i64s(&[1, 1], &[1])], "expected i64");
}

#[test]
fn whole_numbers_are_combined_by_index() {
    let messages = i64s(&[4, 1], &[5, 2, -7, -8]);
    let (index, size) = (i64s(&[4], &[0, 0, 2, 2]), i64s(&[], &[3]));
    for (how, wanted) in [
        (Reduction::Sum, [7, 0, -15]),
        (Reduction::Mean, [4, 0, -8]),
        (Reduction::Max, [5, 0, -7]),
        (Reduction::Min, [2, 0, -8]),
    ] {
        let inputs = [messages.clone(), index.clone(), size.clone()];
        check(&Op::FixedScatter(how), &inputs, &i64s(&[3, 1], &wanted));
    }
    let far = [messages, i64s(&[4], &[0, 0, 2, 3]), size];
    refused(&Op::FixedScatter(Reduction::Sum), &far, "index 3 at place 3");
}

#[test]
fn narrow_weights_are_cast_before_they_are_computed_with() {
    let halves = Constant::new(vec![2], Elements::F16(vec![0x3C00, 0xC500])).expect("two");
    check(&Op::Cast(Dtype::F32), from_ref(&halves), &f32s(&[2], &[1.0, -5.0]));
    let taken = run_op(&Op::Gather { axis: 0 }, &[halves.clone(), i64s(&[1], &[1])]);
    let one = Constant::new(vec![1], Elements::F16(vec![0xC500])).expect("one");
    assert_eq!(taken, Ok(one), "rows of an embedding are taken before they are cast");
    refused(&Op::Cast(Dtype::I64), from_ref(&halves), "casting f16 to i64 is not supported");
    refused(&Op::Transpose { perm: None }, &[halves], "it does not support f16; cast");
    let steps = i8s(&[1, 1], &[1]);
    refused(&Op::MatMul, &[f32s(&[1, 1], &[1.0]), steps], "it does not support i8; cast");
}

#[test]
fn formats_in_files_are_bounded() {
    let all = |pairs: &[(&str, i64)]| {
        let pair = |(name, n): &(&str, i64)| ((*name).to_owned(), Attribute::Int(*n));
        pairs.iter().map(pair).collect()
    };
    let of = |op: &str, pairs| Op::from_name(Attributes::new("n", op, all(pairs)));
    assert_eq!(of("ToFixed", &[("bits", 8), ("fraction", -3)]), Ok(fixed(8, -3)));
    for (op, pairs, words) in [
        ("ToFixed", &[("bits", 1), ("fraction", 0)][..], "1 is out of range: expected 2 to 62"),
        ("ToFixed", &[("bits", 8), ("fraction", 253)], "253 is out of range: expected -252 to 252"),
        ("FixedRescale", &[("bits", 8)], "\"shift\" of FixedRescale: is missing"),
        ("FromFixed", &[], "is missing"),
    ] {
        let error = of(op, pairs).expect_err("not a format").to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(of("FixedScatterMul", &[]).is_err());
}
