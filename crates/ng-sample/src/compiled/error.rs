//! Errors of writing, finding or reading compiled epochs.

use ng_store::SealedError;
use ng_types::explain;
use thiserror::Error;

/// An error of a file of a compiled epoch.
#[derive(Debug, Error)]
pub enum CompiledError {
    /// The file could not be written, or is not a whole compiled epoch.
    #[error(transparent)]
    Sealed(#[from] SealedError),
    /// The checksum of a batch is wrong, or the batch violates the format.
    #[error(
        "{file}: batch {batch}, at byte {offset}: {what}; the file is damaged: remove it and \
         compile again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The batch.
        batch: u64,
        /// The offset of the batch.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// There is nothing to replay.
    #[error("there are no compiled epochs in {directory}")]
    NoEpochs {
        /// The directory.
        directory: String,
    },
    /// An epoch of a set that was compiled together is missing.
    #[error(
        "epoch {missing} cannot be replayed: {file} was compiled together with epochs {first} to \
         {last}, but {wanted} {}; compile again, or remove the files of these epochs",
        if *is_there { "is from another compilation" } else { "is missing" }
    )]
    Incomplete {
        /// A file of the set.
        file: String,
        /// The first epoch of the set.
        first: u64,
        /// The last one.
        last: u64,
        /// The first that is missing.
        missing: u64,
        /// The file where it should be.
        wanted: String,
        /// That file is there, and is another's.
        is_there: bool,
    },
    /// The epoch was compiled from other data or settings.
    #[error("{file} was compiled with {field} = {found}, expected {wanted}")]
    Mismatch {
        /// The file.
        file: String,
        /// What differs.
        field: String,
        /// The value in the file.
        found: String,
        /// What was asked for.
        wanted: String,
    },
}

explain! { CompiledError {
    Damaged | Incomplete => StoreDamaged,
    Mismatch => CompiledMismatch,
    NoEpochs => CompiledMismatch [Compile],
} of Sealed.0 }
