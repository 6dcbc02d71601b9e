//! One entry of a neighbour list: source id, then edge id, time and weight where the type has them.

use ng_types::NodeId;

use crate::bytes::{le_u32, le_u64};
use crate::catalog::EdgeTypeMeta;

/// Bytes of an edge id in an entry.
pub(crate) const EDGE_ID_BYTES: usize = 5;

/// One entry of a neighbour list. Columns that the edge type does not have are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Entry {
    /// The neighbour.
    pub source: NodeId,
    /// Row in the user's edge list.
    pub edge_id: u64,
    /// Time of the edge.
    pub time: i64,
    /// Weight of the edge.
    pub weight: f32,
}

/// Which columns entries have, and how wide a source id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryLayout {
    /// 4 or 5.
    pub id_width: u8,
    pub has_edge_ids: bool,
    pub has_time: bool,
    pub has_weight: bool,
}

impl EntryLayout {
    /// The layout of an edge type.
    pub fn of(meta: &EdgeTypeMeta) -> Self {
        Self {
            id_width: meta.topology.id_width,
            has_edge_ids: meta.has_edge_ids,
            has_time: meta.has_time,
            has_weight: meta.has_weight,
        }
    }

    /// Bytes of one entry.
    pub fn entry_bytes(self) -> usize {
        usize::from(self.id_width)
            + if self.has_edge_ids { EDGE_ID_BYTES } else { 0 }
            + if self.has_time { 8 } else { 0 }
            + if self.has_weight { 4 } else { 0 }
    }

    /// The flags byte of page headers.
    pub fn flags(self) -> u8 {
        u8::from(self.has_edge_ids) | u8::from(self.has_time) << 1 | u8::from(self.has_weight) << 2
    }

    /// Whether an entry is a 4-byte source id and nothing else.
    pub fn is_plain(self) -> bool {
        self.id_width == 4 && self.flags() == 0
    }

    /// Ids are below this.
    pub fn id_bound(self) -> u64 {
        1 << (8 * u32::from(self.id_width))
    }

    /// Appends an entry whose ids the caller has checked.
    pub fn encode(self, entry: &Entry, out: &mut Vec<u8>) {
        let source = entry.source.to_le_bytes();
        out.extend(source.iter().take(usize::from(self.id_width)));
        if self.has_edge_ids {
            out.extend(entry.edge_id.to_le_bytes().iter().take(EDGE_ID_BYTES));
        }
        if self.has_time {
            out.extend(entry.time.to_le_bytes());
        }
        if self.has_weight {
            out.extend(entry.weight.to_le_bytes());
        }
    }

    /// Shows the entries of a block that come from `source`, with their places, to `found`.
    pub fn find_source(self, block: &[u8], source: u64, found: &mut dyn FnMut(u64, Entry)) {
        if source >= self.id_bound() {
            return;
        }
        let wanted = source.to_le_bytes();
        let width = self.entry_bytes();
        if self.is_plain() {
            // Most of a long list is from elsewhere: first see whether a run has the source at all.
            let wanted = source as u32;
            for (run, entries) in block.as_chunks::<4>().0.chunks(64).enumerate() {
                let is_in = |hit, raw: &[u8; 4]| hit | (u32::from_le_bytes(*raw) == wanted);
                if !entries.iter().fold(false, is_in) {
                    continue;
                }
                for (place, raw) in entries.iter().enumerate() {
                    if u32::from_le_bytes(*raw) == wanted {
                        found((run * 64 + place) as u64, self.decode(raw));
                    }
                }
            }
            return;
        }
        let wanted = &wanted[..usize::from(self.id_width)];
        for (place, raw) in block.chunks_exact(width).enumerate() {
            if raw.starts_with(wanted) {
                found(place as u64, self.decode(raw));
            }
        }
    }

    /// Reads an entry; missing bytes read as 0.
    #[inline]
    pub fn decode(self, bytes: &[u8]) -> Entry {
        let mut at = usize::from(self.id_width);
        let mut entry = Entry { source: le_id(bytes, 0, self.id_width), ..Entry::default() };
        if self.has_edge_ids {
            entry.edge_id = le_id(bytes, at, EDGE_ID_BYTES as u8);
            at += EDGE_ID_BYTES;
        }
        if self.has_time {
            entry.time = le_u64(bytes, at) as i64;
            at += 8;
        }
        if self.has_weight {
            entry.weight = f32::from_bits(le_u32(bytes, at));
        }
        entry
    }
}

/// A 4- or 5-byte id.
#[inline]
fn le_id(bytes: &[u8], at: usize, width: u8) -> u64 {
    let low = u64::from(le_u32(bytes, at));
    if width == 4 {
        return low;
    }
    low | u64::from(bytes.get(at + 4).copied().unwrap_or(0)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_gives_back_what_it_encoded() {
        let entry =
            Entry { source: 0xfe_dcba_9876, edge_id: 0x12_3456_789a, time: -5, weight: 1.5 };
        for bits in 0..16_u8 {
            let has = |bit| bits & bit != 0;
            let id_width = if has(8) { 5 } else { 4 };
            let layout = EntryLayout {
                id_width,
                has_edge_ids: has(1),
                has_time: has(2),
                has_weight: has(4),
            };
            let mut bytes = Vec::new();
            layout.encode(&entry, &mut bytes);
            assert_eq!(bytes.len(), layout.entry_bytes());
            let expected = Entry {
                source: entry.source & (layout.id_bound() - 1),
                edge_id: if has(1) { entry.edge_id } else { 0 },
                time: if has(2) { entry.time } else { 0 },
                weight: if has(4) { entry.weight } else { 0.0 },
            };
            assert_eq!(layout.decode(&bytes), expected);
        }
    }
}
