//! Why a kernel refuses what it is given.

use thiserror::Error;

/// Why an operation cannot be done on certain tensors.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum KernelError {
    /// Types, shapes or numbers do not fit.
    #[error("{0}")]
    Misfit(String),
    /// An index is not below the length that it has to be below.
    #[error("index {index} at place {place} is out of range: expected less than {len}")]
    Index {
        /// The index.
        index: i64,
        /// Where it is in its tensor.
        place: usize,
        /// How many there are.
        len: usize,
    },
    /// The kernel does not do this operation.
    #[error("the kernel does not support {0}")]
    NotServed(String),
}

/// A misfit in the words of another error.
pub(super) fn misfit(error: impl ToString) -> KernelError {
    KernelError::Misfit(error.to_string())
}
