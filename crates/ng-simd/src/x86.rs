//! The kernels for x86-64 with AVX2, FMA and F16C.
//!
//! Where nothing is said the code is that of `portable`, compiled for AVX2. Invariant: these are
//! called only after [`is_there`] said yes.

use std::arch::x86_64::{
    _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_castsi256_ps,
    _mm256_cmpeq_epi32, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_loadu_ps, _mm256_loadu_si256,
    _mm256_max_epu32, _mm256_movemask_ps, _mm256_set_m128i, _mm256_set1_epi32, _mm256_setr_epi8,
    _mm256_shuffle_epi8, _mm256_storeu_ps, _mm256_storeu_si256,
};

use ng_types::SourceKey;

use crate::portable;

/// Whether the processor has what this module needs.
pub(crate) fn is_there() -> bool {
    let has_halves = is_x86_feature_detected!("f16c");
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && has_halves
}

/// Whether the processor has the instructions of [`Path::Avx512`](crate::Path::Avx512).
pub(crate) fn has_avx512() -> bool {
    let has_wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    is_there() && has_wide && is_x86_feature_detected!("avx512vnni")
}

#[target_feature(enable = "avx2,f16c")]
pub(crate) fn f16_to_f32(stored: &[u8], out: &mut [u8]) {
    let (eights, rest) = stored.as_chunks::<16>();
    let (wide, wide_rest) = out.as_chunks_mut::<32>();
    let done = eights.len().min(wide.len());
    for (eight, place) in eights.iter().zip(&mut *wide) {
        // SAFETY: 16 bytes are read from a reference to 16 bytes, and 32 written to one to 32;
        // neither needs alignment.
        unsafe {
            let halves = _mm_loadu_si128(eight.as_ptr().cast());
            _mm256_storeu_ps(place.as_mut_ptr().cast(), _mm256_cvtph_ps(halves));
        }
    }
    if done == eights.len() && done == wide.len() {
        portable::f16_to_f32(rest, wide_rest);
    }
}

#[target_feature(enable = "avx2,f16c")]
pub(crate) fn f32_to_f16(values: &[u8], out: &mut [u8]) {
    let (eights, rest) = values.as_chunks::<32>();
    let (narrow, narrow_rest) = out.as_chunks_mut::<16>();
    let done = eights.len().min(narrow.len());
    for (eight, place) in eights.iter().zip(&mut *narrow) {
        // SAFETY: 32 bytes are read from a reference to 32 bytes, and 16 written to one to 16;
        // neither needs alignment.
        unsafe {
            let wide = _mm256_loadu_ps(eight.as_ptr().cast());
            let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide);
            _mm_storeu_si128(place.as_mut_ptr().cast(), halves);
        }
    }
    if done == eights.len() && done == narrow.len() {
        portable::f32_to_f16(rest, narrow_rest);
    }
}

#[target_feature(enable = "avx2")]
pub(crate) fn bf16_to_f32(stored: &[u8], out: &mut [u8]) {
    portable::bf16_to_f32(stored, out);
}

#[target_feature(enable = "avx2")]
pub(crate) fn i8_to_f32(stored: &[u8], scales: &[f32], out: &mut [u8]) {
    portable::i8_to_f32(stored, scales, out);
}

#[target_feature(enable = "avx2")]
pub(crate) fn f32_to_bf16(values: &[u8], out: &mut [u8]) {
    portable::f32_to_bf16(values, out);
}

#[target_feature(enable = "avx2")]
pub(crate) fn f32_to_i8(values: &[u8], scales: &[f32], out: &mut [u8]) -> bool {
    portable::f32_to_i8(values, scales, out)
}

#[target_feature(enable = "avx2")]
pub(crate) fn raise(largest: &mut [f32], row: &[u8]) -> bool {
    portable::raise(largest, row)
}

#[target_feature(enable = "avx2")]
pub(crate) fn below_of_three(
    key: SourceKey,
    sources: &[[u8; 3]],
    bound: u32,
    places: &mut Vec<u32>,
) {
    let words = |eight: &[[u8; 3]; 8]| widen(eight);
    let are_below = |numbers: &[u32; 8], bound: u32| are_below(numbers, bound);
    portable::below(key, sources, portable::three, bound, places, words, are_below);
}

#[target_feature(enable = "avx2")]
pub(crate) fn below_of_four(
    key: SourceKey,
    sources: &[[u8; 4]],
    bound: u32,
    places: &mut Vec<u32>,
) {
    let words = |eight: &[[u8; 4]; 8]| portable::words(eight, portable::four);
    let are_below = |numbers: &[u32; 8], bound: u32| are_below(numbers, bound);
    portable::below(key, sources, portable::four, bound, places, words, are_below);
}

/// Eight numbers of three bytes as words.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(eight: &[[u8; 3]; 8]) -> [u32; 8] {
    let bytes = eight.as_flattened();
    let mut words = [0; 8];
    let order = _mm256_setr_epi8(
        0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, //
        4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1,
    );
    // SAFETY: of 24 bytes, 16 are read from the start and 16 up to the end; 32 are written to a
    // reference to 32. Nothing needs alignment.
    unsafe {
        let low = _mm_loadu_si128(bytes.as_ptr().cast());
        let high = _mm_loadu_si128(bytes.as_ptr().add(8).cast());
        let spread = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), order);
        _mm256_storeu_si256(words.as_mut_ptr().cast(), spread);
    }
    words
}

/// A bit for each number that is below `bound`.
#[inline]
#[target_feature(enable = "avx2")]
fn are_below(numbers: &[u32; 8], bound: u32) -> u32 {
    // SAFETY: 32 bytes are read from a reference to 32, which need no alignment.
    let numbers = unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) };
    let bound = _mm256_set1_epi32(bound as i32);
    let at_least = _mm256_cmpeq_epi32(_mm256_max_epu32(numbers, bound), numbers);
    !_mm256_movemask_ps(_mm256_castsi256_ps(at_least)) as u32 & 0xFF
}
