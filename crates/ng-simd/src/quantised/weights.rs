//! [`PackedWeights`]: weights in the order in which the kernels read them.
//!
//! A block is 64 columns. In it, four rows stand together for each column: `[row / 4][column][row
//! % 4]`. `vpdpbusd` multiplies them with four steps of an activation. The last block and the last
//! four rows are filled up with 0.

use thiserror::Error;

use super::rows::QuantiseError;
use crate::encode::Misfit;
use crate::lists::{ShapeError, check_length};
use crate::portable::STEPS;
use crate::scale::{is_scale, scale_of};

/// Columns of a block.
pub(super) const COLUMNS: usize = 64;

/// Four rows of a block.
pub(super) type Quads = [[i8; 4]; COLUMNS];

/// The most rows of weights: 65,536 products of 255 and -128 fit into an i32.
const DEPTH_MAX: usize = 1 << 16;

/// Why weights cannot be packed.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum PackError {
    /// The weights do not fill whole rows of one element for each scale.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Sums of so many products could exceed an i32.
    #[error("weights have {depth} rows, more than the limit of {DEPTH_MAX}")]
    Depth {
        /// Their rows.
        depth: usize,
    },
    /// A weight that has no step.
    #[error(transparent)]
    Value(QuantiseError),
    /// A number that is not a scale.
    #[error(
        "column {column}: {scale} is not a valid scale; expected 0 or a positive normal number"
    )]
    Scale {
        /// The column.
        column: usize,
        /// The number given for it.
        scale: f32,
    },
}

/// Weights of k x n steps of 8 bits, with a scale for each of the n columns. Packed once for a
/// model, they are shared by all threads.
///
/// Their steps and scales can be made by [`RowEncoder`](crate::RowEncoder) and
/// [`ColumnRange`](crate::ColumnRange).
#[derive(Clone, Debug)]
pub struct PackedWeights {
    depth: usize,
    width: usize,
    quads: Vec<Quads>,
    /// The scale of each column, in blocks as the weights are.
    scales: Vec<[f32; COLUMNS]>,
    /// The sum of each column.
    sums: Vec<[i32; COLUMNS]>,
}

impl PackedWeights {
    /// Packs `weights` (k x n, row by row), which have n `scales`.
    ///
    /// # Errors
    /// [`PackError`]
    pub fn pack(weights: &[i8], scales: &[f32]) -> Result<Self, PackError> {
        let width = scales.len();
        let depth = weights.len().checked_div(width).unwrap_or(0);
        check_length("weights", weights.len(), &[depth, width])?;
        if depth > DEPTH_MAX {
            return Err(PackError::Depth { depth });
        }
        if let Some(column) = scales.iter().position(|scale| !is_scale(*scale)) {
            return Err(PackError::Scale { column, scale: scales[column] });
        }
        let deep = depth.div_ceil(4);
        let mut quads = vec![[[0; 4]; COLUMNS]; deep * width.div_ceil(COLUMNS)];
        let mut sums = vec![[0; COLUMNS]; width.div_ceil(COLUMNS)];
        for (row, weights) in weights.chunks_exact(width.max(1)).enumerate() {
            for (column, weight) in weights.iter().enumerate() {
                let quad = &mut quads[column / COLUMNS * deep + row / 4];
                quad[column % COLUMNS][row % 4] = *weight;
                sums[column / COLUMNS][column % COLUMNS] += i32::from(*weight);
            }
        }
        let mut blocks = vec![[0.0; COLUMNS]; width.div_ceil(COLUMNS)];
        blocks.as_flattened_mut()[..width].copy_from_slice(scales);
        Ok(Self { depth, width, quads, scales: blocks, sums })
    }

    /// Quantises `depth` x `width` weights of f32, row by row, and packs them. The scale of a
    /// column is its largest magnitude over 127.
    ///
    /// # Errors
    /// [`PackError`]
    pub fn quantise(weights: &[f32], depth: usize, width: usize) -> Result<Self, PackError> {
        check_length("weights", weights.len(), &[depth, width])?;
        let mut scales = vec![0.0_f32; width];
        for (row, weights) in weights.chunks_exact(width.max(1)).enumerate() {
            for (column, (largest, weight)) in scales.iter_mut().zip(weights).enumerate() {
                if !weight.is_finite() {
                    let misfit = Misfit { row: row as u64, column, value: *weight };
                    return Err(PackError::Value(QuantiseError::Value(misfit)));
                }
                *largest = largest.max(weight.abs());
            }
        }
        scales.iter_mut().for_each(|largest| *largest = scale_of(*largest, STEPS));
        let step = |(weight, scale): (&f32, &f32)| {
            if *scale == 0.0 { 0 } else { (weight / scale).round_ties_even() as i8 }
        };
        let steps: Vec<i8> = weights.iter().zip(scales.iter().cycle()).map(step).collect();
        Self::pack(&steps, &scales)
    }

    /// k, the rows: elements of a row that they multiply.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// n, the columns: elements of a row of the product.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.quads) + size_of_val(&*self.sums) + size_of_val(&*self.scales)
    }

    /// The rows of a block of columns, by fours.
    #[inline(always)]
    pub(super) fn block(&self, block: usize) -> &[Quads] {
        let deep = self.depth.div_ceil(4);
        &self.quads[block * deep..(block + 1) * deep]
    }

    /// The sum and the scale of each column of a block.
    #[inline(always)]
    pub(super) fn of_columns(&self, block: usize) -> (&[i32; COLUMNS], &[f32; COLUMNS]) {
        (&self.sums[block], &self.scales[block])
    }
}
