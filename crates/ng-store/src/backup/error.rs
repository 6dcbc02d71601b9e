//! Why a backup could not be made, checked or restored.

use std::path::PathBuf;
use std::sync::Arc;

use ng_io::{StagingError, WriteError};
use ng_types::explain;
use thiserror::Error;

use crate::error::ReadError;
use crate::write::error::UpdateError;

/// An error of making, checking or restoring a backup. No partial result remains.
#[derive(Debug, Error)]
pub enum BackupError {
    /// There is no such directory.
    #[error("{}: no such backup", path.display())]
    NotFound {
        /// The path given.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error("{}: not a backup: {what}", path.display())]
    NotABackup {
        /// The path given.
        path: PathBuf,
        /// What a backup has.
        what: String,
    },
    /// Written by a newer release.
    #[error(
        "{}: the backup has format version {found}, and this release reads up to {supported}; \
         upgrade neargraph to read it",
        path.display()
    )]
    NewerVersion {
        /// The backup.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this release knows.
        supported: u32,
    },
    /// A part of a backup is not what was written.
    #[error("{}: {what}; the backup is damaged: use another copy", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where in it, and what is wrong.
        what: String,
    },
    /// A backup holds only what has changed since another one, which is gone.
    #[error(
        "{} is incremental, and its base {} is missing: put both into one directory",
        path.display(), base.display()
    )]
    BaseMissing {
        /// The backup.
        path: PathBuf,
        /// The one that it needs.
        base: PathBuf,
    },
    /// The backup under that name is not the one that another was made on.
    #[error(
        "{} is not the base of {}: {what}",
        base.display(), path.display()
    )]
    BaseExchanged {
        /// The backup.
        path: PathBuf,
        /// What stands under the name of its base.
        base: PathBuf,
        /// How they differ.
        what: String,
    },
    /// The store does not continue the backup that was given as base.
    #[error(
        "{}: the store is not a later state of this backup ({what}); it is another store, or was \
         compacted or imported again; make a complete backup",
        base.display()
    )]
    NotABase {
        /// The backup given.
        base: PathBuf,
        /// What shows it.
        what: String,
    },
    /// Something has the name of the result already.
    #[error(
        "{} already exists, and backups and restored stores never replace anything: choose \
         another name",
        path.display()
    )]
    TargetExists {
        /// The path given.
        path: PathBuf,
    },
    /// What was asked for is not possible.
    #[error("{what}")]
    Unsupported {
        /// What, and what to do instead.
        what: String,
    },
    /// The caller stopped the work.
    #[error("stopped; no backup or store was written")]
    Stopped,
    /// The directory of the result could not be made.
    #[error(transparent)]
    Staging(StagingError),
    /// Reading failed; of the store that is backed up also damage.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The checkpoint before the backup failed.
    #[error(transparent)]
    Checkpoint(Arc<UpdateError>),
}

explain! { BackupError {
    NotFound | BaseMissing => StoreNotFound,
    NotABackup => NotAStore,
    NewerVersion => NewerVersion,
    Damaged => StoreDamaged,
    BaseExchanged | NotABase | TargetExists | Unsupported => UnsupportedArgument,
    Stopped => Stopped,
    Write | Staging => IoFailed,
} of Read.0, Checkpoint.0 }

impl From<StagingError> for BackupError {
    fn from(error: StagingError) -> Self {
        match error {
            StagingError::Exists { path } => Self::TargetExists { path },
            error @ (StagingError::Busy { .. }
            | StagingError::BadName { .. }
            | StagingError::NoParent { .. }
            | StagingError::Io { .. }) => Self::Staging(error),
        }
    }
}

impl From<UpdateError> for BackupError {
    fn from(error: UpdateError) -> Self {
        if matches!(error, UpdateError::Stopped) {
            return Self::Stopped;
        }
        Self::Checkpoint(Arc::new(error))
    }
}

impl From<ng_io::ReadError> for BackupError {
    fn from(error: ng_io::ReadError) -> Self {
        Self::Read(error.into())
    }
}
