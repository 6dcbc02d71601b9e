//! The loop over rows and columns of a product, written once for all processors, and the tile in
//! plain Rust.

use super::rows::QuantisedRows;
use super::weights::{COLUMNS, PackedWeights, Quads};
use crate::copy::prefetch_rows;
use crate::finish::Finish;

/// Rows that pass a block of weights before the next block comes: enough to reuse it, few enough
/// that they stay in L1 themselves.
const STRIP: usize = 48;

/// The operands of a product.
pub(super) struct Product<'a> {
    pub rows: QuantisedRows<'a>,
    pub weights: &'a PackedWeights,
    pub finish: Finish<'a>,
}

/// The steps of `M` rows by fours.
pub(super) struct RowQuads<'a, const M: usize> {
    whole: [&'a [[u8; 4]]; M],
    rest: [[u8; 4]; M],
}

impl<'a, const M: usize> RowQuads<'a, M> {
    #[inline(always)]
    fn new(steps: &'a [u8], depth: usize) -> Self {
        let (mut whole, mut rest) = ([&[][..]; M], [[0; 4]; M]);
        for (row, (whole, rest)) in whole.iter_mut().zip(&mut rest).enumerate() {
            let behind;
            (*whole, behind) = steps[row * depth..(row + 1) * depth].as_chunks::<4>();
            rest.iter_mut().zip(behind).for_each(|(to, step)| *to = *step);
        }
        Self { whole, rest }
    }

    /// The whole fours of a row; all rows have as many.
    #[inline(always)]
    pub(super) fn whole(&self, row: usize) -> &'a [[u8; 4]] {
        self.whole[row]
    }

    /// Four steps of a row, filled up with 0 at its end.
    #[inline(always)]
    pub(super) fn quad(&self, row: usize, at: usize) -> [u8; 4] {
        self.whole[row].get(at).copied().unwrap_or(self.rest[row])
    }
}

/// A block of weights, and what turns sums of steps into values.
pub(super) struct Block<'a> {
    pub quads: &'a [Quads],
    /// How many columns there are.
    pub count: usize,
    /// The step of a zero.
    pub zero: i32,
    /// The sum of each column.
    pub sums: &'a [i32; COLUMNS],
    /// The scale of each column.
    pub scales: &'a [f32; COLUMNS],
    /// What is added to each column, if anything.
    pub bias: Option<[f32; COLUMNS]>,
    pub is_added: bool,
    pub is_rectified: bool,
    /// How far apart rows of the result are.
    pub width: usize,
}

/// A kind of processor.
pub(super) trait Tile {
    /// Writes `M` rows, which have a scale each, of the columns of a block. There are at most
    /// `R` x 16. The first element of `out` is the first of them.
    ///
    /// # Safety
    /// The processor has the instructions of the implementing type.
    unsafe fn write<const M: usize, const R: usize>(
        rows: &RowQuads<'_, M>,
        block: &Block<'_>,
        scales: &[f32; M],
        out: &mut [f32],
    );
}

/// Plain Rust, for every processor.
pub(super) struct Plain;

impl Tile for Plain {
    #[inline(always)]
    unsafe fn write<const M: usize, const R: usize>(
        rows: &RowQuads<'_, M>,
        block: &Block<'_>,
        scales: &[f32; M],
        out: &mut [f32],
    ) {
        let mut all = [[0; COLUMNS]; M];
        for (at, weights) in block.quads.iter().enumerate() {
            for (row, sums) in all.iter_mut().enumerate() {
                let steps = rows.quad(row, at).map(i32::from);
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    let products = steps.iter().zip(weights).map(|(a, b)| a * i32::from(*b));
                    *sum += products.sum::<i32>();
                }
            }
        }
        block.write(&all, scales, out);
    }
}

impl<'a> Block<'a> {
    fn new(product: &Product<'a>, block: usize) -> Self {
        let Product { rows, weights, finish } = product;
        let width = weights.width();
        let columns = block * COLUMNS..width.min((block + 1) * COLUMNS);
        let (sums, scales) = weights.of_columns(block);
        let bias = finish.bias.map(|bias| {
            let mut added = [0.0; COLUMNS];
            added[..columns.len()].copy_from_slice(&bias[columns.clone()]);
            added
        });
        Self {
            quads: weights.block(block),
            count: columns.len(),
            zero: rows.range.zero(),
            sums,
            scales,
            bias,
            is_added: finish.is_added,
            is_rectified: finish.is_rectified,
            width,
        }
    }

    /// Turns sums of steps into values.
    #[inline(always)]
    pub(super) fn write<const M: usize>(
        &self,
        sums: &[[i32; COLUMNS]; M],
        scales: &[f32; M],
        out: &mut [f32],
    ) {
        for ((sums, scale), out) in sums.iter().zip(scales).zip(out.chunks_mut(self.width)) {
            let out = &mut out[..self.count];
            let mut values = [0.0; COLUMNS];
            for (column, value) in values.iter_mut().enumerate() {
                let exact = sums[column] - self.zero * self.sums[column];
                *value = exact as f32 * scale * self.scales[column];
            }
            if let Some(bias) = &self.bias {
                values.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
            }
            if self.is_added {
                values.iter_mut().zip(&*out).for_each(|(value, out)| *value += out);
            }
            if self.is_rectified {
                values
                    .iter_mut()
                    .for_each(|value| *value = if *value < 0.0 { 0.0 } else { *value });
            }
            for (out, value) in out.iter_mut().zip(&values) {
                *out = if value.is_nan() { f32::NAN } else { *value };
            }
        }
    }
}

/// Writes the product.
///
/// # Safety
/// The processor has the instructions of `T`.
#[inline(always)]
pub(super) unsafe fn multiply<T: Tile>(product: &Product<'_>, out: &mut [f32]) {
    let num_rows = product.rows.scales.len();
    for first in (0..num_rows).step_by(STRIP) {
        let rows = first..num_rows.min(first + STRIP);
        for number in 0..product.weights.width().div_ceil(COLUMNS) {
            let block = Block::new(product, number);
            let out = &mut out[number * COLUMNS..];
            // SAFETY: the caller's promise.
            unsafe {
                match block.count.div_ceil(16) {
                    1 => strip::<T, 1>(product, rows.clone(), &block, out),
                    2 => strip::<T, 2>(product, rows.clone(), &block, out),
                    3 => strip::<T, 3>(product, rows.clone(), &block, out),
                    _ => strip::<T, 4>(product, rows.clone(), &block, out),
                }
            }
        }
    }
}

/// Some rows of a block of columns, which begin in `out`.
#[inline(always)]
unsafe fn strip<T: Tile, const R: usize>(
    product: &Product<'_>,
    rows: std::ops::Range<usize>,
    block: &Block<'_>,
    out: &mut [f32],
) {
    let mut row = rows.start;
    // SAFETY: the caller's promise.
    unsafe {
        while row + 6 <= rows.end {
            tile::<T, 6, R>(product, row, block, out);
            row += 6;
        }
        while row + 2 <= rows.end {
            tile::<T, 2, R>(product, row, block, out);
            row += 2;
        }
        if row < rows.end {
            tile::<T, 1, R>(product, row, block, out);
        }
    }
}

/// `M` rows from `first`.
#[inline(always)]
unsafe fn tile<T: Tile, const M: usize, const R: usize>(
    product: &Product<'_>,
    first: usize,
    block: &Block<'_>,
    out: &mut [f32],
) {
    let depth = product.weights.depth();
    let quads = RowQuads::<M>::new(&product.rows.steps[first * depth..], depth);
    let mut scales = [0.0; M];
    scales.copy_from_slice(&product.rows.scales[first..first + M]);
    let out = &mut out[first * block.width..];
    prefetch_rows::<M>(out, block.count, block.width);
    // SAFETY: the caller's promise.
    unsafe { T::write::<M, R>(&quads, block, &scales, out) };
}
