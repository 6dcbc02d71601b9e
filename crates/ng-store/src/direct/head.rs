//! The head of a file: from what it was compiled, how it is cut, which rows it has.
//!
//! The invariant: what passes [`Head::check`] is consistent in itself.

use ng_types::Dtype;
use serde::{Deserialize, Serialize};

use super::error::DirectError;
use super::format::Shape;
use super::section::Bounds;
use crate::bytes::ensure;
use crate::catalog::TensorMeta;
use crate::error::Damage;
use crate::io::BLOCK_BYTES;
use crate::limits::HEAD_TEXT_BYTES_MAX;
use crate::sealed::{SealedKind, head_bytes};
use crate::store::Snapshot;

/// The kind of sealed file. It has no maps, and its head says how long it is.
pub(crate) static DIRECT: SealedKind = SealedKind {
    name: "direct layout",
    suffix: ".direct",
    magic: b"ngdirect",
    end_magic: None,
    version: 1,
};

/// Rows of a tensor in every primary section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DirectTensor {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    pub row_bytes: usize,
    /// Bits of the f32 scale of each column, where elements are steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scales: Option<Vec<u32>>,
}

impl DirectTensor {
    /// Whether it has the rows of a tensor of a store.
    pub fn is_of(&self, meta: &TensorMeta) -> bool {
        self.name == meta.name && self.dtype == meta.dtype && self.shape == meta.shape
    }
}

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// Of the snapshot.
    pub fingerprint: String,
    #[serde(alias = "epoch")]
    pub checkpoint_id: u64,
    pub lsn: u64,
    pub node_type: String,
    pub relation: String,
    pub num_nodes: u64,
    pub num_entries: u64,
    pub num_edge_ids: u64,
    pub shape: Shape,
    /// In the order in which their rows stand.
    pub tensors: Vec<DirectTensor>,
    pub primary_pages: u64,
    pub secondary_pages: u64,
    /// Follows from all of the above.
    pub build: u64,
}

/// A description of a file of the direct layout, for reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectInfo {
    /// Fingerprint of the snapshot that it was compiled from.
    pub fingerprint: String,
    /// Its last commit.
    pub lsn: u64,
    /// Nodes.
    pub num_nodes: u64,
    /// Entries of neighbour lists.
    pub num_edges: u64,
    /// Tensors whose rows it has.
    pub tensors: Vec<String>,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages that are read together for a primary section.
    #[serde(rename = "pages_per_section")]
    pub unit_pages: u64,
    /// Bytes of an address.
    pub address_bytes: u64,
    /// Bits of them that say which section of a page.
    pub section_bits: u32,
    /// Bytes of all rows of a node.
    pub row_bytes: u64,
    /// Pages of primary sections.
    pub primary_pages: u64,
    /// Pages of secondary sections.
    pub secondary_pages: u64,
    /// Pages of the table of addresses.
    pub table_pages: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// [`DirectInfo::file_bytes`] over nodes x (4 + 4 x mean degree + bytes of rows).
    pub inflation: f64,
}

impl DirectInfo {
    /// Refuses `file` if it was compiled from another version than `snapshot`.
    pub(super) fn check_version(&self, file: &str, snapshot: &Snapshot) -> Result<(), DirectError> {
        let wanted = format!("{:016x}", snapshot.fingerprint());
        if self.fingerprint == wanted {
            return Ok(());
        }
        Err(DirectError::Stale {
            file: file.to_owned(),
            found: self.fingerprint.clone(),
            found_lsn: self.lsn,
            wanted,
            wanted_lsn: snapshot.lsn(),
        })
    }
}

impl Head {
    /// Pages of sections.
    pub fn num_pages(&self) -> u64 {
        self.primary_pages + self.secondary_pages
    }

    pub fn table_pages(&self) -> u64 {
        self.num_nodes.div_ceil(self.shape.table_entries())
    }

    pub fn bounds(&self) -> Bounds {
        Bounds {
            nodes: self.num_nodes,
            entries: self.num_entries,
            edge_ids: self.num_edge_ids,
            pages: self.num_pages(),
        }
    }

    /// Names the build: equal where everything is.
    pub fn with_build(mut self) -> Result<Self, Damage> {
        self.build = 0;
        self.build = fnv(&self.text()?);
        Ok(self)
    }

    fn text(&self) -> Result<Vec<u8>, Damage> {
        serde_json::to_vec(self).map_err(|error| Damage::new(error.to_string()))
    }

    /// Bytes of it in a file, in whole blocks.
    pub fn num_bytes(&self) -> Result<usize, Damage> {
        Ok(head_bytes(self.text()?.len()))
    }

    /// An error unless it is consistent in itself.
    pub fn check(&self) -> Result<(), Damage> {
        self.shape.check()?;
        let bytes = self.tensors.iter().map(|tensor| tensor.row_bytes);
        let bytes = bytes.fold(0_usize, usize::saturating_add);
        ensure(bytes == self.shape.row_bytes, || {
            format!("{bytes} bytes is not the width of its rows")
        })?;
        let counts = [self.num_nodes, self.num_entries, self.num_edge_ids];
        let pages = [self.primary_pages, self.secondary_pages];
        let small = counts.iter().all(|count| *count < 1 << 48);
        let small = small && pages.iter().all(|count| *count < 1 << 40);
        ensure(small, || {
            format!(
                "its counts are too large: nodes, entries, edge ids {counts:?}; pages {pages:?}"
            )
        })?;
        let bits = self.shape.width as u32 * 8;
        let last = u128::from(self.num_pages()) << self.shape.section_bits;
        ensure(last <= 1 << bits, || {
            format!("{} pages are too many for its addresses", self.num_pages())
        })?;
        let blocks = u128::from(self.file_bytes(HEAD_TEXT_BYTES_MAX)) / BLOCK_BYTES as u128;
        ensure(blocks < 1 << 32, || format!("{blocks} blocks are too many"))?;
        let known = Self { build: 0, ..self.clone() };
        ensure(fnv(&known.text()?) == self.build, || "its build number is wrong".into())
    }

    /// Where page 0 begins in a file whose head has `head_bytes`.
    pub fn first_page_at(&self, head_bytes: usize) -> u64 {
        head_bytes.next_multiple_of(self.shape.page_bytes) as u64
    }

    /// Bytes of the file.
    pub fn file_bytes(&self, head_bytes: usize) -> u64 {
        let pages = self.num_pages() + self.table_pages();
        self.first_page_at(head_bytes) + pages * self.shape.page_bytes as u64
    }

    pub fn info(&self, file_bytes: u64) -> DirectInfo {
        let shape = &self.shape;
        let bare = self.num_nodes * (4 + shape.row_bytes as u64) + 4 * self.num_entries;
        DirectInfo {
            fingerprint: self.fingerprint.clone(),
            lsn: self.lsn,
            num_nodes: self.num_nodes,
            num_edges: self.num_entries,
            tensors: self.tensors.iter().map(|tensor| tensor.name.clone()).collect(),
            page_bytes: shape.page_bytes as u64,
            unit_pages: shape.unit_pages as u64,
            address_bytes: shape.width as u64,
            section_bits: shape.section_bits,
            row_bytes: shape.row_bytes as u64,
            primary_pages: self.primary_pages,
            secondary_pages: self.secondary_pages,
            table_pages: self.table_pages(),
            file_bytes,
            inflation: file_bytes as f64 / bare.max(1) as f64,
        }
    }
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}
