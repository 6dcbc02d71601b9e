//! Products in steps of 8 bits.
//!
//! What a device that is faster has to give bit by bit: the sums of steps are whole numbers, so
//! only the rounding of rows to steps, the two scales and the bias round, in this order.

use crate::kernel::view::{View, ViewMut};

/// Steps to either side of 0.
const STEPS: f32 = 127.0;

pub(super) fn linear(inputs: &[View<'_>], out: &mut ViewMut<'_>) {
    let (rows, steps, dims) = (inputs[0].f32(), inputs[1].i8(), inputs[1].dims);
    let (scales, bias, (depth, width)) = (inputs[2].f32(), inputs[3].f32(), (dims[0], dims[1]));
    let Some(count) = out.f32().len().checked_div(width) else { return };
    let mut row_steps = vec![0_i32; depth];
    for (number, to) in out.f32().chunks_exact_mut(width).enumerate().take(count) {
        let row = &rows[number * depth..(number + 1) * depth];
        let scale = quantise(row, &mut row_steps);
        let mut sums = vec![0_i32; width];
        for (one, weights) in row_steps.iter().zip(steps.chunks_exact(width)) {
            let pairs = sums.iter_mut().zip(weights);
            // 127 * 128 * 2^16 fits into an i32; a deeper matrix may wrap around.
            pairs.for_each(|(sum, weight)| *sum = sum.wrapping_add(one * i32::from(*weight)));
        }
        for (column, (to, sum)) in to.iter_mut().zip(&sums).enumerate() {
            *to = *sum as f32 * scale * scales[column] + bias[column];
        }
    }
}

/// The steps of a row; returns the value of one. It is NaN for a row that is not finite, and so is
/// all that the row gives.
fn quantise(row: &[f32], steps: &mut [i32]) -> f32 {
    if row.iter().any(|value| !value.is_finite()) {
        steps.fill(0);
        return f32::NAN;
    }
    let largest = row.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = scale_of(largest);
    // Without a scale every step is 0.
    let steps_of_one = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let pairs = steps.iter_mut().zip(row);
    pairs.for_each(|(step, value)| *step = (value * steps_of_one).round_ties_even() as i32);
    scale
}

/// The value of a step where the largest magnitude has the largest step; 0 where it would be
/// subnormal.
fn scale_of(largest: f32) -> f32 {
    let scale = largest / STEPS;
    if scale < f32::MIN_POSITIVE {
        return 0.0;
    }
    // Next to the largest f32 the quotient may have been rounded up to where it overflows.
    if (scale * STEPS).is_finite() { scale } else { f32::from_bits(scale.to_bits() - 1) }
}
