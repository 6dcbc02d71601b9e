//! Why a file of the direct layout could not be planned, written, found or read.

use ng_io::ScratchError;
use ng_types::BudgetExceeded;
use thiserror::Error;

use crate::error::ReadError;
use crate::io;

/// What is wrong with a file of the direct layout, or with making one.
#[derive(Debug, Error)]
pub enum DirectError {
    /// The store cannot be laid out so.
    #[error("{0}")]
    Unsupported(String),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] ReadError),
    /// The memory budget does not allow it.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// The directory could not be opened.
    #[error(transparent)]
    Open(#[from] ng_io::OpenError),
    /// The device or the file system failed.
    #[error(transparent)]
    Read(#[from] io::ReadError),
    /// The disk is full, or failed.
    #[error(transparent)]
    Write(#[from] io::WriteError),
    /// Addresses that memory does not hold could not be kept on disk.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
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
    #[error("another process compiles into the directory of {file}; wait for it to end")]
    Busy {
        /// The file to be written.
        file: String,
    },
    /// The caller asked to stop.
    #[error("compiling was stopped; nothing of it is left")]
    Stopped,
    /// The file is no direct layout, or its head is damaged, or it is cut off.
    #[error("{file} is not a whole direct layout: {what}; remove it and compile again")]
    NotDirect {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },
    /// It was compiled from another version or another store.
    #[error(
        "{file} was compiled from version {found} of a store and this is version {wanted}; compile \
         it again with `neargraph compile STORE --layout direct --overwrite`"
    )]
    Stale {
        /// The file.
        file: String,
        /// Fingerprint that the file has.
        found: String,
        /// Fingerprint of the snapshot.
        wanted: String,
    },
    /// A page, or a section of it, is not what the format says.
    #[error(
        "{file}: page {page}, section {section}: {what}; the file is damaged, remove it and \
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
