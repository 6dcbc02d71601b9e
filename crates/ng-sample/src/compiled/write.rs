//! Writing an epoch: batch after batch into a sealed file.
//!
//! The invariant: columns are as they are stored, or the batch is refused.

use std::path::Path;
use std::sync::Arc;

use ng_io::BLOCK_BYTES;
use ng_store::{SealedWriter, Snapshot};
use ng_types::Reservation;
use ng_types::checksum;

use super::error::CompiledError;
use super::format::{ALIGN_BYTES, EPOCH, Entry, EpochId, HeadText, PIECE_BYTES, Tail};
use super::hot::{HotSet, PackedTable};
use super::hot_rows::write_hot;
use crate::{MiniBatch, SampleError, record};

/// Writes one epoch to a file of its own.
pub struct EpochWriter {
    snapshot: Arc<Snapshot>,
    hot: Arc<HotSet>,
    file: SealedWriter,
    entries: Vec<Entry>,
    tail: Tail,
    _held: Reservation,
}

impl EpochWriter {
    /// Begins the file `name` in `directory` for the epoch `id`, sampled from `snapshot`. The first
    /// epoch of a set gets the hot rows, which are read here.
    ///
    /// # Errors
    /// [`CompiledError`], [`SampleError::Budget`], [`SampleError::Read`].
    pub fn create(
        snapshot: Arc<Snapshot>,
        directory: &Path,
        name: &str,
        id: EpochId,
        hot: Arc<HotSet>,
    ) -> Result<Self, SampleError> {
        let held = snapshot.reserve(SealedWriter::BUFFER_BYTES + hot.map_bytes())?;
        if hot.tables.len() > Tail::TABLES_MAX {
            return Err(SampleError::Spec(format!(
                "a compiled epoch can have at most {} tensors, got {}",
                Tail::TABLES_MAX,
                hot.tables.len()
            )));
        }
        let has_hot_rows = id.has_hot_rows();
        let text = HeadText::new(id, &hot);
        let file = SealedWriter::create(directory, name, &EPOCH, &text, &hot.maps());
        let mut file = file.map_err(CompiledError::from)?;
        let mut tail = Tail { rows_max: vec![0; hot.tables.len()], ..Tail::default() };
        if has_hot_rows {
            tail.hot_crc = write_hot(&snapshot, &hot, &mut file)?;
        }
        Ok(Self { snapshot, hot, file, entries: Vec::new(), tail, _held: held })
    }

    /// Appends the next batch. Its columns must be as they are stored.
    ///
    /// # Errors
    /// [`SampleError::Spec`] if a column is missing or another than it is stored,
    /// [`CompiledError`].
    pub fn push(&mut self, batch: &MiniBatch) -> Result<(), SampleError> {
        let number = self.entries.len() as u64;
        let hot = Arc::clone(&self.hot);
        let cold: Vec<Vec<u32>> = hot.tables.iter().map(|table| cold_rows(batch, table)).collect();
        let (catalog, mut head) = (self.snapshot.catalog(), Vec::new());
        let (nodes, edges) = record::graph_of(batch, catalog);
        record::encode(number, (&nodes, &edges), cold.iter().map(Vec::len), catalog, &mut head);
        let mut record = Record { file: &mut self.file, crcs: Vec::new(), bytes: 0 };
        let offset = record.file.position();
        record.put(&head)?;
        for ((table, cold), most) in hot.tables.iter().zip(&cold).zip(&mut self.tail.rows_max) {
            let column = batch.columns.iter().find(|column| column.tensor == table.tensor);
            let rows = batch.row_ids(table.tensor.owner).len();
            let width = table.width as usize;
            let bytes = column.map_or(&[][..], |column| column.bytes.as_slice());
            if bytes.len() != rows * width {
                let what =
                    format!("column {:?} does not have the size of its stored rows", table.tensor);
                return Err(SampleError::Spec(what));
            }
            *most = rows.max(*most as usize) as u64;
            record.pad(ALIGN_BYTES)?;
            for run in cold.chunk_by(|a, b| a + 1 == *b) {
                let from = run[0] as usize * width;
                record.put(&bytes[from..from + run.len() * width])?;
            }
        }
        record.pad(BLOCK_BYTES)?;
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
        self.file.append(&index)?;
        self.file.pad_to(BLOCK_BYTES as u64)?;
        Ok(self.file.seal(Some(self.tail.encode()))?)
    }
}

/// The numbers of the batch's rows of a table that are not hot.
fn cold_rows(batch: &MiniBatch, table: &PackedTable) -> Vec<u32> {
    let ids = (0..).zip(batch.row_ids(table.tensor.owner));
    let cold = ids.filter(|(_, id)| table.hot.place(**id as u64).is_none());
    cold.map(|(number, _)| number).collect()
}

/// Bytes of one record, or of the hot rows, on their way to the file.
pub(super) struct Record<'a> {
    pub file: &'a mut SealedWriter,
    /// By piece.
    pub crcs: Vec<u32>,
    pub bytes: u64,
}

impl Record<'_> {
    pub fn put(&mut self, mut bytes: &[u8]) -> Result<(), CompiledError> {
        while !bytes.is_empty() {
            let begun = (self.bytes % PIECE_BYTES as u64) as usize;
            if begun == 0 {
                self.crcs.push(0);
            }
            let (part, rest) = bytes.split_at(bytes.len().min(PIECE_BYTES - begun));
            if let Some(crc) = self.crcs.last_mut() {
                *crc = checksum::extended(*crc, part);
            }
            self.file.append(part)?;
            self.bytes += part.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    pub fn pad(&mut self, to: usize) -> Result<(), CompiledError> {
        let missing = self.bytes.next_multiple_of(to as u64) - self.bytes;
        self.put(&[0; BLOCK_BYTES][..missing as usize])
    }
}
