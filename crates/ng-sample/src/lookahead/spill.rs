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
use crate::compact::{CompactEdges, CompactSample, Extras};
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
        let CompactSample { nodes, edges, extras, .. } = &sampled.sample;
        // Types without an order, or without nodes, have none.
        let ordered = (0..nodes.len()).map(|at| sampled.ordered.get(at)?.as_deref());
        let of_types = (0..nodes.len()).map(|at| extras.subgraphs.get(at).map(Vec::as_slice));
        let CompactEdges { rows, counts, weights, per_hop, .. } = &extras.visits;
        let weights: Vec<u32> = weights.iter().map(|weight| weight.to_bits()).collect();
        let per_hop: Vec<u32> = per_hop.iter().map(|count| *count as u32).collect();
        let others: [&[u32]; 5] = [&extras.targets, rows, counts, &weights, &per_hop];
        let narrow: Vec<Option<&[u32]>> = ordered.chain(of_types).chain(others.map(Some)).collect();
        let counts = narrow.iter().map(|numbers| numbers.map_or(0, <[u32]>::len));
        let counts = counts.chain([extras.times.len()]);
        record::encode(sampled.index, (nodes, edges), counts, catalog, bytes);
        for numbers in narrow.into_iter().flatten() {
            record::put_all(bytes, numbers.iter().map(|number| number.to_le_bytes()));
        }
        record::put_all(bytes, extras.times.iter().map(|time| time.to_le_bytes()));
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
        let types = catalog.node_types.len();
        let decoded = record::decode(&self.bytes, index, 2 * types + 6, catalog);
        // What was written is what is read, so this is a defect and not damage.
        let decoded =
            decoded.unwrap_or_else(|what| panic!("the kept sample of batch {index}: {what}"));
        let Decoded { nodes, edges, behind, end } = decoded;
        let mut at = end;
        let mut take = |count: usize, width: usize| {
            let start = at;
            at += count * width;
            &self.bytes[start..at]
        };
        let mut numbers = |count: usize| -> Vec<u32> {
            let bytes = take(count, size_of::<u32>()).as_chunks().0;
            bytes.iter().map(|number| u32::from_le_bytes(*number)).collect()
        };
        let ordered = behind[..types].iter().map(|count| (*count > 0).then(|| numbers(*count)));
        let ordered = ordered.collect();
        let mut extras = Extras::default();
        let of_types = &behind[types..2 * types];
        if of_types.iter().any(|count| *count > 0) {
            extras.subgraphs = of_types.iter().map(|count| numbers(*count)).collect();
        }
        let others = &behind[2 * types..];
        extras.targets = numbers(others[0]);
        extras.visits.rows = numbers(others[1]);
        extras.visits.counts = numbers(others[2]);
        extras.visits.weights = numbers(others[3]).into_iter().map(f32::from_bits).collect();
        let per_hop = numbers(others[4]).into_iter().map(|count| count as usize);
        extras.visits.per_hop = per_hop.collect();
        let times = take(others[5], size_of::<i64>()).as_chunks().0;
        extras.times = times.iter().map(|time| i64::from_le_bytes(*time)).collect();
        let sample = CompactSample { nodes, edges, extras, _held: held };
        Ok(Sampled { index, sample, ordered, held: None })
    }
}
