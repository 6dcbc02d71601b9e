//! Turning the errors of the crates below into those of an import.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ng_io::ScratchError;
use ng_store::BuildError;

use crate::ImportError;

/// An error of the store's writers; a full disk is told apart.
pub(crate) fn store_error(error: BuildError) -> ImportError {
    if matches!(error, BuildError::Write(_)) {
        let text = error.to_string();
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(current) = cause {
            let shared = current.downcast_ref::<Arc<io::Error>>().map(AsRef::as_ref);
            let error = current.downcast_ref::<io::Error>().or(shared);
            let full = error.is_some_and(|io| io.kind() == io::ErrorKind::StorageFull);
            if full {
                return ImportError::DiskFull { what: "the store", cause: text };
            }
            cause = current.source();
        }
    }
    ImportError::Store(error)
}

pub(crate) fn scratch_error(error: ScratchError) -> ImportError {
    match error {
        ScratchError::DiskFull { .. } => {
            ImportError::DiskFull { what: "temporary data", cause: error.to_string() }
        }
        ScratchError::Truncated { .. } | ScratchError::Io { .. } => ImportError::Scratch(error),
    }
}

/// An error of a thread that panicked.
pub(crate) fn panicked(what: &str) -> ImportError {
    ImportError::Failed { reason: format!("a thread that {what} panicked") }
}

/// Why a file of the user cannot be read.
pub(crate) fn read_error(path: PathBuf, error: io::Error) -> ImportError {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
            ImportError::File { path, what: error.to_string() }
        }
        io::ErrorKind::UnexpectedEof => {
            ImportError::File { path, what: "the file is truncated".to_owned() }
        }
        _ => ImportError::Io { doing: "read", path, source: error },
    }
}
