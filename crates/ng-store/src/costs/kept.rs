//! [`KeptCosts`]: the measured rates of a disk, kept in the user's cache folder for a day.
//!
//! One small text file for each device and back end. The invariant: a file that is missing, old or
//! broken means that the disk is measured again, and one that cannot be written costs that time
//! alone; nothing here is ever an error.

use std::time::Duration;

use super::DiskCosts;
use crate::io::CacheFile;

const AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

const HEAD: &str = "neargraph disk costs 1";

/// Where the rates of one disk are kept.
pub(crate) struct KeptCosts(CacheFile);

impl KeptCosts {
    /// The file of a device under a way of reading. What goes through the page cache says nothing
    /// of the disk tomorrow, and is not kept.
    pub fn of(device: &str, backend: &str, queue_depth: usize) -> Option<Self> {
        if !matches!(backend, "uring" | "odirect") {
            return None;
        }
        CacheFile::of_user(&format!("disk-{device}-{backend}-{queue_depth}.txt")).map(Self)
    }

    /// The rates, if they were written within the last day.
    pub fn read(&self) -> Option<DiskCosts> {
        decode(&self.0.read(AGE_MAX)?)
    }

    pub fn write(&self, costs: &DiskCosts) {
        let DiskCosts { reads_per_s, bytes_per_s } = costs;
        // Who may not write measures the next time as well.
        let _ = self.0.write(&format!(
            "{HEAD}\nreads_per_s {reads_per_s:.1}\nbytes_per_s {bytes_per_s:.1}\n"
        ));
    }
}

fn decode(text: &str) -> Option<DiskCosts> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next()? != HEAD {
        return None;
    }
    let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    let (reads_per_s, bytes_per_s) = (value("reads_per_s")?, value("bytes_per_s")?);
    if lines.next().is_some() {
        return None;
    }
    DiskCosts::possible(reads_per_s, bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: DiskCosts = DiskCosts { reads_per_s: 98_765.5, bytes_per_s: 1.25e9 };

    #[test]
    fn rates_come_back_as_they_were_kept_and_from_no_cut_or_changed_file() {
        let dir = tempfile::tempdir().unwrap();
        let kept = KeptCosts(CacheFile::at(&dir.path().join("neargraph"), "disk.txt"));
        assert_eq!(kept.read(), None);
        kept.write(&COSTS);
        assert_eq!(kept.read(), Some(COSTS));
        let path = dir.path().join("neargraph/disk.txt");
        let text = std::fs::read_to_string(&path).unwrap();
        for cut in 0..text.len() {
            assert_eq!(decode(&text[..cut]), None, "{cut} bytes");
        }
        for broken in ["nan", "-5", "inf", "1e30", "0", "x"] {
            let text = format!("{HEAD}\nreads_per_s {broken}\nbytes_per_s 1e9\n");
            std::fs::write(&path, text).unwrap();
            assert_eq!(kept.read(), None, "{broken}");
        }
        std::fs::write(&path, [0xff; 64]).unwrap();
        assert_eq!(kept.read(), None);
        kept.write(&COSTS);
        assert_eq!(kept.read(), Some(COSTS));
    }

    #[test]
    fn rates_measured_through_the_page_cache_are_not_kept() {
        for backend in ["pread", "mmap", "memory"] {
            assert!(KeptCosts::of("8-0", backend, 64).is_none());
        }
    }
}
