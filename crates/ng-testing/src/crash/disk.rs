//! [`CrashDisk`]: a [`MemDisk`] that records what it was asked, in order.
//!
//! One lock is held over each operation and its record, so a sync covers exactly the writes that
//! are recorded before it. An operation that fails is not recorded, for it did nothing; a failed
//! sync is, for it did harm.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ng_io::{Access, Disk, FileId, Lock, NextRead, ReadDone};

use super::image::{CrashImage, ImageChoice};
use super::power_loss;
use crate::mem_disk::MemDisk;

/// A file under whatever name; numbers are not used again.
pub(super) type Inode = usize;

/// The bytes of each file, shared until they change.
pub(super) type Files = BTreeMap<String, Arc<Vec<u8>>>;

/// One recorded operation.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    Create { name: String, inode: Inode },
    Write { inode: Inode, offset: usize, bytes: Arc<[u8]> },
    Allocate,
    Sync { inode: Inode },
    FailedSync { inode: Inode },
    SyncDir,
    Rename { from: String, to: String, inode: Inode },
    Remove { name: String },
}

/// A disk whose power can be lost afterwards, at any moment of its record. Clones are the same
/// disk.
///
/// ```
/// use std::sync::Arc;
/// use ng_io::Writer;
/// use ng_testing::{CrashDisk, ImageChoice, MemDisk};
///
/// let disk = CrashDisk::new(MemDisk::new());
/// let mut file = Writer::open_or_create(Arc::new(disk.clone()), "a.dat")?;
/// file.write_at(0, &[1; 4096])?;
/// file.sync()?;
/// ng_io::Disk::sync_dir(&disk)?;
/// disk.mark(1);
/// file.write_at(0, &[2; 4096])?;
/// let images = disk.for_each_image(&ImageChoice::default(), &mut |image| {
///     if image.mark == Some(1) {
///         let byte = image.files["a.dat"][0];
///         assert!(byte == 1 || byte == 2, "{image}");
///     }
/// });
/// assert!(images > 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct CrashDisk {
    inner: MemDisk,
    record: Arc<Mutex<Record>>,
}

/// What was there at first, and all that happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// Durable when recording began; inode `i` is the `i`-th of them.
    pub first: Files,
    pub operations: Vec<Operation>,
    /// How many operations there were at each mark.
    pub marks: Vec<(usize, u64)>,
    names: BTreeMap<String, Inode>,
    /// By the number of the open file.
    handles: BTreeMap<u32, Inode>,
    inodes: usize,
    fails_next_sync: bool,
}

impl CrashDisk {
    /// Records what happens to `inner` from here on; all that it holds counts as durable. It must
    /// be changed through the new disk alone.
    pub fn new(inner: MemDisk) -> Self {
        let first = inner.shared_image();
        let names: BTreeMap<_, _> = first.keys().cloned().zip(0..).collect();
        let inodes = names.len();
        let record = Record { first, names, inodes, ..Record::default() };
        Self { inner, record: Arc::new(Mutex::new(record)) }
    }

    /// Lets the next sync of a file fail the way Linux does: the error comes once, later syncs
    /// succeed, and the writes that were pending may be lost all the same.
    pub fn fail_next_sync(&self) {
        self.record().fails_next_sync = true;
    }

    /// How many operations were recorded: creations, writes, reservations, syncs, renames and
    /// removals. A boundary is such a number.
    pub fn operations(&self) -> usize {
        self.record().operations.len()
    }

    /// Puts a marker here, such as the number of a commit that was just acknowledged.
    pub fn mark(&self, mark: u64) {
        let record = &mut *self.record();
        record.marks.push((record.operations.len(), mark));
    }

    /// The disk itself, as the running system sees it.
    pub fn inner(&self) -> &MemDisk {
        &self.inner
    }

    /// Calls `visit` with what could be left after a loss of power, for every boundary that
    /// `choice` asks for, and says how many images there were. The record may grow meanwhile; what
    /// it holds at the call counts.
    pub fn for_each_image(
        &self,
        choice: &ImageChoice,
        visit: &mut dyn FnMut(&CrashImage),
    ) -> usize {
        let record = self.record().clone();
        power_loss::for_each_image(&record, choice, visit)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn inode(&self, file: FileId) -> io::Result<Inode> {
        self.handles.get(&file.0).copied().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "opened before recording began")
        })
    }
}

impl Disk for CrashDisk {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileId> {
        let record = &mut *self.record();
        let file = self.inner.open(name, access)?;
        let inode = match record.names.get(name) {
            Some(inode) => *inode,
            None => {
                let inode = record.inodes;
                record.inodes += 1;
                record.names.insert(name.to_owned(), inode);
                record.operations.push(Operation::Create { name: name.to_owned(), inode });
                inode
            }
        };
        record.handles.insert(file.0, inode);
        Ok(file)
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.inner.len(file)
    }

    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()> {
        self.inner.read(next, done)
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let record = &mut *self.record();
        let inode = record.inode(file)?;
        let written = self.inner.write(file, offset, bytes)?;
        let (offset, bytes) = (offset as usize, bytes[..written].into());
        record.operations.push(Operation::Write { inode, offset, bytes });
        Ok(written)
    }

    fn allocate(&self, file: FileId, len: u64) -> io::Result<()> {
        let record = &mut *self.record();
        self.inner.allocate(file, len)?;
        record.operations.push(Operation::Allocate);
        Ok(())
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        let record = &mut *self.record();
        let inode = record.inode(file)?;
        if std::mem::take(&mut record.fails_next_sync) {
            record.operations.push(Operation::FailedSync { inode });
            return Err(io::Error::from_raw_os_error(5));
        }
        self.inner.sync(file)?;
        record.operations.push(Operation::Sync { inode });
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let record = &mut *self.record();
        self.inner.sync_dir()?;
        record.operations.push(Operation::SyncDir);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let record = &mut *self.record();
        self.inner.rename(from, to)?;
        let inode = record.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        record.names.insert(to.to_owned(), inode);
        let (from, to) = (from.to_owned(), to.to_owned());
        record.operations.push(Operation::Rename { from, to, inode });
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let record = &mut *self.record();
        self.inner.remove(name)?;
        record.names.remove(name);
        record.operations.push(Operation::Remove { name: name.to_owned() });
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn hold_off_writer(&self) -> io::Result<Option<Lock>> {
        self.inner.hold_off_writer()
    }

    fn lock_writer(&self) -> io::Result<Option<Lock>> {
        self.inner.lock_writer()
    }

    fn pin(&self, checkpoint_id: u64) -> io::Result<Option<Lock>> {
        self.inner.pin(checkpoint_id)
    }

    fn is_pinned_below(&self, checkpoint_id: u64) -> io::Result<bool> {
        self.inner.is_pinned_below(checkpoint_id)
    }
}
