//! The folder of a run: tables of rows, and a record of what is done.
//!
//! Rows of f32 stand one after the other in the file of their table. The record has a checksum for
//! each piece of [`PIECE_ROWS`] rows. The invariants: the record names no row that is not durable;
//! a row that leaves this module matches its checksum; one process at a time has the folder.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use ng_io::{
    BLOCK_BYTES, BackendChoice, Disk, FileId, IoCounts, Lock, OpenOptions, READ_BYTES_MAX, ReadOp,
    Reader, Writer, open_dir,
};
use ng_simd::f32_bytes_mut;
use ng_types::canary::planted;
use ng_types::checksum;
use serde::{Deserialize, Serialize};

use super::error::LayerwiseError;

/// Rows under one checksum. Even rows of one element fill whole blocks then.
pub(super) const PIECE_ROWS: u64 = 1024;

/// Written in turn, so that one of them is whole at any moment.
const SLOTS: [&str; 2] = ["record.a", "record.b"];
const RECORD_VERSION: u32 = 1;

/// What is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub version: u32,
    /// Higher in each later record.
    pub serial: u64,
    /// What is computed: the snapshot, the model, and the plan.
    pub key: String,
    /// Passes that are complete.
    pub passes: usize,
    /// Rows of the next pass that are complete.
    pub rows: u64,
    /// By table, the checksums of its pieces.
    pub pieces: BTreeMap<String, Vec<u32>>,
}

/// The record in its file.
#[derive(Serialize, Deserialize)]
struct Sealed {
    checksum: u32,
    record: String,
}

/// The folder of a run.
pub(super) struct Work {
    disk: Arc<dyn Disk>,
    reader: Reader,
    folder: String,
    _lock: Lock,
    record: RwLock<Record>,
    tables: RwLock<BTreeMap<String, Arc<Table>>>,
    writers: Mutex<BTreeMap<String, Writer>>,
    slots: [Writer; 2],
}

/// A table that can be read.
pub(super) struct Table {
    name: String,
    file: FileId,
    /// Elements of a row.
    pub width: usize,
    pub rows: u64,
}

impl Work {
    /// Opens a folder, which is there. Whatever another run left there goes, unless its key is
    /// `key` and it is not to begin anew; the second is how that was.
    pub fn open(path: &Path, key: &str, is_fresh: bool) -> Result<(Self, Begun), LayerwiseError> {
        let disk = open_dir(path, BackendChoice::Auto, &OpenOptions::default())?.disk;
        let reader = Reader::in_directory(Arc::clone(&disk), path);
        Self::open_on(disk, reader, path.display().to_string(), key, is_fresh)
    }

    /// The same on any disk.
    fn open_on(
        disk: Arc<dyn Disk>,
        reader: Reader,
        folder: String,
        key: &str,
        is_fresh: bool,
    ) -> Result<(Self, Begun), LayerwiseError> {
        let failed = |action| {
            let folder = folder.clone();
            move |source| LayerwiseError::Folder { action, folder, source }
        };
        let lock = disk.lock_writer().map_err(failed("lock"))?;
        let Some(lock) = lock else { return Err(LayerwiseError::Busy { folder }) };
        let found = read_record(&reader);
        let (record, begun) = match found {
            Some(_) if is_fresh => (Record::new(key), Begun::Anew("requested")),
            Some(record) if record.key == key => {
                let (passes, rows) = (record.passes, record.rows);
                (record, Begun::Resumed { passes, rows })
            }
            Some(_) => (
                Record::new(key),
                Begun::Anew("the folder belongs to another snapshot, model or device"),
            ),
            None => (Record::new(key), Begun::New),
        };
        if !matches!(begun, Begun::Resumed { .. }) {
            clear(&*disk).map_err(failed("clear"))?;
        }
        let slot = |name| {
            let opened = Writer::open_or_create(Arc::clone(&disk), name);
            opened.map_err(|source| LayerwiseError::Write { folder: folder.clone(), source })
        };
        let slots = [slot(SLOTS[0])?, slot(SLOTS[1])?];
        disk.sync_dir().map_err(failed("sync"))?;
        let this = Self {
            reader,
            folder: folder.clone(),
            _lock: lock,
            record: RwLock::new(record),
            tables: RwLock::default(),
            writers: Mutex::default(),
            slots,
            disk,
        };
        Ok((this, begun))
    }

    /// What is done.
    pub fn done(&self) -> Record {
        self.record.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The folder, for messages.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Counts of what was read.
    pub fn read_counts(&self) -> IoCounts {
        self.reader.stats().counts()
    }

    /// Removes the tables and the records, once nobody needs them.
    pub fn clear(&self) -> Result<(), LayerwiseError> {
        clear(&*self.disk).map_err(|source| LayerwiseError::Folder {
            action: "clear",
            folder: self.folder.clone(),
            source,
        })
    }

    fn failed(&self, source: ng_io::WriteError) -> LayerwiseError {
        LayerwiseError::Write { folder: self.folder.clone(), source }
    }

    /// Has room made for a table of so many rows, which is written from front to back.
    pub fn begin_table(
        &mut self,
        name: &str,
        width: usize,
        rows: u64,
    ) -> Result<(), LayerwiseError> {
        let file = format!("{name}.rows");
        let mut writer =
            Writer::open_or_create(Arc::clone(&self.disk), &file).map_err(|e| self.failed(e))?;
        let bytes = (rows * row_bytes(width)).next_multiple_of(BLOCK_BYTES as u64);
        writer.allocate(bytes).map_err(|e| self.failed(e))?;
        self.disk.sync_dir().map_err(|source| LayerwiseError::Folder {
            action: "sync",
            folder: self.folder.clone(),
            source,
        })?;
        self.writers().insert(name.to_owned(), writer);
        self.note_table(name, &file, width, rows)
    }

    /// Opens a table that an earlier pass wrote.
    pub fn open_table(&self, name: &str, width: usize, rows: u64) -> Result<(), LayerwiseError> {
        self.note_table(name, &format!("{name}.rows"), width, rows)
    }

    fn note_table(
        &self,
        name: &str,
        file: &str,
        width: usize,
        rows: u64,
    ) -> Result<(), LayerwiseError> {
        let table = Table { name: name.to_owned(), file: self.reader.open(file)?, width, rows };
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        tables.insert(name.to_owned(), Arc::new(table));
        Ok(())
    }

    fn writers(&self) -> MutexGuard<'_, BTreeMap<String, Writer>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table.
    pub fn table(&self, name: &str) -> Option<Arc<Table>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Writes rows of a table behind those that it has; `first` is a whole number of pieces.
    pub fn write_rows(&self, name: &str, first: u64, rows: &[f32]) -> Result<(), LayerwiseError> {
        let Some(table) = self.table(name) else { return Ok(()) };
        let mut bytes = vec![0; 4 * rows.len()];
        for (to, x) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(rows) {
            *to = x.to_le_bytes();
        }
        let row_bytes = row_bytes(table.width);
        let sums = bytes.chunks((PIECE_ROWS * row_bytes) as usize).map(checksum::of);
        let sums: Vec<u32> = sums.collect();
        {
            let mut record = self.record.write().unwrap_or_else(PoisonError::into_inner);
            let pieces = record.pieces.entry(name.to_owned()).or_default();
            pieces.truncate((first / PIECE_ROWS) as usize);
            pieces.extend(sums);
        }
        let mut writers = self.writers();
        let Some(writer) = writers.get_mut(name) else { return Ok(()) };
        let offset = first * row_bytes;
        let mut written = writer.write_at(offset, &bytes);
        let end = offset + bytes.len() as u64;
        let padding = end.next_multiple_of(BLOCK_BYTES as u64) - end;
        if written.is_ok() && padding > 0 {
            // The last rows: reads are of whole blocks.
            written = writer.write_at(end, &vec![0; padding as usize]);
        }
        written.map_err(|error| self.failed(error))
    }

    /// Makes what was written durable, and says that so many passes and rows are done.
    pub fn commit(&mut self, passes: usize, rows: u64) -> Result<(), LayerwiseError> {
        let writers = self.writers.get_mut().unwrap_or_else(PoisonError::into_inner);
        for writer in writers.values_mut() {
            if planted("record_before_rows") {
                continue;
            }
            writer
                .sync()
                .map_err(|source| LayerwiseError::Write { folder: self.folder.clone(), source })?;
        }
        if rows == 0 {
            writers.clear();
        }
        let record = self.record.get_mut().unwrap_or_else(PoisonError::into_inner);
        (record.passes, record.rows, record.serial) = (passes, rows, record.serial + 1);
        let sealed = seal(record).map_err(|source| LayerwiseError::Folder {
            action: "write the progress record of",
            folder: self.folder.clone(),
            source,
        })?;
        let slot = &mut self.slots[(record.serial % 2) as usize];
        // Spaces overwrite what is left of a longer record.
        let len = sealed.len().next_multiple_of(BLOCK_BYTES).max(slot.len() as usize);
        let mut padded = sealed;
        padded.resize(len, b' ');
        let written = slot.write_at(0, &padded).and_then(|()| slot.sync());
        written.map_err(|source| LayerwiseError::Write { folder: self.folder.clone(), source })
    }

    /// Reads rows of a table, and checks them.
    pub fn read_rows(&self, table: &Table, rows: Range<u64>) -> Result<Vec<f32>, LayerwiseError> {
        let mut all = vec![0.0; (rows.end - rows.start) as usize * table.width];
        self.read_rows_to(table, rows, f32_bytes_mut(&mut all))?;
        Ok(all)
    }

    /// The same, to memory for them.
    pub fn read_rows_to(
        &self,
        table: &Table,
        rows: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), LayerwiseError> {
        let width = row_bytes(table.width);
        let pieces = rows.start / PIECE_ROWS..rows.end.div_ceil(PIECE_ROWS);
        let covered = pieces.start * PIECE_ROWS..table.rows.min(pieces.end * PIECE_ROWS);
        let start = covered.start * width;
        if covered == rows {
            self.read_bytes(table.file, start, out)?;
            return self.check(table, pieces, out);
        }
        let mut bytes = vec![0_u8; ((covered.end - covered.start) * width) as usize];
        self.read_bytes(table.file, start, &mut bytes)?;
        self.check(table, pieces, &bytes)?;
        let skipped = ((rows.start - covered.start) * width) as usize;
        out.copy_from_slice(&bytes[skipped..skipped + out.len()]);
        Ok(())
    }

    /// Checks whole pieces.
    fn check(&self, table: &Table, pieces: Range<u64>, bytes: &[u8]) -> Result<(), LayerwiseError> {
        let record = self.record.read().unwrap_or_else(PoisonError::into_inner);
        let known = record.pieces.get(&table.name).map_or(&[][..], Vec::as_slice);
        let piece_bytes = (PIECE_ROWS * row_bytes(table.width)) as usize;
        for (piece, bytes) in pieces.zip(bytes.chunks(piece_bytes)) {
            if known.get(piece as usize) != Some(&checksum::of(bytes)) {
                let first = piece * PIECE_ROWS;
                let last = table.rows.min(first + PIECE_ROWS) - 1;
                let file = format!("{}/{}.rows", self.folder, table.name);
                return Err(LayerwiseError::Damaged { file, first, last });
            }
        }
        Ok(())
    }

    fn read_bytes(&self, file: FileId, start: u64, out: &mut [u8]) -> Result<(), LayerwiseError> {
        let end = (out.len() as u64).next_multiple_of(BLOCK_BYTES as u64);
        let (mut at, mut failure) = (0, None);
        let mut next = || {
            let len = (end - at).min(READ_BYTES_MAX as u64);
            let op = ReadOp { tag: at, file, offset: start + at, len: len as u32 };
            at += len;
            (len > 0).then_some(op)
        };
        self.reader.read(&mut next, &mut |op, found| match found {
            Ok(found) => {
                let to = &mut out[op.tag as usize..];
                let len = to.len().min(found.len());
                to[..len].copy_from_slice(&found[..len]);
            }
            Err(error) => failure = Some(error),
        })?;
        failure.map_or(Ok(()), |error| Err(error.into()))
    }
}

impl Record {
    fn new(key: &str) -> Self {
        Self { version: RECORD_VERSION, key: key.to_owned(), ..Self::default() }
    }
}

/// How a run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// In an empty folder.
    New,
    /// Where an earlier run ended.
    Resumed {
        /// Passes that were complete.
        passes: usize,
        /// Rows of the next pass that were complete.
        rows: u64,
    },
    /// What an earlier run left was dropped.
    Anew(&'static str),
}

fn row_bytes(width: usize) -> u64 {
    4 * width as u64
}

/// Removes what runs left. The records go first and for good: one that outlives a table would name
/// rows that are gone.
fn clear(disk: &dyn Disk) -> io::Result<()> {
    let names = disk.list()?;
    let (records, others): (Vec<_>, Vec<_>) =
        names.iter().partition(|name| SLOTS.contains(&name.as_str()));
    for name in records {
        disk.remove(name)?;
    }
    disk.sync_dir()?;
    for name in others.iter().filter(|name| name.ends_with(".rows")) {
        disk.remove(name)?;
    }
    disk.sync_dir()
}

fn seal(record: &Record) -> io::Result<Vec<u8>> {
    let record = serde_json::to_string(record)?;
    Ok(serde_json::to_vec(&Sealed { checksum: checksum::of(record.as_bytes()), record })?)
}

/// The newer of the records that are whole.
fn read_record(reader: &Reader) -> Option<Record> {
    let read = |name: &&str| {
        let file = reader.open(name).ok()?;
        let bytes = reader.read_at(file, 0, reader.len(file).ok()? as usize).ok()?;
        let sealed: Sealed = serde_json::from_slice(&bytes).ok()?;
        if checksum::of(sealed.record.as_bytes()) != sealed.checksum {
            return None;
        }
        let record: Record = serde_json::from_str(&sealed.record).ok()?;
        (record.version == RECORD_VERSION).then_some(record)
    };
    SLOTS.iter().filter_map(read).max_by_key(|record| record.serial)
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use ng_testing::{Fault, FaultDisk, FaultPlan, MemDisk, Room};

    use super::*;

    const ROWS: u64 = 3 * PIECE_ROWS + 7;

    fn open(disk: &MemDisk, key: &str) -> Result<(Work, Begun), LayerwiseError> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let reader = Reader::new(Arc::clone(&disk));
        Work::open_on(disk, reader, "work".to_owned(), key, false)
    }

    fn rows(from: u64, to: u64) -> Vec<f32> {
        (2 * from..2 * to).map(|x| x as f32).collect()
    }

    /// Two blocks of a table, of which the first is done.
    fn begun(disk: &MemDisk) -> Work {
        let (mut work, begun) = open(disk, "a").expect("opens");
        assert_eq!(begun, Begun::New);
        work.begin_table("t", 2, ROWS).expect("has room");
        work.write_rows("t", 0, &rows(0, 2 * PIECE_ROWS)).expect("has room");
        work.commit(0, 2 * PIECE_ROWS).expect("is durable");
        work.write_rows("t", 2 * PIECE_ROWS, &rows(2 * PIECE_ROWS, ROWS)).expect("has room");
        work
    }

    #[test]
    fn what_was_committed_is_there_after_a_crash_and_what_was_not_is_written_again() {
        let disk = MemDisk::new();
        drop(begun(&disk));
        let (mut work, begun) = open(&disk, "a").expect("opens");
        assert_eq!(begun, Begun::Resumed { passes: 0, rows: 2 * PIECE_ROWS });
        work.begin_table("t", 2, ROWS).expect("is there");
        work.write_rows("t", 2 * PIECE_ROWS, &rows(2 * PIECE_ROWS, ROWS)).expect("has room");
        work.commit(1, 0).expect("is durable");
        let table = work.table("t").expect("is known");
        for some in [0..ROWS, 5..9, PIECE_ROWS - 1..2 * PIECE_ROWS + 1, ROWS - 1..ROWS] {
            let found = work.read_rows(&table, some.clone()).expect("is sound");
            assert_eq!(found, rows(some.start, some.end));
        }
    }

    #[test]
    fn a_power_cut_loses_nothing_that_the_record_names() {
        let disk = MemDisk::new();
        drop(begun(&disk));
        let after = MemDisk::from_image(disk.durable_image());
        let (work, begun) = open(&after, "a").expect("opens");
        assert_eq!(begun, Begun::Resumed { passes: 0, rows: 2 * PIECE_ROWS });
        work.open_table("t", 2, 2 * PIECE_ROWS).expect("is there");
        let table = work.table("t").expect("is known");
        let found = work.read_rows(&table, 0..2 * PIECE_ROWS).expect("is durable");
        assert_eq!(found, rows(0, 2 * PIECE_ROWS));
    }

    #[test]
    fn another_key_begins_anew() {
        let disk = MemDisk::new();
        drop(begun(&disk));
        let (work, begun) = open(&disk, "b").expect("opens");
        assert!(matches!(begun, Begun::Anew(_)));
        assert_eq!(work.done(), Record::new("b"));
    }

    #[test]
    fn a_full_disk_is_one_error_and_the_run_goes_on_once_there_is_room() {
        let disk = MemDisk::new();
        let (mut work, _) = open(&disk, "a").expect("opens");
        disk.set_room(Room::Full);
        let full =
            work.begin_table("t", 2, ROWS).and_then(|()| work.write_rows("t", 0, &rows(0, 9)));
        let message = full.expect_err("is full").to_string();
        assert!(message.contains("the next run resumes from them"), "{message}");
        drop(work);
        disk.set_room(Room::Free);
        drop(begun(&disk));
        assert!(matches!(open(&disk, "a"), Ok((_, Begun::Resumed { .. }))));
    }

    /// A complete table, and two records of it.
    fn complete(disk: &MemDisk, name: &str) -> Work {
        let (mut work, _) = open(disk, "a").expect("opens");
        work.begin_table(name, 2, ROWS).expect("has room");
        work.write_rows(name, 0, &rows(0, ROWS)).expect("has room");
        work.commit(0, ROWS).expect("is durable");
        work.commit(1, 0).expect("is durable");
        work
    }

    #[test]
    fn a_removal_that_is_cut_off_leaves_no_record_of_rows_that_are_gone() {
        // Directories are listed in any order: before and behind the records.
        for (name, steps) in ["a", "z"].iter().flat_map(|name| (0..6).map(move |n| (*name, n))) {
            let disk = MemDisk::new();
            drop(complete(&disk, name));
            let fails = FaultPlan::new(0).with_fault_at(steps, Fault::Error, true);
            let removed = clear(&FaultDisk::new(Arc::new(disk.clone()), fails));
            for left in [disk.image(), disk.durable_image()] {
                let (work, begun) = open(&MemDisk::from_image(left), "a").expect("opens");
                let Begun::Resumed { .. } = begun else { continue };
                assert!(removed.is_err(), "it says that all is gone, and a record is there");
                work.open_table(name, 2, ROWS).expect("is there as long as a record is");
                let table = work.table(name).expect("is known");
                assert_eq!(work.read_rows(&table, 0..ROWS).expect("is sound"), rows(0, ROWS));
            }
        }
    }

    #[test]
    fn two_runs_at_once_are_refused() {
        let disk = MemDisk::new();
        let _work = begun(&disk);
        let other = open(&disk.other_process(), "a");
        assert!(matches!(other, Err(LayerwiseError::Busy { .. })));
    }
}
