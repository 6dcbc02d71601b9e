//! Static trees: sorted records of (key, value) in 4 KiB pages of an index segment, bulk-loaded.
//!
//! A record's key is the largest key below it, so the way to a key is the first record whose key is
//! not smaller. Leaves of the H tree hold (node, first page, degree); all other records hold
//! (key, page). Used for both node indexes, the gmap directory and the names of a dictionary.

use crate::bytes::{ensure, is_zero, le_u16, le_u32, le_u64, put};
use crate::catalog::TreeRoot;
use crate::error::{BuildError, Damage};
use crate::io::BLOCK_BYTES;
use crate::page::SegmentWriter;

/// Bytes before the first record of a page.
pub(crate) const HEADER_BYTES: usize = 16;
const MAGIC: u16 = 0x5254;

/// Which tree a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeKind {
    /// Largest node of an L-type page -> page.
    L = 0,
    /// Node -> first H-type page, degree.
    H = 1,
    /// Block of 32,768 nodes -> bitmap page.
    Gmap = 2,
    /// Largest node of a names page -> page.
    Names = 3,
}

impl TreeKind {
    /// Bytes of a record in pages of `level`.
    pub fn record_bytes(self, level: u8) -> usize {
        if self == Self::H && level == 0 { 24 } else { 16 }
    }

    /// Records that a page of `level` has room for.
    pub fn capacity(self, level: u8) -> usize {
        (BLOCK_BYTES - HEADER_BYTES) / self.record_bytes(level)
    }
}

/// One record. `extra` is the degree in leaves of the H tree, else 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub key: u64,
    pub page: u64,
    pub extra: u64,
}

impl Record {
    /// Appends the record as leaves or inner pages hold it.
    pub fn encode(&self, record_bytes: usize, out: &mut Vec<u8>) {
        out.extend(self.key.to_le_bytes());
        out.extend(self.page.to_le_bytes());
        if record_bytes == 24 {
            out.extend(self.extra.to_le_bytes());
        }
    }
}

/// A page of the tree that holds these encoded records.
pub(crate) fn encode_page(kind: TreeKind, level: u8, records: &[u8]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    let count = (records.len() / kind.record_bytes(level)) as u16;
    put(&mut block, 0, &MAGIC.to_le_bytes());
    put(&mut block, 2, &[kind as u8, level]);
    put(&mut block, 4, &count.to_le_bytes());
    put(&mut block, HEADER_BYTES, records);
    block
}

/// A typed tree page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreePage<'a> {
    records: &'a [u8],
    record_bytes: usize,
    count: usize,
}

impl<'a> TreePage<'a> {
    /// Types a page of tree `kind` at `level`. Order of keys is checked by [`TreePage::check`].
    #[inline]
    pub fn decode(bytes: &'a [u8], kind: TreeKind, level: u8) -> Result<Self, Damage> {
        ensure(bytes.len() == BLOCK_BYTES && le_u16(bytes, 0) == MAGIC, || {
            "index page: wrong size or magic".into()
        })?;
        ensure(bytes.get(2..4) == Some(&[kind as u8, level]), || {
            format!("index page: it is not of level {level} of the {kind:?} tree")
        })?;
        let count = usize::from(le_u16(bytes, 4));
        let record_bytes = kind.record_bytes(level);
        let end = HEADER_BYTES + count * record_bytes;
        let records = bytes
            .get(HEADER_BYTES..end)
            .filter(|_| count > 0)
            .ok_or_else(|| Damage::new(format!("index page: {count} records do not fit")))?;
        Ok(Self { records, record_bytes, count })
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The key of record `index`; 0 past the end.
    pub fn key(&self, index: usize) -> u64 {
        le_u64(self.records, index * self.record_bytes)
    }

    /// Record `index`.
    pub fn record(&self, index: usize) -> Option<Record> {
        if index >= self.count {
            return None;
        }
        let at = index * self.record_bytes;
        let key = le_u64(self.records, at);
        let page = le_u64(self.records, at + 8);
        let extra = if self.record_bytes == 24 { le_u64(self.records, at + 16) } else { 0 };
        Some(Record { key, page, extra })
    }

    /// The first record at or after `from` whose key is at least `key`; `len` if there is none.
    pub fn lower_bound(&self, from: usize, key: u64) -> usize {
        // Sorted batches mostly ask for a record close by, so gallop before halving.
        let mut step = 1;
        let mut low = from;
        let mut high = from;
        while high < self.count && self.key(high) < key {
            low = high + 1;
            high += step;
            step *= 2;
        }
        high = high.min(self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Full check for verify: ascending keys, nothing after the records.
    pub fn check(bytes: &'a [u8], kind: TreeKind, level: u8) -> Result<Self, Damage> {
        let page = Self::decode(bytes, kind, level)?;
        let ascending = (1..page.count).all(|i| page.key(i - 1) < page.key(i));
        ensure(ascending, || "index page: keys are not ascending".into())?;
        let end = HEADER_BYTES + page.count * page.record_bytes;
        let padding = &bytes[end..];
        let reserved = le_u16(bytes, 6) == 0 && le_u64(bytes, 8) == 0;
        ensure(reserved && is_zero(padding), || "index page: padding is not 0".into())?;
        ensure(le_u32(bytes, 8) == 0, || "index page: reserved field is not 0".into())?;
        Ok(page)
    }
}

/// Bulk-loads one tree; holds one page per level.
pub(crate) struct TreeWriter {
    kind: TreeKind,
    levels: Vec<Level>,
}

struct Level {
    records: Vec<u8>,
    last_key: u64,
}

impl TreeWriter {
    pub fn new(kind: TreeKind) -> Self {
        Self { kind, levels: Vec::new() }
    }

    /// Appends a record to the leaves; keys ascend.
    pub fn push(&mut self, pages: &mut SegmentWriter, record: Record) -> Result<(), BuildError> {
        self.push_at(0, pages, record)
    }

    fn push_at(
        &mut self,
        level: usize,
        pages: &mut SegmentWriter,
        record: Record,
    ) -> Result<(), BuildError> {
        let record_bytes = self.kind.record_bytes(level as u8);
        let full = self.kind.capacity(level as u8) * record_bytes;
        if self.levels.get(level).is_some_and(|l| l.records.len() == full) {
            self.flush(level, pages)?;
        }
        if level == self.levels.len() {
            self.levels.push(Level { records: Vec::with_capacity(full), last_key: 0 });
        }
        if let Some(target) = self.levels.get_mut(level) {
            record.encode(record_bytes, &mut target.records);
            target.last_key = record.key;
        }
        Ok(())
    }

    fn flush(&mut self, level: usize, pages: &mut SegmentWriter) -> Result<(), BuildError> {
        let (page, key) = self.write_page(level, pages)?;
        self.push_at(level + 1, pages, Record { key, page, extra: 0 })
    }

    fn write_page(
        &mut self,
        level: usize,
        pages: &mut SegmentWriter,
    ) -> Result<(u64, u64), BuildError> {
        let Some(source) = self.levels.get_mut(level) else {
            return Err(BuildError::invalid("a tree has no such level"));
        };
        let block = encode_page(self.kind, level as u8, &source.records);
        source.records.clear();
        Ok((pages.push_page(&block)?, source.last_key))
    }

    /// Writes the open pages and says where the root is; `None` for a tree without records.
    pub fn finish(mut self, pages: &mut SegmentWriter) -> Result<Option<TreeRoot>, BuildError> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            // A level above exists, so this one has an open page with at least one record.
            self.flush(level, pages)?;
            level += 1;
        }
        if self.levels.is_empty() {
            return Ok(None);
        }
        let (page, _) = self.write_page(level, pages)?;
        Ok(Some(TreeRoot { page, level: level as u8 }))
    }
}
