//! Which file of the direct layout serves a snapshot.
//!
//! The version that a file was compiled from decides, and then how many of the wanted tensors it
//! has. The invariant: a file of another version, or one that is not whole, never serves.

use std::path::Path;

use super::error::DirectError;
use super::head::DIRECT;
use super::reader::DirectFile;
use crate::sealed::SealedError;
use crate::store::Snapshot;

impl DirectFile {
    /// The name of the file in `directory` that was compiled from `snapshot`. Of several the one
    /// with the most of `tensors`; of equal ones, the first by name.
    ///
    /// # Errors
    /// If there is none: [`DirectError::NoFile`], [`DirectError::Stale`], or [`SealedError`] of
    /// another version or of a file that is not whole, whichever is true of the first file. Those
    /// of reading.
    pub fn find(
        directory: &Path,
        snapshot: &Snapshot,
        tensors: &[String],
    ) -> Result<String, DirectError> {
        let (mut best, mut refused): (Option<(usize, String)>, _) = (None, None);
        for name in DIRECT.list(directory)? {
            let info = match Self::describe(directory, &name) {
                Ok(info) => info,
                Err(DirectError::Sealed(
                    error @ (SealedError::NotWhole { .. } | SealedError::Version { .. }),
                )) => {
                    refused.get_or_insert(error.into());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let file = directory.join(&name).display().to_string();
            if let Err(error) = info.check_version(&file, snapshot) {
                refused.get_or_insert(error);
                continue;
            }
            let fit = tensors.iter().filter(|tensor| info.tensors.contains(tensor)).count();
            if best.as_ref().is_none_or(|(most, _)| fit > *most) {
                best = Some((fit, name));
            }
        }
        let none = || DirectError::NoFile { directory: directory.display().to_string() };
        best.map(|(_, name)| name).ok_or_else(|| refused.unwrap_or_else(none))
    }
}
