//! How this thread rounds. Libraries that were linked with fast mathematics switch subnormal
//! numbers off for the whole thread when they are loaded, and every later result would depend on
//! it.

use std::hint::black_box;

/// What sums and products of extreme numbers come to.
pub(super) fn rounding() -> [u32; 4] {
    let (tiny, one, step) = (f32::MIN_POSITIVE, 1.0_f32, f32::EPSILON / 4.0);
    let half = black_box(tiny) * black_box(0.5);
    let doubled = black_box(f32::from_bits(1)) * black_box(2.0);
    let up = black_box(one) + black_box(step);
    let down = black_box(one) - black_box(step / 2.0);
    [half, doubled, up, down].map(f32::to_bits)
}
