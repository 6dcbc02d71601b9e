//! The records that are sorted. Three shapes, so that the common one is a single machine word:
//! `u64` = (destination, source) of 32 bits each, `u128` = (destination, source, edge id) of 40
//! bits each, [`Full`] = everything. Order of the record is the order of the neighbour lists.

use super::radix;

/// Which columns a spilled record carries, besides destination and source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub edge_id: bool,
    pub time: bool,
    pub weight: bool,
}

impl Layout {
    fn columns_bytes(self) -> usize {
        5 * usize::from(self.edge_id) + 8 * usize::from(self.time) + 4 * usize::from(self.weight)
    }
}

/// Something that can be spilled to scratch and sorted.
pub(crate) trait Record:
    Copy + Ord + Default + Send + Sync + std::fmt::Debug + 'static
{
    /// A number that never falls when the record grows; finds the partition quickly.
    fn prefix(&self) -> u64;
    /// The smallest record above this one.
    fn successor(&self) -> Option<Self>;
    /// The destination whose list the record belongs to.
    fn destination(&self) -> u64;
    /// Sorts in memory; `spare` is working space.
    fn sort(records: &mut Vec<Self>, _spare: &mut Vec<Self>) {
        records.sort_unstable();
    }
    /// Whether the record needs 5-byte ids on scratch.
    fn is_wide(&self) -> bool;
    /// Bytes of a spilled record.
    fn spilled_bytes(layout: Layout, wide: bool) -> usize {
        layout.columns_bytes() + if wide { 10 } else { 8 }
    }
    /// Writes the record; `to` has [`Record::spilled_bytes`] bytes.
    fn spill(&self, layout: Layout, wide: bool, to: &mut [u8]);
    /// Reads it back.
    fn unspill(layout: Layout, wide: bool, from: &[u8]) -> Self;
}

/// The record of an edge whose ids fit in 32 bits and that has no columns.
#[inline]
pub(crate) fn pair(destination: u64, source: u64) -> u64 {
    destination << 32 | source
}

/// The record of an edge with an edge id (or 0) and no other column.
#[inline]
pub(crate) fn triple(destination: u64, source: u64, edge_id: u64) -> u128 {
    u128::from(destination) << 80 | u128::from(source) << 40 | u128::from(edge_id)
}

const ID_MASK: u128 = (1 << 40) - 1;

impl Record for u64 {
    #[inline]
    fn prefix(&self) -> u64 {
        *self
    }

    fn successor(&self) -> Option<Self> {
        self.checked_add(1)
    }

    #[inline]
    fn destination(&self) -> u64 {
        self >> 32
    }

    fn sort(records: &mut Vec<Self>, spare: &mut Vec<Self>) {
        radix::sort(records, spare);
    }

    fn is_wide(&self) -> bool {
        false
    }

    fn spilled_bytes(_: Layout, _: bool) -> usize {
        8
    }

    #[inline]
    fn spill(&self, _: Layout, _: bool, to: &mut [u8]) {
        to.copy_from_slice(&self.to_le_bytes());
    }

    #[inline]
    fn unspill(_: Layout, _: bool, from: &[u8]) -> Self {
        Self::from_le_bytes(array(from))
    }
}

impl Record for u128 {
    #[inline]
    fn prefix(&self) -> u64 {
        (self >> 56) as u64
    }

    fn successor(&self) -> Option<Self> {
        self.checked_add(1)
    }

    #[inline]
    fn destination(&self) -> u64 {
        (self >> 80) as u64
    }

    fn sort(records: &mut Vec<Self>, spare: &mut Vec<Self>) {
        radix::sort(records, spare);
    }

    fn is_wide(&self) -> bool {
        self >> 112 != 0 || (self >> 72) & 0xFF != 0
    }

    fn spill(&self, layout: Layout, wide: bool, to: &mut [u8]) {
        let mut to = Out(to);
        to.id(self.destination(), wide);
        to.id(((self >> 40) & ID_MASK) as u64, wide);
        if layout.edge_id {
            to.id((self & ID_MASK) as u64, true);
        }
    }

    fn unspill(layout: Layout, wide: bool, from: &[u8]) -> Self {
        let mut from = In(from);
        let (destination, source) = (from.id(wide), from.id(wide));
        let edge_id = if layout.edge_id { from.id(true) } else { 0 };
        triple(destination, source, edge_id)
    }
}

/// A record with every column. Lists with a time are ordered by (time, source, edge id); without
/// one the time is 0 throughout, which gives (source, edge id).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Full {
    pub destination: u64,
    pub time: i64,
    pub source: u64,
    pub edge_id: u64,
    /// The bits of the f32, so that the record has a total order.
    pub weight: u32,
}

impl Record for Full {
    fn prefix(&self) -> u64 {
        self.destination
    }

    fn successor(&self) -> Option<Self> {
        match self.weight.checked_add(1) {
            Some(weight) => Some(Self { weight, ..*self }),
            None => Some(Self { weight: 0, edge_id: self.edge_id.checked_add(1)?, ..*self }),
        }
    }

    fn destination(&self) -> u64 {
        self.destination
    }

    fn is_wide(&self) -> bool {
        (self.destination | self.source) >> 32 != 0
    }

    fn spill(&self, layout: Layout, wide: bool, to: &mut [u8]) {
        let mut to = Out(to);
        to.id(self.destination, wide);
        to.id(self.source, wide);
        if layout.edge_id {
            to.id(self.edge_id, true);
        }
        if layout.time {
            to.bytes(&self.time.to_le_bytes());
        }
        if layout.weight {
            to.bytes(&self.weight.to_le_bytes());
        }
    }

    fn unspill(layout: Layout, wide: bool, from: &[u8]) -> Self {
        let mut from = In(from);
        let (destination, source) = (from.id(wide), from.id(wide));
        let edge_id = if layout.edge_id { from.id(true) } else { 0 };
        let time = if layout.time { i64::from_le_bytes(array(from.take(8))) } else { 0 };
        let weight = if layout.weight { u32::from_le_bytes(array(from.take(4))) } else { 0 };
        Self { destination, time, source, edge_id, weight }
    }
}

/// A [`Full`] record ordered by (destination, source, edge id), for finding duplicates in lists
/// that are ordered by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BySource(pub Full);

impl BySource {
    fn key(&self) -> (u64, u64, u64, i64, u32) {
        let full = &self.0;
        (full.destination, full.source, full.edge_id, full.time, full.weight)
    }
}

impl Ord for BySource {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for BySource {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Record for BySource {
    fn prefix(&self) -> u64 {
        self.0.destination
    }

    fn successor(&self) -> Option<Self> {
        self.0.successor().map(Self)
    }

    fn destination(&self) -> u64 {
        self.0.destination
    }

    fn is_wide(&self) -> bool {
        self.0.is_wide()
    }

    fn spill(&self, layout: Layout, wide: bool, to: &mut [u8]) {
        self.0.spill(layout, wide, to);
    }

    fn unspill(layout: Layout, wide: bool, from: &[u8]) -> Self {
        Self(Full::unspill(layout, wide, from))
    }
}

struct Out<'a>(&'a mut [u8]);

impl Out<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        let (head, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.0 = rest;
    }

    fn id(&mut self, id: u64, wide: bool) {
        self.bytes(&id.to_le_bytes()[..if wide { 5 } else { 4 }]);
    }
}

struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(count);
        self.0 = rest;
        head
    }

    fn id(&mut self, wide: bool) -> u64 {
        let mut bytes = [0; 8];
        let width = if wide { 5 } else { 4 };
        bytes[..width].copy_from_slice(self.take(width));
        u64::from_le_bytes(bytes)
    }
}

/// The bytes as an array. The lengths agree by [`Record::spilled_bytes`].
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}
