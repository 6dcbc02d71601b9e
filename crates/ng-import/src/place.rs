//! Where the store is built before it gets its name.
//!
//! The invariant: from its first moment until the new store has the name, nobody writes to a store
//! that the import replaces, so no commit that was acknowledged is replaced with it.

use std::path::Path;

use ng_io::{Existing, Lock, OpenError, StagingDir, hold_off_writer};

use crate::ImportError;

/// A file that every store has, by which one is told from other directories.
const ROOT_NAME: &str = "root.a";

/// A hidden directory beside the final place; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Place {
    staging: StagingDir,
    /// Keeps others from writing to the store that is replaced, if there is one.
    _older: Option<Lock>,
}

impl Place {
    pub(crate) fn create(target: &Path, overwrite: bool) -> Result<Self, ImportError> {
        let existing = if overwrite { Existing::Replace } else { Existing::Refuse };
        if overwrite && target.exists() && !target.join(ROOT_NAME).is_file() {
            return Err(ImportError::File {
                path: target.to_owned(),
                what: "it is not a store, so it is not overwritten; remove it first".to_owned(),
            });
        }
        let _older = if overwrite { keep_writers_off(target)? } else { None };
        let staging = StagingDir::create(target, existing).map_err(ImportError::Place)?;
        Ok(Self { staging, _older })
    }

    pub(crate) fn path(&self) -> &Path {
        self.staging.path()
    }

    /// Makes everything durable and gives the directory its final name. Says why a store that it
    /// replaces could not be removed, if so.
    pub(crate) fn publish(self) -> Result<Option<String>, ImportError> {
        // Another store may have taken the name since the import began.
        let _older = keep_writers_off(self.staging.target())?;
        let leftover = self.staging.publish().map_err(ImportError::Place)?;
        Ok(leftover.map(|error| error.to_string()))
    }
}

/// Keeps others from writing to the store, if there is one. Its file of locks is all that counts,
/// so that a store can be replaced whatever else of it is damaged.
fn keep_writers_off(store: &Path) -> Result<Option<Lock>, ImportError> {
    match hold_off_writer(store) {
        Ok(Some(lock)) => Ok(Some(lock)),
        Ok(None) => Err(ImportError::Busy { path: store.to_owned() }),
        Err(OpenError::NotFound { .. } | OpenError::NotADirectory { .. }) => Ok(None),
        Err(error @ (OpenError::Unavailable { .. } | OpenError::Io { .. })) => {
            Err(ImportError::Locked(error))
        }
    }
}
