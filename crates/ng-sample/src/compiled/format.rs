//! The bytes of a compiled epoch's file; `docs/reference/compiled.md` has the tables.
//!
//! A sealed file whose text says what the epoch was made from, whose maps are those of hot rows,
//! and whose contents are the hot rows (once in a set), one record for each batch and an index of
//! the records. The invariant:
//! every byte is under a checksum, and what a `decode` returns was checked.

use std::collections::BTreeMap;
use std::ops::Range;

use ng_io::BLOCK_BYTES;
use ng_store::{Owner, SealedKind, TensorRef};
use ng_types::{EdgeTypeId, NodeTypeId, checksum};
use serde::{Deserialize, Serialize};

use super::hot::{HotSet, PackedTable};
use crate::pipeline::HotRows;

/// The kind of sealed file.
pub(crate) static EPOCH: SealedKind = SealedKind {
    name: "compiled epoch",
    suffix: ".epoch",
    magic: b"ngepoch\0",
    end_magic: Some(b"ngepoend"),
    version: 3,
};

/// Bytes of an entry of the index.
pub(crate) const ENTRY_BYTES: usize = 24;

/// A record's checksum is that of the checksums of its pieces of so many bytes, which can be had in
/// any order.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Rows of a record begin at multiples of this, so that copies of them go by whole lines.
pub(crate) const ALIGN_BYTES: usize = 64;

/// All settings that determine an epoch, by name. A replay needs equal settings.
pub type EpochKey = BTreeMap<String, String>;

/// Which epoch a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochId {
    /// Everything that shaped it, but for its number.
    pub key: EpochKey,
    /// Its number.
    pub epoch: u64,
    /// The numbers of the epochs that were compiled together, each in a file of its own.
    pub set: Range<u64>,
}

impl EpochId {
    /// Whether its file has the hot rows of the set.
    pub fn has_hot_rows(&self) -> bool {
        self.epoch == self.set.start
    }
}

/// A tensor as the head names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableText {
    /// `node` or `edge`.
    kind: String,
    type_id: u16,
    index: u16,
    row_bytes: u64,
    rows: u64,
}

/// The text of the head.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeadText {
    #[serde(alias = "train_epoch")]
    epoch: u64,
    first_epoch: u64,
    epochs: u64,
    key: EpochKey,
    tables: Vec<TableText>,
}

/// What a file says about itself at its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub id: EpochId,
    pub hot: HotSet,
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], String> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.copied().ok_or_else(|| format!("it ends before byte {at}"))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, String> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, String> {
    field(bytes, at).map(u64::from_le_bytes)
}

/// An error unless bytes that no checksum covers, because they mean nothing, are 0.
fn check_zero(bytes: &[u8]) -> Result<(), String> {
    match bytes.iter().position(|byte| *byte != 0) {
        Some(at) => Err(format!("byte {at} of its padding is {}, expected 0", bytes[at])),
        None => Ok(()),
    }
}

impl Head {
    /// The head of a file, from its text and its maps, of which there are
    /// [`HeadText::map_bytes`].
    pub fn decode(text: HeadText, maps: &[u8]) -> Result<Self, String> {
        let HeadText { epoch, first_epoch, epochs, key, tables } = text;
        let last = first_epoch.checked_add(epochs).ok_or("its range of epochs is not valid")?;
        let set = first_epoch..last;
        if !set.contains(&epoch) {
            return Err(format!("epoch {epoch} is outside its range of epochs"));
        }
        let mut words = maps.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let table = |table: TableText| {
            let bits = words.by_ref().take(HotRows::num_words(table.rows)).collect();
            let owner = match table.kind.as_str() {
                "node" => Owner::Node(NodeTypeId(table.type_id)),
                "edge" => Owner::Edge(EdgeTypeId(table.type_id)),
                other => return Err(format!("{other:?} is not a valid owner of a tensor")),
            };
            let tensor = TensorRef { owner, index: table.index };
            let hot = HotRows::from_bits(bits, table.rows);
            Ok(PackedTable { tensor, width: table.row_bytes, hot })
        };
        let hot = HotSet { tables: tables.into_iter().map(table).collect::<Result<_, _>>()? };
        // Bits past the last row are under the checksum, too, and mean nothing.
        if hot.digest() != checksum::of(maps) {
            return Err("a hot row is out of range".into());
        }
        Ok(Self { id: EpochId { key, epoch, set }, hot })
    }
}

impl HeadText {
    /// Of an epoch whose maps are [`HotSet::maps`].
    pub fn new(id: EpochId, hot: &HotSet) -> Self {
        let tables = hot.tables.iter().map(|table| {
            let (kind, type_id) = match table.tensor.owner {
                Owner::Node(node_type) => ("node", node_type.0),
                Owner::Edge(edge_type) => ("edge", edge_type.0),
            };
            TableText {
                kind: kind.into(),
                type_id,
                index: table.tensor.index,
                row_bytes: table.width,
                rows: table.hot.num_rows(),
            }
        });
        let (tables, EpochId { key, epoch, set }) = (tables.collect(), id);
        let (first_epoch, epochs) = (set.start, set.end - set.start);
        Self { epoch, first_epoch, epochs, key, tables }
    }

    /// Bytes of the maps of all tables.
    pub fn map_bytes(&self) -> u64 {
        let words = self.tables.iter().map(|table| HotRows::num_words(table.rows) as u64);
        words.fold(0, |sum, words| sum.saturating_add(words * 8))
    }
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Whole blocks.
    pub offset: u64,
    /// Whole blocks.
    pub bytes: u64,
    pub crc: u32,
}

impl Entry {
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Result<Self, String> {
        check_zero(&bytes[20..])?;
        Ok(Self { offset: u64_at(bytes, 0)?, bytes: u64_at(bytes, 8)?, crc: u32_at(bytes, 16)? })
    }
}

/// The last block of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    pub index_offset: u64,
    pub index_crc: u32,
    pub num_batches: u64,
    /// Of the longest record.
    pub record_bytes_max: u64,
    /// Of the arrays of the largest subgraph in memory.
    pub batch_bytes_max: u64,
    /// Of the hot rows; 0 where the file has none.
    pub hot_crc: u32,
    /// By table, of the batch that has the most.
    pub rows_max: Vec<u64>,
}

/// Bytes of a last block before the rows by table.
const TAIL_BYTES: usize = 64;
/// Where a last block has the checksum of the hot rows, behind that of the head.
const HOT_CRC_AT: usize = TAIL_BYTES - 4;

impl Tail {
    /// More tensors than this are not compiled.
    pub const TABLES_MAX: usize = (BLOCK_BYTES - TAIL_BYTES - 4) / 8;

    /// Without what every last block has.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend(self.index_crc.to_le_bytes());
        for value in [
            self.index_offset,
            self.num_batches,
            self.record_bytes_max,
            self.batch_bytes_max,
            self.rows_max.len() as u64,
        ] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.resize(HOT_CRC_AT, 0);
        bytes.extend(self.hot_crc.to_le_bytes());
        bytes.extend(self.rows_max.iter().flat_map(|rows| rows.to_le_bytes()));
        bytes
    }

    /// From a last block that is sealed.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let tables = u64_at(bytes, 48)? as usize;
        if tables > Self::TABLES_MAX {
            let most = Self::TABLES_MAX;
            return Err(format!("it has {tables} tensors, more than the limit of {most}"));
        }
        check_zero(&bytes[TAIL_BYTES + tables * 8..BLOCK_BYTES - 4])?;
        let rows_max = (0..tables).map(|table| u64_at(bytes, TAIL_BYTES + table * 8));
        Ok(Self {
            index_crc: u32_at(bytes, 12)?,
            index_offset: u64_at(bytes, 16)?,
            num_batches: u64_at(bytes, 24)?,
            record_bytes_max: u64_at(bytes, 32)?,
            batch_bytes_max: u64_at(bytes, 40)?,
            hot_crc: u32_at(bytes, HOT_CRC_AT)?,
            rows_max: rows_max.collect::<Result<_, _>>()?,
        })
    }

    /// Decodes the index, whose records must lie one behind the other from `first` on.
    pub fn decode_index(&self, bytes: &[u8], first: u64) -> Result<Vec<Entry>, String> {
        let len = (self.num_batches as usize).checked_mul(ENTRY_BYTES);
        let parts = len.and_then(|len| bytes.split_at_checked(len));
        let (bytes, padding) = parts.ok_or("its index is truncated")?;
        if checksum::of(bytes) != self.index_crc {
            return Err("the checksum of its index is wrong".into());
        }
        check_zero(padding)?;
        let entries: Vec<Entry> =
            bytes.as_chunks().0.iter().map(Entry::decode).collect::<Result<_, _>>()?;
        let mut end = first;
        for entry in &entries {
            let block = BLOCK_BYTES as u64;
            let whole = entry.bytes.is_multiple_of(block) && entry.bytes > 0;
            if entry.offset != end || !whole || entry.bytes > self.record_bytes_max {
                return Err(format!(
                    "a batch of {} bytes at byte {} is not valid",
                    entry.bytes, entry.offset
                ));
            }
            end = end.saturating_add(entry.bytes);
        }
        if end != self.index_offset {
            return Err("its batches do not end where its index begins".into());
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let tensor = TensorRef { owner: Owner::Node(NodeTypeId(1)), index: 2 };
        let hot = HotRows::from_bits(vec![7, 0, 9], 190);
        let hot = HotSet { tables: vec![PackedTable { tensor, width: 128, hot }] };
        let key = [("seed".to_owned(), "7".to_owned())].into();
        Head { id: EpochId { key, epoch: 3, set: 2..5 }, hot }
    }

    fn text(id: EpochId) -> HeadText {
        HeadText::new(id, &head().hot)
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_its_maps_fit_its_tables() {
        let maps = head().hot.maps();
        assert_eq!(text(head().id).map_bytes(), maps.len() as u64);
        assert_eq!(Head::decode(text(head().id), &maps), Ok(head()));
        for bit in 190..192 {
            let mut damaged = maps.clone();
            damaged[bit / 8] |= 1 << (bit % 8);
            assert!(Head::decode(text(head().id), &damaged).is_err(), "bit {bit}");
        }
        assert!(Head::decode(text(head().id), &maps[..16]).is_err());
    }

    #[test]
    fn an_epoch_that_is_not_of_its_set_is_refused() {
        for (epoch, set) in [(1, 2..5), (5, 2..5), (0, 0..0)] {
            let other = EpochId { epoch, set, ..head().id };
            let found = Head::decode(text(other), &head().hot.maps());
            assert!(found.is_err_and(|what| what.contains("range of epochs")), "{epoch}");
        }
    }

    #[test]
    fn a_tail_is_read_as_it_was_written_and_its_index_fits_it() {
        let entries = [
            Entry { offset: 8192, bytes: 4096, crc: 5 },
            Entry { offset: 12288, bytes: 8192, crc: 6 },
        ];
        let index: Vec<u8> = entries.iter().flat_map(Entry::encode).collect();
        let tail = Tail {
            index_offset: 20480,
            index_crc: checksum::of(&index),
            num_batches: 2,
            record_bytes_max: 8192,
            batch_bytes_max: 100,
            hot_crc: 77,
            rows_max: vec![9, 4],
        };
        let mut bytes = tail.encode();
        bytes.resize(BLOCK_BYTES, 0);
        assert_eq!(Tail::decode(&bytes), Ok(tail.clone()));
        for at in (49..56).chain(80..BLOCK_BYTES - 4) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Tail::decode(&damaged).is_err(), "byte {at}");
        }
        assert_eq!(tail.decode_index(&index, 8192), Ok(entries.to_vec()));
        assert!(tail.decode_index(&index, 4096).is_err());
        assert!(tail.decode_index(&index[..30], 8192).is_err());
        assert!(tail.decode_index(&[&index[..], &[0, 1]].concat(), 8192).is_err());
        assert!(Tail { num_batches: u64::MAX, ..tail }.decode_index(&index, 8192).is_err());
    }
}
