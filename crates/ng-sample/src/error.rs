//! Errors of making a mini-batch.

use ng_io::ScratchError;
use ng_store::{DirectError, ReadError};
use ng_types::{BudgetExceeded, NodeId, explain, format_bytes};
use thiserror::Error;

use crate::CompiledError;

/// An error of [`crate::Sampler`] or [`crate::Pipeline`].
#[derive(Debug, Error)]
pub enum SampleError {
    /// The specification does not fit the store.
    #[error("{0}")]
    Spec(String),
    /// A weight that is not valid for sampling.
    #[error(
        "weight {weight} is not a valid weight (edge {relation:?} into node {destination}, \
         position {position} in its list); change it to a finite number of 0 or more, or sample \
         uniformly"
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
    /// No pair without an edge was found.
    #[error(
        "no negative link was found in {tries} tries: node {node} of the last pair has edges \
         {relation:?} to nearly all other nodes; request fewer or no negative links"
    )]
    NoNegative {
        /// Name of the edge type's relation.
        relation: String,
        /// The source of the last pair.
        node: NodeId,
        /// The number of drawn pairs.
        tries: u32,
    },
    /// The operation needs out-edges, which the store does not keep.
    #[error(
        "edges {relation:?} cannot be drawn in proportion to degree, because the store does not \
         keep the reverse of this edge type"
    )]
    NoReverse {
        /// Name of the edge type's relation.
        relation: String,
    },
    /// Edge tensors cannot be gathered without edge ids.
    #[error("edge type {edge_type} has no edge ids, so its tensors cannot be gathered")]
    NoEdgeIds {
        /// Name of the relation.
        edge_type: String,
    },
    /// A tensor has too many rows to look ahead.
    #[error("tensor {tensor:?} has {num_rows} rows; look-ahead supports fewer than 2^32 - 1")]
    TooManyRows {
        /// Name of the tensor.
        tensor: String,
        /// How many.
        num_rows: u64,
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
    /// The batch does not fit into the free memory of the budget.
    #[error(
        "a mini-batch of {} does not fit into the memory budget: {} of {} are in use",
        format_bytes(*wanted_bytes), format_bytes(*held_bytes), format_bytes(*limit_bytes)
    )]
    Budget {
        /// Bytes of the batch.
        wanted_bytes: u64,
        /// Bytes that are in use.
        held_bytes: u64,
        /// The budget.
        limit_bytes: u64,
        /// A sufficient budget.
        minimum_bytes: u64,
    },
    /// Look-ahead needs more memory than the budget has.
    #[error(
        "the memory budget is too small for look-ahead: a batch takes {}, and {} of {} are left \
         for batches",
        format_bytes(*wanted_bytes), format_bytes(*free_bytes), format_bytes(*limit_bytes)
    )]
    TooSmallToLookAhead {
        /// Bytes of a batch.
        wanted_bytes: u64,
        /// Bytes that are left for batches.
        free_bytes: u64,
        /// The budget.
        limit_bytes: u64,
        /// A sufficient budget.
        minimum_bytes: u64,
    },
    /// The system gave no memory although the budget had room.
    #[error(
        "the system cannot allocate {} of memory for the rows of a batch: {source}",
        format_bytes(*bytes as u64)
    )]
    NoMemory {
        /// What was asked for.
        bytes: usize,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Batches that were sampled ahead could not be written to disk or read back.
    #[error("cannot store sampled batches on disk: {0}")]
    Spill(#[from] ScratchError),
    /// A batch gave its memory to an earlier one. It is made again, so this never leaves a
    /// pipeline.
    #[doc(hidden)]
    #[error("the batch gave its memory to an earlier one")]
    MadeRoom,
    /// The pipeline stops because of another error. This never leaves a pipeline.
    #[doc(hidden)]
    #[error("the pipeline was closed")]
    Stopped,
    /// The system cannot start a thread.
    #[error("cannot start a thread: {source}")]
    NoThread {
        /// The system's answer.
        source: std::io::Error,
    },
    /// A sampling thread ended without a result.
    #[error("a sampling thread ended unexpectedly; please report this with the log up to here")]
    ThreadLost,
}

explain! { SampleError {
    Spec | Weight | NoNegative => UnsupportedArgument,
    NoReverse => UnsupportedArgument [KeepReverse],
    NoEdgeIds => UnsupportedArgument [KeepEdgeIds],
    TooManyRows => UnsupportedArgument [ReadOnDemand],
    Budget { minimum_bytes } => BudgetTooSmall [RaiseMemory(*minimum_bytes), DropBatches],
    TooSmallToLookAhead { minimum_bytes } =>
        BudgetTooSmall [RaiseMemory(*minimum_bytes), SmallerBatches, ReadOnDemand],
    NoMemory => BudgetTooSmall [FreeMemory],
    Spill => IoFailed,
    NoThread | ThreadLost | MadeRoom | Stopped => Defect,
} of Read.0, Compiled.0, Direct.0 }

impl SampleError {
    /// Whether the budget has no room now, and may have it later.
    pub(crate) fn is_of_memory(&self) -> bool {
        matches!(self, Self::Budget { .. } | Self::Read(ReadError::Budget(_)))
    }

    /// Whether it is of memory that others may give back: no more than the whole budget.
    pub(crate) fn may_pass(&self) -> bool {
        let never = matches!(
            self,
            Self::Budget { wanted_bytes, limit_bytes, .. } if wanted_bytes > limit_bytes
        );
        self.is_of_memory() && !never
    }
}

impl From<BudgetExceeded> for SampleError {
    fn from(error: BudgetExceeded) -> Self {
        Self::Budget {
            wanted_bytes: error.wanted_bytes,
            held_bytes: error.limit_bytes - error.free_bytes,
            limit_bytes: error.limit_bytes,
            minimum_bytes: error.minimum_bytes(),
        }
    }
}
