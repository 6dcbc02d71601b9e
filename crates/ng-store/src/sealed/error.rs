//! Why a sealed file could not be written, found or read.

use ng_types::explain;
use thiserror::Error;

use crate::io::{ReadError, WriteError};

/// What is wrong with a sealed file as a whole; what is wrong with its contents is for its kind.
#[derive(Debug, Error)]
pub enum SealedError {
    /// The directory could not be opened.
    #[error(transparent)]
    Open(#[from] ng_io::OpenError),
    /// The device or the file system failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The disk is full, or failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Something about the directory failed.
    #[error("cannot {action} {file}: {source}")]
    Directory {
        /// The action that failed.
        action: &'static str,
        /// On what.
        file: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Another process writes into the directory.
    #[error("another process is writing to the directory of {file}; wait until it ends")]
    Busy {
        /// The file to be written.
        file: String,
    },
    /// The file is not of this kind, or its head or end is damaged, or it is cut off.
    #[error("{file} is not a complete {kind}: {what}; remove it and compile again")]
    NotWhole {
        /// The file.
        file: String,
        /// What it should be.
        kind: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The file has another version of the format than this release reads.
    #[error(
        "{file} is a {kind} of format version {found}, and this release reads version {wanted}; \
         remove it and compile again"
    )]
    Version {
        /// The file.
        file: String,
        /// What it is.
        kind: &'static str,
        /// Its version.
        found: u32,
        /// The version that is read.
        wanted: u32,
    },
}

explain! { SealedError {
    NotWhole => StoreDamaged,
    Version => CompiledOutdated,
    Busy => StoreBusy,
    Open | Write | Directory => IoFailed,
} of Read.0 }
