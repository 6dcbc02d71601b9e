//! Back end `mmap`: the file is mapped, and blocks are copied out of the mapping.
//!
//! It is the measured baseline, and the natural choice where storage is memory (tmpfs, DAX). The
//! length is checked when a file is opened and reads past it are short. Between that check and a
//! read another process may truncate the file; touching the lost pages then raises SIGBUS, which
//! ends the process. A device error in the middle of a mapped file raises it, too: that is how
//! mappings are. Where that matters, pick another back end.

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::backend::parking::Parking;
use crate::directory::{Directory, OpenFile};
use crate::disk::{Access, Disk, FileId, NextRead, ReadDone, ReadOp};
use crate::queue::{Queue, QueueSize};

/// Mapped files.
pub(crate) struct MmapDisk {
    directory: Directory,
    mappings: RwLock<Vec<Option<Arc<Mapping>>>>,
    parking: Parking<Queue>,
}

/// A read-only mapping of a whole file.
struct Mapping {
    base: Option<NonNull<u8>>,
    len: usize,
}

// SAFETY: the mapping is owned by this value alone, read-only, and not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared use only copies bytes out of it.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &OpenFile) -> io::Result<Self> {
        let len = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::OutOfMemory)?;
        if len == 0 {
            return Ok(Self { base: None, len });
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
        let address = unsafe {
            mmap(std::ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &file.reads, 0)?
        };
        // SAFETY: the range was mapped above; the advice changes read-ahead only. A refusal costs
        // speed alone, so it is not looked at.
        let _ = unsafe { madvise(address, len, Advice::Random) };
        Ok(Self { base: NonNull::new(address.cast()), len })
    }

    /// Copies out what there is at the place of `op`.
    fn fill(&self, op: &ReadOp, frame: &mut [u8]) -> usize {
        let Some(base) = self.base else { return 0 };
        let start = usize::try_from(op.offset).unwrap_or(usize::MAX).min(self.len);
        let len = (self.len - start).min(frame.len());
        // SAFETY: `start + len <= self.len`, so the source is inside the mapping; the frame is
        // private memory and cannot overlap it. Raw bytes are copied without a `&[u8]` over the
        // mapping, as another process may change them meanwhile.
        unsafe {
            std::ptr::copy_nonoverlapping(base.as_ptr().add(start), frame.as_mut_ptr(), len);
        }
        len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(base) = self.base {
            // SAFETY: mapped by `new`, unmapped once, and no pointer into it outlives `self`.
            let _ = unsafe { munmap(base.as_ptr().cast(), self.len) };
        }
    }
}

impl MmapDisk {
    pub fn new(directory: Directory) -> Self {
        Self { directory, mappings: RwLock::new(Vec::new()), parking: Parking::new() }
    }

    /// The mapping of a file that serves `op`: a file that has grown since is mapped anew.
    fn mapping(&self, op: &ReadOp) -> io::Result<Arc<Mapping>> {
        let index = op.file.0 as usize;
        let found = {
            let mappings = self.mappings.read().unwrap_or_else(PoisonError::into_inner);
            mappings.get(index).and_then(Clone::clone)
        };
        let end = op.offset.saturating_add(u64::from(op.len));
        match found {
            Some(mapping) if end <= mapping.len as u64 => Ok(mapping),
            Some(mapping) if self.directory.len(op.file)? == mapping.len as u64 => Ok(mapping),
            _ => self.map(op.file),
        }
    }

    fn map(&self, id: FileId) -> io::Result<Arc<Mapping>> {
        let file = self.directory.file(id)?;
        let mapping = Arc::new(Mapping::new(&file)?);
        let mut mappings = self.mappings.write().unwrap_or_else(PoisonError::into_inner);
        let index = id.0 as usize;
        if mappings.len() <= index {
            mappings.resize(index + 1, None);
        }
        mappings[index] = Some(Arc::clone(&mapping));
        Ok(mapping)
    }
}

impl Disk for MmapDisk {
    fn backend(&self) -> &'static str {
        "mmap"
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileId> {
        let (id, _) = self.directory.open_file(name, access)?;
        self.map(id)?;
        Ok(id)
    }

    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()> {
        let mut queue = self.parking.take(|| Queue::new(QueueSize::new(1, 0)))?;
        let result = queue.serve(next, done, &mut |op, frame| {
            let mapping = self.mapping(op)?;
            Ok(mapping.fill(op, frame))
        });
        self.parking.put(queue);
        result
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.directory.write(file, offset, bytes)
    }

    write_side_in_directory!();
}
