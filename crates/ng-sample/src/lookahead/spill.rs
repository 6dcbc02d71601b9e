//! Sampled batches on disk, while the memory that sampling took serves rows.
//!
//! The file has no name: it goes when the process goes, however that ends. What it holds is read
//! back by the same process, so it has no format that outlives it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ng_io::{ScratchError, ScratchFile};
use ng_store::Snapshot;
use ng_types::Reservation;

use super::pieces::Sampled;
use crate::SampleError;
use crate::compact::CompactSample;
use crate::record::{self, Decoded};

/// Samples of consecutive batches.
pub(crate) struct Spill {
    snapshot: Arc<Snapshot>,
    file: ScratchFile,
    first: u64,
    /// Where each is: its first byte and its length. Threads finish their samples in any order.
    places: BTreeMap<u64, (u64, usize)>,
    bytes: Vec<u8>,
}

/// A file without a name in `directory` if it can be written to, else in that for temporary files.
/// What it reads and writes is counted with the reads of `snapshot`.
pub(crate) fn scratch_in(
    directory: Option<&Path>,
    snapshot: &Snapshot,
) -> Result<ScratchFile, ScratchError> {
    let beside = directory.and_then(|directory| ScratchFile::create_in(directory).ok());
    let file = beside.map_or_else(|| ScratchFile::create_in(&std::env::temp_dir()), Ok)?;
    Ok(file.counting_into(snapshot.io_stats().clone()))
}

impl Spill {
    /// An empty one for batches from `first` on, in `directory` if it can be written to, else in
    /// that for temporary files.
    pub fn create(
        first: u64,
        directory: Option<&Path>,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Self, ScratchError> {
        let file = scratch_in(directory, snapshot)?;
        let snapshot = Arc::clone(snapshot);
        Ok(Self { snapshot, file, first, places: BTreeMap::new(), bytes: Vec::new() })
    }

    /// Nothing was written yet, and `first` will be the first batch.
    pub fn start_at(&mut self, first: u64) {
        assert!(self.places.is_empty(), "samples were written already");
        self.first = first;
    }

    /// The first batch.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The batch after the last one, once all before it were written.
    pub fn end(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// Whether a batch is here.
    pub fn has(&self, index: u64) -> bool {
        self.places.contains_key(&index)
    }

    /// Whether a batch is the last one here.
    pub fn ends_with(&self, index: u64) -> bool {
        self.places.last_key_value().is_some_and(|(last, _)| *last == index)
    }

    /// Writes a batch.
    pub fn write(&mut self, sampled: &Sampled) -> Result<(), ScratchError> {
        let (bytes, catalog) = (&mut self.bytes, self.snapshot.catalog());
        bytes.clear();
        let CompactSample { nodes, edges, .. } = &sampled.sample;
        // Types without an order, or without nodes, have none.
        let ordered = (0..nodes.len()).map(|at| sampled.ordered.get(at)?.as_deref());
        let counts = ordered.clone().map(|rows| rows.map_or(0, <[u32]>::len));
        record::encode(sampled.index, (nodes, edges), counts, catalog, bytes);
        for rows in ordered.flatten() {
            record::put_all(bytes, rows.iter().map(|row| row.to_le_bytes()));
        }
        let at = self.file.append(&self.bytes)?;
        let before = self.places.insert(sampled.index, (at, self.bytes.len()));
        assert!(before.is_none(), "the sample of batch {} was written before", sampled.index);
        Ok(())
    }

    /// Bytes that batch `index` takes in memory.
    pub fn num_bytes(&self, index: u64) -> u64 {
        self.places[&index].1 as u64
    }

    /// Reads batch `index` back; `held` pays for it.
    pub fn read(
        &mut self,
        index: u64,
        held: impl FnOnce(u64) -> Result<Reservation, SampleError>,
    ) -> Result<Sampled, SampleError> {
        let (at, len) = self.places[&index];
        let held = held(len as u64)?;
        self.bytes.resize(len, 0);
        self.file.read_exact_at(at, &mut self.bytes)?;
        let catalog = self.snapshot.catalog();
        let decoded = record::decode(&self.bytes, index, catalog.node_types.len(), catalog);
        // What was written is what is read, so this is a defect and not damage.
        let decoded =
            decoded.unwrap_or_else(|what| panic!("the kept sample of batch {index}: {what}"));
        let Decoded { nodes, edges, behind, end } = decoded;
        let mut rows = self.bytes[end..].as_chunks().0.iter().map(|row| u32::from_le_bytes(*row));
        let ordered = behind
            .into_iter()
            .map(|count| (count > 0).then(|| rows.by_ref().take(count).collect()));
        let ordered = ordered.collect();
        let sample = CompactSample { nodes, edges, _held: held };
        Ok(Sampled { index, sample, ordered, held: None })
    }
}
