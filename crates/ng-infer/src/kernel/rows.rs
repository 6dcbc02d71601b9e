//! [`TableRows`]: a tensor whose rows lie in a larger table.
//!
//! Rows of features are picked from a table that stays in memory. A kernel that only adds them up
//! reads them there, and no copy is made.

use ng_simd::{Aggregation, EdgeLists, GraphKernels, Reduction, Rows};

use super::context::Context;
use super::error::{KernelError, misfit};

/// How many simple steps it takes until an element is there that nobody has read before.
const WAIT: usize = 2;

/// Rows of F32 in a table, which may hold them in a narrower type. The first dimension of the
/// tensor is the number of rows, and the others are those of a row.
#[derive(Clone, Copy, Debug)]
pub struct TableRows<'a> {
    /// The table.
    pub table: Rows<'a>,
    /// How many rows the table has.
    pub len: usize,
    /// The row of the table that each row of the tensor is.
    pub rows: &'a [u32],
}

impl TableRows<'_> {
    /// Copies the rows, which have `width` elements each, to `out`. Every NaN becomes [`f32::NAN`].
    ///
    /// # Errors
    ///
    /// A row is not in the table, or lengths do not fit.
    pub fn copy_to(
        &self,
        width: usize,
        out: &mut [f32],
        context: &Context,
    ) -> Result<(), KernelError> {
        if width == 0 || out.len() != self.rows.len() * width {
            let (rows, found) = (self.rows.len(), out.len());
            let problem = format!(
                "{rows} rows of {width} elements do not fill an output of {found} elements"
            );
            return if found == 0 { Ok(()) } else { Err(KernelError::Misfit(problem)) };
        }
        self.check()?;
        // Rows lie anywhere, and memory answers late.
        let of_part = self.rows.len().div_ceil(context.parts(WAIT * out.len())).max(1);
        let parts = out.chunks_mut(of_part * width).zip(self.rows.chunks(of_part));
        context.each(parts, |(out, rows)| self.copy_part(rows, width, out))
    }

    /// That all rows are in the table.
    pub(super) fn check(&self) -> Result<(), KernelError> {
        let is_outside = |row: &u32| *row as usize >= self.len;
        match self.rows.iter().position(is_outside) {
            None => Ok(()),
            Some(place) => {
                Err(KernelError::Index { index: self.rows[place].into(), place, len: self.len })
            }
        }
    }

    /// A list of one row each, whose largest value is the value itself.
    fn copy_part(&self, rows: &[u32], width: usize, out: &mut [f32]) -> Result<(), KernelError> {
        let offsets: Vec<u32> = (0..=rows.len() as u32).collect();
        let lists = EdgeLists::new(&offsets, rows, self.len).map_err(misfit)?;
        let how = Reduction::Max;
        let job = Aggregation { lists, rows: self.table, width, weights: None, how };
        GraphKernels::best().aggregate(&job, 0..rows.len(), out).map_err(misfit)
    }
}
