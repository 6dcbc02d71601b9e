//! Tensors with drawn elements, the same each time.

use ng_infer::dfg::{Constant, Elements};
#[cfg(test)]
use ng_types::Dtype;

/// Numbers from a sequence that the shape and a salt determine (SplitMix64).
fn numbers(len: usize, salt: u64) -> impl Iterator<Item = u64> {
    let mut state = salt.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ len as u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    })
    .take(len)
}

fn tensor(dims: &[usize], elements: impl FnOnce(usize) -> Elements) -> Constant {
    let all = elements(dims.iter().product());
    let count = all.len();
    let made = Constant::new(dims.to_vec(), all);
    made.unwrap_or_else(|| panic!("{count} elements for the shape {dims:?}"))
}

/// From -1 to 1.
pub(super) fn f32s(dims: &[usize]) -> Constant {
    scaled(dims, -1.0, 2.0)
}

/// From 0.1 to 2.1.
pub(super) fn positive(dims: &[usize]) -> Constant {
    scaled(dims, 0.1, 2.0)
}

fn scaled(dims: &[usize], least: f32, span: f32) -> Constant {
    let salt = 1 + dims.len() as u64 + dims.first().map_or(0, |first| *first as u64) * 31;
    tensor(dims, |len| {
        let number = |n: u64| least + span * ((n >> 40) as f32 / (1 << 24) as f32);
        Elements::F32(numbers(len, salt).map(number).collect())
    })
}

/// From 0 to below `bound`.
pub(super) fn indices(dims: &[usize], bound: u64) -> Constant {
    tensor(dims, |len| {
        Elements::I64(numbers(len, bound).map(|n| (n % bound.max(1)) as i64).collect())
    })
}

/// From -5 to 5 without 0.
pub(super) fn i64s(dims: &[usize]) -> Constant {
    let signed = |n: u64| ((n >> 1) % 5 + 1) as i64 * if n & 1 == 0 { 1 } else { -1 };
    tensor(dims, |len| Elements::I64(numbers(len, 3).map(signed).collect()))
}

/// Flags.
pub(super) fn bools(dims: &[usize]) -> Constant {
    tensor(dims, |len| Elements::Bool(numbers(len, 5).map(|n| n & 4 == 0).collect()))
}

/// A list of certain whole numbers.
pub(super) fn list(all: &[i64]) -> Constant {
    tensor(&[all.len()], |_| Elements::I64(all.to_vec()))
}

/// Certain whole numbers in a shape.
pub(super) fn given(dims: &[usize], all: &[i64]) -> Constant {
    tensor(dims, |_| Elements::I64(all.to_vec()))
}

/// A single whole number.
pub(super) fn number(number: i64) -> Constant {
    tensor(&[], |_| Elements::I64(vec![number]))
}

/// A single number in single precision.
pub(super) fn float(number: f32) -> Constant {
    tensor(&[], |_| Elements::F32(vec![number]))
}

#[cfg(test)]
pub(super) fn zeros(dtype: Dtype, len: usize) -> Elements {
    match dtype {
        Dtype::I64 => Elements::I64(vec![0; len]),
        Dtype::Bool => Elements::Bool(vec![false; len]),
        _ => Elements::F32(vec![0.0; len]),
    }
}
