//! What lies in a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folders in `path` whose names end in a dot and `ending`, as names, sorted. Links are
/// followed.
///
/// # Errors
/// `path` cannot be listed.
pub fn folders_in(path: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        let has_ending = name.extension().is_some_and(|found| found == ending);
        if has_ending && entry.path().is_dir() {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}
