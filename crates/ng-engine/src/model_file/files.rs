//! The three files of a model: their names, their limits, and that they are what was written.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

use ng_io::{SourceError, SourceFile, ram_bytes};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::archive::Archive;
use super::{ModelFileError, ModelIdentity};

const MODEL: &str = "model.onnx";
pub(super) const WEIGHTS: &str = "model.safetensors";
const MANIFEST: &str = "manifest.json";

/// Of the manifest.
const FORMAT: &str = "neargraph model";
const FORMAT_VERSION: i64 = 1;

/// Bytes of an archive beside its files, of which the directory is the most.
pub(super) const DIRECTORY_BYTES_MAX: u64 = 1 << 17;

/// The names, in the order in which archives are told to have them, and how long each file may be.
/// Protobuf allows 2 GiB. Weights are in memory twice while a model is made.
pub(super) fn limits() -> [(&'static str, u64); 3] {
    static WEIGHTS_BYTES_MAX: LazyLock<u64> = LazyLock::new(|| ram_bytes() / 2);
    [(MANIFEST, 1 << 16), (MODEL, (1 << 31) - 1), (WEIGHTS, *WEIGHTS_BYTES_MAX)]
}

/// What was read and checked.
pub(super) struct Files {
    pub model: Vec<u8>,
    pub weights: Vec<u8>,
    pub identity: ModelIdentity,
}

#[derive(Deserialize)]
struct Manifest {
    format: String,
    version: i64,
    files: HashMap<String, String>,
}

impl Files {
    pub fn read(path: &Path) -> Result<Self, ModelFileError> {
        let [manifest, model, weights] = match SourceFile::open_regular(path, true) {
            Ok(file) => Archive::read(path, &file)?,
            Err(SourceError::IsADirectory { .. }) => of_folder(path)?,
            Err(SourceError::NotFound { path }) => return Err(ModelFileError::NotFound { path }),
            Err(
                error @ (SourceError::Truncated { .. }
                | SourceError::NotSeekable { .. }
                | SourceError::TooLarge { .. }
                | SourceError::Io { .. }),
            ) => return Err(error.into()),
        };
        Self::of_bytes(path, Some(&manifest), (model, weights))
    }

    /// Checks files against their manifest, if there is one.
    pub fn of_bytes(
        path: &Path,
        manifest: Option<&[u8]>,
        (model, weights): (Vec<u8>, Vec<u8>),
    ) -> Result<Self, ModelFileError> {
        let named = manifest.map(|manifest| named_files(path, manifest)).transpose()?;
        let mut both = Sha256::new();
        for (name, bytes) in [(MODEL, &model), (WEIGHTS, &weights)] {
            let found = ModelIdentity(Sha256::digest(bytes).into());
            if let Some(files) = &named {
                let missing = || wrong(path, format!("it does not list {name}"));
                if *files.get(name).ok_or_else(missing)? != found.to_string() {
                    return Err(ModelFileError::Changed { path: path.to_owned(), name });
                }
            }
            both.update(found.0);
        }
        Ok(Self { model, weights, identity: ModelIdentity(both.finalize().into()) })
    }
}

fn wrong(path: &Path, problem: String) -> ModelFileError {
    ModelFileError::Manifest { path: path.to_owned(), problem }
}

/// The files that a manifest names, and their hashes.
fn named_files(path: &Path, manifest: &[u8]) -> Result<HashMap<String, String>, ModelFileError> {
    let read = serde_json::from_slice(manifest);
    let Manifest { format, version, files } = read.map_err(|e| wrong(path, e.to_string()))?;
    match (format.as_str(), version) == (FORMAT, FORMAT_VERSION) {
        true => Ok(files),
        false => Err(ModelFileError::Version { path: path.to_owned(), format, version }),
    }
}

fn of_folder(path: &Path) -> Result<[Vec<u8>; 3], ModelFileError> {
    let read = |(name, limit): (&str, u64)| {
        SourceFile::open_regular(&path.join(name), false)?.read_whole(limit)
    };
    let [manifest, model, weights] = limits().map(read);
    Ok([manifest?, model?, weights?])
}
