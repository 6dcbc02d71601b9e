//! Rows of narrow elements: f16, bf16, and int8 with a scale for each column, to f32 and back; and
//! computation on sampled batches.
//!
//! What lives here: [`RowDecoder`], [`RowEncoder`], [`ColumnRange`], [`SourceSelector`],
//! [`GraphKernels`], and copies of rows between large memories, dispatched to what the processor
//! has. What must not: I/O, threads, and where rows or lists lie in a store. The invariant: every
//! kernel gives the bits of the portable one, so that no result depends on the machine.
//!
//! Rounding is to nearest, ties to even. What each conversion does with odd values:
//!
//! | | NaN | infinity | -0 | subnormal | too large |
//! |---|---|---|---|---|---|
//! | f16, bf16 to f32 | f16: made quiet, payload kept; bf16: as it is | kept | kept | exact | - |
//! | f32 to f16, bf16 | made quiet, upper payload kept | kept | kept | rounded | encoder refuses |
//! | f32 to int8 | encoder refuses | encoder refuses | 0 | 0 | encoder refuses |
//! | int8 to f32 | - | - | - | never arises | - |
//!
//! A scale is 0, or a positive normal f32: the largest magnitude of the column over 127. A column
//! whose scale would be subnormal (all values below 1.5e-36) has scale 0, and all of it reads as 0;
//! so does a column of zeros. A constant column c reads as 127 x (c / 127), c to within two ulps.
//! A conversion between two narrow types goes through f32, and a finite value that the wanted type
//! cannot hold becomes an infinity on reading: it is the caller who chose the type.

mod aggregate;
mod bytes;
mod copy;
mod decode;
mod dispatch;
mod edge;
mod encode;
mod finish;
mod kernels;
mod lanes;
mod lists;
mod maths;
mod matrix;
mod portable;
mod quantised;
mod scale;
mod select;
mod softmax;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use aggregate::{Aggregation, Reduction, Rows};
pub use bytes::{bytes_as_f32, f32_bytes_mut};
pub use copy::{copy_streaming, finish_streaming, prefetch, prefetch_at};
pub use decode::{DecodeError, RowDecoder};
pub use dispatch::Path;
pub use edge::EdgePairs;
pub use encode::{Misfit, RowEncoder};
pub use finish::Finish;
pub use kernels::GraphKernels;
pub use lists::{EdgeLists, ListError, ShapeError};
pub use maths::Function;
pub use matrix::{PackedMatrix, Product};
pub use quantised::{PackError, PackedWeights, QuantiseError, QuantisedRows, StepRange};
pub use scale::ColumnRange;
pub use select::SourceSelector;
