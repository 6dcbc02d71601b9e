//! What the user of a loader should hear beside its batches.
//!
//! What must not live here: the words, which are those of each face.

use std::path::PathBuf;

use crate::{Chosen, SampleError};

/// A note to the user of a loader.
#[derive(Debug)]
pub enum Note {
    /// A compiled epoch is damaged: batches are sampled instead.
    NotReplayed(SampleError),
    /// Memory is too small to look ahead: batches are made one by one instead.
    NotAhead(SampleError),
    /// It was decided how rows are read.
    Decided(Box<Decided>),
}

/// How rows are read from now on, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The choice.
    pub chosen: Chosen,
    /// The previous choice, if any.
    pub before: Option<Chosen>,
    /// The alternatives.
    pub others: Vec<Chosen>,
    /// The measured times of batches.
    pub measured: Times,
    /// The temporary files that are written.
    pub writes: Option<Writes>,
}

/// Seconds a batch that were measured; `None` where too few batches were made to know.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// The device reads rows.
    pub reading: Option<f64>,
    /// Threads sample, side by side.
    pub sampling: Option<f64>,
    /// The time for which the consumer keeps a batch before it requests the next one.
    pub consumer: Option<f64>,
}

impl Times {
    /// Seconds that a batch takes at least, however rows are read.
    pub(crate) fn floor(&self) -> f64 {
        self.consumer.unwrap_or(0.0).max(self.sampling.unwrap_or(0.0))
    }
}

/// The unlinked temporary files that look-ahead writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Writes {
    /// The most bytes per epoch, estimated from the first batches.
    pub epoch_bytes: u64,
    /// Where.
    pub directory: PathBuf,
    /// Whether the user of the loader requested it.
    pub is_asked: bool,
}
