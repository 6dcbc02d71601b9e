//! How much memory this process may use: RAM, and the limits of control groups (v1 and v2).

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::open::mounts::{self, Mount};

/// Version 1 says "no limit" by a number near 2^63.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The memory limit of a control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryLimit {
    /// The limit.
    pub bytes: u64,
    /// Version of the control groups: 1 or 2.
    pub version: u8,
    /// The file that says so.
    pub file: PathBuf,
}

/// RAM of the machine in bytes.
pub fn ram_bytes() -> u64 {
    kibibytes("/proc/meminfo", "MemTotal:")
}

/// The most resident memory that this process has had, in bytes; 0 where it is not known.
pub fn peak_rss_bytes() -> u64 {
    kibibytes("/proc/self/status", "VmHWM:")
}

/// The bytes that the line `field` of a file of the kernel gives in KiB.
fn kibibytes(path: &str, field: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1024)
}

/// The smallest memory limit among the control groups that this process is in, if any has one.
pub fn memory_limit() -> Option<MemoryLimit> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    smallest_limit(&groups, &mounts::all())
}

/// Returns the usable memory: the smaller of RAM and [`memory_limit`].
pub fn usable_memory_bytes() -> u64 {
    let limit = memory_limit().map_or(u64::MAX, |limit| limit.bytes);
    ram_bytes().min(limit)
}

fn smallest_limit(groups: &str, mounts: &[Mount]) -> Option<MemoryLimit> {
    let mut best: Option<MemoryLimit> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (version, kind, file) = if controllers.is_empty() {
            (2, "cgroup2", "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (1, "cgroup", "memory.limit_in_bytes")
        } else {
            continue;
        };
        let fits = |mount: &&Mount| {
            mount.kind == kind && (version == 2 || mount.options.iter().any(|o| o == "memory"))
        };
        for mount in mounts.iter().filter(fits) {
            for candidate in limits_up_to_the_mount(mount, group, file, version) {
                if best.as_ref().is_none_or(|known| candidate.bytes < known.bytes) {
                    best = Some(candidate);
                }
            }
        }
    }
    best
}

/// The limits of a group and of its ancestors, as far as they can be seen.
fn limits_up_to_the_mount(mount: &Mount, group: &str, file: &str, version: u8) -> Vec<MemoryLimit> {
    let top = Path::new(&mount.at);
    // In a container the mount may show only the container's own group, as its root.
    let inside = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let inside = inside.strip_prefix("/").unwrap_or(inside);
    let mut limits = Vec::new();
    for ancestor in inside.ancestors() {
        let file = top.join(ancestor).join(file);
        let text = fs::read_to_string(&file).unwrap_or_default();
        if let Ok(bytes) = text.trim().parse::<u64>()
            && bytes < UNLIMITED_BYTES
        {
            limits.push(MemoryLimit { bytes, version, file });
        }
    }
    limits
}

/// Gives memory that was freed in many small pieces back to the system, where the allocator can.
///
/// What an allocator keeps is in no budget, so a phase that held many small pieces ends with this.
pub fn trim_allocator() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches free memory alone, under the allocator's own locks.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &str, at: &Path, root: &str, options: &[&str]) -> Mount {
        Mount {
            device: "0:1".into(),
            root: root.into(),
            at: at.to_str().expect("UTF-8").into(),
            kind: kind.into(),
            options: options.iter().map(|o| (*o).to_owned()).collect(),
        }
    }

    #[test]
    fn the_smallest_limit_up_the_tree_counts_in_both_versions() {
        let dir = tempfile::tempdir().expect("a directory");
        let group = dir.path().join("a/b");
        fs::create_dir_all(&group).expect("made");
        fs::write(group.join("memory.max"), "max\n").expect("written");
        fs::write(dir.path().join("a/memory.max"), "1000\n").expect("written");
        let v2 = [mount("cgroup2", dir.path(), "/", &["rw"])];
        let found = smallest_limit("0::/a/b\n", &v2).expect("a limit");
        assert_eq!((found.bytes, found.version), (1000, 2));
        assert_eq!(smallest_limit("0::/c\n", &v2), None);

        fs::write(group.join("memory.limit_in_bytes"), "9223372036854771712").expect("written");
        fs::write(dir.path().join("a/memory.limit_in_bytes"), "77").expect("written");
        let v1 = [mount("cgroup", dir.path(), "/", &["rw", "memory"])];
        let groups = "9:name=systemd:/x\n4:memory:/a/b\n0::/\n";
        let found = smallest_limit(groups, &v1).expect("a limit");
        assert_eq!((found.bytes, found.version), (77, 1));
    }

    #[test]
    fn a_group_mounted_as_the_root_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("memory.max"), "500").expect("written");
        let v2 = [mount("cgroup2", dir.path(), "/docker/abc", &[])];
        assert_eq!(smallest_limit("0::/docker/abc", &v2).expect("a limit").bytes, 500);
        assert_eq!(smallest_limit("0::/", &v2).expect("a limit").bytes, 500);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(usable_memory_bytes() > 1 << 20);
        assert!(usable_memory_bytes() <= ram_bytes());
    }
}
