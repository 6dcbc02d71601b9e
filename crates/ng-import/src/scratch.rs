//! The temporary file of an import: unnamed, so that a killed import leaves nothing.

use std::path::Path;

use ng_io::{ScratchError, ScratchFile};

use crate::ImportError;

/// An unnamed temporary file in a directory.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: ScratchFile,
}

impl Scratch {
    pub(crate) fn create(directory: &Path) -> Result<Self, ImportError> {
        let file = ScratchFile::create_in(directory).map_err(scratch_error)?;
        Ok(Self { file })
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), ImportError> {
        self.file.write_all_at(offset, bytes).map_err(scratch_error)
    }

    pub(crate) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), ImportError> {
        self.file.read_exact_at(offset, bytes).map_err(scratch_error)
    }
}

pub(crate) fn scratch_error(error: ScratchError) -> ImportError {
    match error {
        ScratchError::DiskFull { .. } => {
            ImportError::DiskFull { what: "temporary data", cause: error.to_string() }
        }
        ScratchError::Truncated { .. } | ScratchError::Io { .. } => ImportError::Scratch(error),
    }
}
