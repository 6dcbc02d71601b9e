//! Tiles for AVX2 and for AVX-512 VNNI.
//!
//! AVX2 multiplies pairs of i16: its product of u8 and i8 would saturate.

use std::arch::x86_64::{
    __m256i, __m512, __m512i, __mmask16, _CMP_LT_OQ, _CMP_UNORD_Q, _mm_loadu_si128, _mm_set1_epi32,
    _mm256_add_epi32, _mm256_cvtepi8_epi16, _mm256_cvtepu8_epi16, _mm256_hadd_epi32,
    _mm256_madd_epi16, _mm256_permute4x64_epi64, _mm256_setzero_si256, _mm256_storeu_si256,
    _mm512_add_ps, _mm512_cmp_ps_mask, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32, _mm512_loadu_ps,
    _mm512_loadu_si512, _mm512_mask_mov_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps,
    _mm512_mul_ps, _mm512_mullo_epi32, _mm512_set1_epi32, _mm512_set1_ps, _mm512_setzero_ps,
    _mm512_setzero_si512, _mm512_storeu_ps, _mm512_sub_epi32,
};

use super::tile::{Block, Product, RowQuads, Tile, multiply};
use super::weights::{COLUMNS, Quads};

#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,f16c")]
pub(super) fn multiply_avx512(product: &Product<'_>, out: &mut [f32]) {
    // SAFETY: the processor has the instructions that this function is compiled for.
    unsafe { multiply::<Vnni>(product, out) };
}

#[target_feature(enable = "avx2,f16c")]
pub(super) fn multiply_avx2(product: &Product<'_>, out: &mut [f32]) {
    // SAFETY: the processor has the instructions that this function is compiled for.
    unsafe { multiply::<Pairs>(product, out) };
}

/// Four products of u8 and i8 at once.
struct Vnni;

impl Tile for Vnni {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,f16c")]
    unsafe fn write<const M: usize, const R: usize>(
        rows: &RowQuads<'_, M>,
        block: &Block<'_>,
        scales: &[f32; M],
        out: &mut [f32],
    ) {
        let mut kept = [[_mm512_setzero_si512(); R]; M];
        let mut whole = [std::ptr::null(); M];
        whole.iter_mut().enumerate().for_each(|(row, whole)| *whole = rows.whole(row).as_ptr());
        let count = rows.whole(0).len();
        for (at, weights) in block.quads[..count].iter().enumerate() {
            // SAFETY: `at` is below the number of whole fours, which is that of all rows.
            let steps = |row: usize| unsafe { *whole[row].add(at) };
            multiply_quads(&mut kept, weights, steps);
        }
        for (at, weights) in block.quads.iter().enumerate().skip(count) {
            multiply_quads(&mut kept, weights, |row| rows.quad(row, at));
        }
        // The last row ends where its last column does, or further.
        assert!(out.len() >= (M - 1) * block.width + block.count && block.count <= R * 16);
        for register in 0..R {
            let columns = Columns::new(block, register);
            for (row, kept) in kept.iter().enumerate() {
                let to = out.as_mut_ptr().wrapping_add(row * block.width + register * 16);
                // SAFETY: the columns of the register that there are lie in `out`, as checked.
                unsafe { columns.write(block, kept[register], scales[row], to) };
            }
        }
    }
}

/// Sixteen columns of a block.
struct Columns {
    /// Those that there are.
    mask: __mmask16,
    /// The part of each sum that the step of a zero makes.
    zeros: __m512i,
    scales: __m512,
    bias: Option<__m512>,
}

impl Columns {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,f16c")]
    fn new(block: &Block<'_>, register: usize) -> Self {
        let count = block.count.saturating_sub(register * 16).min(16);
        let sixteen = |all: &[f32; COLUMNS]| {
            // SAFETY: 64 bytes are read from a reference to 64.
            unsafe { _mm512_loadu_ps(all.as_chunks::<16>().0[register].as_ptr()) }
        };
        // SAFETY: 64 bytes are read from a reference to 64.
        let sums =
            unsafe { _mm512_loadu_si512(block.sums.as_chunks::<16>().0[register].as_ptr().cast()) };
        Self {
            mask: ((1_u32 << count) - 1) as __mmask16,
            zeros: _mm512_mullo_epi32(_mm512_set1_epi32(block.zero), sums),
            scales: sixteen(block.scales),
            bias: block.bias.as_ref().map(sixteen),
        }
    }

    /// Turns sums of one row into values.
    ///
    /// # Safety
    /// The columns that there are can be read and written at `to`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,f16c")]
    unsafe fn write(&self, block: &Block<'_>, sums: __m512i, scale: f32, to: *mut f32) {
        let exact = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums, self.zeros));
        let mut value = _mm512_mul_ps(_mm512_mul_ps(exact, _mm512_set1_ps(scale)), self.scales);
        if let Some(bias) = self.bias {
            value = _mm512_add_ps(value, bias);
        }
        if block.is_added {
            // SAFETY: the caller's promise; other columns are not read.
            value = _mm512_add_ps(value, unsafe { _mm512_maskz_loadu_ps(self.mask, to) });
        }
        if block.is_rectified {
            let zero = _mm512_setzero_ps();
            let is_less = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(value, zero);
            value = _mm512_mask_mov_ps(value, is_less, zero);
        }
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
        value = _mm512_mask_mov_ps(value, is_nan, _mm512_set1_ps(f32::NAN));
        // SAFETY: the caller's promise; other columns are not written.
        unsafe {
            if self.mask == __mmask16::MAX {
                _mm512_storeu_ps(to, value);
            } else {
                _mm512_mask_storeu_ps(to, self.mask, value);
            }
        }
    }
}

/// Adds the products of four rows of weights and four steps of each of `M` rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2,f16c")]
fn multiply_quads<const M: usize, const R: usize>(
    kept: &mut [[__m512i; R]; M],
    weights: &Quads,
    steps: impl Fn(usize) -> [u8; 4],
) {
    let (parts, _) = weights.as_chunks::<16>();
    let mut registers = [_mm512_setzero_si512(); R];
    for (register, part) in registers.iter_mut().zip(parts) {
        // SAFETY: 64 bytes are read from a reference to 64.
        *register = unsafe { _mm512_loadu_si512(part.as_ptr().cast()) };
    }
    for (row, kept) in kept.iter_mut().enumerate() {
        let steps = _mm512_set1_epi32(i32::from_le_bytes(steps(row)));
        for (kept, weights) in kept.iter_mut().zip(registers) {
            *kept = _mm512_dpbusd_epi32(*kept, steps, weights);
        }
    }
}

/// Two products of i16 at once.
struct Pairs;

impl Tile for Pairs {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn write<const M: usize, const R: usize>(
        rows: &RowQuads<'_, M>,
        block: &Block<'_>,
        scales: &[f32; M],
        out: &mut [f32],
    ) {
        let mut all = [[0; COLUMNS]; M];
        for part in 0..2 * R {
            let mut kept = [[_mm256_setzero_si256(); 2]; M];
            for (at, weights) in block.quads.iter().enumerate() {
                let (fours, _) = weights.as_chunks::<4>();
                let weights = [widen(&fours[2 * part]), widen(&fours[2 * part + 1])];
                for (row, kept) in kept.iter_mut().enumerate() {
                    let steps = _mm_set1_epi32(i32::from_le_bytes(rows.quad(row, at)));
                    let steps = _mm256_cvtepu8_epi16(steps);
                    for (kept, weights) in kept.iter_mut().zip(weights) {
                        *kept = _mm256_add_epi32(*kept, _mm256_madd_epi16(steps, weights));
                    }
                }
            }
            for (sums, kept) in all.iter_mut().zip(&kept) {
                // Columns come as 0, 1, 4, 5, 2, 3, 6, 7, by twos in words of 64 bits.
                let halves = _mm256_hadd_epi32(kept[0], kept[1]);
                let eight = _mm256_permute4x64_epi64::<0b11_01_10_00>(halves);
                let (eights, _) = sums.as_chunks_mut::<8>();
                // SAFETY: 32 bytes are written to a reference to 32.
                unsafe { _mm256_storeu_si256(eights[part].as_mut_ptr().cast(), eight) };
            }
        }
        block.write(&all, scales, out);
    }
}

/// The weights of four columns as i16.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(four: &[[i8; 4]; 4]) -> __m256i {
    // SAFETY: 16 bytes are read from a reference to 16.
    _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(four.as_ptr().cast()) })
}
