//! What can go wrong in an import. Every message says what is wrong, where, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use ng_io::{ScratchError, SourceError, StagingError};
use ng_store::BuildError;
use ng_types::format_bytes;
use thiserror::Error;

/// Why an import failed. Nothing is left behind at the place of the store.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A line of a text file is not an edge.
    #[error("{}, line {line}: {what}; the line is {text:?}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
        /// The beginning of the line.
        text: String,
    },
    /// A row of an array is not an edge.
    #[error("{array}, row {row}: {what}")]
    Row {
        /// Which array, or file.
        array: String,
        /// The row, counted from 0.
        row: u64,
        /// What is wrong with it.
        what: String,
    },
    /// A file is not what it was said to be.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Options or declarations contradict each other.
    #[error("{0}")]
    Spec(String),
    /// The disk is full.
    #[error("no space left while writing {what} ({cause}); nothing was left behind")]
    DiskFull {
        /// What was being written.
        what: &'static str,
        /// Where, and how much was wanted.
        cause: String,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried: `read`, `write`, ...
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The store could not be written.
    #[error("cannot write the store: {0}")]
    Store(#[source] BuildError),
    /// Something was pushed that has another number of rows than its owner.
    #[error("{what}: {found} rows, expected {expected}")]
    RowCount {
        /// Which tensor or array.
        what: String,
        /// Rows that its owner has.
        expected: u64,
        /// Rows that came.
        found: u64,
    },
    /// A file of the user could not be read.
    #[error(transparent)]
    Source(SourceError),
    /// Temporary data could not be written or read.
    #[error(transparent)]
    Scratch(ScratchError),
    /// The store could not be given its place.
    #[error(transparent)]
    Place(StagingError),
    /// There is something at the place of the store already.
    #[error("{} exists already; choose another place or allow overwriting it", path.display())]
    Exists {
        /// The place.
        path: PathBuf,
    },
    /// `memory` is too small to work with.
    #[error(
        "a memory budget of {} is too small for an import", format_bytes(*wanted_bytes)
    )]
    BudgetTooSmall {
        /// What was given.
        wanted_bytes: u64,
        /// The least that works.
        minimum_bytes: u64,
    },
    /// The import was strict and would have ended with notes.
    #[error(
        "refused because of --strict, and nothing was written: {}",
        crate::report::listed(notes)
    )]
    Strict {
        /// All notes.
        notes: Vec<crate::Note>,
    },
    /// The progress callback asked to stop.
    #[error("the import was cancelled; nothing was left behind")]
    Cancelled,
    /// An earlier call failed, so the import cannot go on.
    #[error("this import failed earlier ({reason}); start a new one")]
    Failed {
        /// The earlier error.
        reason: String,
    },
}

/// The bytes of a line that an error repeats.
const LINE_SHOWN_MAX: usize = 120;

impl ImportError {
    pub(crate) fn spec(what: impl Into<String>) -> Self {
        Self::Spec(what.into())
    }

    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn line(path: &Path, line: u64, what: impl Into<String>, text: &[u8]) -> Self {
        let shown = &text[..text.len().min(LINE_SHOWN_MAX)];
        let mut text_shown = String::from_utf8_lossy(shown).into_owned();
        if shown.len() < text.len() {
            text_shown.push_str("...");
        }
        Self::Line { path: path.to_owned(), line, what: what.into(), text: text_shown }
    }
}
