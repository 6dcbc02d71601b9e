//! The memory of a connection: made and sealed by the server, checked and mapped by both.
//!
//! The invariant: the file cannot shrink as long as it is mapped, so no access ends in SIGBUS.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{
    FallocateFlags, FileType, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals,
    fstat, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::shm::copy::WORD;
use crate::shm::ring::Ring;

/// Indices and flags stand before the rings.
const HEAD_BYTES: usize = 4096;
/// The head of the second ring.
const HEAD_STEP_WORDS: usize = 512 / size_of::<AtomicU32>();
/// What the reader of a ring stores, on a cache line of its own and not the neighbour of another.
const READER_WORDS: usize = 128 / size_of::<AtomicU32>();

/// Without these the other side could take memory away that is in use.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Bytes of the whole file.
pub(super) fn file_bytes(ring_bytes: u32) -> u64 {
    HEAD_BYTES as u64 + 2 * u64::from(ring_bytes)
}

/// Makes sealed memory for two rings. It is there at once: a lack shows here, and not later by a
/// signal.
pub(super) fn create(ring_bytes: u32) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let name = "neargraph-shm";
    let fd = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know it.
        Err(Errno::INVAL) => memfd_create(name, flags)?,
        other => other?,
    };
    let bytes = file_bytes(ring_bytes);
    ftruncate(&fd, bytes)?;
    fallocate(&fd, FallocateFlags::empty(), 0, bytes)?;
    fcntl_add_seals(&fd, SEALS)?;
    Ok(fd)
}

/// Says what is wrong with memory that came from the other side.
pub(super) fn check(fd: BorrowedFd<'_>, ring_bytes: u32) -> Result<(), &'static str> {
    let seals = fcntl_get_seals(fd).map_err(|_| "it does not support file seals")?;
    if !seals.contains(SEALS) {
        return Err("its size is not sealed");
    }
    // Sealed, so what is found now stays.
    let stat = fstat(fd).map_err(|_| "its size is unknown")?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !regular || u64::try_from(stat.st_size) != Ok(file_bytes(ring_bytes)) {
        return Err("its size differs from the agreed size");
    }
    Ok(())
}

/// Which of the two rings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

impl Way {
    pub fn back(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}

/// Mapped memory of a connection.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    ring_bytes: u32,
}

// SAFETY: a mapping is bound to no thread, and it is touched through atomics alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps sealed memory of the size that belongs to `ring_bytes`.
    pub fn of(fd: impl AsFd, ring_bytes: u32) -> io::Result<Self> {
        let bytes = file_bytes(ring_bytes) as usize;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing. The file
        // is as long as the mapping and sealed, by `create` or by `check`, so that its pages stay.
        let address =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, fd.as_fd(), 0)? };
        let base = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, ring_bytes })
    }

    /// Bytes of each ring.
    pub fn ring_bytes(&self) -> u32 {
        self.ring_bytes
    }

    fn head(&self) -> &[AtomicU32] {
        // SAFETY: the first 4096 bytes of the mapping, which lives as long as `self` and begins at
        // a page. Every bit pattern is a u32. This process touches them only as atomics, here;
        // whatever the other process does to them, each load gives some value. No reference to
        // plain memory is ever made of them, so nothing is assumed to stay as it was.
        unsafe {
            std::slice::from_raw_parts(
                self.base.as_ptr().cast(),
                HEAD_BYTES / size_of::<AtomicU32>(),
            )
        }
    }

    /// One of the two rings.
    pub fn ring(&self, way: Way) -> Ring<'_> {
        let number = match way {
            Way::ToServer => 0,
            Way::ToClient => 1,
        };
        let head = &self.head()[number * HEAD_STEP_WORDS..];
        let ring_bytes = self.ring_bytes as usize;
        // SAFETY: the ring lies behind the head, inside of the mapping, at a multiple of 4096; as
        // for the head, it is touched only as atomics, and here only.
        let words = unsafe {
            let start = self.base.as_ptr().add(HEAD_BYTES + number * ring_bytes);
            std::slice::from_raw_parts(start.cast::<AtomicU64>(), ring_bytes / WORD)
        };
        Ring {
            written: &head[0],
            writer_sleeps: &head[1],
            read: &head[READER_WORDS],
            reader_sleeps: &head[READER_WORDS + 1],
            words,
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let bytes = file_bytes(self.ring_bytes) as usize;
        // SAFETY: mapped by `of`, unmapped once, and no borrow outlives `self`. An error cannot be
        // acted upon here; the memory would merely stay mapped.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_memory_keeps_its_size_and_other_memory_is_refused() {
        let fd = create(4096).expect("memory");
        assert_eq!(check(fd.as_fd(), 4096), Ok(()));
        assert_eq!(ftruncate(&fd, 4096), Err(Errno::PERM));
        assert_eq!(ftruncate(&fd, 1 << 20), Err(Errno::PERM));
        assert_eq!(fcntl_add_seals(&fd, SealFlags::WRITE), Err(Errno::PERM));
        assert!(check(fd.as_fd(), 8192).is_err_and(|what| what.contains("size")));

        let open = memfd_create("open", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING);
        let open = open.expect("memory");
        ftruncate(&open, file_bytes(4096)).expect("longer");
        for seals in [SealFlags::empty(), SealFlags::SHRINK, SealFlags::GROW] {
            fcntl_add_seals(&open, seals).expect("sealed");
            assert_eq!(check(open.as_fd(), 4096), Err("its size is not sealed"));
        }
        fcntl_add_seals(&open, SealFlags::SEAL).expect("sealed");
        assert_eq!(check(open.as_fd(), 4096), Ok(()));

        let file = tempfile::tempfile().expect("a file");
        file.set_len(file_bytes(4096)).expect("longer");
        check(file.as_fd(), 4096).expect_err("a file of a disk or of tmpfs");
        let (socket, _) = std::os::unix::net::UnixStream::pair().expect("sockets");
        check(socket.as_fd(), 4096).expect_err("not a file");
    }
}
