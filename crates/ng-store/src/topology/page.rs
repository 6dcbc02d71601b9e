//! The 32-byte header that both kinds of topology page begin with.

use crate::bytes::{ensure, le_u16, le_u32, le_u64, put};
use crate::error::Damage;
use crate::topology::EntryLayout;

/// Bytes before the first entry of a page.
pub(crate) const HEADER_BYTES: usize = 32;

const MAGIC: u16 = 0x4e54;

/// Which kind of page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// Many short lists.
    L = 0,
    /// A part of one long list.
    H = 1,
}

/// The header, typed. Fields that depend on the kind are named after both uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub kind: PageKind,
    /// Lists in an L-type page, 0 in an H-type page.
    pub num_slots: u16,
    /// First node of an L-type page, owner of an H-type page.
    pub node: u64,
    /// Entries in this page.
    pub num_entries: u32,
    /// L: end of the lists in bytes. H: which page of its list, from 0.
    pub end_or_part: u32,
    /// Edge type that the page belongs to.
    pub edge_type: u32,
}

impl PageHeader {
    /// Types the header of a page of `edge_type` with entries of `layout`.
    #[inline]
    pub fn decode(bytes: &[u8], edge_type: u32, layout: EntryLayout) -> Result<Self, Damage> {
        ensure(bytes.len() >= HEADER_BYTES && le_u16(bytes, 0) == MAGIC, || {
            "topology page: wrong magic".into()
        })?;
        let kind = match bytes.get(2) {
            Some(0) => PageKind::L,
            Some(1) => PageKind::H,
            other => {
                return Err(Damage::new(format!("topology page: unknown kind {other:?}")));
            }
        };
        let shape = [layout.id_width, layout.flags(), 0];
        ensure(bytes.get(3..6) == Some(&shape), || {
            "topology page: its columns differ from the catalog".into()
        })?;
        let header = Self {
            kind,
            num_slots: le_u16(bytes, 6),
            node: le_u64(bytes, 8),
            num_entries: le_u32(bytes, 16),
            end_or_part: le_u32(bytes, 20),
            edge_type: le_u32(bytes, 24),
        };
        ensure(header.edge_type == edge_type && le_u32(bytes, 28) == 0, || {
            format!(
                "topology page: it belongs to edge type {}, expected {edge_type}",
                header.edge_type
            )
        })?;
        Ok(header)
    }

    /// Writes the header to the start of a page.
    pub fn encode(&self, layout: EntryLayout, page: &mut [u8]) {
        put(page, 0, &MAGIC.to_le_bytes());
        put(page, 2, &[self.kind as u8, layout.id_width, layout.flags(), 0]);
        put(page, 6, &self.num_slots.to_le_bytes());
        put(page, 8, &self.node.to_le_bytes());
        put(page, 16, &self.num_entries.to_le_bytes());
        put(page, 20, &self.end_or_part.to_le_bytes());
        put(page, 24, &self.edge_type.to_le_bytes());
        put(page, 28, &[0; 4]);
    }
}
