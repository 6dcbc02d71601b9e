//! Why compiled epochs could not be written, found or read.

use ng_io::{OpenError, ReadError, WriteError};
use thiserror::Error;

/// What is wrong with a file of a compiled epoch, or with using it.
#[derive(Debug, Error)]
pub enum CompiledError {
    /// The directory could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The device or the file system failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The disk is full, or failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Something about the directory failed.
    #[error("cannot {action} {file}: {source}")]
    Directory {
        /// What was tried.
        action: &'static str,
        /// On what.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another process compiles into the directory.
    #[error("another process writes compiled epochs beside {file}; wait for it to end")]
    Busy {
        /// The file to be written.
        file: String,
    },
    /// The file is not a compiled epoch, or its header or end is damaged.
    #[error("{file} is not a whole compiled epoch: {what}; remove it and compile again")]
    NotAnEpoch {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// The file has another version of the format than this release reads.
    #[error(
        "{file} is a compiled epoch of format {found}, and this release reads format {wanted}; \
         remove it and compile again"
    )]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
        /// The version that is read.
        wanted: u32,
    },
    /// A batch has another checksum, or is not what the format says.
    #[error(
        "{file}: batch {batch}, at byte {offset}: {what}; the file is damaged, remove it and \
         compile again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The batch.
        batch: u64,
        /// Where the batch begins.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The epoch was compiled from something else.
    #[error("{file} was compiled with {field} = {found}, but {wanted} is asked for")]
    Mismatch {
        /// The file.
        file: String,
        /// What differs.
        field: String,
        /// What the file has.
        found: String,
        /// What was asked for.
        wanted: String,
    },
}
