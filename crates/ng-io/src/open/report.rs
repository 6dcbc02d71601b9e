//! The report behind `neargraph doctor`: what works in a directory, what would be picked, and what
//! would make it faster.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::choice::{Plan, choose};
use super::findings::{Findings, file_system, try_direct, try_ring};
use super::{BackendChoice, OpenOptions};
use crate::backend::Registration;
use crate::error::OpenError;
use crate::named_dir::NamedDir;
use crate::os::lockable;
use crate::os::machine::{MemoryLimit, memory_limit, ram_bytes};
use crate::space::free_bytes;

/// Whether something works, and why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether it works.
    pub works: bool,
    /// The error of the system if it does not work; empty if it does.
    pub reason: String,
}

impl Finding {
    fn of<T>(result: &Result<T, String>) -> Self {
        let reason = result.as_ref().err().cloned().unwrap_or_default();
        Self { works: result.is_ok(), reason }
    }
}

/// What works for a directory on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbeReport {
    /// The directory.
    pub path: PathBuf,
    /// Its file system: `ext4`, `xfs`, `tmpfs`, ...
    pub file_system: String,
    /// Whether it is a mount with direct access to persistent memory.
    pub dax: bool,
    /// Bytes free on it.
    pub free_bytes: Option<u64>,
    /// O_DIRECT.
    pub direct_io: Finding,
    /// io_uring.
    pub io_uring: Finding,
    /// Registered buffers of io_uring.
    pub registered_buffers: Finding,
    /// RLIMIT_MEMLOCK in bytes; `None` is unlimited.
    pub memlock_bytes: Option<u64>,
    /// Whether this process may lock more (CAP_IPC_LOCK).
    pub memlock_exempt: bool,
    /// The locked memory that one reading thread needs for registered buffers.
    pub memlock_bytes_per_queue: u64,
    /// RAM of the machine.
    pub ram_bytes: u64,
    /// The smallest memory limit of the control groups around this process.
    pub memory_limit: Option<MemoryLimit>,
    /// The back end that `auto` picks here.
    pub backend: &'static str,
    /// Why.
    pub why: String,
    /// Advice for faster or safer reads; empty if there is none.
    pub advice: Vec<String>,
}

/// Tries out which back ends and features work in the directory `path`.
///
/// # Errors
/// [`OpenError::NotFound`], [`OpenError::NotADirectory`], [`OpenError::Io`].
pub fn probe(path: &Path) -> Result<ProbeReport, OpenError> {
    let place = NamedDir::open(path)?;
    let options = OpenOptions::default();
    let direct = try_direct(&place).map_err(|error| error.to_string());
    let ring = try_ring(options.size());
    let file_system = file_system(&place).map_err(|error| OpenError::of_directory(path, error))?;
    let found = Findings::new(file_system, direct, ring);
    let unavailable = |reason| OpenError::Unavailable {
        backend: BackendChoice::Auto.name(),
        path: path.to_owned(),
        reason,
    };
    let (plan, why) = choose(BackendChoice::Auto, &found, &options).map_err(unavailable)?;
    let registered = match &found.uring {
        Ok(Registration::Fixed) => Ok(()),
        Ok(Registration::Refused(why)) => Err(why.clone()),
        Err(_) => Err("no io_uring".into()),
    };
    Ok(ProbeReport {
        path: path.to_owned(),
        file_system: found.file_system.name.clone(),
        dax: found.file_system.is_dax,
        free_bytes: free_bytes(path),
        direct_io: Finding::of(&found.direct),
        io_uring: Finding::of(&found.uring),
        registered_buffers: Finding::of(&registered),
        memlock_bytes: lockable::limit_bytes(),
        memlock_exempt: lockable::is_exempt(),
        memlock_bytes_per_queue: options.size().staging_bytes as u64,
        ram_bytes: ram_bytes(),
        memory_limit: memory_limit(),
        backend: plan.name(),
        why,
        advice: advice(&found),
    })
}

impl Plan {
    fn name(self) -> &'static str {
        use crate::directory::Caching;
        match self {
            Self::Memory => "memory",
            Self::Mmap => "mmap",
            Self::Pool(Caching::Buffered) => "pread",
            Self::Pool(Caching::Direct) => "odirect",
            Self::Uring(_) => "uring",
        }
    }
}

fn advice(found: &Findings) -> Vec<String> {
    let mut advice = Vec::new();
    if found.file_system.is_memory {
        return advice;
    }
    if found.direct.is_err() {
        let name = &found.file_system.name;
        advice.push(format!(
            "put the store on a file system with O_DIRECT (ext4, xfs, btrfs): on {name}, reads go \
             through the OS page cache, which the memory budget does not limit"
        ));
    }
    match &found.uring {
        Err(_) => advice.push(
            "allow io_uring: set kernel.io_uring_disabled to 0; in a container, use a seccomp \
             profile that permits io_uring_setup, io_uring_enter and io_uring_register"
                .into(),
        ),
        Ok(Registration::Refused(_)) => advice.push(
            "raise the limit of locked memory (ulimit -l, LimitMEMLOCK in a systemd unit, the \
             ulimit memlock of a container) so that io_uring can register its buffers"
                .into(),
        ),
        Ok(Registration::Fixed) => {}
    }
    advice
}
