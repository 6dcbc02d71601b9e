//! Which compiled epochs serve a loader.
//!
//! Their key alone decides: everything that shapes a batch. The invariant: an epoch that was
//! compiled has the batches that the loader would sample for it; later epochs take the compiled
//! ones in turn, all of them, or it is an error.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use ng_store::{SealedError, Snapshot};

use crate::compiled::EPOCH;
use crate::{CompiledError, EpochFile, EpochKey};

/// Compiled epochs that fit a loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    directory: PathBuf,
    key: EpochKey,
    /// Epochs and files, in the order in which they take turns.
    files: Vec<(u64, String)>,
}

/// A set of epochs that were compiled together: how many there are, the first, bytes of hot rows
/// and what tells them. Of several sets the last one serves.
type Set = (u64, u64, u64, u32);

impl Epochs {
    /// The set in `directory` that was compiled with `key`: of several the one with most epochs,
    /// then with most hot rows.
    ///
    /// # Errors
    /// [`CompiledError::NoEpochs`], [`CompiledError::Mismatch`] and [`SealedError::Version`] if
    /// there is none; [`SealedError::NotWhole`] and [`CompiledError::Incomplete`] where a part may
    /// be damaged or missing; those of reading.
    pub fn find(directory: &Path, key: EpochKey) -> Result<Self, CompiledError> {
        let mut sets: BTreeMap<Set, BTreeMap<u64, String>> = BTreeMap::new();
        let (mut outdated, mut other) = (None, None);
        for name in EPOCH.list(directory)? {
            // A damaged file does not say which set it is of, so it may be the one that is wanted.
            let file = EpochFile::open_all(directory, &[&name], Default::default());
            if let Err(error @ CompiledError::Sealed(SealedError::Version { .. })) = file {
                outdated.get_or_insert(error);
                continue;
            }
            let file = file?.remove(0);
            if let Err(error) = file.check(&key) {
                other.get_or_insert(error);
                continue;
            }
            let (id, hot) = (file.id(), file.hot());
            let set = (id.set.end - id.set.start, id.set.start, hot.row_bytes(), hot.digest());
            sets.entry(set).or_default().insert(id.epoch, name);
        }
        let Some((set, found)) = sets.pop_last() else {
            let directory = directory.display().to_string();
            return Err(outdated.or(other).unwrap_or(CompiledError::NoEpochs { directory }));
        };
        check_whole(directory, set.1..set.1 + set.0, &found)?;
        Ok(Self { directory: directory.to_owned(), key, files: found.into_iter().collect() })
    }

    /// Epochs in the order in which they take turns.
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = u64> {
        self.files.iter().map(|(epoch, _)| *epoch)
    }

    /// The compiled epoch that serves an epoch: its own, else they take turns.
    pub fn epoch_of(&self, epoch: u64) -> u64 {
        let turn = (epoch % self.files.len() as u64) as usize;
        let has_own = self.numbers().any(|own| own == epoch);
        if has_own { epoch } else { self.files[turn].0 }
    }

    /// Opens the files with the back end of the store that they were compiled from.
    pub(super) fn open(&self, snapshot: &Snapshot) -> Result<Vec<EpochFile>, CompiledError> {
        let names: Vec<&str> = self.files.iter().map(|(_, name)| name.as_str()).collect();
        let backend = snapshot.backend().parse().unwrap_or_default();
        let files = EpochFile::open_all(&self.directory, &names, backend)?;
        for (file, epoch) in files.iter().zip(self.numbers()) {
            file.check_epoch(&self.key, epoch)?;
        }
        Ok(files)
    }
}

/// Refuses a set of which an epoch is missing.
fn check_whole(
    directory: &Path,
    set: Range<u64>,
    found: &BTreeMap<u64, String>,
) -> Result<(), CompiledError> {
    let Some(missing) = set.clone().find(|epoch| !found.contains_key(epoch)) else { return Ok(()) };
    let name = found.values().min().cloned().unwrap_or_default();
    let parts: Vec<&str> = name.rsplitn(3, '.').collect();
    let wanted =
        format!("{}.{missing:04}{}", parts.last().copied().unwrap_or_default(), EPOCH.suffix);
    Err(CompiledError::Incomplete {
        file: directory.join(&name).display().to_string(),
        first: set.start,
        last: set.end - 1,
        missing,
        wanted: directory.join(&wanted).display().to_string(),
        is_there: EPOCH.list(directory)?.contains(&wanted),
    })
}
