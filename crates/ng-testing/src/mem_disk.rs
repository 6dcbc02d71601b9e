//! [`MemDisk`]: a disk wholly in memory that tests can look into, damage and copy.
//!
//! It remembers what was synced, as a strict device would: bytes are durable after `sync` of their
//! file, names after `sync_dir`. What must not live here: faults, which [`crate::FaultDisk`] adds.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ng_io::{Access, Disk, FileId, Lock, NextRead, ReadDone, ReadOp};

use crate::mem_locks::MemLocks;

/// A disk in memory. Clones are the same disk.
///
/// ```
/// use std::sync::Arc;
/// use ng_io::{Appender, Reader};
/// use ng_testing::MemDisk;
///
/// let disk = MemDisk::new();
/// let mut file = Appender::create(Arc::new(disk.clone()), "a.dat")?;
/// file.write(&[1; 4096])?;
/// file.finish()?;
/// disk.damage("a.dat", |bytes| bytes[17] ^= 1);
/// let reader = Reader::new(Arc::new(disk.clone()));
/// let id = reader.open("a.dat")?;
/// assert_eq!(reader.read_at(id, 0, 4096)?[17], 0);
/// assert_eq!(disk.counts().reads, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    shared: Arc<Shared>,
    /// Who locks and pins.
    process: u64,
    is_read_only: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    reads: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
    dir_syncs: AtomicU64,
    leaves: AtomicU64,
    left_bytes: AtomicU64,
    sync_us: AtomicU64,
    locks: Arc<MemLocks>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<String, Arc<Mutex<MemFile>>>,
    durable_names: BTreeMap<String, Arc<Mutex<MemFile>>>,
    handles: Vec<(Arc<Mutex<MemFile>>, Access)>,
    room: Room,
}

#[derive(Debug, Default)]
struct MemFile {
    bytes: Arc<Vec<u8>>,
    durable: Arc<Vec<u8>>,
    dirty: bool,
}

/// How much a [`MemDisk`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// All.
    #[default]
    Free,
    /// It is full: what is there can be overwritten, and nothing can be added.
    Full,
    /// It is full, and copies on write: nothing can be written at all.
    FullOfCopies,
}

/// What was asked of a [`MemDisk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs of files.
    pub syncs: u64,
    /// Syncs of the directory.
    pub dir_syncs: u64,
    /// How often a part of a file was said to be needed no more.
    pub leaves: u64,
    /// The longest such part.
    pub left_bytes: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// A disk that holds these files, all durable.
    pub fn from_image(image: BTreeMap<String, Vec<u8>>) -> Self {
        Self::from_shared(image.into_iter().map(|(name, bytes)| (name, Arc::new(bytes))).collect())
    }

    /// The same without copying: a file is copied when it is first written to.
    pub fn from_shared(image: BTreeMap<String, Arc<Vec<u8>>>) -> Self {
        let disk = Self::new();
        for (name, bytes) in image {
            disk.put_shared(name, bytes);
        }
        disk
    }

    /// The same files as another process sees them: its locks and pins stand in the way of this
    /// one's.
    #[must_use]
    pub fn other_process(&self) -> Self {
        let process = self.shared.locks.next_process();
        Self { shared: Arc::clone(&self.shared), process, ..*self }
    }

    /// The same files as a process sees them that may only read: it can open none for writing and
    /// cannot become the writer.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self { is_read_only: true, ..self.other_process() }
    }

    fn check_may_write(&self) -> io::Result<()> {
        if self.is_read_only { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// From now on the disk takes no more than this.
    pub fn set_room(&self, room: Room) {
        lock(&self.shared.state).room = room;
    }

    fn check_room(&self, grows: bool) -> io::Result<()> {
        match lock(&self.shared.state).room {
            Room::Free => Ok(()),
            Room::Full if !grows => Ok(()),
            Room::Full | Room::FullOfCopies => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    /// Lets every sync of a file take so long, as a device does.
    pub fn set_sync_time(&self, time: Duration) {
        self.shared.sync_us.store(time.as_micros() as u64, Ordering::Relaxed);
    }

    /// The bytes of every file as the running system sees them.
    pub fn image(&self) -> BTreeMap<String, Vec<u8>> {
        self.shared_image().into_iter().map(|(name, bytes)| (name, bytes.to_vec())).collect()
    }

    /// The same without copying.
    pub(crate) fn shared_image(&self) -> BTreeMap<String, Arc<Vec<u8>>> {
        let state = lock(&self.shared.state);
        let share = |(name, file): (&String, &Arc<Mutex<MemFile>>)| {
            (name.clone(), Arc::clone(&lock(file).bytes))
        };
        state.names.iter().map(share).collect()
    }

    /// What is left after a crash that loses everything that was not synced: the names at the last
    /// `sync_dir`, each with the bytes of its last `sync`.
    pub fn durable_image(&self) -> BTreeMap<String, Vec<u8>> {
        let state = lock(&self.shared.state);
        let copy = |(name, file): (&String, &Arc<Mutex<MemFile>>)| {
            (name.clone(), lock(file).durable.to_vec())
        };
        state.durable_names.iter().map(copy).collect()
    }

    /// The bytes of a file, if it exists.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let file = lock(&self.shared.state).names.get(name).cloned()?;
        let bytes = lock(&file).bytes.to_vec();
        Some(bytes)
    }

    /// The bytes of a file at its last sync, whether its name is durable or not.
    pub fn durable_contents(&self, name: &str) -> Option<Vec<u8>> {
        let file = lock(&self.shared.state).names.get(name).cloned()?;
        let bytes = lock(&file).durable.to_vec();
        Some(bytes)
    }

    /// Puts a file there, durable; one of that name is replaced, open handles keep the older.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        self.put_shared(name.to_owned(), Arc::new(bytes));
    }

    fn put_shared(&self, name: String, bytes: Arc<Vec<u8>>) {
        let file = MemFile { durable: Arc::clone(&bytes), bytes, dirty: false };
        let file = Arc::new(Mutex::new(file));
        let mut state = lock(&self.shared.state);
        state.names.insert(name.clone(), Arc::clone(&file));
        state.durable_names.insert(name, file);
    }

    /// Changes the bytes of a file behind the engine's back, open or not. False if there is none.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Some(file) = lock(&self.shared.state).names.get(name).cloned() else {
            return false;
        };
        let mut file = lock(&file);
        change(Arc::make_mut(&mut file.bytes));
        file.durable = Arc::clone(&file.bytes);
        true
    }

    /// Whether every byte of a file that exists is durable.
    pub fn is_synced(&self, name: &str) -> bool {
        let file = lock(&self.shared.state).names.get(name).cloned();
        file.is_some_and(|file| !lock(&file).dirty)
    }

    /// Whether every name, rename and removal is durable.
    pub fn is_dir_synced(&self) -> bool {
        let state = lock(&self.shared.state);
        state.names.len() == state.durable_names.len()
            && state
                .names
                .iter()
                .zip(&state.durable_names)
                .all(|((name, file), durable)| name == durable.0 && Arc::ptr_eq(file, durable.1))
    }

    /// What was asked so far.
    pub fn counts(&self) -> MemCounts {
        let shared = &self.shared;
        MemCounts {
            reads: shared.reads.load(Ordering::Relaxed),
            writes: shared.writes.load(Ordering::Relaxed),
            syncs: shared.syncs.load(Ordering::Relaxed),
            dir_syncs: shared.dir_syncs.load(Ordering::Relaxed),
            leaves: shared.leaves.load(Ordering::Relaxed),
            left_bytes: shared.left_bytes.load(Ordering::Relaxed),
        }
    }

    fn handle(&self, id: FileId) -> io::Result<(Arc<Mutex<MemFile>>, Access)> {
        let handle = lock(&self.shared.state).handles.get(id.0 as usize).cloned();
        handle.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such open file"))
    }

    fn writable(&self, id: FileId) -> io::Result<Arc<Mutex<MemFile>>> {
        match self.handle(id)? {
            (_, Access::Read) => Err(io::ErrorKind::PermissionDenied.into()),
            (file, _) => Ok(file),
        }
    }

    fn answer(&self, op: ReadOp, done: &mut ReadDone<'_>) {
        self.shared.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = match self.handle(op.file) {
            Ok((file, _)) => Arc::clone(&lock(&file).bytes),
            Err(error) => return done(op, Err(error)),
        };
        let start = usize::try_from(op.offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(op.len as usize).min(bytes.len());
        done(op, Ok(&bytes[start..end]));
    }
}

impl Disk for MemDisk {
    fn backend(&self) -> &'static str {
        "mem-disk"
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileId> {
        if access != Access::Read {
            self.check_may_write()?;
        }
        let mut state = lock(&self.shared.state);
        let file = match (state.names.get(name).cloned(), access) {
            (Some(_), Access::Create) => return Err(io::ErrorKind::AlreadyExists.into()),
            (Some(file), _) => file,
            (None, Access::Create) => {
                if state.room != Room::Free {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                let file = Arc::default();
                state.names.insert(name.to_owned(), Arc::clone(&file));
                file
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        state.handles.push((file, access));
        Ok(FileId((state.handles.len() - 1) as u32))
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        let (file, _) = self.handle(file)?;
        let len = lock(&file).bytes.len();
        Ok(len as u64)
    }

    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()> {
        while let Some(op) = next() {
            self.answer(op, done);
        }
        Ok(())
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.shared.writes.fetch_add(1, Ordering::Relaxed);
        let file = self.writable(file)?;
        let grows = offset + bytes.len() as u64 > lock(&file).bytes.len() as u64;
        self.check_room(grows)?;
        let mut file = lock(&file);
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::StorageFull)?;
        let end = start.checked_add(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        let all = Arc::make_mut(&mut file.bytes);
        if all.len() < end {
            all.resize(end, 0);
        }
        all[start..end].copy_from_slice(bytes);
        file.dirty = true;
        Ok(bytes.len())
    }

    fn leave_cache(&self, _: FileId, end: u64) {
        self.shared.leaves.fetch_add(1, Ordering::Relaxed);
        self.shared.left_bytes.fetch_max(end, Ordering::Relaxed);
    }

    fn allocate(&self, file: FileId, len: u64) -> io::Result<()> {
        let file = self.writable(file)?;
        let grows = len > lock(&file).bytes.len() as u64;
        self.check_room(grows)
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        let time = Duration::from_micros(self.shared.sync_us.load(Ordering::Relaxed));
        if !time.is_zero() {
            std::thread::sleep(time);
        }
        let (file, _) = self.handle(file)?;
        let mut file = lock(&file);
        file.durable = Arc::clone(&file.bytes);
        file.dirty = false;
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.shared.dir_syncs.fetch_add(1, Ordering::Relaxed);
        let mut state = lock(&self.shared.state);
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_may_write()?;
        let mut state = lock(&self.shared.state);
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_may_write()?;
        let removed = lock(&self.shared.state).names.remove(name);
        removed.map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.shared.state).names.keys().cloned().collect())
    }

    fn hold_off_writer(&self) -> io::Result<Option<Lock>> {
        Ok(self.shared.locks.lock_writer())
    }

    fn lock_writer(&self) -> io::Result<Option<Lock>> {
        self.check_may_write()?;
        Ok(self.shared.locks.lock_writer())
    }

    fn pin(&self, checkpoint_id: u64) -> io::Result<Option<Lock>> {
        Ok(Some(self.shared.locks.pin(self.process, checkpoint_id)))
    }

    fn is_pinned_below(&self, checkpoint_id: u64) -> io::Result<bool> {
        Ok(self.shared.locks.is_pinned_below(self.process, checkpoint_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_synced_bytes_under_synced_names_only() {
        let disk = MemDisk::new();
        let file = disk.open("a.tmp", Access::Create).expect("created");
        disk.write(file, 0, b"one").expect("written");
        assert_eq!(disk.durable_image().len(), 0);
        disk.sync(file).expect("synced");
        disk.sync_dir().expect("synced");
        disk.write(file, 3, b"two").expect("written");
        disk.rename("a.tmp", "a").expect("renamed");
        assert!(!disk.is_synced("a") && !disk.is_dir_synced());
        let left = disk.durable_image();
        assert_eq!(left, BTreeMap::from([("a.tmp".to_owned(), b"one".to_vec())]));
        disk.sync_dir().expect("synced");
        disk.sync(file).expect("synced");
        assert!(disk.is_synced("a") && disk.is_dir_synced());
        assert_eq!(disk.durable_image(), disk.image());
        assert_eq!(disk.contents("a").expect("there"), b"onetwo");
    }

    #[test]
    fn locks_and_pins_of_another_process_count_and_own_pins_do_not() {
        let disk = MemDisk::new();
        let other = disk.other_process();
        let writer = disk.lock_writer().expect("works").expect("free");
        assert!(disk.clone().lock_writer().expect("works").is_none());
        assert!(other.lock_writer().expect("works").is_none());
        drop(writer);
        assert!(other.lock_writer().expect("works").is_some());
        let first = other.pin(5).expect("works");
        let second = other.pin(5).expect("works");
        drop(first);
        assert!(disk.is_pinned_below(6).expect("works"));
        assert!(!disk.is_pinned_below(5).expect("works"));
        assert!(!other.is_pinned_below(6).expect("works"));
        drop(second);
        assert!(!disk.is_pinned_below(6).expect("works"));
    }
}
