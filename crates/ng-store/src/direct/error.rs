//! Why a file of the direct layout could not be planned, written, found or read.

use ng_io::ScratchError;
use ng_types::{BudgetExceeded, explain};
use thiserror::Error;

use crate::error::ReadError;
use crate::sealed::SealedError;

/// An error of reading or compiling a file of the direct layout.
#[derive(Debug, Error)]
pub enum DirectError {
    /// The store cannot be laid out so.
    #[error("{0}")]
    Unsupported(String),
    /// The direct layout cannot give what is asked for; the store can.
    #[error("{0}")]
    OnlyPaged(String),
    /// The rows of a node do not fit into a section.
    #[error(
        "the rows of a node have {row_bytes} bytes, more than the {most} bytes that a section \
         holds"
    )]
    RowsTooWide {
        /// Bytes of all tensors that were chosen.
        row_bytes: usize,
        /// Bytes of a section.
        most: usize,
    },
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] ReadError),
    /// The memory budget does not allow it.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// The file could not be written, or is not a whole direct layout.
    #[error(transparent)]
    Sealed(#[from] SealedError),
    /// Addresses that memory does not hold could not be kept on disk.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The caller asked to stop.
    #[error("compiling was stopped, and its files were removed")]
    Stopped,
    /// There is nothing to read from.
    #[error("there is no direct layout in {directory}")]
    NoFile {
        /// The directory.
        directory: String,
    },
    /// It was compiled from another version or another store.
    #[error(
        "{file} was compiled from version {found} (commit {found_lsn}), but the store is at \
         version {wanted} (commit {wanted_lsn})"
    )]
    Stale {
        /// The file.
        file: String,
        /// Fingerprint that the file has.
        found: String,
        /// Its last commit.
        found_lsn: u64,
        /// Fingerprint of the snapshot.
        wanted: String,
        /// Its last commit.
        wanted_lsn: u64,
    },
    /// A page, or a section of it, is not what the format says.
    #[error(
        "{file}: page {page}, section {section}: {what}; the file is damaged: remove it and \
         compile again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The page.
        page: u64,
        /// The section; 0 also where the page as a whole is wrong.
        section: u32,
        /// What is wrong.
        what: String,
    },
}

explain! { DirectError {
    Unsupported => UnsupportedArgument,
    OnlyPaged => UnsupportedArgument [PagedLayout],
    RowsTooWide => UnsupportedArgument [FewerTensors],
    Budget { 0: error } => BudgetTooSmall [RaiseMemory(error.minimum_bytes())],
    Damaged => StoreDamaged,
    NoFile => CompiledMismatch [CompileDirect],
    Stale => CompiledMismatch [RecompileDirect, PagedLayout],
    Scratch => IoFailed,
    Stopped => Stopped,
} of Store.0, Sealed.0 }
