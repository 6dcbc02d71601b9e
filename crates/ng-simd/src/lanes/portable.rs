//! Lanes in plain Rust, which every other implementation must equal.

use super::Lanes;
use crate::portable::f16_bits_to_f32;

/// `N` elements of `E` at any address.
///
/// # Safety
/// As many can be read.
#[inline(always)]
unsafe fn read<E: Copy, const N: usize>(from: *const u8) -> [E; N] {
    // SAFETY: the caller says so, and the read needs no alignment.
    unsafe { from.cast::<[E; N]>().read_unaligned() }
}

#[inline(always)]
fn both<const N: usize>(a: [f32; N], b: [f32; N], of: impl Fn(f32, f32) -> f32) -> [f32; N] {
    std::array::from_fn(|lane| of(a[lane], b[lane]))
}

impl<const N: usize> Lanes for [f32; N] {
    const LEN: usize = N;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        [value; N]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { read(from.cast()) }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        let halves: [[u8; 2]; N] = unsafe { read(from) };
        halves.map(|half| f32::from_bits(f16_bits_to_f32(u16::from_le_bytes(half))))
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        let halves: [[u8; 2]; N] = unsafe { read(from) };
        halves.map(|half| f32::from_bits(u32::from(u16::from_le_bytes(half)) << 16))
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        let steps: [i8; N] = unsafe { read(from) };
        steps.map(f32::from)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<Self>().write_unaligned(self) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        both(self, other, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        both(self, other, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        std::array::from_fn(|lane| self[lane].mul_add(factor[lane], addend[lane]))
    }

    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        both(self, other, |a, b| a / b)
    }

    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        both(self, other, |kept, value| if value > kept || value.is_nan() { value } else { kept })
    }

    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        both(self, other, |kept, value| if value < kept || value.is_nan() { value } else { kept })
    }

    #[inline(always)]
    unsafe fn canonical(self) -> Self {
        self.map(|value| if value.is_nan() { f32::NAN } else { value })
    }
}
