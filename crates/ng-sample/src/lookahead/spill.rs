//! Sampled batches on disk, in order, while the memory that sampling took serves rows.
//!
//! The file has no name: it goes when the process goes, however that ends. What it holds is read
//! back by the same process, so it has no format that outlives it.

use std::path::Path;

use ng_io::{ScratchError, ScratchFile};
use ng_store::Snapshot;
use ng_types::Reservation;

use super::pieces::{OrderedRows, Sampled};
use crate::compact::{CompactEdges, CompactNodes, CompactSample};
use crate::{Ids, SampleError};

/// Samples of consecutive batches.
#[derive(Debug)]
pub(crate) struct Spill {
    file: ScratchFile,
    first: u64,
    /// Where each begins, and where the last ends.
    offsets: Vec<u64>,
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
        snapshot: &Snapshot,
    ) -> Result<Self, ScratchError> {
        let file = scratch_in(directory, snapshot)?;
        Ok(Self { file, first, offsets: vec![0], bytes: Vec::new() })
    }

    /// The first batch.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The batch after the last one.
    pub fn end(&self) -> u64 {
        self.first + self.offsets.len() as u64 - 1
    }

    /// Appends the next batch.
    pub fn write(&mut self, sampled: &Sampled) -> Result<(), ScratchError> {
        self.bytes.clear();
        encode(&sampled.sample, &mut self.bytes);
        put(&mut self.bytes, sampled.ordered.len() as u64);
        for rows in &sampled.ordered {
            put(&mut self.bytes, u64::from(rows.is_some()));
            let rows = rows.as_deref().unwrap_or_default();
            put_all(&mut self.bytes, rows.iter().map(|row| row.to_le_bytes()));
        }
        let at = self.file.append(&self.bytes)?;
        self.offsets.push(at + self.bytes.len() as u64);
        Ok(())
    }

    /// Reads batch `index` back; `held` pays for it.
    pub fn read(
        &mut self,
        index: u64,
        held: impl FnOnce(u64) -> Result<Reservation, SampleError>,
    ) -> Result<Sampled, SampleError> {
        let at = (index - self.first) as usize;
        let range = self.offsets[at]..self.offsets[at + 1];
        let held = held(range.end - range.start)?;
        self.bytes.resize((range.end - range.start) as usize, 0);
        self.file.read_exact_at(range.start, &mut self.bytes)?;
        let from = &mut Cursor(&self.bytes);
        let decoded = decode(from, held).and_then(|sample| Some((sample, from.ordered()?)));
        // What was written is what is read, so this is a defect and not damage.
        let (sample, ordered) = decoded.ok_or(SampleError::ThreadLost)?;
        Ok(Sampled { index, sample, ordered, held: None })
    }
}

fn encode(sample: &CompactSample, out: &mut Vec<u8>) {
    put(out, sample.nodes.len() as u64);
    for nodes in &sample.nodes {
        put_ids(out, &nodes.ids);
        put_all(out, nodes.per_hop.iter().map(|n| (*n as u64).to_le_bytes()));
    }
    put(out, sample.edges.len() as u64);
    for edges in &sample.edges {
        put_all(out, edges.rows.iter().map(|row| row.to_le_bytes()));
        put_all(out, edges.counts.iter().map(|count| count.to_le_bytes()));
        put_ids(out, &edges.edge_ids);
        put_all(out, edges.times.iter().map(|time| time.to_le_bytes()));
        put_all(out, edges.weights.iter().map(|weight| weight.to_le_bytes()));
        put_all(out, edges.per_hop.iter().map(|n| (*n as u64).to_le_bytes()));
    }
}

fn put(out: &mut Vec<u8>, number: u64) {
    out.extend(number.to_le_bytes());
}

fn put_all<const N: usize>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = [u8; N]>) {
    put(out, items.len() as u64);
    out.reserve(items.len() * N);
    items.for_each(|item| out.extend(item));
}

fn put_ids(out: &mut Vec<u8>, ids: &Ids) {
    match ids {
        Ids::Narrow(ids) => {
            put(out, 4);
            put_all(out, ids.iter().map(|id| id.to_le_bytes()));
        }
        Ids::Wide(ids) => {
            put(out, 8);
            put_all(out, ids.iter().map(|id| id.to_le_bytes()));
        }
    }
}

fn decode(from: &mut Cursor<'_>, held: Reservation) -> Option<CompactSample> {
    let mut nodes = Vec::new();
    for _ in 0..from.number()? {
        nodes.push(CompactNodes { ids: from.ids()?, per_hop: from.sizes()? });
    }
    let mut edges = Vec::new();
    for _ in 0..from.number()? {
        edges.push(CompactEdges {
            rows: from.all(u32::from_le_bytes)?,
            counts: from.all(u32::from_le_bytes)?,
            edge_ids: from.ids()?,
            times: from.all(i64::from_le_bytes)?,
            weights: from.all(f32::from_le_bytes)?,
            per_hop: from.sizes()?,
        });
    }
    Some(CompactSample { nodes, edges, _held: held })
}

struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn all<T, const N: usize>(&mut self, item: fn([u8; N]) -> T) -> Option<Vec<T>> {
        let bytes = (self.number()? as usize).saturating_mul(N);
        let (items, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(items.as_chunks::<N>().0.iter().map(|bytes| item(*bytes)).collect())
    }

    fn sizes(&mut self) -> Option<Vec<usize>> {
        Some(self.all(u64::from_le_bytes)?.into_iter().map(|size| size as usize).collect())
    }

    fn ordered(&mut self) -> Option<OrderedRows> {
        let mut ordered = Vec::new();
        for _ in 0..self.number()? {
            let is_ordered = self.number()? != 0;
            let rows = self.all(u32::from_le_bytes)?;
            ordered.push(is_ordered.then_some(rows));
        }
        Some(ordered)
    }

    fn ids(&mut self) -> Option<Ids> {
        Some(match self.number()? {
            4 => Ids::Narrow(self.all(u32::from_le_bytes)?),
            _ => Ids::Wide(self.all(u64::from_le_bytes)?),
        })
    }
}
