//! Aggregation: for each destination the sum, mean, largest or smallest of the rows of its sources.
//!
//! What lives here: [`Aggregation`] and its kernel, which reads rows where they are, decodes them
//! in registers and never stores a gathered copy. What must not: threads, and where rows come from.
//! The invariant: each column is combined in the order of the list, one edge after the other,
//! without fused products, so the bytes are those of decoding, gathering and adding in plain Rust.

mod kernel;
mod rows;

use std::ops::Range;

use crate::kernels::GraphKernels;
use crate::lists::{EdgeLists, ShapeError, check_length};
use kernel::{Job, Larger, Smaller, Step, Sum};
use rows::{Bf16, F16, F32, I8, Load};

pub use rows::Rows;

/// How the rows of a list become one.
///
/// An empty list gives 0. A column with any NaN gives [`f32::NAN`]. Of -0 and 0,
/// `Max` and `Min` take the first in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The sum, which begins with 0.
    Sum,
    /// The sum divided by the number of edges, also where edges have weights.
    Mean,
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// The operands of [`GraphKernels::aggregate`].
///
/// ```
/// use ng_simd::{Aggregation, EdgeLists, GraphKernels, Reduction, Rows};
/// let lists = EdgeLists::new(&[0, 2, 2], &[2, 0], 3)?;
/// let rows = Rows::F32(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let job = Aggregation { lists, rows, width: 2, weights: None, how: Reduction::Mean };
/// let mut out = [9.0; 4];
/// GraphKernels::best().aggregate(&job, 0..2, &mut out)?;
/// assert_eq!(out, [3.0, 4.0, 0.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Aggregation<'a> {
    /// The edges; their sources are numbers of rows. To aggregate straight from a larger table, let
    /// them be row numbers of that table.
    pub lists: EdgeLists<'a>,
    /// `num_rows` x `width` elements, row by row.
    pub rows: Rows<'a>,
    /// Elements of a row.
    pub width: usize,
    /// A factor for the row of each edge, if any; or as many for each edge as a row has heads,
    /// which are equal parts of it.
    pub weights: Option<&'a [f32]>,
    /// How the rows of a list become one.
    pub how: Reduction,
}

impl Aggregation<'_> {
    /// Weights of each edge, or an error if they do not divide a row.
    fn heads(&self) -> Result<usize, ShapeError> {
        let Some(weights) = self.weights else { return Ok(1) };
        let num_edges = self.lists.num_edges();
        let heads = weights.len().checked_div(num_edges).unwrap_or(1);
        let divides = heads > 0 && self.width.is_multiple_of(heads);
        check_length("weights", weights.len(), &[num_edges, if divides { heads } else { 1 }])?;
        Ok(heads)
    }
}

impl GraphKernels {
    /// Aggregates for `destinations`; `out` has `width` elements for each of them.
    ///
    /// # Errors
    /// [`ShapeError`]; it counts f16 and bf16 rows in bytes.
    pub fn aggregate(
        self,
        job: &Aggregation<'_>,
        destinations: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), ShapeError> {
        job.lists.edges_of(&destinations)?;
        let (len, step) = job.rows.len_and_step();
        check_length("rows", len, &[job.lists.num_rows(), job.width, step])?;
        let heads = job.heads()?;
        check_length("out", out.len(), &[destinations.len(), job.width])?;
        if job.width == 0 {
            return Ok(());
        }
        match job.rows {
            Rows::F32(values) => self.aggregate_rows(job, F32(values), heads, destinations, out),
            Rows::F16(bytes) => self.aggregate_rows(job, F16(bytes), heads, destinations, out),
            Rows::Bf16(bytes) => self.aggregate_rows(job, Bf16(bytes), heads, destinations, out),
            Rows::I8 { steps, scales } => {
                check_length("scales", scales.len(), &[job.width])?;
                self.aggregate_rows(job, I8 { steps, scales }, heads, destinations, out);
            }
        }
        Ok(())
    }

    fn aggregate_rows<R: Load>(
        self,
        job: &Aggregation<'_>,
        rows: R,
        heads: usize,
        destinations: Range<usize>,
        out: &mut [f32],
    ) {
        let Aggregation { lists, width, weights, how, .. } = *job;
        let is_mean = how == Reduction::Mean;
        let job = Job { lists, rows, width, weights, heads, is_mean, destinations };
        match how {
            Reduction::Sum | Reduction::Mean => self.aggregate_by::<R, Sum>(&job, out),
            Reduction::Max => self.aggregate_by::<R, Larger>(&job, out),
            Reduction::Min => self.aggregate_by::<R, Smaller>(&job, out),
        }
    }

    fn aggregate_by<R: Load, S: Step>(self, job: &Job<'_, R>, out: &mut [f32]) {
        // SAFETY: `aggregate` has checked every length, `EdgeLists` every source, and the path is
        // one that the processor has.
        unsafe { kernel::run::<R, S>(self.path(), job, out) };
    }
}
