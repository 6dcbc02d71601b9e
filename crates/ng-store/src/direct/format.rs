//! Sizes and places in a file of the direct layout, and what every page of it begins with;
//! `docs/reference/direct.md` has the tables.
//!
//! Nothing here does I/O. The invariant: whoever has a [`Shape`] that [`Shape::check`] passed can
//! compute with it without overflow.

use serde::{Deserialize, Serialize};

use ng_types::checksum;

use crate::bytes::{ensure, le_u16, le_u32, le_u64, put};
use crate::error::Damage;
use crate::limits::{PAGE_BYTES_MAX, is_page_bytes};

/// Checksum, kind, count, number of the page, number of the build.
pub(crate) const PAGE_HEADER: usize = 24;
/// Of a section's offset in the directory at the end of a page.
pub(crate) const SLOT_BYTES: usize = 2;
/// Kind, flags and length of a section, before its node and degree or sequence number.
pub(crate) const SECTION_HEADER: usize = 4;
/// Width of an address where it is enough.
pub(crate) const WIDTH_MIN: usize = 4;
pub(crate) const WIDTH_MAX: usize = 8;
/// No page has more sections than two to this.
pub(crate) const SECTION_BITS_MAX: u32 = 12;
/// Bits for sections where rows are so wide that they need fewer.
pub(crate) const SECTION_BITS_MIN: u32 = 4;

const EDGE_ID_BYTES: usize = 5;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Sections that begin a node.
    Primary = 1,
    /// Rests of long lists.
    Secondary = 2,
    /// Addresses of primary sections by node id.
    Table = 3,
}

/// How a file is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct Shape {
    pub page_bytes: usize,
    /// Pages that hold primary sections together: one, unless rows are wider than a page.
    pub unit_pages: usize,
    /// Bytes of an address, of a node id, of a degree.
    pub width: usize,
    /// Low bits of an address: which section of the page.
    pub section_bits: u32,
    /// Bytes of all rows of a node.
    pub row_bytes: usize,
    pub has_edge_ids: bool,
    pub has_time: bool,
    pub has_weight: bool,
}

/// How the list of a node is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// Bytes of the primary section.
    pub section_bytes: usize,
    /// Entries in the primary section.
    pub inline: u64,
    /// Secondary sections that fill a page each, on pages in a row.
    pub full: u64,
    /// Entries of a last, shorter one.
    pub tail: u64,
    /// The primary section has the addresses of secondary ones.
    pub is_long: bool,
}

impl Shape {
    pub fn check(&self) -> Result<(), Damage> {
        let page = self.page_bytes;
        ensure(u32::try_from(page).is_ok_and(is_page_bytes), || {
            format!("{page} bytes is not a valid page size")
        })?;
        let fits = self.unit_pages >= 1 && self.unit_pages <= PAGE_BYTES_MAX / page;
        ensure(fits, || {
            format!("{} is not a valid number of pages for a section", self.unit_pages)
        })?;
        let width = self.width;
        ensure((WIDTH_MIN..=WIDTH_MAX).contains(&width), || {
            format!("{width} bytes is not a valid width of addresses")
        })?;
        let bits = self.section_bits;
        ensure(bits <= SECTION_BITS_MAX, || {
            format!("{bits} is not a valid number of bits for sections")
        })?;
        let most = Self::row_bytes_max(self.unit_pages * page, width);
        ensure(self.row_bytes <= most, || {
            format!("rows of {} bytes exceed the limit of {most} bytes", self.row_bytes)
        })
    }

    /// Widest rows that have room in `unit_bytes`.
    pub fn row_bytes_max(unit_bytes: usize, width: usize) -> usize {
        unit_bytes.saturating_sub(PAGE_HEADER + SLOT_BYTES + SECTION_HEADER + 4 * width)
    }

    /// Bytes that one read of a primary section takes.
    pub fn unit_bytes(&self) -> usize {
        self.unit_pages * self.page_bytes
    }

    /// Bytes that pages of a kind have together.
    pub fn bytes_of(&self, kind: Kind) -> usize {
        if kind == Kind::Primary { self.unit_bytes() } else { self.page_bytes }
    }

    /// Bytes of a section before rows and entries, where the list is not long.
    pub fn section_header(&self) -> usize {
        SECTION_HEADER + 2 * self.width
    }

    /// Bytes of a neighbour.
    pub fn entry_bytes(&self) -> usize {
        self.width
            + usize::from(self.has_edge_ids) * EDGE_ID_BYTES
            + usize::from(self.has_time) * 8
            + usize::from(self.has_weight) * 4
    }

    /// Sections of a page at most.
    pub fn sections_max(&self) -> usize {
        1 << self.section_bits
    }

    /// Entries of a secondary section that fills a page.
    pub fn full_entries(&self) -> u64 {
        let room = self.page_bytes - PAGE_HEADER - SLOT_BYTES - self.section_header();
        (room / self.entry_bytes()) as u64
    }

    /// Bytes of a secondary section of `entries`.
    pub fn secondary_bytes(&self, entries: u64) -> usize {
        self.section_header() + entries as usize * self.entry_bytes()
    }

    /// Divides a list: all of it stands beside the rows if there is room in a page, else as much as
    /// fills one.
    pub fn split(&self, degree: u64) -> Split {
        let room = self.unit_bytes() - PAGE_HEADER - SLOT_BYTES;
        let short = self.section_header() + self.row_bytes;
        let entry = self.entry_bytes();
        let fits = degree
            .checked_mul(entry as u64)
            .is_some_and(|bytes| bytes <= room.saturating_sub(short) as u64 && short <= room);
        if fits {
            let section_bytes = short + degree as usize * entry;
            return Split { section_bytes, inline: degree, full: 0, tail: 0, is_long: false };
        }
        let head = short + 2 * self.width;
        let inline = (room.saturating_sub(head) / entry) as u64;
        let section_bytes = head + inline as usize * entry;
        let rest = degree.saturating_sub(inline);
        let (full, tail) = (rest / self.full_entries(), rest % self.full_entries());
        Split { section_bytes, inline, full, tail, is_long: true }
    }

    /// An address.
    pub fn address(&self, page: u64, section: usize) -> u64 {
        page << self.section_bits | section as u64
    }

    /// The page and the section of an address.
    pub fn place(&self, address: u64) -> (u64, usize) {
        let mask = self.sections_max() as u64 - 1;
        (address >> self.section_bits, (address & mask) as usize)
    }

    /// Addresses on a page of the table.
    pub fn table_entries(&self) -> u64 {
        ((self.page_bytes - PAGE_HEADER) / self.width) as u64
    }

    pub fn edge_id_at(&self) -> usize {
        self.width
    }

    pub fn time_at(&self) -> usize {
        self.width + usize::from(self.has_edge_ids) * EDGE_ID_BYTES
    }

    pub fn weight_at(&self) -> usize {
        self.time_at() + usize::from(self.has_time) * 8
    }

    /// Appends a number of [`Shape::width`] bytes.
    pub fn put_number(&self, to: &mut Vec<u8>, number: u64) {
        to.extend_from_slice(&number.to_le_bytes()[..self.width]);
    }

    /// Appends what an entry carries beside its source.
    pub fn put_edge_id(to: &mut Vec<u8>, edge_id: u64) {
        to.extend_from_slice(&edge_id.to_le_bytes()[..EDGE_ID_BYTES]);
    }

    /// The number of [`Shape::width`] bytes at `at`; 0 past the end.
    #[inline]
    pub fn number(&self, bytes: &[u8], at: usize) -> u64 {
        if self.width == WIDTH_MIN {
            return u64::from(le_u32(bytes, at));
        }
        number_of(bytes.get(at..at + self.width))
    }

    /// The edge id in an entry.
    pub fn edge_id(&self, entry: &[u8]) -> u64 {
        let at = self.edge_id_at();
        number_of(entry.get(at..at + EDGE_ID_BYTES))
    }
}

fn number_of(bytes: Option<&[u8]>) -> u64 {
    bytes.unwrap_or_default().iter().rev().fold(0, |high, byte| high << 8 | u64::from(*byte))
}

/// Writes what a page begins with over its first bytes; the rest of it is done.
pub(crate) fn seal(bytes: &mut [u8], kind: Kind, count: usize, page: u64, build: u64) {
    put(bytes, 4, &[kind as u8, 0]);
    put(bytes, 6, &(count as u16).to_le_bytes());
    put(bytes, 8, &page.to_le_bytes());
    put(bytes, 16, &build.to_le_bytes());
    checksum::seal(bytes, 4..bytes.len(), 0);
}

/// Checks a page that comes from the disk.
pub(crate) fn check_page(bytes: &[u8], kind: Kind, page: u64, build: u64) -> Result<(), Damage> {
    let (found, expected) = (checksum::of(&bytes[4..]), le_u32(bytes, 0));
    ensure(found == expected, || format!("checksum {found:#010x}, expected {expected:#010x}"))?;
    let (found, other) = (le_u64(bytes, 8), le_u64(bytes, 16));
    ensure(found == page, || format!("its page number is {found}"))?;
    ensure(other == build, || {
        format!("it belongs to build {other:#018x}, expected {build:#018x}")
    })?;
    let of = &bytes[4..6];
    ensure(of == [kind as u8, 0], || format!("its kind is {of:?}, expected {kind:?}"))
}

/// Sections, or addresses, of a page.
pub(crate) fn count_of(page: &[u8]) -> usize {
    usize::from(le_u16(page, 6))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn shape(row_bytes: usize, width: usize) -> Shape {
        Shape {
            page_bytes: 4096,
            unit_pages: 1,
            width,
            section_bits: 6,
            row_bytes,
            has_edge_ids: false,
            has_time: false,
            has_weight: false,
        }
    }

    #[test]
    fn a_list_is_divided_without_a_gap_and_fills_pages() {
        for (row_bytes, width) in [(0, 4), (256, 4), (1000, 5), (4044, 4), (3000, 8)] {
            let shape = shape(row_bytes, width);
            shape.check().expect("sound");
            for degree in (0..3000).chain([100_000, 1 << 40]) {
                let split = shape.split(degree);
                assert_eq!(
                    split.inline + split.full * shape.full_entries() + split.tail,
                    degree,
                    "{degree}"
                );
                assert!(split.section_bytes <= 4096 - PAGE_HEADER - SLOT_BYTES);
                assert_eq!(split.is_long, split.inline < degree);
                assert!(split.tail < shape.full_entries());
            }
        }
    }

    #[test]
    fn a_flipped_byte_of_a_page_is_seen() {
        let mut page = vec![7; 4096];
        seal(&mut page, Kind::Secondary, 3, 9, 55);
        check_page(&page, Kind::Secondary, 9, 55).expect("sound");
        for at in 0..page.len() {
            page[at] ^= 16;
            assert!(check_page(&page, Kind::Secondary, 9, 55).is_err(), "byte {at}");
            page[at] ^= 16;
        }
        assert!(check_page(&page, Kind::Primary, 9, 55).is_err());
        assert!(check_page(&page, Kind::Secondary, 8, 55).is_err());
        assert!(check_page(&page, Kind::Secondary, 9, 54).is_err());
    }

    #[test]
    fn an_address_is_a_page_and_a_section() {
        let shape = shape(100, 5);
        assert_eq!(shape.place(shape.address(1 << 33, 63)), (1 << 33, 63));
    }
}
