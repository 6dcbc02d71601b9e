//! Why an engine cannot be opened, or cannot answer.

use ng_infer::run::RunError;
use ng_sample::{ReorganizeError, SampleError};
use ng_store::ReadError;
use ng_types::{explain, format_bytes};
use thiserror::Error;

/// An error of [`crate::Engine`].
#[derive(Debug, Error)]
pub enum EngineError {
    /// Something that the model takes is not in the store, or is of another kind there.
    #[error("input {input:?} of the model: {problem}")]
    Input {
        /// The input.
        input: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The model was exported from a store with other types.
    #[error("the schema of the model differs from that of the store: {difference}")]
    Schema {
        /// What differs.
        difference: String,
    },
    /// What the file says of the model cannot be read.
    #[error("model entry {entry:?}: {problem}")]
    Metadata {
        /// Which entry.
        entry: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The model does not give what was asked for.
    #[error("{problem}")]
    Output {
        /// Why not.
        problem: String,
    },
    /// The model does not answer such a question.
    #[error("{problem}")]
    Question {
        /// Why not.
        problem: String,
    },
    /// Ids that were asked for are not in the store.
    #[error("unknown ids of {what}: {ids}; ids are below {bound}")]
    Unknown {
        /// Of what.
        what: String,
        /// The first of them.
        ids: String,
        /// Ids are below this.
        bound: u64,
    },
    /// What shall be in memory does not fit there.
    #[error(
        "the lists and rows that the model reads need {}, but only {} of the memory budget are \
         free",
        format_bytes(*wanted_bytes), format_bytes(*free_bytes)
    )]
    TooLarge {
        /// What they take.
        wanted_bytes: u64,
        /// What is left.
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
    /// How often nodes are wanted could not be found out.
    #[error(transparent)]
    Heat(#[from] ReorganizeError),
    /// The model could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The caller stopped the request.
    #[error("stopped before the request was complete")]
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
