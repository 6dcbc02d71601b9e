//! The bytes of a compiled epoch's file; `docs/compiled.md` has the tables.
//!
//! A head (what the epoch was made from, and the maps of hot rows), one record for each batch, an
//! index of the records, and a last block that says that the file is whole. The invariant: every
//! byte is under a checksum, and what a `decode` returns was checked.

use std::collections::BTreeMap;
use std::ops::Range;

use ng_io::BLOCK_BYTES;
use ng_store::{Owner, TensorRef};
use ng_types::{EdgeTypeId, NodeTypeId, checksum};
use serde::{Deserialize, Serialize};

use super::hot::{HotSet, PackedTable};
use crate::pipeline::HotRows;

/// How a file begins.
const HEAD_MAGIC: &[u8; 8] = b"ngepoch\0";

/// How its last block begins.
const TAIL_MAGIC: &[u8; 8] = b"ngepoend";

/// The version that is written, and the only one that is read.
pub(crate) const VERSION: u32 = 2;

/// Bytes before the text of the head: magic, version, length and checksum of the text, checksum of
/// the maps.
const PREFIX_BYTES: usize = 32;

/// Longest text of a head; longer ones are damage.
const TEXT_BYTES_MAX: u32 = 1 << 24;

/// Bytes of an entry of the index.
pub(crate) const ENTRY_BYTES: usize = 24;

/// A record's checksum is that of the checksums of its pieces of so many bytes, which can be had in
/// any order.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Everything that shaped an epoch, by name: what a replay asks for must be equal.
pub type EpochKey = BTreeMap<String, String>;

/// Which epoch a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochId {
    /// Everything that shaped it, but for its number.
    pub key: EpochKey,
    /// Its number.
    pub train_epoch: u64,
    /// The numbers of the epochs that were compiled together, each in a file of its own.
    pub set: Range<u64>,
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
struct HeadText {
    train_epoch: u64,
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

fn whole_blocks(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
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
        Some(at) => Err(format!("byte {at} of its padding is {}, not 0", bytes[at])),
        None => Ok(()),
    }
}

impl Head {
    /// Whole blocks.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let tables = self.hot.tables.iter().map(|table| {
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
        let EpochId { key, train_epoch, set } = self.id.clone();
        let (first_epoch, epochs) = (set.start, set.end - set.start);
        let tables = tables.collect();
        let text = HeadText { train_epoch, first_epoch, epochs, key, tables };
        let text = serde_json::to_vec(&text).map_err(|error| error.to_string())?;
        let mut bytes = HEAD_MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(checksum::of(&text).to_le_bytes());
        bytes.extend(self.hot.digest().to_le_bytes());
        bytes.resize(PREFIX_BYTES, 0);
        bytes.extend(text);
        bytes.resize(whole_blocks(bytes.len()), 0);
        for table in &self.hot.tables {
            bytes.extend(table.hot.bits().iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes.resize(whole_blocks(bytes.len()), 0);
        Ok(bytes)
    }

    /// The version of a file that begins with `first`.
    pub fn version(first: &[u8]) -> Result<u32, String> {
        match first.get(..8) {
            Some(magic) if magic == HEAD_MAGIC => u32_at(first, 8),
            _ => Err("it does not begin as one".into()),
        }
    }

    /// A checksum of everything before the text, and so of the text and the maps, too.
    pub fn digest(first: &[u8]) -> u32 {
        checksum::of(&first[..PREFIX_BYTES])
    }

    /// How many bytes, in whole blocks, the text takes with all before it.
    pub fn text_blocks(first: &[u8]) -> Result<usize, String> {
        if Self::version(first)? != VERSION {
            return Err(format!("it does not have version {VERSION}"));
        }
        let len = u32_at(first, 12)?;
        if len > TEXT_BYTES_MAX {
            return Err(format!("a head of {len} bytes"));
        }
        Ok(whole_blocks(PREFIX_BYTES + len as usize))
    }

    /// Decodes what [`Head::text_blocks`] has measured, without the maps; says how many bytes the
    /// maps have, in whole blocks.
    pub fn decode(bytes: &[u8]) -> Result<(HeadParts, usize), String> {
        let bytes = bytes.get(..Self::text_blocks(bytes)?).ok_or("its head is cut off")?;
        let len = u32_at(bytes, 12)? as usize;
        let text = bytes.get(PREFIX_BYTES..PREFIX_BYTES + len).ok_or("its head is cut off")?;
        if checksum::of(text) != u32_at(bytes, 16)? {
            return Err("the checksum of its head differs".into());
        }
        check_zero(&bytes[PREFIX_BYTES - 8..PREFIX_BYTES])?;
        check_zero(&bytes[PREFIX_BYTES + len..])?;
        let text: HeadText = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let last = text.first_epoch.checked_add(text.epochs).ok_or("a set without an end")?;
        if !(text.first_epoch..last).contains(&text.train_epoch) {
            return Err(format!("epoch {} is not one of its set", text.train_epoch));
        }
        let words = text.tables.iter().map(|table| HotRows::num_words(table.rows));
        let map_bytes = words.fold(0_usize, |sum, words| sum.saturating_add(words * 8));
        let map_blocks = map_bytes.checked_next_multiple_of(BLOCK_BYTES);
        let map_blocks = map_blocks.ok_or("a map that no file holds")?;
        Ok((HeadParts { text, digest: u32_at(bytes, 20)? }, map_blocks))
    }
}

/// A head whose maps are still to be read.
#[derive(Debug)]
pub(crate) struct HeadParts {
    text: HeadText,
    digest: u32,
}

impl HeadParts {
    /// Joins the maps.
    pub fn with_maps(self, maps: &[u8]) -> Result<Head, String> {
        let words = self.text.tables.iter().map(|table| HotRows::num_words(table.rows));
        let (bits, padding) =
            maps.split_at_checked(words.sum::<usize>() * 8).ok_or("its maps are cut off")?;
        if checksum::of(bits) != self.digest {
            return Err("the checksum of its hot rows differs".into());
        }
        check_zero(padding)?;
        let mut words = maps.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut tables = Vec::new();
        for table in self.text.tables {
            let bits: Vec<u64> = words.by_ref().take(HotRows::num_words(table.rows)).collect();
            let owner = match table.kind.as_str() {
                "node" => Owner::Node(NodeTypeId(table.type_id)),
                "edge" => Owner::Edge(EdgeTypeId(table.type_id)),
                other => return Err(format!("a tensor of {other:?}")),
            };
            let tensor = TensorRef { owner, index: table.index };
            let hot = HotRows::from_bits(bits, table.rows);
            tables.push(PackedTable { tensor, width: table.row_bytes, hot });
        }
        let hot = HotSet { tables };
        // Bits past the last row are under the checksum, too, and mean nothing.
        if hot.digest() != self.digest {
            return Err("a row is hot that its tensor does not have".into());
        }
        let HeadText { train_epoch, first_epoch, epochs, key, .. } = self.text;
        let set = first_epoch..first_epoch.saturating_add(epochs);
        Ok(Head { id: EpochId { key, train_epoch, set }, hot })
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
    /// [`Head::digest`] of the head that it belongs to.
    pub head_digest: u32,
    /// By table, of the batch that has the most.
    pub rows_max: Vec<u64>,
}

/// Bytes of a last block before the rows by table.
const TAIL_BYTES: usize = 64;

impl Tail {
    /// More tensors than this are not compiled.
    pub const TABLES_MAX: usize = (BLOCK_BYTES - TAIL_BYTES - 4) / 8;

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = TAIL_MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
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
        bytes.extend(self.head_digest.to_le_bytes());
        bytes.resize(TAIL_BYTES, 0);
        bytes.extend(self.rows_max.iter().flat_map(|rows| rows.to_le_bytes()));
        bytes.resize(BLOCK_BYTES, 0);
        checksum::seal(&mut bytes, 0..BLOCK_BYTES - 4, BLOCK_BYTES - 4);
        bytes
    }

    /// The version of a file that ends with the block `bytes`.
    pub fn version(bytes: &[u8]) -> Result<u32, String> {
        if bytes.len() != BLOCK_BYTES || bytes.get(..8) != Some(TAIL_MAGIC) {
            return Err("its end is missing".into());
        }
        if !checksum::is_sealed(bytes, 0..BLOCK_BYTES - 4, BLOCK_BYTES - 4) {
            return Err("the checksum of its last block differs".into());
        }
        u32_at(bytes, 8)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let version = Self::version(bytes)?;
        if version != VERSION {
            return Err(format!("its last block has version {version}, not {VERSION}"));
        }
        let tables = u64_at(bytes, 48)? as usize;
        if tables > Self::TABLES_MAX {
            return Err(format!("{tables} tensors"));
        }
        check_zero(&bytes[60..TAIL_BYTES])?;
        check_zero(&bytes[TAIL_BYTES + tables * 8..BLOCK_BYTES - 4])?;
        let rows_max = (0..tables).map(|table| u64_at(bytes, TAIL_BYTES + table * 8));
        Ok(Self {
            index_crc: u32_at(bytes, 12)?,
            index_offset: u64_at(bytes, 16)?,
            num_batches: u64_at(bytes, 24)?,
            record_bytes_max: u64_at(bytes, 32)?,
            batch_bytes_max: u64_at(bytes, 40)?,
            head_digest: u32_at(bytes, 56)?,
            rows_max: rows_max.collect::<Result<_, _>>()?,
        })
    }

    /// Decodes the index, whose records must lie one behind the other from `first` on.
    pub fn decode_index(&self, bytes: &[u8], first: u64) -> Result<Vec<Entry>, String> {
        let len = (self.num_batches as usize).checked_mul(ENTRY_BYTES);
        let parts = len.and_then(|len| bytes.split_at_checked(len));
        let (bytes, padding) = parts.ok_or("its index is cut off")?;
        if checksum::of(bytes) != self.index_crc {
            return Err("the checksum of its index differs".into());
        }
        check_zero(padding)?;
        let entries: Vec<Entry> =
            bytes.as_chunks().0.iter().map(Entry::decode).collect::<Result<_, _>>()?;
        let mut end = first;
        for entry in &entries {
            let block = BLOCK_BYTES as u64;
            let whole = entry.bytes.is_multiple_of(block) && entry.bytes > 0;
            if entry.offset != end || !whole || entry.bytes > self.record_bytes_max {
                return Err(format!("a batch of {} bytes at {}", entry.bytes, entry.offset));
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
        Head { id: EpochId { key, train_epoch: 3, set: 2..5 }, hot }
    }

    fn decode(bytes: &[u8]) -> Result<Head, String> {
        let text = Head::text_blocks(bytes)?;
        let (parts, maps) = Head::decode(bytes.get(..text).ok_or("short")?)?;
        parts.with_maps(bytes.get(text..text + maps).ok_or("short")?)
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_every_changed_byte_is_seen() {
        let bytes = head().encode().expect("encodes");
        assert_eq!(decode(&bytes), Ok(head()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(decode(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn an_epoch_that_is_not_of_its_set_is_refused() {
        for (train_epoch, set) in [(1, 2..5), (5, 2..5), (0, 0..0)] {
            let other = EpochId { train_epoch, set, ..head().id };
            let bytes = Head { id: other, ..head() }.encode().expect("encodes");
            assert!(decode(&bytes).is_err_and(|what| what.contains("set")), "{train_epoch}");
        }
    }

    #[test]
    fn a_tail_is_read_as_it_was_written_and_every_changed_byte_is_seen() {
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
            head_digest: 77,
            rows_max: vec![9, 4],
        };
        let bytes = tail.encode();
        assert_eq!(Tail::decode(&bytes), Ok(tail.clone()));
        for at in 0..BLOCK_BYTES {
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
