//! Writing an epoch: batch after batch into a file that has a temporary name until it is whole.
//!
//! The invariant: the final name leads to a file whose every byte is durable, or to none; what an
//! interrupted writer left is never read and is overwritten by the next.

use std::path::Path;
use std::sync::Arc;

use ng_io::{Appender, BackendChoice, Disk, Lock, OpenOptions, open_dir};
use ng_store::Snapshot;
use ng_types::Reservation;
use ng_types::checksum;

use super::error::CompiledError;
use super::format::{Entry, EpochId, Head, PIECE_BYTES, Tail};
use super::hot::HotSet;
use super::record::{self, Encoded};
use crate::{MiniBatch, SampleError};

/// Writes one epoch to a file of its own.
pub struct EpochWriter {
    snapshot: Arc<Snapshot>,
    hot: Arc<HotSet>,
    partial: Partial,
    file: Appender,
    entries: Vec<Entry>,
    tail: Tail,
    _lock: Lock,
    _held: Reservation,
}

impl EpochWriter {
    /// Begins the file `name` in `directory` for the epoch `id`, sampled from `snapshot`.
    ///
    /// # Errors
    /// [`CompiledError`], [`SampleError::Budget`].
    pub fn create(
        snapshot: Arc<Snapshot>,
        directory: &Path,
        name: &str,
        id: EpochId,
        hot: Arc<HotSet>,
    ) -> Result<Self, SampleError> {
        let held = snapshot.reserve(Appender::BUFFER_BYTES as u64 + hot.map_bytes());
        let held = held.map_err(SampleError::from_budget)?;
        let file_name = || format!("{}/{name}", directory.display());
        if hot.tables.len() > Tail::TABLES_MAX {
            return Err(SampleError::Spec(format!("{} tensors are too many", hot.tables.len())));
        }
        let options = OpenOptions { queue_depth: 1, ..OpenOptions::default() };
        let disk = open_dir(directory, BackendChoice::Pread, &options);
        let disk = disk.map_err(CompiledError::from)?.disk;
        let failed =
            |action| move |source| CompiledError::Directory { action, file: file_name(), source };
        let lock = disk.lock_writer().map_err(failed("lock"))?;
        let lock = lock.ok_or_else(|| CompiledError::Busy { file: file_name() })?;
        let partial = Partial::name_for(name);
        match disk.remove(&partial) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("remove what is left of")(error).into());
            }
            _ => {}
        }
        let mut file =
            Appender::create(Arc::clone(&disk), &partial).map_err(CompiledError::from)?;
        let head = Head { id, hot: HotSet::clone(&hot) }.encode().map_err(SampleError::Spec)?;
        file.write(&head).map_err(CompiledError::from)?;
        let (head_digest, rows_max) = (Head::digest(&head), vec![0; hot.tables.len()]);
        let tail = Tail { head_digest, rows_max, ..Tail::default() };
        let partial = Partial { disk, name: Some(name.to_owned()) };
        let (entries, _lock, _held) = (Vec::new(), lock, held);
        Ok(Self { snapshot, hot, partial, file, entries, tail, _lock, _held })
    }

    /// Appends the next batch. Its columns must be as they are stored.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if a column is missing or another than it is stored,
    /// [`CompiledError`].
    pub fn push(&mut self, batch: &MiniBatch) -> Result<(), SampleError> {
        let number = self.entries.len() as u64;
        let hot = Arc::clone(&self.hot);
        let Encoded { head, cold } = record::encode(batch, number, self.snapshot.catalog(), &hot);
        let mut record = Record { file: &mut self.file, crcs: Vec::new(), bytes: 0 };
        let offset = record.file.position();
        record.put(&head)?;
        for ((table, cold), most) in hot.tables.iter().zip(&cold).zip(&mut self.tail.rows_max) {
            let column = batch.columns.iter().find(|column| column.tensor == table.tensor);
            let rows = batch.row_ids(table.tensor.owner).len();
            let width = table.width as usize;
            let bytes = column.map_or(&[][..], |column| column.bytes.as_slice());
            if bytes.len() != rows * width {
                let what = format!("column {:?} is not as it is stored", table.tensor);
                return Err(SampleError::Spec(what));
            }
            *most = rows.max(*most as usize) as u64;
            record.pad(record::ALIGN_BYTES)?;
            for run in cold.chunk_by(|a, b| a + 1 == *b) {
                let from = run[0] as usize * width;
                record.put(&bytes[from..from + run.len() * width])?;
            }
        }
        record.pad(ng_io::BLOCK_BYTES)?;
        let entry = Entry { offset, bytes: record.bytes, crc: checksum::of_pieces(&record.crcs) };
        self.entries.push(entry);
        self.tail.record_bytes_max = self.tail.record_bytes_max.max(entry.bytes);
        self.tail.batch_bytes_max = self.tail.batch_bytes_max.max(batch.topology_bytes());
        Ok(())
    }

    /// Batches so far.
    pub fn num_batches(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Makes the file durable and gives it its name; says how long it is.
    ///
    /// # Errors
    /// [`CompiledError`].
    pub fn finish(mut self) -> Result<u64, CompiledError> {
        let index: Vec<u8> = self.entries.iter().flat_map(Entry::encode).collect();
        self.tail.index_offset = self.file.position();
        self.tail.index_crc = checksum::of(&index);
        self.tail.num_batches = self.num_batches();
        let mut end = Record { file: &mut self.file, crcs: Vec::new(), bytes: 0 };
        end.put(&index)?;
        end.pad(ng_io::BLOCK_BYTES)?;
        end.put(&self.tail.encode())?;
        let bytes = self.file.finish()?;
        self.partial.publish()?;
        Ok(bytes)
    }
}

/// A file under its temporary name, which is removed unless the file gets its own.
struct Partial {
    disk: Arc<dyn Disk>,
    /// The final name.
    name: Option<String>,
}

impl Partial {
    /// The temporary name of a file.
    fn name_for(name: &str) -> String {
        format!("{name}.partial")
    }

    /// Gives the file its name.
    fn publish(&mut self) -> Result<(), CompiledError> {
        let Some(name) = self.name.take() else { return Ok(()) };
        let renamed = self.disk.rename(&Self::name_for(&name), &name);
        renamed.and_then(|()| self.disk.sync_dir()).map_err(|source| {
            let action = "give its name to";
            CompiledError::Directory { action, file: name, source }
        })
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // What cannot be removed now is removed by the next writer.
            let _ = self.disk.remove(&Self::name_for(name));
        }
    }
}

/// Bytes of one record on their way to the file.
struct Record<'a> {
    file: &'a mut Appender,
    /// By piece.
    crcs: Vec<u32>,
    bytes: u64,
}

impl Record<'_> {
    fn put(&mut self, mut bytes: &[u8]) -> Result<(), CompiledError> {
        while !bytes.is_empty() {
            let begun = (self.bytes % PIECE_BYTES as u64) as usize;
            if begun == 0 {
                self.crcs.push(0);
            }
            let (part, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES - begun));
            if let Some(crc) = self.crcs.last_mut() {
                *crc = checksum::extended(*crc, part);
            }
            self.file.write(part)?;
            self.bytes += part.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    fn pad(&mut self, to: usize) -> Result<(), CompiledError> {
        let missing = self.bytes.next_multiple_of(to as u64) - self.bytes;
        self.put(&[0; ng_io::BLOCK_BYTES][..missing as usize])
    }
}
