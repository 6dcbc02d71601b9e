//! A model: its graph, what its file says of it, and reading it from a file.
//!
//! What must not live here: what operations mean, and stores. The invariants: what is read has the
//! hashes that the manifest names, and its size is checked before any of it is read.

mod archive;
mod error;
mod fanouts;
mod files;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ng_infer::convert::ConvertError;
use ng_infer::dfg::Dfg;
use ng_infer::onnx::{ExternalFiles, Model, Range};

pub use self::error::ModelFileError;
use self::files::Files;

/// What keys of this program begin with.
const PREFIX: &str = "neargraph.";

/// A graph with the metadata of its file.
#[derive(Clone, Debug)]
pub struct ModelFile {
    /// What is computed.
    pub graph: Arc<Dfg>,
    /// Keys and values of the file; those of this program begin with its name and a dot.
    pub metadata: Vec<(String, String)>,
    /// Tells the model from others; `None` of a graph that is from no file.
    pub identity: Option<ModelIdentity>,
}

/// The SHA-256 of the hashes of a model and of its weights: equal for copies of a model, in a
/// folder or in an archive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelIdentity(pub [u8; 32]);

impl fmt::Display for ModelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ModelIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelIdentity({self})")
    }
}

impl ModelFile {
    /// A graph that was built by hand.
    pub fn of_graph(graph: Dfg) -> Self {
        Self { graph: Arc::new(graph), metadata: Vec::new(), identity: None }
    }

    /// Reads a model file: a folder with its three files, or a zip archive of them that is not
    /// compressed.
    ///
    /// # Errors
    /// [`ModelFileError`]: there is nothing, a file is missing, is a link or no regular file, is
    /// too large, or differs from the manifest; or the engine does not have what is in the graph.
    pub fn open(path: &Path) -> Result<Self, ModelFileError> {
        Self::of_files(path, Files::read(path)?)
    }

    /// Reads a model from the bytes of its files. Errors name it `place`. Without a manifest, the
    /// files are not compared with hashes.
    ///
    /// # Errors
    /// As [`ModelFile::open`].
    pub fn of_bytes(
        place: &Path,
        manifest: Option<&[u8]>,
        (model, weights): (Vec<u8>, Vec<u8>),
    ) -> Result<Self, ModelFileError> {
        Self::of_files(place, Files::of_bytes(place, manifest, (model, weights))?)
    }

    fn of_files(path: &Path, files: Files) -> Result<Self, ModelFileError> {
        let Files { model, weights, identity } = files;
        let refused = |error| ModelFileError::Graph { path: path.to_owned(), error };
        let proto = Model::decode(&model).map_err(|error| refused(error.into()))?;
        drop(model);
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let beside = |name: &str| (name == files::WEIGHTS).then_some(&weights).ok_or_else(missing);
        let len = |name: &str| Ok(beside(name)?.len() as u64);
        let read = |range: &Range, to: &mut [u8]| {
            let start = usize::try_from(range.offset).map_err(io::Error::other)?;
            let found = beside(&range.file)?.get(start..).and_then(|rest| rest.get(..to.len()));
            to.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        };
        let external = ExternalFiles::new(&proto, len, read);
        let mut external = external.map_err(|error| refused(error.into()))?;
        let mut bytes = |tensor: &_| external.bytes(tensor).map(|bytes| bytes.into_owned());
        let graph: Result<Dfg, ConvertError> = Dfg::from_onnx(&proto, &mut bytes);
        let graph = Arc::new(graph.map_err(refused)?);
        Ok(Self { graph, metadata: proto.metadata, identity: Some(identity) })
    }

    /// Returns the metadata entry of a key that this program wrote.
    pub fn said(&self, key: &str) -> Option<&str> {
        let is_it = |known: &str| known.strip_prefix(PREFIX) == Some(key);
        self.metadata.iter().find(|(known, _)| is_it(known)).map(|(_, value)| value.as_str())
    }
}
