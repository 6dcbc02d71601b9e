//! Where the store is built before it gets its name.

use std::path::Path;

use ng_io::{Existing, StagingDir};

use crate::ImportError;

/// A file that every store has, by which one is told from other directories.
const ROOT_NAME: &str = "root.a";

/// A hidden directory beside the final place; dropping it removes it.
#[derive(Debug)]
pub(crate) struct Place {
    staging: StagingDir,
}

impl Place {
    pub(crate) fn create(target: &Path, overwrite: bool) -> Result<Self, ImportError> {
        let existing = if overwrite { Existing::Replace } else { Existing::Refuse };
        if overwrite && target.exists() && !target.join(ROOT_NAME).is_file() {
            return Err(ImportError::File {
                path: target.to_owned(),
                what: "this is no store, so it is not overwritten; remove it first".to_owned(),
            });
        }
        let staging = StagingDir::create(target, existing).map_err(ImportError::Place)?;
        Ok(Self { staging })
    }

    pub(crate) fn path(&self) -> &Path {
        self.staging.path()
    }

    /// Makes everything durable and gives the directory its final name. Says why a store that it
    /// replaces could not be removed, if so.
    pub(crate) fn publish(self) -> Result<Option<String>, ImportError> {
        let leftover = self.staging.publish().map_err(ImportError::Place)?;
        Ok(leftover.map(|error| error.to_string()))
    }
}
