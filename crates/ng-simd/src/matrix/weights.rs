//! [`PackedMatrix`]: weights in the order in which the kernel reads them.
//!
//! A block is 64 columns, and its rows stand one behind the other. The last block is filled up with
//! 0.

use crate::lists::{ShapeError, check_length};

/// Columns of a block: four registers of AVX-512.
pub(super) const COLUMNS: usize = 64;

/// Weights of k x n elements. Packed once for a model, they are shared by all threads.
#[derive(Clone, Debug)]
pub struct PackedMatrix {
    depth: usize,
    width: usize,
    blocks: Vec<[f32; COLUMNS]>,
}

impl PackedMatrix {
    /// Packs `depth` x `width` elements, row by row.
    ///
    /// # Errors
    /// [`ShapeError`]
    pub fn pack(elements: &[f32], depth: usize, width: usize) -> Result<Self, ShapeError> {
        check_length("weights", elements.len(), &[depth, width])?;
        let mut blocks = Vec::with_capacity(width.div_ceil(COLUMNS) * depth);
        for first in (0..width).step_by(COLUMNS) {
            let columns = first..width.min(first + COLUMNS);
            for row in elements.chunks_exact(width) {
                let mut part = [0.0; COLUMNS];
                part[..columns.len()].copy_from_slice(&row[columns.clone()]);
                blocks.push(part);
            }
        }
        Ok(Self { depth, width, blocks })
    }

    /// Packs `depth` x `width` elements that are given column by column.
    ///
    /// # Errors
    /// [`ShapeError`]
    pub fn pack_transposed(
        elements: &[f32],
        depth: usize,
        width: usize,
    ) -> Result<Self, ShapeError> {
        check_length("weights", elements.len(), &[width, depth])?;
        let mut blocks = vec![[0.0; COLUMNS]; width.div_ceil(COLUMNS) * depth];
        for (column, weights) in elements.chunks_exact(depth.max(1)).enumerate() {
            let block = &mut blocks[column / COLUMNS * depth..][..depth];
            for (row, weight) in block.iter_mut().zip(weights) {
                row[column % COLUMNS] = *weight;
            }
        }
        Ok(Self { depth, width, blocks })
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
        size_of_val(&*self.blocks)
    }

    /// The rows of a block of columns.
    #[inline(always)]
    pub(super) fn block(&self, block: usize) -> &[[f32; COLUMNS]] {
        &self.blocks[block * self.depth..(block + 1) * self.depth]
    }
}
