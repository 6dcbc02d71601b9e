//! What the user of a loader should hear beside its batches.
//!
//! What must not live here: the words, which are those of each face.

use std::path::PathBuf;

use crate::{Chosen, SampleError};

/// Something to hear.
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
    /// What was chosen.
    pub chosen: Chosen,
    /// What it takes the place of; `None` where nothing was chosen before.
    pub before: Option<Chosen>,
    /// What was not chosen.
    pub others: Vec<Chosen>,
    /// What batches took until now.
    pub measured: Times,
    /// What is written to disk for a while.
    pub writes: Option<Writes>,
}

/// Seconds a batch that were measured; `None` where too few batches were made to know.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// The device reads rows.
    pub reading: Option<f64>,
    /// Threads sample, side by side.
    pub sampling: Option<f64>,
    /// The consumer keeps a batch before it asks for the next one.
    pub consumer: Option<f64>,
}

impl Times {
    /// Seconds that a batch takes at least, however rows are read.
    pub(crate) fn floor(&self) -> f64 {
        self.consumer.unwrap_or(0.0).max(self.sampling.unwrap_or(0.0))
    }
}

/// Files without a name that a look-ahead writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Writes {
    /// Bytes an epoch, at most, as far as the first batches tell.
    pub epoch_bytes: u64,
    /// Where.
    pub directory: PathBuf,
    /// The user of the loader has asked for it.
    pub is_asked: bool,
}
