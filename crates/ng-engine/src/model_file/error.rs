//! Errors of reading a model file.

use std::path::PathBuf;

use ng_infer::convert::ConvertError;
use ng_io::SourceError;
use ng_types::explain;
use thiserror::Error;

/// An error of [`crate::ModelFile::open`].
#[derive(Debug, Error)]
pub enum ModelFileError {
    /// The path does not exist.
    #[error("{path} does not exist; give the path of a model file")]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// A file of it is a pipe, a socket or a device.
    #[error("{path} is not a regular file")]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// A file of it is missing, is a link, is too large, changes meanwhile, or cannot be read.
    #[error("{source}")]
    Unreadable {
        /// The cause.
        source: SourceError,
    },
    /// The file is not a valid archive.
    #[error("{path} is not a folder or zip archive of a model: {problem}")]
    NotAnArchive {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        problem: String,
    },
    /// The archive has other files.
    #[error(
        "{path} contains the files {found}; expected only manifest.json, model.onnx and \
         model.safetensors"
    )]
    OtherFiles {
        /// The archive.
        path: PathBuf,
        /// Its content.
        found: String,
    },
    /// A file in the archive is compressed.
    #[error("{path}: {name} is compressed; model files must be uncompressed")]
    Compressed {
        /// The archive.
        path: PathBuf,
        /// The file in it.
        name: &'static str,
    },
    /// A file in the archive is too large.
    #[error("{path}: {name} has {bytes} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The archive.
        path: PathBuf,
        /// The file in it.
        name: &'static str,
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The manifest is not valid.
    #[error("{path}: manifest.json is not a valid manifest: {problem}")]
    Manifest {
        /// The model file.
        path: PathBuf,
        /// The problem with it.
        problem: String,
    },
    /// The format or version is not supported.
    #[error(
        "{path} has format {format:?} version {version}; this release reads \"neargraph model\" \
         version 1"
    )]
    Version {
        /// The model file.
        path: PathBuf,
        /// Its format.
        format: String,
        /// The version of the format.
        version: i64,
    },
    /// A file differs from its hash in the manifest.
    #[error("{path}: {name} does not match its hash in manifest.json")]
    Changed {
        /// The model file.
        path: PathBuf,
        /// The file of it.
        name: &'static str,
    },
    /// The graph is not valid or not supported.
    #[error("{path}: {error}")]
    Graph {
        /// The model file.
        path: PathBuf,
        /// Why.
        error: ConvertError,
    },
}

impl From<SourceError> for ModelFileError {
    fn from(source: SourceError) -> Self {
        match source {
            SourceError::NotSeekable { path } => Self::NotRegular { path },
            source @ (SourceError::NotFound { .. }
            | SourceError::IsADirectory { .. }
            | SourceError::Truncated { .. }
            | SourceError::TooLarge { .. }
            | SourceError::Io { .. }) => Self::Unreadable { source },
        }
    }
}

explain! {
    ModelFileError {
        NotFound | OtherFiles | Compressed | TooLarge | Version => InvalidModel,
        NotRegular | Unreadable | NotAnArchive | Manifest | Changed => InvalidModel [CopyModel],
    }
    of Graph.error
}
