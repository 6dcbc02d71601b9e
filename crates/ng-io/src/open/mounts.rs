//! Reading `/proc/self/mountinfo`: which mount a path is on, and whether that is a DAX mount.

use std::os::fd::OwnedFd;

/// One line of mountinfo, as far as it is needed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// `major:minor`.
    pub device: String,
    /// What of the file system is mounted.
    pub root: String,
    /// Where.
    pub at: String,
    /// `ext4`, `cgroup2`, ...
    pub kind: String,
    /// Options of the file system, split at commas.
    pub options: Vec<String>,
}

/// All mounts that this process sees; none if that cannot be told.
pub(crate) fn all() -> Vec<Mount> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let mut head = head.split(' ').skip(2);
    let (device, root, at) = (head.next()?, head.next()?, head.next()?);
    let mut tail = tail.split(' ');
    let (kind, _source, options) = (tail.next()?, tail.next()?, tail.next().unwrap_or(""));
    Some(Mount {
        device: device.into(),
        root: unescape(root),
        at: unescape(at),
        kind: kind.into(),
        options: options.split(',').map(Into::into).collect(),
    })
}

/// Undoes the octal escapes of blanks and backslashes.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// Whether files of the directory live on a mount with direct access to persistent memory.
pub(crate) fn is_dax(directory: &OwnedFd) -> bool {
    let Ok(stat) = rustix::fs::fstat(directory) else {
        return false;
    };
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let device = format!("{major}:{minor}");
    let asked = |option: &String| option == "dax" || option == "dax=always";
    all().iter().any(|mount| mount.device == device && mount.options.iter().any(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mountinfo_line_is_taken_apart_with_or_without_optional_fields() {
        let line = "36 35 259:1 / /mnt/my\\040pmem rw,noatime shared:1 - ext4 /dev/pmem0 rw,dax";
        let mount = parse(line).expect("a mount");
        assert_eq!((mount.device.as_str(), mount.at.as_str()), ("259:1", "/mnt/my pmem"));
        assert_eq!((mount.kind.as_str(), mount.options.len()), ("ext4", 2));
        let line = "22 1 0:21 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
        assert_eq!(parse(line).expect("a mount").root, "/a");
        assert_eq!(parse("garbage"), None);
        assert_eq!(parse("1 2 3 - x"), None);
    }
}
