//! Why columns cannot be taken.

use ng_types::{explain, format_bytes};
use thiserror::Error;

/// Why bytes that should be an Arrow stream are refused. Batches and rows count from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrowError {
    /// They are not what the format says.
    #[error("batch {batch}: not a valid Arrow IPC stream: {what}")]
    Damaged {
        /// Batches before.
        batch: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A column is of a type that no tensor has.
    #[error("column {column:?} has an unsupported type: {found}")]
    Type {
        /// Its name.
        column: String,
        /// What it is.
        found: String,
    },
    /// A column has no value in some rows.
    #[error("batch {batch}, column {column:?}: row {row} is null")]
    Null {
        /// The batch.
        batch: u64,
        /// The column.
        column: String,
        /// The first such row.
        row: u64,
    },
    /// Buffers are compressed.
    #[error("batch {batch} is compressed")]
    Compressed {
        /// The batch.
        batch: u64,
    },
    /// A batch has more bytes than are held at once.
    #[error(
        "batch {batch} has {}, and the limit is {}",
        format_bytes(*bytes),
        format_bytes(*limit)
    )]
    TooLarge {
        /// The batch.
        batch: u64,
        /// Its bytes.
        bytes: u64,
        /// How many there may be.
        limit: u64,
    },
}

explain! { ArrowError {
    Damaged | Type | Null | Compressed | TooLarge => ImportFailed,
} }
