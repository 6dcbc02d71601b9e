//! Unix sockets at a path: made for their user alone, found to be alive or left behind.
//!
//! What must not live here: what is said over them. The invariants: the socket has mode 0600 from
//! the first moment; only what a dead server of this user left is ever removed; two servers that
//! start at once never both believe that the path is theirs.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::geteuid;

use crate::os::process::Home;
use crate::shm::error::SocketError;

/// Connections that wait until they are accepted.
const BACKLOG: i32 = 128;
/// The system's bound for the path of a socket.
const PATH_BYTES_MAX: usize = 107;
/// How long another server that starts in the same folder is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// The socket at a path, which is removed when this is dropped, if it is still the same one.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    home: Home,
}

impl SocketFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A fork must not take the path from its parent.
        if self.home.check().is_err() {
            return;
        }
        let _lock = lock_folder(&self.path);
        if fs::symlink_metadata(&self.path).is_ok_and(|data| identity(&data) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens on a stream socket at `path` that only this user may connect to; accepting blocks. A
/// socket that a dead server of this user left there is replaced.
///
/// # Errors
/// A server lives there, something else is there, or the system refuses.
pub fn listen_at(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    let (socket, file) = listen_with(path, SocketType::STREAM)?;
    let listener = UnixListener::from(socket);
    let blocking = listener.set_nonblocking(false);
    blocking.map_err(|source| SocketError::io("listen at", path, source))?;
    Ok((listener, file))
}

fn identity(data: &fs::Metadata) -> (u64, u64) {
    (data.dev(), data.ino())
}

pub(super) fn address(path: &Path) -> Result<SocketAddrUnix, SocketError> {
    let bad = || SocketError::BadPath { path: path.to_owned() };
    // An empty path would name a socket of the kernel's choice, and not every program can say one
    // without a zero byte behind it.
    if path.as_os_str().is_empty() || path.as_os_str().len() > PATH_BYTES_MAX {
        return Err(bad());
    }
    SocketAddrUnix::new(path).map_err(|_| bad())
}

/// A new socket that does not block and is not inherited.
pub(super) fn new_socket(kind: SocketType) -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// As [`listen_at`], for a type of sockets.
pub(super) fn listen_with(
    path: &Path,
    kind: SocketType,
) -> Result<(OwnedFd, SocketFile), SocketError> {
    let address = address(path)?;
    let io = |source: Errno| SocketError::io("listen at", path, source);
    // Held until the socket listens: a bound socket that does not yet looks like one left behind.
    let _lock = lock_folder(path)?;
    remove_stale(path, &address, kind)?;
    let socket = new_socket(kind).map_err(io)?;
    // Linux gives the file the mode of the socket, so there is no moment with a wider one.
    fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(io)?;
    bind(&socket, &address).map_err(io)?;
    let data = fs::symlink_metadata(path);
    let data = data.map_err(|source| SocketError::io("examine", path, source))?;
    let file = SocketFile { path: path.to_owned(), identity: identity(&data), home: Home::here() };
    listen(&socket, BACKLOG).map_err(io)?;
    Ok((socket, file))
}

/// Locks the folder of a path against other servers that start or end in it. The lock goes with
/// the descriptor, so nothing is left behind by a process that is killed.
fn lock_folder(path: &Path) -> Result<OwnedFd, SocketError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let failed = |source: io::Error| SocketError::io("lock the directory of", path, source);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = open(folder, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let end = Instant::now() + LOCK_WAIT;
    loop {
        match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(fd),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(errno) => return Err(failed(errno.into())),
        }
    }
}

/// Makes the path free, if what is there was left by a dead server of this user.
fn remove_stale(
    path: &Path,
    address: &SocketAddrUnix,
    kind: SocketType,
) -> Result<(), SocketError> {
    let data = match fs::symlink_metadata(path) {
        Ok(data) => data,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::io("examine", path, error)),
    };
    let foreign = || Err(SocketError::Foreign { path: path.to_owned() });
    if !data.file_type().is_socket() || data.uid() != geteuid().as_raw() {
        return foreign();
    }
    let probe = new_socket(kind).map_err(|errno| SocketError::io("connect to", path, errno))?;
    match connect(&probe, address) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path)
            .map_err(|error| SocketError::io("remove the stale socket", path, error)),
        // `AGAIN`: it lives, and many wait for it.
        Ok(()) | Err(Errno::AGAIN) => Err(SocketError::InUse { path: path.to_owned() }),
        // Another type of socket, whose server lives.
        Err(Errno::PROTOTYPE) => foreign(),
        Err(errno) => Err(SocketError::io("connect to", path, errno)),
    }
}
