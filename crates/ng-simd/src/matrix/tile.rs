//! The loop over rows and columns of a product, written once for all lanes.
//!
//! A tile of the result stays in registers while the whole inner dimension passes.

use super::Product;
use super::weights::COLUMNS;
use crate::copy::prefetch_rows;
use crate::lanes::Lanes;

/// Rows that pass a block of weights before the next block comes: they stay in L2.
const STRIP: usize = 96;

/// Writes the product.
///
/// # Safety
/// The processor has the instructions of `L`; lengths fit, and the width is not 0.
#[inline(always)]
pub(super) unsafe fn multiply<L: Lanes>(product: &Product<'_>, out: &mut [f32]) {
    let width = product.weights.width();
    let num_rows = out.len() / width;
    for first in (0..num_rows).step_by(STRIP) {
        let rows = first..num_rows.min(first + STRIP);
        for start in (0..width).step_by(COLUMNS) {
            let end = width.min(start + COLUMNS);
            let mut column = start;
            // SAFETY: the caller's promise.
            unsafe {
                // AVX-512 has 32 registers, the others have 16.
                if L::LEN == 16 {
                    while column + 3 * L::LEN < end {
                        strip::<L, 4>(product, rows.clone(), column, out);
                        column += 4 * L::LEN;
                    }
                    while column + 2 * L::LEN < end {
                        strip::<L, 3>(product, rows.clone(), column, out);
                        column += 3 * L::LEN;
                    }
                }
                while column + L::LEN < end {
                    strip::<L, 2>(product, rows.clone(), column, out);
                    column += 2 * L::LEN;
                }
                while column < end {
                    strip::<L, 1>(product, rows.clone(), column, out);
                    column += L::LEN;
                }
            }
        }
    }
}

/// `R` registers of columns from `column`, of some rows.
#[inline(always)]
unsafe fn strip<L: Lanes, const R: usize>(
    product: &Product<'_>,
    rows: std::ops::Range<usize>,
    column: usize,
    out: &mut [f32],
) {
    let mut row = rows.start;
    // SAFETY: the caller's promise.
    unsafe {
        while row + 6 <= rows.end {
            tile::<L, 6, R>(product, row, column, out);
            row += 6;
        }
        if row + 4 <= rows.end {
            tile::<L, 4, R>(product, row, column, out);
            row += 4;
        }
        if row + 2 <= rows.end {
            tile::<L, 2, R>(product, row, column, out);
            row += 2;
        }
        if row < rows.end {
            tile::<L, 1, R>(product, row, column, out);
        }
    }
}

/// `M` rows and `R` registers of columns, which lie in one block.
#[inline(always)]
unsafe fn tile<L: Lanes, const M: usize, const R: usize>(
    product: &Product<'_>,
    row: usize,
    column: usize,
    out: &mut [f32],
) {
    let (depth, width) = (product.weights.depth(), product.weights.width());
    let block = product.weights.block(column / COLUMNS);
    let columns = column..width.min(column + R * L::LEN);
    prefetch_rows::<M>(&out[row * width + column..], columns.len(), width);
    // SAFETY: there are M rows from `row`; R registers from `column` lie in a block, which has
    // COLUMNS elements for each of `depth` rows; stores go to arrays that are as long.
    unsafe {
        let rows = product.rows.as_ptr().add(row * depth);
        let weights = block.as_ptr().cast::<f32>().add(column % COLUMNS);
        let mut sums = [[L::splat(0.0); R]; M];
        for at in 0..depth {
            let mut part = [L::splat(0.0); R];
            for (register, part) in part.iter_mut().enumerate() {
                *part = L::load(weights.add(at * COLUMNS + register * L::LEN));
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let value = L::splat(*rows.add(row * depth + at));
                for (sum, weights) in sums.iter_mut().zip(part) {
                    *sum = value.mul_add(weights, *sum);
                }
            }
        }
        let mut added = [0.0_f32; COLUMNS];
        if let Some(bias) = product.finish.bias {
            added[..columns.len()].copy_from_slice(&bias[columns.clone()]);
        }
        for (sums, row) in sums.iter().zip(row..) {
            let mut finished = [0.0_f32; COLUMNS];
            let out = &mut out[row * width..(row + 1) * width][columns.clone()];
            let is_whole = out.len() == R * L::LEN;
            if !is_whole {
                finished[..out.len()].copy_from_slice(out);
            }
            let to = if is_whole { out.as_mut_ptr() } else { finished.as_mut_ptr() };
            for (register, sum) in sums.iter().enumerate() {
                let mut value = *sum;
                if product.finish.bias.is_some() {
                    value = value.add(L::load(added.as_ptr().add(register * L::LEN)));
                }
                if product.finish.is_added {
                    value = value.add(L::load(to.add(register * L::LEN)));
                }
                if product.finish.is_rectified {
                    value = L::splat(0.0).max(value);
                }
                value.canonical().store(to.add(register * L::LEN));
            }
            if !is_whole {
                out.copy_from_slice(&finished[..out.len()]);
            }
        }
    }
}
