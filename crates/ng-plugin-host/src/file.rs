//! The file of a plug-in, before anything of it runs: where it is, who may write it, what it is,
//! and whether it is allowed.
//!
//! The invariant: what was hashed is what is loaded. The file is opened once, relative to its
//! folder and not through a link; its bytes go into sealed memory, and that is what everybody
//! loads, whatever becomes of the file.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use ng_types::canary::planted;
use rustix::fs::{FileType, MemfdFlags, Mode, OFlags, SealFlags, Stat};
use sha2::{Digest, Sha256};

use crate::error::PluginError;

/// Larger files are not plug-ins.
const FILE_BYTES_MAX: usize = 256 << 20;

/// Of an ELF header: up to and with the machine.
const ELF_HEAD_BYTES: usize = 20;

/// The files that may be loaded, by SHA-256.
#[derive(Clone, Debug, Default)]
pub struct AllowList {
    allowed: BTreeSet<String>,
}

impl AllowList {
    /// Of digests of 64 hexadecimal digits each.
    ///
    /// # Errors
    ///
    /// An entry is not a digest.
    pub fn new<T: AsRef<str>>(digests: impl IntoIterator<Item = T>) -> Result<Self, PluginError> {
        let digest = |entry: T| {
            let text = entry.as_ref().trim().to_lowercase();
            let is_digest = text.len() == 64 && text.bytes().all(|c| c.is_ascii_hexdigit());
            let wrong = || PluginError::AllowList { entry: entry.as_ref().to_owned() };
            is_digest.then_some(text).ok_or_else(wrong)
        };
        Ok(Self { allowed: digests.into_iter().map(digest).collect::<Result<_, _>>()? })
    }
}

/// The bytes of a plug-in that passed all checks.
#[derive(Debug)]
pub(crate) struct Image {
    pub path: PathBuf,
    pub sha256: String,
    /// Sealed: nobody can change it.
    pub memory: OwnedFd,
}

impl Image {
    /// Opens, checks and copies the file at `path`.
    pub fn read(path: &Path, allow: &AllowList) -> Result<Self, PluginError> {
        let (bytes, sha256) = allowed(path, allow)?;
        let wrong = |problem| PluginError::NotAPlugin { path: path.to_owned(), problem };
        check_elf(&bytes).map_err(wrong)?;
        let failed = |source| PluginError::Unreadable { path: path.to_owned(), source };
        Ok(Self { path: path.to_owned(), sha256, memory: sealed(&bytes).map_err(failed)? })
    }
}

/// The bytes of the file at `path`, to be kept elsewhere; it has to be allowed.
///
/// # Errors
///
/// As [`digest`], and [`PluginError::NotAllowed`].
pub fn bytes_of(path: &Path, allow: &AllowList) -> Result<Vec<u8>, PluginError> {
    allowed(path, allow).map(|(bytes, _)| bytes)
}

fn allowed(path: &Path, allow: &AllowList) -> Result<(Vec<u8>, String), PluginError> {
    let bytes = checked_bytes(path)?;
    let sha256 = hex(&Sha256::digest(&bytes));
    if !allow.allowed.contains(&sha256) && !planted("any_plug_in_is_allowed") {
        return Err(PluginError::NotAllowed { path: path.to_owned(), sha256 });
    }
    Ok((bytes, sha256))
}

/// The SHA-256 of the file at `path`, as an allow-list has it; the file has to be one that could be
/// loaded but for that.
///
/// # Errors
///
/// It cannot be read, or others than its owner could change it.
pub fn digest(path: &Path) -> Result<String, PluginError> {
    Ok(hex(&Sha256::digest(checked_bytes(path)?)))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn checked_bytes(path: &Path) -> Result<Vec<u8>, PluginError> {
    let unsafe_ = |problem: &str| {
        Err(PluginError::Unsafe { path: path.to_owned(), problem: problem.to_owned() })
    };
    let failed = |source| PluginError::Unreadable { path: path.to_owned(), source };
    let io = |error: rustix::io::Errno| failed(error.into());
    let Some(name) = path.file_name().filter(|name| is_name(name)) else {
        return unsafe_(
            "its name is not valid: expected letters, digits, '.', '_' and '-', ending with .so",
        );
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let folder = rustix::fs::open(folder.unwrap_or(Path::new(".")), flags, Mode::empty());
    let folder = folder.map_err(io)?;
    if let Some(problem) = writable_by_others(&rustix::fs::fstat(&folder).map_err(io)?) {
        return unsafe_(&format!("its folder {problem}"));
    }
    // Without NONBLOCK, opening a pipe would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::LOOP) => return unsafe_("it is a symbolic link"),
        opened => opened.map_err(io)?,
    };
    let stat = rustix::fs::fstat(&file).map_err(io)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return unsafe_("it is not a regular file");
    }
    if let Some(problem) = writable_by_others(&stat) {
        return unsafe_(&format!("the file {problem}"));
    }
    let bytes = read_all(&file, FILE_BYTES_MAX + 1).map_err(failed)?;
    if bytes.len() > FILE_BYTES_MAX {
        return unsafe_(&format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    Ok(bytes)
}

/// What a descriptor holds, up to `most` bytes.
pub(crate) fn read_all(from: impl AsFd, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1 << 14];
    while bytes.len() < most {
        match rustix::io::read(&from, &mut chunk) {
            Ok(0) => break,
            Ok(len) => bytes.extend_from_slice(&chunk[..len]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    bytes.truncate(most);
    Ok(bytes)
}

fn is_name(name: &std::ffi::OsStr) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    let name = name.as_encoded_bytes();
    name.ends_with(b".so") && name.len() > 3 && name.iter().all(|c| plain(*c))
}

fn writable_by_others(stat: &Stat) -> Option<String> {
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != 0 && stat.st_uid != user {
        return Some(format!("belongs to user {}, expected the current user or root", stat.st_uid));
    }
    let others = stat.st_mode & 0o022;
    (others != 0).then(|| {
        let who = if others & 0o002 == 0 { "its group" } else { "everybody" };
        format!("is writable by {who}; make it writable only by its owner")
    })
}

/// A shared object for this machine.
fn check_elf(bytes: &[u8]) -> Result<(), String> {
    let head: &[u8; ELF_HEAD_BYTES] = bytes
        .first_chunk()
        .filter(|head| head.starts_with(b"\x7fELF"))
        .ok_or("it is not a shared object: it has no ELF header")?;
    if (head[4], head[5]) != (2, 1) {
        return Err("it is not a 64-bit little-endian shared object".to_owned());
    }
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    if number(16) != 3 {
        return Err(format!("it is an ELF file of type {}, not a shared object", number(16)));
    }
    let here = match std::env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        other => return Err(format!("plug-ins are not supported on {other}")),
    };
    match number(18) {
        found if found == here => Ok(()),
        found => Err(format!("it is for ELF machine {found}; this machine is {here}")),
    }
}

/// Memory with these bytes, which nobody can change from now on.
fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("neargraph-plugin", flags)?;
    let mut left = bytes;
    while !left.is_empty() {
        match rustix::io::write(&memory, left) {
            Ok(len) => left = &left[len..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memory, seals)?;
    Ok(memory)
}
