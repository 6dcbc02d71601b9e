//! [`Lanes`]: a register of f32, so that a kernel is written once for every processor.
//!
//! What lives here: the operations that kernels need, for each kind of processor. What must not:
//! the kernels. The invariant: each operation rounds each lane as plain f32 arithmetic does, none
//! mixes lanes, and only [`Lanes::mul_add`] fuses a product with a sum, on every processor, so that
//! registers of all widths give the same bits. The bits of a NaN do depend on the processor;
//! kernels store [`Lanes::canonical`] values.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;

/// Registers of plain Rust: as wide as those of the oldest x86-64 and of aarch64.
pub(crate) type Portable = [f32; 4];

/// One column at a time, for rows narrower than a register.
pub(crate) type Single = [f32; 1];

/// Some f32 side by side.
///
/// # Safety
/// Every method may be called only where the processor has the instructions of the implementing
/// type. Loads read [`Lanes::LEN`] elements of their type at the pointer and stores write as many
/// f32; neither needs alignment.
pub(crate) trait Lanes: Copy {
    /// How many.
    const LEN: usize;

    /// The same value in every lane.
    unsafe fn splat(value: f32) -> Self;
    /// Of f32.
    unsafe fn load(from: *const f32) -> Self;
    /// Of f16, little-endian.
    unsafe fn load_f16(from: *const u8) -> Self;
    /// Of bf16, little-endian.
    unsafe fn load_bf16(from: *const u8) -> Self;
    /// Of i8.
    unsafe fn load_i8(from: *const u8) -> Self;
    /// To f32.
    unsafe fn store(self, to: *mut f32);
    /// Sum.
    unsafe fn add(self, other: Self) -> Self;
    /// Product.
    unsafe fn mul(self, other: Self) -> Self;
    /// `self * factor + addend`, rounded once. Without an instruction for it this is slow.
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// Quotient.
    unsafe fn div(self, other: Self) -> Self;
    /// `other` where it is larger than `self` or not a number, otherwise `self`.
    unsafe fn max(self, other: Self) -> Self;
    /// `other` where it is smaller than `self` or not a number, otherwise `self`.
    unsafe fn min(self, other: Self) -> Self;
    /// Every NaN becomes [`f32::NAN`].
    unsafe fn canonical(self) -> Self;
}
