//! Matrices in the order that kernels read, in f32 or in steps of 8 bits.

use ng_simd::{
    Finish, GraphKernels, PackedMatrix, PackedWeights, Product, QuantiseError, QuantisedRows,
    StepRange,
};

use super::parallel::by_rows;
use crate::kernel::context::Context;
use crate::kernel::error::{KernelError, misfit};
use crate::kernel::rows::TableRows;
use crate::kernel::view::{Data, View};

/// Rows that are gathered or quantised before they are multiplied: they stay in L2.
const BLOCK: usize = 96;

/// Products and sums of a product that take as long as one simple step.
const PRODUCTS_OF_STEP: usize = 32;

/// How constant weights are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Single,
    /// In steps of 8 bits with a scale for each column; rows get a scale of their own.
    Int8,
}

/// Weights of k x n.
pub(super) enum Matrix {
    Single(PackedMatrix),
    Int8(PackedWeights),
}

/// What stands between the rows and the result of a layer.
pub(super) struct Layer<'a> {
    pub matrix: &'a Matrix,
    pub finish: Finish<'a>,
}

impl Matrix {
    /// Packs `dims` elements, or their transpose.
    pub fn pack(
        elements: &[f32],
        dims: (usize, usize),
        is_turned: bool,
    ) -> Result<Self, KernelError> {
        let packed = if is_turned {
            PackedMatrix::pack_transposed(elements, dims.1, dims.0)
        } else {
            PackedMatrix::pack(elements, dims.0, dims.1)
        };
        packed.map(Self::Single).map_err(misfit)
    }

    /// The same for constants. Weights that have no steps, as a NaN has none, stay f32.
    pub fn of_constant(
        elements: &[f32],
        dims: (usize, usize),
        is_turned: bool,
        precision: Precision,
    ) -> Result<Self, KernelError> {
        if precision == Precision::Int8 {
            let found = if is_turned {
                let (width, depth) = dims;
                let turned = |at: usize| elements[at % width * depth + at / width];
                let turned: Vec<f32> = (0..elements.len()).map(turned).collect();
                PackedWeights::quantise(&turned, depth, width)
            } else {
                PackedWeights::quantise(elements, dims.0, dims.1)
            };
            if let Ok(packed) = found {
                return Ok(Self::Int8(packed));
            }
        }
        Self::pack(elements, dims, is_turned)
    }

    /// Packs steps that were made before, with the scale of each column.
    pub fn of_steps(steps: &[i8], scales: &[f32]) -> Result<Self, KernelError> {
        PackedWeights::pack(steps, scales).map(Self::Int8).map_err(misfit)
    }

    pub fn depth(&self) -> usize {
        match self {
            Self::Single(packed) => packed.depth(),
            Self::Int8(packed) => packed.depth(),
        }
    }

    pub fn width(&self) -> usize {
        match self {
            Self::Single(packed) => packed.width(),
            Self::Int8(packed) => packed.width(),
        }
    }
}

impl<'a> Layer<'a> {
    /// A product alone.
    pub fn new(matrix: &'a Matrix) -> Self {
        Self { matrix, finish: Finish::default() }
    }

    /// Multiplies rows, which may lie elsewhere, to `out`.
    pub fn run(
        &self,
        kernels: GraphKernels,
        rows: &View<'_>,
        out: &mut [f32],
        context: &Context,
    ) -> Result<(), KernelError> {
        let (depth, width) = (self.matrix.depth(), self.matrix.width());
        if let Data::Rows(table) = rows.data {
            table.check()?;
        }
        let work = out.len().saturating_mul(depth) / PRODUCTS_OF_STEP;
        by_rows(context, work, width, out, |first, out| {
            let count = out.len().checked_div(width).unwrap_or(0);
            match (rows.data, self.matrix) {
                (Data::Rows(table), _) => {
                    let mut copied = vec![0.0; BLOCK.min(count) * depth];
                    let rows = table.rows[first..first + count].chunks(BLOCK);
                    for (rows, out) in rows.zip(out.chunks_mut(BLOCK * width)) {
                        let copied = &mut copied[..rows.len() * depth];
                        TableRows { rows, ..table }.copy_to(depth, copied, &Context::default())?;
                        self.multiply(kernels, copied, out)?;
                    }
                    Ok(())
                }
                _ => {
                    let rows = &rows.f32()[first * depth..(first + count) * depth];
                    self.multiply(kernels, rows, out)
                }
            }
        })
    }

    /// On one thread.
    fn multiply(
        &self,
        kernels: GraphKernels,
        rows: &[f32],
        out: &mut [f32],
    ) -> Result<(), KernelError> {
        let Self { finish, .. } = *self;
        let packed = match self.matrix {
            Matrix::Single(weights) => {
                let product = Product { rows, weights, finish };
                return kernels.multiply(&product, out).map_err(misfit);
            }
            Matrix::Int8(packed) => packed,
        };
        let (depth, width) = (packed.depth(), packed.width());
        let count = out.len().checked_div(width).unwrap_or(0).min(BLOCK);
        let (mut steps, mut scales) = (vec![0; count * depth], vec![0.0; count]);
        let mut at = 0;
        for out in out.chunks_mut((BLOCK * width).max(1)) {
            let count = out.len() / width;
            let rows = &rows[at * depth..(at + count) * depth];
            at += count;
            let (steps, scales) = (&mut steps[..count * depth], &mut scales[..count]);
            quantise(kernels, rows, depth, steps, scales)?;
            let rows = QuantisedRows { steps, scales, range: StepRange::Signed };
            kernels.multiply_quantised(&rows, packed, &finish, out).map_err(misfit)?;
        }
        Ok(())
    }
}

/// Rows in steps. The scale of a row with a NaN or an infinity is NaN, and so is its product.
fn quantise(
    kernels: GraphKernels,
    rows: &[f32],
    depth: usize,
    steps: &mut [u8],
    scales: &mut [f32],
) -> Result<(), KernelError> {
    let range = StepRange::Signed;
    match kernels.quantise_rows(rows, depth, range, steps, scales) {
        Ok(()) => return Ok(()),
        Err(QuantiseError::Value(_)) => {}
        Err(QuantiseError::Shape(error)) => return Err(misfit(error)),
    }
    for (at, scale) in scales.iter_mut().enumerate() {
        let place = at * depth..(at + 1) * depth;
        let (row, steps) = (&rows[place.clone()], &mut steps[place]);
        let found = kernels.quantise_rows(row, depth, range, steps, std::slice::from_mut(scale));
        if found.is_err() {
            *scale = f32::NAN;
        }
    }
    Ok(())
}
