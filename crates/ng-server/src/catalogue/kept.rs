//! What survives a restart of what is served, in a small file of the served folder.
//!
//! What must not live here: stores and engines. The invariant: a change counts once the file that
//! has it is durable; a file that is damaged is an error, and never taken for an empty one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use ng_io::{FolderLock, SourceError, SourceFile, ensure_folder, replace_file};
use ng_rpc::{Code, Problem};
use ng_types::checksum;
use serde::{Deserialize, Serialize};

/// The folder in the served folder where the server keeps what is its own.
pub const OWN_FOLDER: &str = ".neargraph";
const FILE: &str = "catalogue";
/// The first line: the form, its version, and the checksum of the rest.
const FORM: &str = "neargraph catalogue";
const FORM_VERSION: u32 = 2;
/// The first version that can say what computes.
const DEVICES_SINCE: u32 = 2;
const FILE_BYTES_MAX: u64 = 16 << 20;

/// What survives a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Graphs that were registered, and where they lie in the served folder.
    pub graphs: BTreeMap<String, PathBuf>,
    /// Names whose stores lie in the served folder and are not served.
    pub unregistered: BTreeSet<String>,
    /// Models, in the order in which they were registered.
    pub models: Vec<KeptModel>,
    /// By graph and name the last version that was given out.
    pub versions: BTreeMap<String, BTreeMap<String, u32>>,
    /// By graph and alias what it stands for: "name@version".
    pub aliases: BTreeMap<String, BTreeMap<String, String>>,
    /// What computes all models, once that was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<KeptDevices>,
}

/// What computes all models.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptDevices {
    /// The bundle.
    pub bundle: String,
    /// What was added to it, in this order.
    pub plugins: Vec<KeptPlugin>,
}

/// A plug-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptPlugin {
    /// The file that it came from.
    pub file: String,
    /// Identifies its bytes, and says where they are kept.
    pub sha256: String,
}

/// A version of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptModel {
    /// The graph that it answers about.
    pub graph: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u32,
    /// Identifies its files, and says where they are kept.
    pub sha256: String,
    /// As it was registered.
    pub prepare: String,
    /// As it was registered.
    pub fanouts: Vec<i64>,
    /// As it was registered.
    pub output: String,
    /// As it was registered.
    pub devices: Vec<String>,
}

/// Why a catalogue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// What it says cannot be what was written.
    #[error(
        "{} is damaged ({what}): restore it from a copy; or move it away, then register graphs and \
         models again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How.
        what: String,
    },
    /// A later release has written it.
    #[error(
        "{} has version {found}, but this release reads up to {FORM_VERSION}: use a later release",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The served folder cannot be listed.
    #[error("{} cannot be served: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot be read.
    #[error(transparent)]
    Unreadable(#[from] SourceError),
}

/// The file, and the right to replace it.
pub struct Keeper {
    folder: PathBuf,
    kept: Kept,
    lock: Option<FolderLock>,
}

impl Keeper {
    /// Reads the file of a served folder. There is none before anything was registered.
    ///
    /// # Errors
    /// Every variant of [`CatalogueError`].
    pub fn open(served: &Path) -> Result<Self, CatalogueError> {
        let folder = served.join(OWN_FOLDER);
        let kept = read(&folder.join(FILE))?;
        Ok(Self { folder, kept, lock: None })
    }

    /// What is kept.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Replaces what is kept. It is durable on return; after an error nothing has changed.
    ///
    /// # Errors
    /// Another server changes it, or it cannot be written.
    pub fn replace(&mut self, kept: Kept) -> Result<(), Problem> {
        let path = self.folder.join(FILE);
        let failed = |error: io::Error| {
            let message = format!("cannot write {}: {error}", path.display());
            Problem::new(Code::FailedPrecondition, "CATALOGUE_NOT_WRITTEN", message)
                .remedy("make the served folder writable, and free space on its disk")
        };
        if self.lock.is_none() {
            ensure_folder(&self.folder).map_err(failed)?;
            let taken = FolderLock::take(&self.folder).map_err(failed)?;
            // What somebody else has registered meanwhile must not be lost.
            let newest = read(&path).map_err(|error| failed(io::Error::other(error)))?;
            self.lock = taken.filter(|_| newest == self.kept);
        }
        if self.lock.is_none() {
            let message = "another server uses the catalogue of this folder, or has changed it";
            return Err(Problem::new(Code::FailedPrecondition, "CATALOGUE_TAKEN", message)
                .remedy("register with that server, or stop it and restart this one"));
        }
        replace_file(&path, &encode(&kept).map_err(failed)?).map_err(failed)?;
        self.kept = kept;
        Ok(())
    }
}

fn encode(kept: &Kept) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec_pretty(kept)?;
    if body.len() as u64 > FILE_BYTES_MAX / 2 {
        return Err(io::Error::other("the catalogue is full: unregister unused models"));
    }
    // Releases that know less can read what has no more.
    let version = if kept.devices.is_some() { DEVICES_SINCE } else { 1 };
    let mut bytes = format!("{FORM} {version} {:08x}\n", checksum::of(&body)).into_bytes();
    bytes.extend(body);
    Ok(bytes)
}

fn read(path: &Path) -> Result<Kept, CatalogueError> {
    let opened = SourceFile::open_regular(path, false);
    if matches!(opened, Err(SourceError::NotFound { .. })) {
        return Ok(Kept::default());
    }
    decode(&opened?.read_whole(FILE_BYTES_MAX)?, path)
}

fn decode(bytes: &[u8], path: &Path) -> Result<Kept, CatalogueError> {
    let damaged = |what: &str| CatalogueError::Damaged { path: path.to_owned(), what: what.into() };
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| damaged("the first line is missing"))?;
    let head = str::from_utf8(&bytes[..end]).ok().and_then(|head| head.strip_prefix(FORM));
    let mut words = head.ok_or_else(|| damaged("the first line is wrong"))?.split_whitespace();
    let version = words.next().and_then(|word| word.parse::<u32>().ok());
    match version.ok_or_else(|| damaged("the version is missing"))? {
        1..=FORM_VERSION => {}
        found => return Err(CatalogueError::Newer { path: path.to_owned(), found }),
    }
    let (sum, body) = (words.next(), &bytes[end + 1..]);
    if sum != Some(format!("{:08x}", checksum::of(body)).as_str()) {
        return Err(damaged("the checksum differs"));
    }
    serde_json::from_slice(body).map_err(|error| damaged(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Kept {
        let mut kept = Kept::default();
        kept.graphs.insert("papers".into(), "sub/papers.ng".into());
        kept.unregistered.insert("old".into());
        kept
    }

    #[test]
    fn what_was_registered_comes_back_and_any_flipped_bit_is_an_error() {
        let folder = tempfile::tempdir().expect("made");
        let mut keeper = Keeper::open(folder.path()).expect("empty");
        assert_eq!(*keeper.kept(), Kept::default());
        keeper.replace(some()).expect("written");
        assert_eq!(*Keeper::open(folder.path()).expect("reads").kept(), some());
        let path = folder.path().join(OWN_FOLDER).join(FILE);
        let bytes = std::fs::read(&path).expect("there");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).expect("written");
            let refused = Keeper::open(folder.path()).map(drop).expect_err("damaged").to_string();
            assert!(refused.contains(".neargraph/catalogue"), "{at}: {refused}");
        }
        std::fs::write(&path, &bytes[..40]).expect("written");
        let refused = Keeper::open(folder.path()).map(drop).expect_err("cut").to_string();
        assert!(refused.contains("register graphs and models again"), "{refused}");
        std::fs::write(&path, b"").expect("written");
        assert!(Keeper::open(folder.path()).is_err());
    }

    #[test]
    fn what_computes_is_kept_in_a_form_that_releases_without_it_refuse() {
        let first = |kept: &Kept| {
            let bytes = encode(kept).expect("text");
            let end = bytes.iter().position(|byte| *byte == b'\n').expect("a line");
            String::from_utf8(bytes[..end].to_vec()).expect("text")
        };
        assert!(first(&some()).starts_with("neargraph catalogue 1 "));
        let plugin = KeptPlugin { file: "good.so".into(), sha256: "ab".repeat(32) };
        let devices = KeptDevices { bundle: "hetero".into(), plugins: vec![plugin] };
        let kept = Kept { devices: Some(devices), ..some() };
        assert!(first(&kept).starts_with("neargraph catalogue 2 "));
        let bytes = encode(&kept).expect("text");
        assert_eq!(decode(&bytes, Path::new("c")).expect("reads"), kept);
        for cut in 0..bytes.len() {
            let refused = decode(&bytes[..cut], Path::new("c"));
            assert!(matches!(refused, Err(CatalogueError::Damaged { .. })), "cut at {cut}");
        }
    }

    #[test]
    fn one_server_changes_the_catalogue_of_a_folder() {
        let folder = tempfile::tempdir().expect("made");
        let mut first = Keeper::open(folder.path()).expect("empty");
        let mut second = Keeper::open(folder.path()).expect("empty");
        first.replace(some()).expect("written");
        let refused = second.replace(Kept::default()).expect_err("taken");
        assert_eq!(refused.reason, "CATALOGUE_TAKEN");
        // It does not know what the first one has registered.
        drop(first);
        let refused = second.replace(Kept::default()).expect_err("outdated");
        assert_eq!(refused.reason, "CATALOGUE_TAKEN");
        assert_eq!(*Keeper::open(folder.path()).expect("reads").kept(), some());
    }
}
