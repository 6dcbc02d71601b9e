//! The contents of a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the names in `path` that end in a dot and `ending`, sorted: folders, files and links.
///
/// # Errors
/// `path` cannot be listed.
pub fn names_in(path: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let name = PathBuf::from(entry?.file_name());
        if name.extension().is_some_and(|found| found == ending) {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}
