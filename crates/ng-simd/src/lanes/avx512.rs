//! Lanes of AVX-512 F.

use std::arch::x86_64::{
    __m512, _CMP_UNORD_Q, _mm_loadu_si128, _mm256_loadu_si256, _mm512_add_ps, _mm512_castsi512_ps,
    _mm512_cmp_ps_mask, _mm512_cvtepi8_epi32, _mm512_cvtepi32_ps, _mm512_cvtepu16_epi32,
    _mm512_cvtph_ps, _mm512_div_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_mov_ps,
    _mm512_max_ps, _mm512_min_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_slli_epi32,
    _mm512_storeu_ps,
};

use super::Lanes;

/// Sixteen lanes.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(__m512);

impl Lanes for Avx512 {
    const LEN: usize = 16;

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn splat(value: f32) -> Self {
        Self(_mm512_set1_ps(value))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller lets 64 bytes be read.
        Self(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_f16(from: *const u8) -> Self {
        // SAFETY: the caller lets 32 bytes be read.
        Self(_mm512_cvtph_ps(unsafe { _mm256_loadu_si256(from.cast()) }))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_bf16(from: *const u8) -> Self {
        // SAFETY: the caller lets 32 bytes be read.
        let wide = _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(from.cast()) });
        Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide)))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_i8(from: *const u8) -> Self {
        // SAFETY: the caller lets 16 bytes be read.
        let steps = unsafe { _mm_loadu_si128(from.cast()) };
        Self(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(steps)))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller lets 64 bytes be written.
        unsafe { _mm512_storeu_ps(to, self.0) };
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn add(self, other: Self) -> Self {
        Self(_mm512_add_ps(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn mul(self, other: Self) -> Self {
        Self(_mm512_mul_ps(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(_mm512_fmadd_ps(self.0, factor.0, addend.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn div(self, other: Self) -> Self {
        Self(_mm512_div_ps(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn max(self, other: Self) -> Self {
        // Of equal values, and where one is not a number, the instruction gives its second operand.
        let larger = _mm512_max_ps(other.0, self.0);
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other.0, other.0);
        Self(_mm512_mask_mov_ps(larger, is_nan, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn min(self, other: Self) -> Self {
        let smaller = _mm512_min_ps(other.0, self.0);
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(other.0, other.0);
        Self(_mm512_mask_mov_ps(smaller, is_nan, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn canonical(self) -> Self {
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(self.0, self.0);
        Self(_mm512_mask_mov_ps(self.0, is_nan, _mm512_set1_ps(f32::NAN)))
    }
}
