//! Tiles for AVX2 and for AVX-512 VNNI.
//!
//! AVX2 multiplies pairs of i16: its product of u8 and i8 would saturate.

use std::arch::x86_64::{
    __m256i, __m512i, _mm_loadu_si128, _mm_set1_epi32, _mm256_add_epi32, _mm256_cvtepi8_epi16,
    _mm256_cvtepu8_epi16, _mm256_hadd_epi32, _mm256_madd_epi16, _mm256_permute4x64_epi64,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm512_dpbusd_epi32, _mm512_loadu_si512,
    _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
};

use super::tile::{Product, RowQuads, Tile, multiply};
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
    unsafe fn sums<const M: usize, const R: usize>(
        rows: &RowQuads<'_, M>,
        block: &[Quads],
        sums: &mut [[i32; COLUMNS]; M],
    ) {
        let mut kept = [[_mm512_setzero_si512(); R]; M];
        let whole: [_; M] = std::array::from_fn(|row| rows.whole(row).as_ptr());
        let count = rows.whole(0).len();
        for (at, weights) in block[..count].iter().enumerate() {
            // SAFETY: `at` is below the number of whole fours, which is that of all rows.
            let steps = |row: usize| unsafe { *whole[row].add(at) };
            multiply_quads(&mut kept, weights, steps);
        }
        for (at, weights) in block.iter().enumerate().skip(count) {
            multiply_quads(&mut kept, weights, |row| rows.quad(row, at));
        }
        for (sums, kept) in sums.iter_mut().zip(&kept) {
            for (sums, kept) in sums.as_chunks_mut::<16>().0.iter_mut().zip(kept) {
                // SAFETY: 64 bytes are written to a reference to 64.
                unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), *kept) };
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
    unsafe fn sums<const M: usize, const R: usize>(
        rows: &RowQuads<'_, M>,
        block: &[Quads],
        sums: &mut [[i32; COLUMNS]; M],
    ) {
        for part in 0..2 * R {
            let mut kept = [[_mm256_setzero_si256(); 2]; M];
            for (at, weights) in block.iter().enumerate() {
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
            for (sums, kept) in sums.iter_mut().zip(&kept) {
                // Columns come as 0, 1, 4, 5, 2, 3, 6, 7, by twos in words of 64 bits.
                let halves = _mm256_hadd_epi32(kept[0], kept[1]);
                let eight = _mm256_permute4x64_epi64::<0b11_01_10_00>(halves);
                let (eights, _) = sums.as_chunks_mut::<8>();
                // SAFETY: 32 bytes are written to a reference to 32.
                unsafe { _mm256_storeu_si256(eights[part].as_mut_ptr().cast(), eight) };
            }
        }
    }
}

/// The weights of four columns as i16.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(four: &[[i8; 4]; 4]) -> __m256i {
    // SAFETY: 16 bytes are read from a reference to 16.
    _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(four.as_ptr().cast()) })
}
