//! Files of models: into the served folder, under the name of their content.

use std::io;
use std::path::{Component, Path, PathBuf};

use ng_engine::ModelFile;
use ng_io::{
    Existing, SourceError, SourceFile, StagingDir, StagingError, ensure_folder, keep_privately,
    remove_folder,
};
use ng_rpc::v1::model_register_request::Source;
use ng_rpc::{Code, Problem, problem_of, v1};
use sha2::{Digest, Sha256};

use super::Catalogue;
use super::kept::OWN_FOLDER;

const MODELS: &str = "models";
const PLUGINS: &str = "plugins";
/// What a plug-in is called in its folder.
const PLUGIN: &str = "plugin.so";
const GRAPHS: &str = "graphs";
const BACKUPS: &str = "backups";
/// Bytes of a name in a path: files of half-made folders have longer ones.
const NAME_BYTES_MAX: usize = 200;
const PATH_BYTES_MAX: usize = 1024;
const MODEL: &str = "model.onnx";
const WEIGHTS: &str = "model.safetensors";
const MANIFEST: &str = "manifest.json";
/// What a model that came as an archive is called in its folder.
const ARCHIVE: &str = "model.zip";

/// A path in the served folder.
///
/// # Errors
/// It leads out of it, or to what the server keeps for itself.
pub fn inside(path: &str) -> Result<PathBuf, Problem> {
    let is_name = |name: &str| {
        let is_long = name.len() > NAME_BYTES_MAX;
        !is_long && !name.starts_with('.') && !name.chars().any(char::is_control)
    };
    let is_plain = |part: Component<'_>| match part {
        Component::Normal(name) => name.to_str().is_some_and(is_name),
        _ => false,
    };
    let whole = Path::new(path);
    let is_short = path.len() <= PATH_BYTES_MAX;
    if is_short && whole.components().next().is_some() && whole.components().all(is_plain) {
        return Ok(whole.components().collect());
    }
    let shown: String = path.chars().take(NAME_BYTES_MAX).collect();
    let message = format!("{shown:?} is not a valid path in the folder");
    Err(Problem::argument("path", message).remedy(format!(
        "give a relative path of at most {PATH_BYTES_MAX} bytes, whose names have at most \
         {NAME_BYTES_MAX} bytes, no control characters and no dot at the start"
    )))
}

/// The name of a backup, which has no folders above it.
fn backup_name(name: &str, field: &str) -> Result<PathBuf, Problem> {
    let path = inside(name).map_err(|problem| problem.at(field))?;
    if path.components().count() == 1 {
        return Ok(path);
    }
    let message = format!("{name:?} has a slash, but backups are not in subfolders");
    Err(Problem::argument(field, message).remedy("give a name without a slash"))
}

/// Where copies of graphs are that are the server's own, in the served folder.
pub fn own_graphs() -> PathBuf {
    Path::new(OWN_FOLDER).join(GRAPHS)
}

/// Where the copy is that is served under a name.
pub fn own_graph(name: &str) -> PathBuf {
    own_graphs().join(format!("{name}.ng"))
}

/// Where the files of a model are kept.
pub fn folder_of(served: &Path, sha256: &str) -> PathBuf {
    served.join(OWN_FOLDER).join(MODELS).join(sha256)
}

/// Where the file of a plug-in is kept.
pub fn plugin_place(served: &Path, sha256: &str) -> PathBuf {
    served.join(OWN_FOLDER).join(PLUGINS).join(sha256).join(PLUGIN)
}

/// Opens a model that is kept.
///
/// # Errors
/// Its files are not what they were.
pub fn open_kept(served: &Path, sha256: &str) -> Result<ModelFile, Problem> {
    let folder = folder_of(served, sha256);
    let archive = folder.join(ARCHIVE);
    let is_archive = SourceFile::open_regular(&archive, false).is_ok();
    let path = if is_archive { &archive } else { &folder };
    let file = ModelFile::open(path).map_err(|e| problem_of(&e))?;
    check_identity(file, sha256)
}

fn check_identity(file: ModelFile, sha256: &str) -> Result<ModelFile, Problem> {
    match file.identity.is_some_and(|identity| identity.to_string() == sha256) {
        true => Ok(file),
        false => {
            let message = "the stored files are not those of the registered model";
            Err(Problem::new(Code::DataLoss, "MODEL_CHANGED", message)
                .remedy("register the model again"))
        }
    }
}

impl Catalogue {
    /// Where a backup is to be made, and the one that it is based on.
    ///
    /// # Errors
    /// They lead out of the folder for backups, or that cannot be made.
    pub fn backup_paths(
        &self,
        request: &v1::BackupRequest,
    ) -> Result<(PathBuf, Option<PathBuf>), Problem> {
        let target = backup_name(&request.target, "target")?;
        let base = Some(request.base.as_str()).filter(|base| !base.is_empty());
        let base = base.map(|base| backup_name(base, "base")).transpose()?;
        let own = self.place.folder.join(OWN_FOLDER);
        let folder = match &self.place.backups {
            Some(folder) => folder.clone(),
            None => {
                ensure_folder(&own).map_err(|error| not_written(&own, &error))?;
                own.join(BACKUPS)
            }
        };
        ensure_folder(&folder).map_err(|error| not_written(&folder, &error))?;
        Ok((folder.join(target), base.map(|base| folder.join(base))))
    }
}

impl Catalogue {
    /// Keeps the file of a plug-in, where nobody but this user may change it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_plugin(&self, sha256: &str, bytes: &[u8]) -> Result<(), Problem> {
        let own = self.place.folder.join(OWN_FOLDER);
        let (all, one) = (own.join(PLUGINS), own.join(PLUGINS).join(sha256));
        for folder in [own, all] {
            ensure_folder(&folder).map_err(|error| not_written(&folder, &error))?;
        }
        keep_privately(&one, PLUGIN, bytes).map_err(|error| not_written(&one, &error))
    }

    /// Removes the file of a plug-in that is not registered any more.
    pub fn forget_plugin(&self, sha256: &str) {
        let folder = self.place.folder.join(OWN_FOLDER).join(PLUGINS).join(sha256);
        if let Err(error) = remove_folder(&folder) {
            tracing::warn!(folder = %folder.display(), %error, "cannot remove a plug-in's files");
        }
    }
}

/// Keeps the files of a model; its identity, and the model.
///
/// # Errors
/// They are none, or cannot be written.
pub fn keep(served: &Path, source: Option<&Source>) -> Result<(String, ModelFile), Problem> {
    let (sha256, from) = match source {
        None => {
            return Err(Problem::argument("source", "the request has no model")
                .remedy("give the files of a model, or a path in the served folder"));
        }
        Some(Source::Files(files)) => (identity_of(files), From::Bytes(files)),
        Some(Source::Path(path)) => {
            let path = served.join(inside(path)?);
            let file = ModelFile::open(&path).map_err(|e| problem_of(&e).at("path"))?;
            let identity = file.identity.map_or(String::new(), |identity| identity.to_string());
            (identity, From::Path(path))
        }
    };
    if let Ok(file) = open_kept(served, &sha256) {
        return Ok((sha256, file));
    }
    for folder in [served.join(OWN_FOLDER), served.join(OWN_FOLDER).join(MODELS)] {
        ensure_folder(&folder).map_err(|error| not_written(&folder, &error))?;
    }
    // Files that were damaged since are replaced.
    let staging = StagingDir::create(&folder_of(served, &sha256), Existing::Replace);
    let staging = staging.map_err(|e| problem_of(&e))?;
    from.put(&staging)?;
    let archive = staging.path().join(ARCHIVE);
    let is_archive = from.is_archive();
    let file = ModelFile::open(if is_archive { &archive } else { staging.path() });
    let file = check_identity(file.map_err(|e| problem_of(&e).at("files"))?, &sha256)?;
    staging.publish().map_err(|e| problem_of(&e))?;
    Ok((sha256, file))
}

/// Where the files of a model come from.
enum From<'a> {
    Bytes(&'a v1::ModelFiles),
    Path(PathBuf),
}

impl From<'_> {
    fn is_archive(&self) -> bool {
        match self {
            Self::Bytes(_) => false,
            Self::Path(path) => SourceFile::open_regular(path, true).is_ok(),
        }
    }

    fn put(&self, staging: &StagingDir) -> Result<(), Problem> {
        let put = |name: &str, bytes: &[u8]| staging.put(name, bytes).map_err(|e| problem_of(&e));
        let copy = |name: &str, file: Result<SourceFile, SourceError>| {
            let file = file.map_err(|error| not_read(&error))?;
            staging.put_copy(name, &file).map_err(|e: StagingError| problem_of(&e))
        };
        match self {
            Self::Bytes(v1::ModelFiles { model_onnx, model_safetensors, manifest_json }) => {
                put(MODEL, model_onnx)?;
                put(WEIGHTS, model_safetensors)?;
                match manifest_json.as_slice() {
                    [] => put(MANIFEST, manifest(model_onnx, model_safetensors).as_bytes()),
                    given => put(MANIFEST, given),
                }
            }
            Self::Path(path) if self.is_archive() => {
                copy(ARCHIVE, SourceFile::open_regular(path, true))
            }
            Self::Path(path) => [MODEL, WEIGHTS, MANIFEST]
                .into_iter()
                .try_for_each(|name| copy(name, SourceFile::open_regular(&path.join(name), false))),
        }
    }
}

fn not_read(error: &SourceError) -> Problem {
    Problem::new(Code::FailedPrecondition, "MODEL_NOT_READ", error.to_string()).at("path")
}

/// A folder or file of the server's own that cannot be written.
pub fn not_written(path: &Path, error: &io::Error) -> Problem {
    let message = format!("{} cannot be written: {error}", path.display());
    Problem::new(Code::FailedPrecondition, "CATALOGUE_NOT_WRITTEN", message)
        .remedy("make the served folder writable, and free space on its disk")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As [`ng_engine::ModelIdentity`] of the files.
pub fn identity_of(files: &v1::ModelFiles) -> String {
    let mut both = Sha256::new();
    both.update(Sha256::digest(&files.model_onnx));
    both.update(Sha256::digest(&files.model_safetensors));
    hex(&both.finalize())
}

/// The manifest of files that came without one.
fn manifest(model: &[u8], weights: &[u8]) -> String {
    let (model, weights) = (hex(&Sha256::digest(model)), hex(&Sha256::digest(weights)));
    serde_json::json!({
        "format": "neargraph model",
        "version": 1,
        "files": { MODEL: model, WEIGHTS: weights },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_of_the_folder_are_refused() {
        for bad in ["", "/etc", "..", "a/../../b", "./a", ".neargraph/models", "a/.b", "a/.."] {
            assert!(inside(bad).is_err(), "{bad}");
        }
        assert_eq!(inside("a/b.ng//"), Ok(PathBuf::from("a/b.ng")));
    }
}
