//! Compiled epochs: batches that were sampled once and written down, each with the rows that no
//! memory will hold, in the order in which they are used. Replaying one reads a file from front to
//! back.
//!
//! What lives here: which rows are hot and left out ([`HotSet`], chosen by a [`Survey`]), how they
//! stand in the file of a set's first epoch (`hot_rows.rs`), the file
//! ([`EpochFile`], [`EpochWriter`]), its replay ([`Replay`]). What must not: draws, how rows are
//! found in a store, the order of seeds. The invariants: a replayed batch has the bytes that
//! [`crate::Sampler::sample`] gives for the same seeds and stream; a file that does not fit what is
//! asked for, or is not whole, is refused; memory is reserved before the first read.

mod error;
mod file;
mod format;
mod hot;
mod hot_rows;
mod memory;
mod replay;
mod survey;
mod write;

pub use error::CompiledError;
pub use file::EpochFile;
pub(crate) use format::EPOCH;
pub use format::{EpochId, EpochKey};
pub use hot::HotSet;
pub use memory::ReplayMemory;
pub(crate) use replay::Replay;
pub use survey::{Measured, Survey};
pub use write::EpochWriter;
