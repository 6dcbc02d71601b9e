//! Errors of opening an engine and of its requests.

use ng_infer::run::RunError;
use ng_sample::{ReorganizeError, SampleError};
use ng_store::ReadError;
use ng_types::{explain, format_bytes};
use thiserror::Error;

/// An error of [`crate::Engine`].
#[derive(Debug, Error)]
pub enum EngineError {
    /// An input of the model is not in the store, or has another type there.
    #[error("input {input:?} of the model: {problem}")]
    Input {
        /// The input.
        input: String,
        /// The problem with it.
        problem: String,
    },
    /// The model was exported from a store with another schema.
    #[error("the schema of the model differs from that of the store: {difference}")]
    Schema {
        /// What differs.
        difference: String,
    },
    /// An entry of the model's metadata is not valid.
    #[error("metadata entry {entry:?} of the model: {problem}")]
    Metadata {
        /// Which entry.
        entry: String,
        /// The problem with it.
        problem: String,
    },
    /// The model does not return the requested output.
    #[error("{problem}")]
    Output {
        /// Why not.
        problem: String,
    },
    /// The model does not support such a request.
    #[error("{problem}")]
    Question {
        /// Why not.
        problem: String,
    },
    /// Requested ids are not in the store.
    #[error("unknown ids of {what}: {ids}; valid ids are below {bound}")]
    Unknown {
        /// The kind of the ids.
        what: String,
        /// The first of them.
        ids: String,
        /// Ids are below this.
        bound: u64,
    },
    /// The lists and rows that are to be held in memory do not fit.
    #[error(
        "the neighbour lists and rows that the model reads need {}, but only {} of the memory \
         budget are free",
        format_bytes(*wanted_bytes), format_bytes(*free_bytes)
    )]
    TooLarge {
        /// Their size.
        wanted_bytes: u64,
        /// The free bytes.
        free_bytes: u64,
        /// A budget that would do.
        minimum_bytes: u64,
    },
    /// A batch could not be sampled.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The heat of nodes could not be computed.
    #[error(transparent)]
    Heat(#[from] ReorganizeError),
    /// The model could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The caller stopped the request.
    #[error("the request was stopped before it was complete")]
    Stopped,
    /// The system starts no more threads.
    #[error("cannot start a thread: {source}")]
    NoThread {
        /// The system's answer.
        source: std::io::Error,
    },
}

explain! {
    EngineError {
        Input | Schema | Metadata => InvalidModel,
        Output | Question => UnsupportedArgument,
        Unknown => NodeOutOfRange,
        TooLarge { minimum_bytes } => BudgetTooSmall [RaiseMemory(*minimum_bytes)],
        NoThread => IoFailed,
        Stopped => Stopped,
    }
    of Sample.0, Read.0, Heat.0, Run.0
}
