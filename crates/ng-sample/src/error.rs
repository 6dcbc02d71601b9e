//! Why a mini-batch could not be made.

use ng_io::ScratchError;
use ng_store::{DirectError, ReadError};
use ng_types::{BudgetExceeded, NodeId, format_bytes};
use thiserror::Error;

use crate::CompiledError;

/// An error of [`crate::Sampler`] or [`crate::Pipeline`].
#[derive(Debug, Error)]
pub enum SampleError {
    /// The specification does not fit the store.
    #[error("{0}")]
    Spec(String),
    /// A weight that nothing can be drawn by.
    #[error(
        "weight {weight} at position {position} of the list of node {destination} under \
         {relation:?} is not a valid weight to sample by: it is negative or not finite; change it, \
         or sample uniformly"
    )]
    Weight {
        /// Name of the edge type's relation.
        relation: String,
        /// The node whose list it is.
        destination: NodeId,
        /// Which entry of the list.
        position: u32,
        /// The weight.
        weight: f32,
    },
    /// The store could not be read, or a seed is not in it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file of compiled epochs could not be written, found or read.
    #[error(transparent)]
    Compiled(#[from] CompiledError),
    /// A file of the direct layout could not be written, found or read.
    #[error(transparent)]
    Direct(#[from] DirectError),
    /// The batch does not fit beside what is held already.
    #[error(
        "a mini-batch of {} does not fit the memory budget: {} of {} are taken",
        format_bytes(*wanted_bytes), format_bytes(*held_bytes), format_bytes(*limit_bytes)
    )]
    Budget {
        /// Bytes of the batch.
        wanted_bytes: u64,
        /// Bytes that others hold.
        held_bytes: u64,
        /// The budget.
        limit_bytes: u64,
        /// A budget that would do.
        minimum_bytes: u64,
    },
    /// Looking ahead needs more memory than there is.
    #[error(
        "the memory budget is too small to look ahead: a batch has {} of rows, {} of {} are left \
         for them",
        format_bytes(*wanted_bytes), format_bytes(*free_bytes), format_bytes(*limit_bytes)
    )]
    TooSmallToLookAhead {
        /// Bytes of the rows of a batch.
        wanted_bytes: u64,
        /// Bytes that are left for rows.
        free_bytes: u64,
        /// The budget.
        limit_bytes: u64,
    },
    /// The system gave no memory although the budget had room.
    #[error(
        "the system does not provide {} of memory for the rows of a batch: {source}",
        format_bytes(*bytes as u64)
    )]
    NoMemory {
        /// What was asked for.
        bytes: usize,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Batches that were sampled ahead could not be written down or read back.
    #[error("cannot keep batches on disk that were sampled first: {0}")]
    Spill(#[from] ScratchError),
    /// A batch gave its memory back to an earlier one. It is made again, so this never leaves a
    /// pipeline.
    #[doc(hidden)]
    #[error("the batch made room for an earlier one")]
    MadeRoom,
    /// Everything stops, as somebody else said why. This never leaves a pipeline.
    #[doc(hidden)]
    #[error("the pipeline was closed")]
    Stopped,
    /// The system starts no more threads.
    #[error("cannot start a thread: {source}")]
    NoThread {
        /// The system's answer.
        source: std::io::Error,
    },
    /// A preparing thread ended without an answer.
    #[error("a sampling thread stopped unexpectedly; please report this with the log before it")]
    ThreadLost,
}

impl SampleError {
    /// Whether memory is too small for what was asked.
    pub fn is_too_small(&self) -> bool {
        let is_of_system = matches!(self, Self::NoMemory { .. });
        let is_of_others = matches!(
            self,
            Self::TooSmallToLookAhead { .. }
                | Self::Direct(DirectError::Budget(_) | DirectError::Store(ReadError::Budget(_)))
                | Self::Read(ReadError::NoMemory { .. })
        );
        self.is_of_memory() || is_of_system || is_of_others
    }

    /// Whether files are not what they were when they were written.
    pub fn is_damage(&self) -> bool {
        let of_read = |error: &ReadError| {
            matches!(error, ReadError::Damaged { .. } | ReadError::Checksum { .. })
        };
        match self {
            Self::Read(error) => of_read(error),
            Self::Compiled(error) => error.is_damage(),
            Self::Direct(DirectError::Store(error)) => of_read(error),
            Self::Direct(DirectError::Sealed(error)) => error.is_damage(),
            Self::Direct(error) => matches!(error, DirectError::Damaged { .. }),
            Self::Spec(_)
            | Self::Weight { .. }
            | Self::Budget { .. }
            | Self::TooSmallToLookAhead { .. }
            | Self::NoMemory { .. }
            | Self::Spill(_)
            | Self::MadeRoom
            | Self::Stopped
            | Self::NoThread { .. }
            | Self::ThreadLost => false,
        }
    }

    /// Whether the budget has no room now, and may have it later.
    pub(crate) fn is_of_memory(&self) -> bool {
        matches!(self, Self::Budget { .. } | Self::Read(ReadError::Budget(_)))
    }

    pub(crate) fn from_budget(error: BudgetExceeded) -> Self {
        let held_bytes = error.limit_bytes - error.free_bytes;
        Self::Budget {
            wanted_bytes: error.wanted_bytes,
            held_bytes,
            limit_bytes: error.limit_bytes,
            minimum_bytes: error.minimum_bytes(),
        }
    }
}
