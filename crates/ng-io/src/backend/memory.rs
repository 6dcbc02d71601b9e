//! Back end `memory`: every file is read into RAM when it is opened.
//!
//! The copies are outside of the memory budget, because whoever picks this back end asked for the
//! whole store in memory. The invariants: a file has one copy however often it is open, and writes
//! go to the file first and then to the copy, so all handles and the file agree. What another
//! process writes is seen when the file is opened again, which reads it anew.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use crate::backend::parking::Parking;
use crate::directory::{Directory, OpenFile};
use crate::disk::{Access, Disk, FileId, NextRead, ReadDone, ReadOp};
use crate::os::machine::usable_memory_bytes;
use crate::queue::{Queue, QueueSize};
use crate::retry::read_full;

/// Files in RAM.
pub(crate) struct MemoryDisk {
    directory: Directory,
    copies: RwLock<Vec<Option<Arc<Copy>>>>,
    parking: Parking<Queue>,
}

struct Copy {
    /// Whose copy it is; the file is open as long as the disk, so the numbers are not used again.
    identity: (u64, u64),
    bytes: RwLock<Vec<u8>>,
}

impl MemoryDisk {
    pub fn new(directory: Directory) -> Self {
        Self { directory, copies: RwLock::new(Vec::new()), parking: Parking::new() }
    }

    fn copy(&self, id: FileId) -> io::Result<Arc<Copy>> {
        let copies = self.copies.read().unwrap_or_else(PoisonError::into_inner);
        let copy = copies.get(id.0 as usize).and_then(Clone::clone);
        copy.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("no open file has id {}", id.0))
        })
    }
}

/// Makes `bytes` those of the file, in place.
fn load(file: &OpenFile, bytes: &mut Vec<u8>) -> io::Result<()> {
    let len = usize::try_from(file.len()?).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let more = len.saturating_sub(bytes.len());
    let most = usable_memory_bytes();
    if more as u64 > most || bytes.try_reserve_exact(more).is_err() {
        let name = &file.name;
        let message =
            format!("{name} has {len} bytes, more than the {most} bytes of usable memory");
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
    }
    bytes.resize(len, 0);
    let got = read_full(&file.reads, 0, bytes)?;
    bytes.truncate(got);
    Ok(())
}

impl Copy {
    fn reload(&self, file: &OpenFile) -> io::Result<()> {
        load(file, &mut self.bytes.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies out what there is at the place of `op`.
    fn fill(&self, op: &ReadOp, frame: &mut [u8]) -> usize {
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(op.offset).unwrap_or(usize::MAX).min(bytes.len());
        let found = &bytes[start..];
        let len = found.len().min(frame.len());
        frame[..len].copy_from_slice(&found[..len]);
        len
    }

    fn write(&self, offset: u64, new: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let end = start.checked_add(new.len()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        if bytes.len() < end {
            let more = end - bytes.len();
            bytes.try_reserve(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(new);
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn backend(&self) -> &'static str {
        "memory"
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileId> {
        let (id, file) = self.directory.open_file(name, access)?;
        let identity = file.identity()?;
        let copy = {
            let mut copies = self.copies.write().unwrap_or_else(PoisonError::into_inner);
            let known = copies.iter().flatten().find(|copy| copy.identity == identity).cloned();
            let copy = known
                .unwrap_or_else(|| Arc::new(Copy { identity, bytes: RwLock::new(Vec::new()) }));
            let index = id.0 as usize;
            if copies.len() <= index {
                copies.resize(index + 1, None);
            }
            copies[index] = Some(Arc::clone(&copy));
            copy
        };
        copy.reload(&file)?;
        Ok(id)
    }

    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()> {
        let mut queue = self.parking.take(|| Queue::new(QueueSize::new(1, 0)))?;
        let result = queue.serve(next, done, &mut |op, frame| {
            let copy = self.copy(op.file)?;
            Ok(copy.fill(op, frame))
        });
        self.parking.put(queue);
        result
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let wrote = self.directory.write(file, offset, bytes)?;
        self.copy(file)?.write(offset, &bytes[..wrote])?;
        Ok(wrote)
    }

    write_side_in_directory!();
}
