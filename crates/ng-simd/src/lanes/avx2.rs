//! Lanes of AVX2 and F16C.

use std::arch::x86_64::{
    __m256, _CMP_UNORD_Q, _mm_loadl_epi64, _mm_loadu_si128, _mm256_add_ps, _mm256_blendv_ps,
    _mm256_castsi256_ps, _mm256_cmp_ps, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps,
    _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_div_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_slli_epi32,
    _mm256_storeu_ps,
};

use super::Lanes;

/// Eight lanes.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(__m256);

impl Lanes for Avx2 {
    const LEN: usize = 8;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn splat(value: f32) -> Self {
        Self(_mm256_set1_ps(value))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller lets 32 bytes be read.
        Self(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load_f16(from: *const u8) -> Self {
        // SAFETY: the caller lets 16 bytes be read.
        Self(_mm256_cvtph_ps(unsafe { _mm_loadu_si128(from.cast()) }))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load_bf16(from: *const u8) -> Self {
        // SAFETY: the caller lets 16 bytes be read.
        let wide = _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(from.cast()) });
        Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide)))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn load_i8(from: *const u8) -> Self {
        // SAFETY: the caller lets 8 bytes be read.
        let steps = unsafe { _mm_loadl_epi64(from.cast()) };
        Self(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(steps)))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller lets 32 bytes be written.
        unsafe { _mm256_storeu_ps(to, self.0) };
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn add(self, other: Self) -> Self {
        Self(_mm256_add_ps(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn mul(self, other: Self) -> Self {
        Self(_mm256_mul_ps(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        Self(_mm256_fmadd_ps(self.0, factor.0, addend.0))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn div(self, other: Self) -> Self {
        Self(_mm256_div_ps(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn max(self, other: Self) -> Self {
        // Of equal values, and where one is not a number, the instruction gives its second operand.
        let larger = _mm256_max_ps(other.0, self.0);
        let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(other.0, other.0);
        Self(_mm256_blendv_ps(larger, other.0, is_nan))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn min(self, other: Self) -> Self {
        let smaller = _mm256_min_ps(other.0, self.0);
        let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(other.0, other.0);
        Self(_mm256_blendv_ps(smaller, other.0, is_nan))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn canonical(self) -> Self {
        let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0);
        Self(_mm256_blendv_ps(self.0, _mm256_set1_ps(f32::NAN), is_nan))
    }
}
