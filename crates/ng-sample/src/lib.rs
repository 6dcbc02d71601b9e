//! From seeds to mini-batches: uniform neighbour sampling over a pinned snapshot, and the pipeline
//! that prepares batches ahead of their consumer.
//!
//! What lives here: fanouts, hops, numbering, gathering, look-ahead. What must not: torch, Python,
//! file formats. The invariant: same seed and same snapshot give the same [`MiniBatch`], byte for
//! byte, whatever the back end, cache size, number of threads or order of completion.
#![forbid(unsafe_code)]

mod columns;
mod error;
mod mini_batch;
mod node_map;
mod sampler;
mod spec;
mod stream;

pub use columns::ColumnSpec;
pub use error::SampleError;
pub use mini_batch::{Column, EdgeBlock, MiniBatch, NodeBlock, SparseIndex};
pub use sampler::Sampler;
pub use spec::{Fanouts, SampleSpec};
pub use stream::{BatchPlan, BatchStream};
