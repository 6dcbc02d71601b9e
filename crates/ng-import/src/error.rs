//! The errors of an import. Every message has the problem and its place.

use std::io;
use std::path::{Path, PathBuf};

use ng_io::{OpenError, ScratchError, SourceError, StagingError};
use ng_store::BuildError;
use ng_types::{ErrorKind, Explain, Remedy, explain, format_bytes};
use thiserror::Error;

/// The error of a line or a row, with a remedy.
#[derive(Debug, Error, PartialEq)]
#[error("{what}")]
pub struct Fault {
    /// What is wrong.
    pub what: String,
    /// What to do, if an interface has its own words for it.
    pub remedy: Option<Remedy>,
}

impl<T: Into<String>> From<T> for Fault {
    fn from(what: T) -> Self {
        Self { what: what.into(), remedy: None }
    }
}

impl Explain for Fault {
    fn explain(&self) -> (ErrorKind, Vec<Remedy>) {
        (ErrorKind::ImportFailed, self.remedy.into_iter().collect())
    }
}

impl Fault {
    pub(crate) fn with(what: String, remedy: Remedy) -> Self {
        Self { what, remedy: Some(remedy) }
    }
}

/// Why an import failed. It leaves no files at the path of the store.
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
        what: Fault,
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
        what: Fault,
    },
    /// A file is not valid.
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
    #[error("no space left while writing {what} ({cause}); no files were left behind")]
    DiskFull {
        /// What was being written.
        what: &'static str,
        /// The place, and the number of bytes needed.
        cause: String,
    },
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The operation: `read`, `write`, ...
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
        /// Rows of its owner.
        expected: u64,
        /// Rows that were pushed.
        found: u64,
    },
    /// An input file could not be read.
    #[error(transparent)]
    Source(SourceError),
    /// Temporary data could not be written or read.
    #[error(transparent)]
    Scratch(ScratchError),
    /// The store could not be moved to its path.
    #[error(transparent)]
    Place(StagingError),
    /// The store to replace has a writer.
    #[error(
        "{} is not replaced: another process, or another handle of this process, writes to it",
        path.display()
    )]
    Busy {
        /// The store.
        path: PathBuf,
    },
    /// It is unknown whether the store to replace has a writer.
    #[error("the store is not replaced: cannot check whether it has a writer: {0}")]
    Locked(#[source] OpenError),
    /// `memory` is too small to work with.
    #[error(
        "a memory budget of {} is too small for an import", format_bytes(*wanted_bytes)
    )]
    BudgetTooSmall {
        /// The given budget.
        wanted_bytes: u64,
        /// The smallest budget that works.
        minimum_bytes: u64,
    },
    /// The import is strict and has notes.
    #[error("nothing was written: a strict import fails if there are notes")]
    Strict {
        /// All notes.
        notes: Vec<crate::Note>,
    },
    /// The progress callback returned `false`.
    #[error("the import was cancelled; no files were left behind")]
    Cancelled,
    /// An earlier call failed, so the import cannot continue.
    #[error("this import failed earlier ({reason}); start a new one")]
    Failed {
        /// The earlier error.
        reason: String,
    },
}

/// The bytes of a line that an error repeats.
const LINE_SHOWN_MAX: usize = 120;

explain! { ImportError {
    BudgetTooSmall { minimum_bytes } => BudgetTooSmall [RaiseMemory(*minimum_bytes)],
    DiskFull | Io | Scratch | Locked => IoFailed,
    Busy => StoreBusy [ReplaceLater],
    File | Spec | Store | RowCount | Source | Cancelled | Strict | Failed => ImportFailed,
} of Place.0, Line.what, Row.what }

impl ImportError {
    pub(crate) fn spec(what: impl Into<String>) -> Self {
        Self::Spec(what.into())
    }

    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn line(path: &Path, line: u64, what: impl Into<Fault>, text: &[u8]) -> Self {
        let shown = &text[..text.len().min(LINE_SHOWN_MAX)];
        let mut text_shown = String::from_utf8_lossy(shown).into_owned();
        if shown.len() < text.len() {
            text_shown.push_str("...");
        }
        Self::Line { path: path.to_owned(), line, what: what.into(), text: text_shown }
    }
}
