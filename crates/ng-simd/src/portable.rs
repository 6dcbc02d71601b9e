//! The kernels in plain Rust: what every processor can do, and what the others must equal.
//!
//! A kernel converts as many elements as both slices hold. Bytes are little-endian, and slices need
//! no alignment. All are written without branches, so that the compiler vectorises them for
//! whatever it may assume of the processor: the functions of `x86` are mostly these again.

use ng_types::SourceKey;

/// The steps of int8 go from -127 to 127, so that they are symmetric.
pub(crate) const STEPS: f32 = 127.0;

/// Bits of an f16 as those of the f32 of the same value.
#[inline(always)]
pub(crate) fn f16_bits_to_f32(half: u16) -> u32 {
    let (sign, rest) = (u32::from(half & 0x8000) << 16, u32::from(half & 0x7FFF));
    // Both of them have the exponent in the place of an f32's, 112 too low.
    let normal = (rest << 13) + (112 << 23);
    // Subnormals are multiples of 2^-24, and so are their f32, which are normal.
    let subnormal = (rest as f32 * f32::from_bits(0x3380_0000)).to_bits();
    let quiet = if rest > 0x7C00 { 0x0040_0000 } else { 0 };
    let special = (rest << 13) | 0x7F80_0000 | quiet;
    let finite = if rest < 0x0400 { subnormal } else { normal };
    sign | if rest >= 0x7C00 { special } else { finite }
}

/// Bits of the f16 next to an f32.
#[inline(always)]
pub(crate) fn f32_bits_to_f16(bits: u32) -> u16 {
    let (sign, rest) = ((bits >> 16) & 0x8000, bits & 0x7FFF_FFFF);
    let odd = (rest >> 13) & 1;
    // A carry out of the mantissa goes into the exponent, up to infinity.
    let normal = rest.wrapping_add(0x0FFF + odd).wrapping_sub(112 << 23) >> 13;
    // The ulp of a half is that of a subnormal f16, so the addition rounds.
    let sum = f32::from_bits(rest.min(0x3880_0000)) + 0.5;
    let subnormal = sum.to_bits().wrapping_sub(0x3F00_0000);
    let special = if rest > 0x7F80_0000 { 0x7E00 | ((rest >> 13) & 0x03FF) } else { 0x7C00 };
    let finite = if rest < 0x3880_0000 { subnormal } else { normal };
    (sign | if rest >= 0x4780_0000 { special } else { finite }) as u16
}

/// Bits of the bf16 next to an f32.
#[inline(always)]
pub(crate) fn f32_bits_to_bf16(bits: u32) -> u16 {
    let rounded = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x0040;
    (if bits & 0x7FFF_FFFF > 0x7F80_0000 { quiet } else { rounded }) as u16
}

#[inline(always)]
pub(crate) fn f16_to_f32(stored: &[u8], out: &mut [u8]) {
    for (half, place) in stored.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        *place = f16_bits_to_f32(u16::from_le_bytes(*half)).to_le_bytes();
    }
}

#[inline(always)]
pub(crate) fn bf16_to_f32(stored: &[u8], out: &mut [u8]) {
    for (half, place) in stored.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        *place = (u32::from(u16::from_le_bytes(*half)) << 16).to_le_bytes();
    }
}

#[inline(always)]
pub(crate) fn i8_to_f32(stored: &[u8], scales: &[f32], out: &mut [u8]) {
    let columns = stored.iter().zip(scales);
    for ((step, scale), place) in columns.zip(out.as_chunks_mut().0) {
        *place = (f32::from(step.cast_signed()) * scale).to_le_bytes();
    }
}

#[inline(always)]
pub(crate) fn f32_to_f16(values: &[u8], out: &mut [u8]) {
    for (value, place) in values.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        *place = f32_bits_to_f16(u32::from_le_bytes(*value)).to_le_bytes();
    }
}

#[inline(always)]
pub(crate) fn f32_to_bf16(values: &[u8], out: &mut [u8]) {
    for (value, place) in values.as_chunks().0.iter().zip(out.as_chunks_mut().0) {
        *place = f32_bits_to_bf16(u32::from_le_bytes(*value)).to_le_bytes();
    }
}

/// Steps of the scales. Says whether all values have one; what does not becomes some step.
#[inline(always)]
pub(crate) fn f32_to_i8(values: &[u8], scales: &[f32], out: &mut [u8]) -> bool {
    let mut all_fit = true;
    for ((value, scale), place) in values.as_chunks().0.iter().zip(scales).zip(out) {
        let value = f32::from_le_bytes(*value);
        let step = step(value, *scale);
        all_fit &= has_step(value, *scale);
        *place = (step as i8).cast_unsigned();
    }
    all_fit
}

/// The step of a value, not yet an integer of 8 bits.
#[inline(always)]
fn step(value: f32, scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { (value / scale).round_ties_even() }
}

/// Whether a value has a step: scale 0 takes what alone would have made no other scale.
#[inline(always)]
pub(crate) fn has_step(value: f32, scale: f32) -> bool {
    let is_tiny = value.abs() < STEPS * f32::MIN_POSITIVE;
    if scale == 0.0 { is_tiny } else { step(value, scale).abs() <= STEPS }
}

/// Raises the largest magnitudes to those of a row; says whether all of it was finite.
#[inline(always)]
pub(crate) fn raise(largest: &mut [f32], row: &[u8]) -> bool {
    let mut all_finite = true;
    for (largest, value) in largest.iter_mut().zip(row.as_chunks().0) {
        let magnitude = f32::from_le_bytes(*value).abs();
        all_finite &= magnitude < f32::INFINITY;
        *largest = if magnitude > *largest { magnitude } else { *largest };
    }
    all_finite
}

/// Appends the places of the sources whose number is below `bound`.
pub(crate) fn below_of_three(
    key: SourceKey,
    sources: &[[u8; 3]],
    bound: u32,
    places: &mut Vec<u32>,
) {
    below(key, sources, three, bound, places, |eight| words(eight, three), are_below);
}

/// Appends the places of the sources whose number is below `bound`.
pub(crate) fn below_of_four(
    key: SourceKey,
    sources: &[[u8; 4]],
    bound: u32,
    places: &mut Vec<u32>,
) {
    below(key, sources, four, bound, places, |eight| words(eight, four), are_below);
}

#[inline(always)]
pub(crate) fn three(source: &[u8; 3]) -> u32 {
    u32::from_le_bytes([source[0], source[1], source[2], 0])
}

#[inline(always)]
pub(crate) fn four(source: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*source)
}

/// Eight sources as words.
#[inline(always)]
pub(crate) fn words<T>(eight: &[T; 8], wide: impl Fn(&T) -> u32) -> [u32; 8] {
    let mut words = [0; 8];
    for (word, source) in words.iter_mut().zip(eight) {
        *word = wide(source);
    }
    words
}

/// A bit for each number that is below `bound`.
#[inline(always)]
fn are_below(numbers: &[u32; 8], bound: u32) -> u32 {
    let mut bits = 0;
    for (lane, number) in numbers.iter().enumerate() {
        bits |= u32::from(*number < bound) << lane;
    }
    bits
}

/// Appends the places of the sources whose number is below `bound`, given what the processor has
/// for eight at a time.
#[inline(always)]
pub(crate) fn below<T>(
    key: SourceKey,
    sources: &[T],
    wide: impl Fn(&T) -> u32,
    bound: u32,
    places: &mut Vec<u32>,
    words: impl Fn(&[T; 8]) -> [u32; 8],
    are_below: impl Fn(&[u32; 8], u32) -> u32,
) {
    let (eights, rest) = sources.as_chunks::<8>();
    let mut first = 0;
    for eight in eights {
        let mut numbers = words(eight);
        for number in &mut numbers {
            *number = key.number(u64::from(*number));
        }
        let mut taken = are_below(&numbers, bound);
        while taken != 0 {
            places.push(first + taken.trailing_zeros());
            taken &= taken - 1;
        }
        first += 8;
    }
    let is_taken = |source: &T| key.number(u64::from(wide(source))) < bound;
    places.extend((first..).zip(rest).filter(|(_, source)| is_taken(source)).map(|(at, _)| at));
}
