//! A page of strings: names by id, keys by byte order, or separators above keys.
//!
//! A string stands with a number: its id, or the page below whose largest key it is. A directory of
//! offsets at the end of the page makes both searchable.

use std::cmp::Ordering;

use crate::bytes::{ensure, is_zero, le_u16, le_u64, put};
use crate::error::Damage;
use crate::io::BLOCK_BYTES;
use crate::limits::STRING_BYTES_MAX;

const HEADER_BYTES: usize = 16;
const MAGIC: u16 = 0x5453;
const VALUE_BYTES: usize = 8;
const OFFSET_BYTES: usize = 2;

/// A typed page of strings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StringPage<'a> {
    bytes: &'a [u8],
    offsets: &'a [[u8; OFFSET_BYTES]],
    end: usize,
}

impl<'a> StringPage<'a> {
    /// Types a page at `level` of segment `segment`.
    pub fn decode(bytes: &'a [u8], segment: u32, level: u8) -> Result<Self, Damage> {
        ensure(bytes.len() == BLOCK_BYTES && le_u16(bytes, 0) == MAGIC, || {
            "dictionary page: wrong size or magic".into()
        })?;
        ensure(bytes.get(2..4) == Some(&[level, 0]), || {
            format!("dictionary page: its level is not {level}")
        })?;
        let owner = crate::bytes::le_u32(bytes, 8);
        ensure(owner == segment, || {
            format!("dictionary page: it belongs to segment {owner}, expected {segment}")
        })?;
        let (count, end) = (usize::from(le_u16(bytes, 4)), usize::from(le_u16(bytes, 6)));
        let directory = bytes
            .len()
            .checked_sub(count * OFFSET_BYTES)
            .filter(|start| count > 0 && end <= *start && end >= HEADER_BYTES)
            .and_then(|start| bytes.get(start..))
            .ok_or_else(|| Damage::new("dictionary page: the directory does not fit"))?;
        Ok(Self { bytes, offsets: directory.as_chunks().0, end })
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Number and string at `index`.
    pub fn entry(&self, index: usize) -> Result<(u64, &'a [u8]), Damage> {
        let offset_of = |i: usize| self.offsets.get(i).map(|o| usize::from(le_u16(o, 0)));
        let wrong = || Damage::new(format!("dictionary page: string {index} is out of place"));
        let start = offset_of(index).ok_or_else(wrong)?;
        let end = offset_of(index + 1).unwrap_or(self.end);
        let entry = self.bytes.get(start..end).filter(|_| start >= HEADER_BYTES);
        let text = entry.and_then(|e| e.get(VALUE_BYTES..)).ok_or_else(wrong)?;
        Ok((le_u64(self.bytes, start), text))
    }

    /// The first string not below `key`, if any.
    pub fn lower_bound(&self, key: &[u8]) -> Result<Option<(u64, &'a [u8])>, Damage> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)?.1.cmp(key) == Ordering::Less {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if low == self.len() { Ok(None) } else { self.entry(low).map(Some) }
    }

    /// Full check for verify of what one page can show.
    pub fn check(bytes: &'a [u8], segment: u32, level: u8) -> Result<Self, Damage> {
        let page = Self::decode(bytes, segment, level)?;
        let mut at = HEADER_BYTES;
        for index in 0..page.len() {
            let start = page.offsets.get(index).map_or(0, |o| usize::from(le_u16(o, 0)));
            ensure(start == at, || "dictionary page: strings overlap or leave a gap".into())?;
            let (_, text) = page.entry(index)?;
            ensure(text.len() <= STRING_BYTES_MAX, || {
                "dictionary page: a string is too long".into()
            })?;
            at += VALUE_BYTES + text.len();
        }
        let directory = bytes.len() - page.len() * OFFSET_BYTES;
        let free = &bytes[at..directory];
        let reserved = crate::bytes::le_u32(bytes, 12) == 0;
        ensure(at == page.end && is_zero(free) && reserved, || {
            "dictionary page: padding is not 0".into()
        })?;
        Ok(page)
    }
}

/// Fills one page of strings.
pub(crate) struct StringPageBuilder {
    segment: u32,
    level: u8,
    data: Vec<u8>,
    offsets: Vec<u8>,
}

impl StringPageBuilder {
    pub fn new(segment: u32, level: u8) -> Self {
        Self { segment, level, data: Vec::new(), offsets: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub fn fits(&self, text: &[u8]) -> bool {
        let used = HEADER_BYTES + self.data.len() + self.offsets.len();
        used + VALUE_BYTES + text.len() + OFFSET_BYTES <= BLOCK_BYTES
    }

    /// Adds a string that fits.
    pub fn add(&mut self, value: u64, text: &[u8]) {
        let offset = (HEADER_BYTES + self.data.len()) as u16;
        self.offsets.extend(offset.to_le_bytes());
        self.data.extend(value.to_le_bytes());
        self.data.extend_from_slice(text);
    }

    /// Encodes the page and starts the next.
    pub fn take(&mut self) -> Vec<u8> {
        let mut page = vec![0; BLOCK_BYTES];
        put(&mut page, 0, &MAGIC.to_le_bytes());
        put(&mut page, 2, &[self.level, 0]);
        put(&mut page, 4, &((self.offsets.len() / OFFSET_BYTES) as u16).to_le_bytes());
        put(&mut page, 6, &((HEADER_BYTES + self.data.len()) as u16).to_le_bytes());
        put(&mut page, 8, &self.segment.to_le_bytes());
        put(&mut page, HEADER_BYTES, &self.data);
        put(&mut page, BLOCK_BYTES - self.offsets.len(), &self.offsets);
        self.data.clear();
        self.offsets.clear();
        page
    }
}
