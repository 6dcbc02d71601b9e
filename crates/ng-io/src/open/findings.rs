//! What works in a directory: found by trying it, not by looking up versions.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::BackendChoice;
use super::mounts;
use crate::backend::{Registration, Ring};
use crate::disk::BLOCK_BYTES;
use crate::named_dir::NamedDir;
use crate::os::anon_map::AnonMap;
use crate::os::lockable;
use crate::queue::QueueSize;

/// The file system of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSystem {
    pub name: String,
    /// Whether its storage is memory: tmpfs, or a DAX mount.
    pub is_memory: bool,
    pub is_dax: bool,
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.is_dax { f.write_str(" with DAX") } else { Ok(()) }
    }
}

/// What was found. A reason stands where something does not work.
pub(super) struct Findings {
    pub file_system: FileSystem,
    pub direct: Result<(), String>,
    /// How the buffers of the ring that was tried are registered.
    pub uring: Result<Registration, String>,
    ring: Option<Ring>,
}

impl Findings {
    /// Tries out what `choice` needs to know in a directory.
    pub fn gather(place: &NamedDir, choice: BackendChoice, size: QueueSize) -> io::Result<Self> {
        let file_system = file_system(place)?;
        let untried = "not tried".to_owned();
        let auto = choice == BackendChoice::Auto && !file_system.is_memory;
        let needs_ring = auto || choice == BackendChoice::Uring;
        let direct = if needs_ring || choice == BackendChoice::ODirect {
            try_direct(place).map_err(|error| error.to_string())
        } else {
            Err(untried.clone())
        };
        let ring = if needs_ring { try_ring(size) } else { Err(untried) };
        Ok(Self::new(file_system, direct, ring))
    }

    pub fn new(
        file_system: FileSystem,
        direct: Result<(), String>,
        ring: Result<Ring, String>,
    ) -> Self {
        match ring {
            Ok(ring) => {
                let uring = Ok(ring.registration().clone());
                Self { file_system, direct, uring, ring: Some(ring) }
            }
            Err(why) => Self { file_system, direct, uring: Err(why), ring: None },
        }
    }

    pub fn take_ring(&mut self) -> Option<Ring> {
        self.ring.take()
    }

    /// Whether it is worth trying to register the buffers of further rings.
    pub fn register(&self) -> bool {
        self.uring == Ok(Registration::Fixed)
    }

    /// The end of a note that says how the buffers of rings are registered.
    pub fn registered(&self) -> String {
        match &self.uring {
            Ok(Registration::Fixed) => "registered buffers".into(),
            Ok(Registration::Refused(why)) => {
                format!("without registered buffers ({why}; {})", memlock())
            }
            Err(why) => why.clone(),
        }
    }
}

fn memlock() -> String {
    let limit = lockable::limit_bytes();
    let limit = limit.map_or_else(|| "unlimited".into(), |bytes| format!("{bytes} bytes"));
    format!("RLIMIT_MEMLOCK is {limit}, shared by all processes of the user")
}

/// Sets a ring up and passes one request through it: some sandboxes let a ring be made but not
/// used.
pub(super) fn try_ring(size: QueueSize) -> Result<Ring, String> {
    let explain = |error: io::Error| {
        if error.raw_os_error() == Some(libc::ENOMEM) {
            return format!("{error}; {}", memlock());
        }
        let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
        match setting.ok().and_then(|text| text.trim().parse::<u8>().ok()) {
            Some(level) if level > 0 => format!("{error}; kernel.io_uring_disabled = {level}"),
            _ => error.to_string(),
        }
    };
    let mut ring = Ring::new(size, true).map_err(explain)?;
    ring.try_out().map_err(explain)?;
    Ok(ring)
}

/// Reads the first block of some file of the directory with O_DIRECT, or of a temporary one.
pub(super) fn try_direct(place: &NamedDir) -> io::Result<()> {
    let file = sample_file(place.fd())?;
    let mut block = AnonMap::new(BLOCK_BYTES)?;
    rustix::io::pread(&file, block.as_mut_slice(), 0)?;
    Ok(())
}

fn sample_file(dir: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if let Some(name) = first_file(dir) {
        match rustix::fs::openat(dir, &name, flags, Mode::empty()) {
            // Removed meanwhile.
            Err(Errno::NOENT) => {}
            opened => return Ok(opened?),
        }
    }
    let mode = Mode::from_raw_mode(0o600);
    let unnamed = OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat(dir, ".", unnamed, mode) {
        rustix::io::pwrite(&file, AnonMap::new(BLOCK_BYTES)?.as_slice(), 0)?;
        return Ok(file);
    }
    let name = format!(".ng-probe-{}", std::process::id());
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::DIRECT | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, &name, flags, mode);
    // The name may be there even if the open failed, as some file systems refuse O_DIRECT after
    // they have created the file.
    let _ = rustix::fs::unlinkat(dir, &name, AtFlags::empty());
    Ok(file?)
}

/// Some file of the directory; one that has a block to read, if there is any.
fn first_file(dir: &OwnedFd) -> Option<CString> {
    let mut empty = None;
    for entry in rustix::fs::Dir::read_from(dir).ok()?.filter_map(Result::ok) {
        let name = entry.file_name();
        let Ok(stat) = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            if stat.st_size >= BLOCK_BYTES as i64 {
                return Some(name.to_owned());
            }
            empty = Some(name.to_owned());
        }
    }
    empty
}

pub(super) fn file_system(place: &NamedDir) -> io::Result<FileSystem> {
    let stat = rustix::fs::fstatfs(place.fd())?;
    let magic = stat.f_type as u32;
    let is_dax = mounts::is_dax(place.fd());
    let known = FILE_SYSTEMS.iter().find(|(number, _)| *number == magic);
    let name = known.map_or_else(|| format!("file system {magic:#x}"), |(_, name)| (*name).into());
    let is_memory = is_dax || matches!(name.as_str(), "tmpfs" | "ramfs");
    Ok(FileSystem { name, is_memory, is_dax })
}

/// Magic numbers of `statfs(2)`.
const FILE_SYSTEMS: [(u32, &str); 17] = [
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0xF2F5_2010, "f2fs"),
    (0x2FC1_2FC1, "zfs"),
    (0xCA45_1A4E, "bcachefs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x794C_7630, "overlayfs"),
    (0x6969, "nfs"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x9FA0, "proc"),
    (0x6265_6572, "sysfs"),
    (0xF15F, "ecryptfs"),
];
