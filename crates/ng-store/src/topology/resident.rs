//! The neighbour lists of one edge type in memory, for samplers that shall not wait for a disk.
//!
//! Compressed sparse columns: where the list of each destination begins, then all entries, column
//! by column, lists in destination order and each in the order of the snapshot. What must not live
//! here: reading (`load.rs`). Invariant: offsets ascend and end at the number of entries, and every
//! source and edge id is below the bound that its type had in the snapshot.

use std::ops::Range;

use ng_types::{EdgeTypeId, NodeId, Reservation};

use crate::bytes::width_below;
use crate::catalog::EdgeTypeMeta;
use crate::error::ReadError;
use crate::io::{AnonMap, BLOCK_BYTES};

/// Unsigned numbers side by side, little-endian.
#[derive(Clone, Copy, Debug)]
pub enum Packed<'a> {
    /// Below 2^24.
    Three(&'a [[u8; 3]]),
    /// Below 2^32.
    Four(&'a [[u8; 4]]),
    /// Below 2^40.
    Five(&'a [[u8; 5]]),
}

impl Packed<'_> {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Three(numbers) => numbers.len(),
            Self::Four(numbers) => numbers.len(),
            Self::Five(numbers) => numbers.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number `at`; 0 past the end.
    #[inline]
    pub fn get(&self, at: usize) -> u64 {
        match self {
            Self::Three(numbers) => numbers.get(at).map_or(0, |bytes| from_three(*bytes)),
            Self::Four(numbers) => {
                numbers.get(at).map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)))
            }
            Self::Five(numbers) => numbers.get(at).map_or(0, |[low @ .., high]| {
                u64::from(u32::from_le_bytes(*low)) | u64::from(*high) << 32
            }),
        }
    }
}

/// A number of three bytes.
#[inline]
pub fn from_three([low, middle, high]: [u8; 3]) -> u64 {
    u64::from(u32::from_le_bytes([low, middle, high, 0]))
}

/// Memory for the numbers of one column.
#[derive(Debug)]
pub(crate) struct Column {
    bytes: AnonMap,
    width: usize,
}

impl Column {
    /// `count` numbers of `width` bytes, all 0.
    pub fn new(count: u64, width: usize) -> Result<Self, ReadError> {
        let bytes = count.saturating_mul(width as u64);
        let no_memory = |source| ReadError::NoMemory { bytes, source };
        let len = usize::try_from(bytes)
            .map_err(|_| no_memory(std::io::Error::other("its length exceeds the address space")));
        Ok(Self { bytes: AnonMap::with_huge_pages(len?).map_err(no_memory)?, width })
    }

    /// All numbers.
    pub fn packed(&self) -> Packed<'_> {
        let bytes = self.bytes.as_slice();
        match self.width {
            3 => Packed::Three(bytes.as_chunks().0),
            4 => Packed::Four(bytes.as_chunks().0),
            _ => Packed::Five(bytes.as_chunks().0),
        }
    }

    /// The bytes of `count` numbers from `at` on, which the column has.
    pub fn numbers(&mut self, at: u64, count: usize) -> &mut [u8] {
        let start = at as usize * self.width;
        &mut self.bytes.as_mut_slice()[start..start + count * self.width]
    }

    /// Sets `count` numbers from `at` on to `value`.
    pub fn fill(&mut self, at: u64, count: u64, value: u64) {
        let (width, bytes) = (self.width, value.to_le_bytes());
        for number in self.numbers(at, count as usize).chunks_exact_mut(width) {
            number.copy_from_slice(&bytes[..width]);
        }
    }

    /// Bytes of a number.
    pub fn width(&self) -> usize {
        self.width
    }
}

/// How wide and how long the columns of an edge type are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub num_nodes: u64,
    pub num_sources: u64,
    pub num_edges: u64,
    pub num_edge_ids: u64,
    has_edge_ids: bool,
    has_time: bool,
    has_weight: bool,
}

impl Shape {
    pub fn new(meta: &EdgeTypeMeta, num_sources: u64, num_nodes: u64) -> Self {
        let EdgeTypeMeta { num_edges, num_edge_ids, .. } = *meta;
        let EdgeTypeMeta { has_edge_ids, has_time, has_weight, .. } = *meta;
        Self { num_nodes, num_sources, num_edges, num_edge_ids, has_edge_ids, has_time, has_weight }
    }

    /// Length and width of offsets, sources, edge ids, times, weights.
    fn columns(&self) -> [(u64, usize); 5] {
        let count = |there: bool| if there { self.num_edges } else { 0 };
        [
            (self.num_nodes.saturating_add(1), width_below(self.num_edges.saturating_add(1))),
            (self.num_edges, width_below(self.num_sources)),
            (count(self.has_edge_ids), width_below(self.num_edge_ids)),
            (count(self.has_time), 8),
            (count(self.has_weight), 4),
        ]
    }

    /// Bytes of all columns; each starts on a page of memory.
    pub fn num_bytes(&self) -> u64 {
        let page = BLOCK_BYTES as u64;
        let bytes = |(count, width): (u64, usize)| {
            count.saturating_mul(width as u64).div_ceil(page).saturating_mul(page)
        };
        self.columns().map(bytes).iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
    }
}

/// One edge type of one version in memory; [`crate::Snapshot::load_topology`] makes it.
///
/// The entries of destination `d` are at `range(d)` in every column. A deleted node has none.
#[derive(Debug)]
pub struct ResidentTopology {
    pub(super) edge_type: EdgeTypeId,
    pub(super) fingerprint: u64,
    pub(super) shape: Shape,
    pub(super) offsets: Column,
    pub(super) sources: Column,
    pub(super) edge_ids: Column,
    pub(super) times: Column,
    pub(super) weights: Column,
    held: Reservation,
}

impl ResidentTopology {
    /// Columns of zeros in memory that `held` pays for.
    pub(super) fn zeroed(
        (edge_type, fingerprint): (EdgeTypeId, u64),
        shape: Shape,
        held: Reservation,
    ) -> Result<Self, ReadError> {
        let [offsets, sources, edge_ids, times, weights] =
            shape.columns().map(|(count, width)| Column::new(count, width));
        Ok(Self {
            edge_type,
            fingerprint,
            shape,
            offsets: offsets?,
            sources: sources?,
            edge_ids: edge_ids?,
            times: times?,
            weights: weights?,
            held,
        })
    }

    /// The edge type.
    pub fn edge_type(&self) -> EdgeTypeId {
        self.edge_type
    }

    /// [`crate::Snapshot::fingerprint`] of the version that it was read from.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Bytes of the budget that are held for it.
    pub fn num_bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// Destinations are below this.
    pub fn num_nodes(&self) -> u64 {
        self.shape.num_nodes
    }

    /// Entries of all lists.
    pub fn num_edges(&self) -> u64 {
        self.shape.num_edges
    }

    /// Where the list of each destination begins, and where the last one ends: `[num_nodes + 1]`.
    pub fn offsets(&self) -> Packed<'_> {
        self.offsets.packed()
    }

    /// Sources, `[num_edges]`.
    pub fn sources(&self) -> Packed<'_> {
        self.sources.packed()
    }

    /// Edge ids, `[num_edges]`; `None` where the type has none.
    pub fn edge_ids(&self) -> Option<Packed<'_>> {
        self.shape.has_edge_ids.then(|| self.edge_ids.packed())
    }

    /// Times as little-endian i64, `[num_edges]`; `None` where the type has none.
    pub fn times(&self) -> Option<&[[u8; 8]]> {
        self.shape.has_time.then(|| self.times.bytes.as_slice().as_chunks().0)
    }

    /// Weights as little-endian f32, `[num_edges]`; `None` where the type has none.
    pub fn weights(&self) -> Option<&[[u8; 4]]> {
        self.shape.has_weight.then(|| self.weights.bytes.as_slice().as_chunks().0)
    }

    /// Where the entries of a destination are; empty for one that does not exist.
    #[inline]
    pub fn range(&self, node: NodeId) -> Range<u64> {
        if node >= self.shape.num_nodes {
            return 0..0;
        }
        let offsets = self.offsets();
        offsets.get(node as usize)..offsets.get(node as usize + 1)
    }

    /// How many entries a destination has.
    #[inline]
    pub fn degree(&self, node: NodeId) -> u64 {
        let range = self.range(node);
        range.end - range.start
    }
}
