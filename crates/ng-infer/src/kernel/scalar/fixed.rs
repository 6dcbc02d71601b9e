//! Fixed-point numbers: whole numbers whose point the graph knows.
//!
//! The invariant: what a number cannot hold becomes the largest or smallest one; nothing wraps
//! around.

use super::places::checked;
use crate::dfg::{FixedFormat, Reduction};
use crate::kernel::error::KernelError;
use crate::kernel::numbers::count;
use crate::kernel::view::{Data, View, ViewMut};

/// The smallest and the largest number of so many bits.
fn limits(bits: u32) -> (i64, i64) {
    let half = 1_i64 << bits.clamp(1, 63).saturating_sub(1);
    (-half, half - 1)
}

pub(super) fn to_fixed(
    format: FixedFormat,
    of: &View<'_>,
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let (unit, (low, high)) = (2_f64.powi(format.fraction), limits(format.bits));
    for (place, (to, x)) in out.i64().iter_mut().zip(of.f32()).enumerate() {
        if x.is_nan() {
            let problem = format!("element {place} is NaN, which cannot be a fixed-point number");
            return Err(KernelError::Misfit(problem));
        }
        // Powers of two and f32 are exact in f64; the conversion to i64 saturates.
        let rounded = (f64::from(*x) * unit).round_ties_even() as i64;
        *to = rounded.clamp(low, high);
    }
    Ok(())
}

pub(super) fn from_fixed(fraction: i32, of: &View<'_>, out: &mut ViewMut<'_>) {
    let unit = 2_f64.powi(-fraction);
    out.f32().iter_mut().zip(of.i64()).for_each(|(to, x)| *to = (*x as f64 * unit) as f32);
}

/// `x / by` to the nearest whole number, ties to the even one; `by` is positive.
fn rounded(x: i128, by: i128) -> i128 {
    let (floor, rest) = (x.div_euclid(by), x.rem_euclid(by));
    let is_up = rest * 2 > by || rest * 2 == by && floor % 2 != 0;
    floor + i128::from(is_up)
}

pub(super) fn rescale(bits: u32, shift: i32, of: &View<'_>, out: &mut ViewMut<'_>) {
    let (low, high) = limits(bits);
    // More places than a number has make 0 of it, or saturate.
    let by = 1_i128 << shift.unsigned_abs().min(126);
    for (to, x) in out.i64().iter_mut().zip(of.i64()) {
        let x = i128::from(*x);
        let scaled = if shift < 0 { x.saturating_mul(by) } else { rounded(x, by) };
        *to = scaled.clamp(low.into(), high.into()) as i64;
    }
}

pub(super) fn mat_mul(rows: &View<'_>, matrix: &View<'_>, out: &mut ViewMut<'_>) {
    let (depth, width) = (matrix.dims[0], matrix.dims[1]);
    if width == 0 {
        return;
    }
    let widened: Vec<i64>;
    let matrix = match matrix.data {
        Data::I8(all) => {
            widened = all.iter().copied().map(i64::from).collect();
            &widened
        }
        _ => matrix.i64(),
    };
    let rows = rows.i64();
    for (number, to) in out.i64().chunks_exact_mut(width).enumerate() {
        to.fill(0);
        let row = rows[number * depth..(number + 1) * depth].iter().enumerate();
        // Zeros add nothing, and rows of features are full of them.
        for (at, x) in row.filter(|(_, x)| **x != 0) {
            let weights = &matrix[at * width..(at + 1) * width];
            let add = |(to, weight): (&mut i64, &i64)| {
                *to = to.saturating_add(x.saturating_mul(*weight));
            };
            to.iter_mut().zip(weights).for_each(add);
        }
    }
}

pub(super) fn scatter(
    how: Reduction,
    inputs: &[View<'_>],
    out: &mut ViewMut<'_>,
) -> Result<(), KernelError> {
    let (from, index, rows) = (inputs[0].i64(), inputs[1].i64(), count(&inputs[2])?);
    let width: usize = inputs[0].dims[1..].iter().product();
    let mut counts = vec![0_i128; rows];
    let to = out.i64();
    to.fill(match how {
        Reduction::Max => i64::MIN,
        Reduction::Min => i64::MAX,
        _ => 0,
    });
    for (place, at) in index.iter().enumerate() {
        let at = checked(*at, place, rows)?;
        counts[at] += 1;
        let row = &from[place * width..(place + 1) * width];
        for (to, x) in to[at * width..(at + 1) * width].iter_mut().zip(row) {
            *to = match how {
                Reduction::Max => (*to).max(*x),
                Reduction::Min => (*to).min(*x),
                _ => to.saturating_add(*x),
            };
        }
    }
    for (to, count) in to.chunks_exact_mut(width.max(1)).zip(&counts) {
        match (how, count) {
            (_, 0) => to.fill(0),
            // A mean of i64 is one.
            (Reduction::Mean, by) => {
                to.iter_mut().for_each(|to| *to = rounded((*to).into(), *by) as i64);
            }
            _ => {}
        }
    }
    Ok(())
}
