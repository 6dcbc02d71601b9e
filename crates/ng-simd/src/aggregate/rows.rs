//! Rows as they are stored, and how some of their columns come into a register.

use crate::lanes::Lanes;

/// The elements of rows, row by row, as they are stored. They read as
/// [`RowDecoder`](crate::RowDecoder) decodes them to f32.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// f32.
    F32(&'a [f32]),
    /// f16, two bytes each, little-endian.
    F16(&'a [u8]),
    /// bf16, two bytes each, little-endian.
    Bf16(&'a [u8]),
    /// int8 with a scale for each column.
    I8 {
        /// The steps, one byte each, in two's complement.
        steps: &'a [u8],
        /// The scales, as many as a row has elements.
        scales: &'a [f32],
    },
}

impl Rows<'_> {
    /// The length of the slice, and the part of it that one element takes.
    pub(super) fn len_and_step(&self) -> (usize, usize) {
        match self {
            Rows::F32(values) => (values.len(), 1),
            Rows::F16(bytes) | Rows::Bf16(bytes) => (bytes.len(), 2),
            Rows::I8 { steps, .. } => (steps.len(), 1),
        }
    }
}

/// Some columns of a row in a register.
pub(super) trait Load: Copy {
    /// Bytes of an element.
    const BYTES: usize;

    /// The first byte of the first row.
    fn start(&self) -> *const u8;

    /// The elements from `at`, counted from the first row's first; the first is of column `column`.
    ///
    /// # Safety
    /// There are as many elements from `at` as there are lanes, all of one row, and the processor
    /// has the instructions of the lanes.
    unsafe fn load<L: Lanes>(&self, at: usize, column: usize) -> L;
}

#[derive(Clone, Copy)]
pub(super) struct F32<'a>(pub &'a [f32]);

#[derive(Clone, Copy)]
pub(super) struct F16<'a>(pub &'a [u8]);

#[derive(Clone, Copy)]
pub(super) struct Bf16<'a>(pub &'a [u8]);

#[derive(Clone, Copy)]
pub(super) struct I8<'a> {
    pub steps: &'a [u8],
    pub scales: &'a [f32],
}

impl Load for F32<'_> {
    const BYTES: usize = 4;

    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(&self, at: usize, _column: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load(self.0.as_ptr().add(at)) }
    }
}

impl Load for F16<'_> {
    const BYTES: usize = 2;

    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(&self, at: usize, _column: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load_f16(self.0.as_ptr().add(2 * at)) }
    }
}

impl Load for Bf16<'_> {
    const BYTES: usize = 2;

    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.0.as_ptr()
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(&self, at: usize, _column: usize) -> L {
        // SAFETY: the caller's promise.
        unsafe { L::load_bf16(self.0.as_ptr().add(2 * at)) }
    }
}

impl Load for I8<'_> {
    const BYTES: usize = 1;

    #[inline(always)]
    fn start(&self) -> *const u8 {
        self.steps.as_ptr()
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(&self, at: usize, column: usize) -> L {
        // SAFETY: the caller's promise; there is a scale for each column.
        unsafe {
            let steps = L::load_i8(self.steps.as_ptr().add(at));
            steps.mul(L::load(self.scales.as_ptr().add(column)))
        }
    }
}
