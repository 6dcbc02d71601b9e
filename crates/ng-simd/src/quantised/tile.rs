//! The loop over rows and columns of a product, written once for all processors, and the tile in
//! plain Rust.

use super::rows::QuantisedRows;
use super::weights::{COLUMNS, PackedWeights, Quads};

/// Rows that pass a block of weights before the next block comes: enough to reuse it, few enough
/// that they stay in L1 themselves.
const STRIP: usize = 48;

/// The operands of a product.
pub(super) struct Product<'a> {
    pub rows: QuantisedRows<'a>,
    pub weights: &'a PackedWeights,
    pub bias: Option<&'a [f32]>,
}

/// The steps of `M` rows by fours.
pub(super) struct RowQuads<'a, const M: usize> {
    whole: [&'a [[u8; 4]]; M],
    rest: [[u8; 4]; M],
}

impl<'a, const M: usize> RowQuads<'a, M> {
    #[inline(always)]
    fn new(steps: &'a [u8], depth: usize) -> Self {
        let row = |row: usize| steps[row * depth..(row + 1) * depth].as_chunks::<4>();
        let rest = |at: usize| {
            let mut quad = [0; 4];
            let steps = row(at).1;
            quad[..steps.len()].copy_from_slice(steps);
            quad
        };
        Self { whole: std::array::from_fn(|at| row(at).0), rest: std::array::from_fn(rest) }
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

/// Sums of products of steps.
pub(super) trait Tile {
    /// Writes the sums of `M` rows and at least the first `R` x 16 columns of a block of weights.
    ///
    /// # Safety
    /// The processor has the instructions of the implementing type.
    unsafe fn sums<const M: usize, const R: usize>(
        rows: &RowQuads<'_, M>,
        block: &[Quads],
        sums: &mut [[i32; COLUMNS]; M],
    );
}

/// Plain Rust, for every processor.
pub(super) struct Plain;

impl Tile for Plain {
    #[inline(always)]
    unsafe fn sums<const M: usize, const R: usize>(
        rows: &RowQuads<'_, M>,
        block: &[Quads],
        sums: &mut [[i32; COLUMNS]; M],
    ) {
        *sums = [[0; COLUMNS]; M];
        for (at, weights) in block.iter().enumerate() {
            for (row, sums) in sums.iter_mut().enumerate() {
                let steps = rows.quad(row, at).map(i32::from);
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    let products = steps.iter().zip(weights).map(|(a, b)| a * i32::from(*b));
                    *sum += products.sum::<i32>();
                }
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
        let end = num_rows.min(first + STRIP);
        for block in 0..product.weights.width().div_ceil(COLUMNS) {
            let mut row = first;
            // SAFETY: the caller's promise.
            unsafe {
                while row + 6 <= end {
                    multiply_tile::<T, 6>(product, row, block, out);
                    row += 6;
                }
                while row + 2 <= end {
                    multiply_tile::<T, 2>(product, row, block, out);
                    row += 2;
                }
                if row < end {
                    multiply_tile::<T, 1>(product, row, block, out);
                }
            }
        }
    }
}

/// `M` rows from `first`, and a block of columns.
#[inline(always)]
unsafe fn multiply_tile<T: Tile, const M: usize>(
    product: &Product<'_>,
    first: usize,
    block: usize,
    out: &mut [f32],
) {
    let Product { rows, weights, bias } = product;
    let (depth, width) = (weights.depth(), weights.width());
    let quads = RowQuads::<M>::new(&rows.steps[first * depth..], depth);
    let mut sums = [[0; COLUMNS]; M];
    let columns = block * COLUMNS..width.min((block + 1) * COLUMNS);
    let of_block = weights.block(block);
    // SAFETY: the caller's promise.
    unsafe {
        match columns.len().div_ceil(16) {
            1 => T::sums::<M, 1>(&quads, of_block, &mut sums),
            2 => T::sums::<M, 2>(&quads, of_block, &mut sums),
            3 => T::sums::<M, 3>(&quads, of_block, &mut sums),
            _ => T::sums::<M, 4>(&quads, of_block, &mut sums),
        }
    }
    let (column_sums, column_scales) = weights.of_columns(block);
    let added = bias.map(|bias| {
        let mut added = [0.0; COLUMNS];
        added[..columns.len()].copy_from_slice(&bias[columns.clone()]);
        added
    });
    for (row, sums) in (first..).zip(&sums) {
        let of_row = (rows.range.zero(), rows.scales[row]);
        let values = scale(sums, (column_sums, column_scales), of_row, added.as_ref());
        let out = &mut out[row * width..][columns.clone()];
        out.copy_from_slice(&values[..columns.len()]);
    }
}

/// Turns the sums of steps of one row into values, by the sums and scales of the columns.
#[inline(always)]
fn scale(
    sums: &[i32; COLUMNS],
    (column_sums, column_scales): (&[i32; COLUMNS], &[f32; COLUMNS]),
    (zero, row_scale): (i32, f32),
    bias: Option<&[f32; COLUMNS]>,
) -> [f32; COLUMNS] {
    let mut values = [0.0; COLUMNS];
    for (column, value) in values.iter_mut().enumerate() {
        let exact = sums[column] - zero * column_sums[column];
        *value = exact as f32 * row_scale * column_scales[column];
    }
    if let Some(bias) = bias {
        values.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
    }
    for value in &mut values {
        *value = if value.is_nan() { f32::NAN } else { *value };
    }
    values
}
