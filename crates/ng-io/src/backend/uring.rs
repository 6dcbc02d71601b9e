//! Back end `uring`: O_DIRECT reads through io_uring, one ring per thread that reads.

use std::io;

use super::parking::Parking;
use super::ring::Ring;
use crate::directory::Directory;
use crate::disk::{Access, Disk, FileId, NextRead, ReadDone};
use crate::os::process::Home;
use crate::queue::{Queue, QueueSize};

/// Files read through rings.
pub(crate) struct UringDisk {
    directory: Directory,
    size: QueueSize,
    register: bool,
    parking: Parking<Ring>,
    home: Home,
}

impl UringDisk {
    /// Reads the files of `directory`. `first` is the ring that the probe made; others are made on
    /// demand, with registered buffers if `register`.
    pub fn new(directory: Directory, size: QueueSize, register: bool, first: Ring) -> Self {
        let parking = Parking::new();
        parking.put(first);
        Self { directory, size, register, parking, home: Home::here() }
    }
}

impl UringDisk {
    /// Reads one after the other. The first ring worked, so this is only for a thread that finds
    /// the descriptors or the lockable memory used up, by other processes maybe: slow and right.
    fn read_without_ring(
        &self,
        next: &mut NextRead<'_>,
        done: &mut ReadDone<'_>,
    ) -> io::Result<()> {
        Queue::new(QueueSize::new(1, 0))?.serve(next, done, &mut |op, frame| {
            let file = self.directory.file(op.file)?;
            Ok(rustix::io::pread(&file.reads, frame, op.offset)?)
        })
    }
}

/// A ring while it is in use. Dropping it, on a panic too, waits until the kernel is done with its
/// frames.
struct Lease<'a> {
    disk: &'a UringDisk,
    ring: Option<Ring>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(mut ring) = self.ring.take() else {
            return;
        };
        if ring.settle() {
            self.disk.parking.put(ring);
        } else {
            // The kernel may still write into the arena, so it must never be unmapped.
            std::mem::forget(ring);
        }
    }
}

impl Disk for UringDisk {
    fn backend(&self) -> &'static str {
        "uring"
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileId> {
        Ok(self.directory.open_file(name, access)?.0)
    }

    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()> {
        self.home.check()?;
        let ring = self.parking.take(|| Ring::new(self.size, self.register));
        let Ok(ring) = ring else {
            return self.read_without_ring(next, done);
        };
        let mut lease = Lease { disk: self, ring: Some(ring) };
        match &mut lease.ring {
            Some(ring) => ring.run(&self.directory, next, done),
            None => Ok(()),
        }
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.directory.write(file, offset, bytes)
    }

    write_side_in_directory!();
}
