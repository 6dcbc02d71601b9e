//! [`CacheFile`]: a small text in the user's cache folder, which may be lost at any time.
//!
//! What must not live here: what the texts say. The invariant: a reader sees a whole text that
//! somebody wrote, or none.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Texts that are longer are not ours.
const BYTES_MAX: u64 = 4096;

/// A text by its name.
#[derive(Clone, Debug)]
pub struct CacheFile {
    folder: PathBuf,
    name: String,
}

impl CacheFile {
    /// A text in `neargraph` under `XDG_CACHE_HOME`, or else under `~/.cache`; `None` where neither
    /// is known.
    pub fn of_user(name: &str) -> Option<Self> {
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let variable = |name: &str| absolute(std::env::var_os(name)?.into());
        let base = variable("XDG_CACHE_HOME")
            .or_else(|| variable("HOME").map(|home| home.join(".cache")))?;
        Some(Self::at(&base.join("neargraph"), name))
    }

    /// A text in `folder`.
    pub fn at(folder: &Path, name: &str) -> Self {
        Self { folder: folder.to_owned(), name: name.to_owned() }
    }

    /// The text, if it was written less than `age` ago, and not in the future.
    pub fn read(&self, age: Duration) -> Option<String> {
        let file = fs::File::open(self.folder.join(&self.name)).ok()?;
        let meta = file.metadata().ok()?;
        let old = SystemTime::now().duration_since(meta.modified().ok()?).ok()?;
        if old >= age || !meta.is_file() || meta.len() > BYTES_MAX {
            return None;
        }
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Replaces the text at once, and makes the folder if there is none.
    ///
    /// # Errors
    /// What the system said; the old text stays then.
    pub fn write(&self, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let partial = self.folder.join(format!(".{}.{}", self.name, std::process::id()));
        let written = fs::File::create(&partial)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&partial, self.folder.join(&self.name)));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written
    }
}

/// A name for the device that `path` is on, `MAJOR-MINOR`; `None` where there is no such path.
pub fn device_name(path: &Path) -> Option<String> {
    let device = rustix::fs::stat(path).ok()?.st_dev;
    Some(format!("{}-{}", rustix::fs::major(device), rustix::fs::minor(device)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_whole_fresh_and_not_from_the_future_or_it_is_not_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let kept = CacheFile::at(&dir.path().join("a/b"), "x.txt");
        let day = Duration::from_secs(86_400);
        assert_eq!(kept.read(day), None);
        kept.write("one").expect("written");
        kept.write("two").expect("written");
        assert_eq!(kept.read(day).as_deref(), Some("two"));
        let path = dir.path().join("a/b/x.txt");
        let file = fs::File::options().write(true).open(&path).expect("opened");
        for (time, found) in [
            (SystemTime::now() - day - Duration::from_secs(1), None),
            (SystemTime::now() + day, None),
            (SystemTime::now() - day / 2, Some("two")),
        ] {
            file.set_modified(time).expect("set");
            assert_eq!(kept.read(day).as_deref(), found);
        }
        let names = fs::read_dir(dir.path().join("a/b")).expect("listed").count();
        assert_eq!(names, 1, "nothing is left behind");
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder in the way");
        assert_eq!(kept.read(day), None);
        kept.write("three").expect_err("there is a folder");
        assert_eq!(fs::read_dir(dir.path().join("a/b")).expect("listed").count(), 1);
    }
}
