//! Locks on the bytes of file `pins`: who may write to a directory, and which checkpoints are read.
//!
//! Byte 0 is the writer's, byte `checkpoint_id` (1 and up) is for pins of that checkpoint. The file
//! stays empty; only the locks count, and the kernel drops them with the process. What must not
//! live here: what a checkpoint means. The invariant: all locks of one directory are on one open
//! file description (`F_OFD_SETLK`), so its own never stand in its way, and are counted here
//! instead.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;

use crate::os::process::Home;

/// The file whose bytes are locked.
pub(crate) const PINS: &str = "pins";

const WRITER: u64 = 0;

/// Opens file `pins` with these flags.
pub(crate) type OpenPins<'a> = dyn Fn(OFlags) -> io::Result<OwnedFd> + 'a;

/// A lock that is held until it is dropped; see [`crate::Disk::lock_writer`] and
/// [`crate::Disk::pin`].
pub struct Lock {
    release: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Lock {
    /// A lock that `release` gives back.
    pub fn new(release: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { release: Some(Box::new(release)) }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").finish_non_exhaustive()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// The locks of one open directory.
pub(crate) struct Locks {
    state: Mutex<State>,
    home: Home,
}

#[derive(Default)]
struct State {
    file: Option<OwnedFd>,
    can_write: bool,
    is_writer: bool,
    /// How often each checkpoint is pinned.
    pins: BTreeMap<u64, usize>,
}

impl Locks {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), home: Home::here() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to write, unless somebody has it.
    pub fn lock_writer(self: &Arc<Self>, open: &OpenPins<'_>) -> io::Result<Option<Lock>> {
        self.home.check()?;
        let mut state = self.state();
        // A second lock of the same description would be granted.
        if state.is_writer || !set(state.file_to_write(open)?, libc::F_WRLCK, WRITER)? {
            return Ok(None);
        }
        state.is_writer = true;
        Ok(Some(self.guard(|state| {
            state.is_writer = false;
            state.unlock(WRITER);
        })))
    }

    /// Keeps the writer's byte from being locked, unless it is; a file for shared locks will do.
    pub fn hold_off_writer(self: &Arc<Self>, open: &OpenPins<'_>) -> io::Result<Option<Lock>> {
        self.home.check()?;
        let mut state = self.state();
        // The lock of this very description would be exchanged for a weaker one.
        if state.is_writer {
            return Ok(None);
        }
        match state.file_to_read(open)? {
            None => Ok(Some(Lock::new(|| ()))),
            Some(file) => {
                let is_free = set(file, libc::F_RDLCK, WRITER)?;
                Ok(is_free.then(|| self.guard(|state| state.unlock(WRITER))))
            }
        }
    }

    /// A pin of `checkpoint_id`, unless there is no file and can be none.
    pub fn pin(
        self: &Arc<Self>,
        checkpoint_id: u64,
        open: &OpenPins<'_>,
    ) -> io::Result<Option<Lock>> {
        self.home.check()?;
        if checkpoint_id == WRITER {
            let message = "checkpoint 0 cannot be pinned: checkpoints are numbered from 1";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut state = self.state();
        let Some(file) = state.file_to_read(open)? else {
            return Ok(None);
        };
        // Nobody locks this byte for writing, so a refusal is no answer that may be waited for.
        if !set(file, libc::F_RDLCK, checkpoint_id)? {
            let message = format!("another program holds a lock on byte {checkpoint_id} of {PINS}");
            return Err(io::Error::other(message));
        }
        *state.pins.entry(checkpoint_id).or_default() += 1;
        Ok(Some(self.guard(move |state| state.unpin(checkpoint_id))))
    }

    /// Whether another open file description holds a pin below `checkpoint_id`.
    pub fn is_pinned_below(&self, checkpoint_id: u64, open: &OpenPins<'_>) -> io::Result<bool> {
        self.home.check()?;
        if checkpoint_id <= 1 {
            return Ok(false);
        }
        let mut state = self.state();
        let Some(file) = state.file_to_read(open)? else {
            return Ok(false);
        };
        let found = control(file, libc::F_OFD_GETLK, libc::F_WRLCK, 1, checkpoint_id - 1)?;
        Ok(i32::from(found.l_type) != libc::F_UNLCK)
    }

    fn guard(self: &Arc<Self>, release: impl FnOnce(&mut State) + Send + Sync + 'static) -> Lock {
        let locks = Arc::clone(self);
        Lock::new(move || {
            // A fork shares the open file description: what it gave back, its parent would lose.
            if locks.home.check().is_ok() {
                release(&mut locks.state());
            }
        })
    }
}

impl State {
    /// The file for shared locks. `None` if it is not there and cannot be made, because the place
    /// is read-only, full or gone.
    fn file_to_read(&mut self, open: &OpenPins<'_>) -> io::Result<Option<&OwnedFd>> {
        if self.file.is_none() {
            match open(OFlags::RDWR | OFlags::CREATE) {
                Ok(file) => (self.file, self.can_write) = (Some(file), true),
                Err(error) if !means_read_only(&error) => return Err(error),
                Err(_) => match open(OFlags::RDONLY) {
                    Ok(file) => self.file = Some(file),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                },
            }
        }
        Ok(self.file.as_ref())
    }

    fn file_to_write(&mut self, open: &OpenPins<'_>) -> io::Result<&OwnedFd> {
        if self.file.is_none() {
            (self.file, self.can_write) = (Some(open(OFlags::RDWR | OFlags::CREATE)?), true);
        }
        self.file.as_ref().filter(|_| self.can_write).ok_or_else(|| {
            let message = format!("cannot open {PINS} for writing: the directory is read-only");
            io::Error::new(io::ErrorKind::PermissionDenied, message)
        })
    }

    fn unpin(&mut self, checkpoint_id: u64) {
        let Some(count) = self.pins.get_mut(&checkpoint_id) else { return };
        *count -= 1;
        if *count == 0 {
            self.pins.remove(&checkpoint_id);
            self.unlock(checkpoint_id);
        }
    }

    fn unlock(&self, byte: u64) {
        if let Some(file) = &self.file {
            // Unlocking cannot be refused; should it be, the lock ends with the descriptor.
            let _ = set(file, libc::F_UNLCK, byte);
        }
    }
}

fn means_read_only(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let kind = error.kind();
    matches!(kind, Kind::PermissionDenied | Kind::ReadOnlyFilesystem | Kind::NotFound)
        || matches!(kind, Kind::StorageFull | Kind::QuotaExceeded)
}

/// Locks or unlocks one byte; false if somebody else's lock is in the way.
fn set(file: &OwnedFd, kind: libc::c_int, byte: u64) -> io::Result<bool> {
    match control(file, libc::F_OFD_SETLK, kind, byte, 1) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn control(
    file: &OwnedFd,
    command: libc::c_int,
    kind: libc::c_int,
    start: u64,
    len: u64,
) -> io::Result<libc::flock> {
    let place = |n: u64| libc::off_t::try_from(n).map_err(|_| io::ErrorKind::InvalidInput);
    let mut lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: place(start)?,
        l_len: place(len)?,
        l_pid: 0,
    };
    loop {
        // SAFETY: the descriptor is open, and `lock` is a valid `flock` that outlives the call.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } != -1 {
            return Ok(lock);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(number: i32) -> io::Result<OwnedFd> {
        Err(io::Error::from_raw_os_error(number))
    }

    #[test]
    fn where_nothing_can_be_written_there_are_pins_only_if_the_file_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(PINS);
        for number in [libc::EROFS, libc::EACCES, libc::EPERM, libc::ENOSPC, libc::EDQUOT] {
            let open = |flags: OFlags| match flags {
                OFlags::RDONLY => Ok(std::fs::File::open(&path)?.into()),
                _ => refused(number),
            };
            let locks = Locks::new();
            let _ = std::fs::remove_file(&path);
            assert!(locks.pin(1, &open).expect("no error").is_none(), "{number}");
            assert!(!locks.is_pinned_below(2, &open).expect("no error"));
            let error = locks.lock_writer(&open).expect_err("cannot be written to");
            assert_eq!(error.raw_os_error(), Some(number));
            std::fs::write(&path, b"").expect("written");
            let pin = locks.pin(1, &open).expect("no error");
            assert!(pin.is_some());
            assert!(Locks::new().is_pinned_below(2, &open).expect("no error"));
            let error = locks.lock_writer(&open).expect_err("read-only");
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
        assert!(Locks::new().pin(1, &|_| refused(libc::EIO)).is_err());
    }
}
