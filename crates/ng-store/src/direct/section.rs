//! Sections: a node with its rows and the beginning of its list, and the rests of long lists.
//!
//! The invariant: what these functions return was checked against the length of the page, the kind,
//! the bounds of the file and the length that the degree asks for; positions lead into it.

use std::ops::Range;

use super::format::{PAGE_HEADER, SECTION_HEADER, SLOT_BYTES, Shape, Split, count_of};
use crate::bytes::{ensure, le_u16, put};
use crate::error::Damage;
use crate::topology::Entry;

const PRIMARY: u8 = 1;
const SECONDARY: u8 = 2;
/// The section has the addresses of secondary ones.
const IS_LONG: u8 = 1;

/// What sections of a file may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub nodes: u64,
    pub entries: u64,
    pub edge_ids: u64,
    /// Pages that hold sections.
    pub pages: u64,
}

/// An entry of a secondary section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The page.
    pub page: u64,
    /// Which section of that page.
    pub section: usize,
    /// Which entry of that section.
    pub index: u64,
    /// The user's id of the node whose section it must be.
    pub node: u64,
    /// Which of its secondary sections it must be.
    pub number: u64,
}

/// Where a position of a list is.
#[derive(Clone, Debug, PartialEq)]
pub enum Position {
    /// In the primary section.
    Here(Entry),
    /// In a secondary one.
    There(Spot),
}

/// A node: its rows, and its list or the beginning of it.
#[derive(Clone, Copy, Debug)]
pub struct Primary<'a> {
    /// The user's id.
    pub node: u64,
    /// Entries of its list.
    pub degree: u64,
    split: Split,
    /// First of the pages that its list fills, and address of the last section.
    rest: (u64, u64),
    rows: &'a [u8],
    entries: &'a [u8],
    shape: &'a Shape,
    bounds: &'a Bounds,
}

/// A part of the list of a node.
#[derive(Clone, Copy, Debug)]
pub struct Secondary<'a> {
    /// The user's id of the node whose list it is.
    node: u64,
    /// Which of its secondary sections it is.
    number: u64,
    entries: &'a [u8],
    shape: &'a Shape,
    bounds: &'a Bounds,
}

impl<'a> Primary<'a> {
    /// Types section `index` of a page.
    pub(crate) fn decode(
        page: &'a [u8],
        index: usize,
        shape: &'a Shape,
        bounds: &'a Bounds,
    ) -> Result<Self, Damage> {
        let bytes = section(page, index)?;
        let node = shape.number(bytes, SECTION_HEADER);
        let degree = shape.number(bytes, SECTION_HEADER + shape.width);
        let split = shape.split(degree);
        let head = &bytes[..2];
        let expected = [PRIMARY, if split.is_long { IS_LONG } else { 0 }];
        ensure(head == expected, || format!("its kind is {head:?}, expected {expected:?}"))?;
        ensure(node < bounds.nodes, || {
            format!("node {node} is out of range: there are {} nodes", bounds.nodes)
        })?;
        ensure(degree <= bounds.entries, || {
            format!("degree {degree} exceeds the {} entries of the file", bounds.entries)
        })?;
        let (found, wanted) = (bytes.len(), split.section_bytes);
        ensure(found == wanted, || {
            format!("it has {found} bytes for degree {degree}, expected {wanted}")
        })?;
        let mut at = shape.section_header();
        let mut rest = (0, 0);
        if split.is_long {
            rest = (shape.number(bytes, at), shape.number(bytes, at + shape.width));
            at += 2 * shape.width;
            let (run, last) = (shape.place(rest.0), shape.place(rest.1));
            let inside = run.0.saturating_add(split.full) <= bounds.pages && last.0 < bounds.pages;
            ensure(inside && run.1 == 0, || {
                format!("the addresses of secondary sections are out of range: {run:?}, {last:?}")
            })?;
        }
        let (rows, entries) = bytes[at..].split_at(shape.row_bytes);
        Ok(Self { node, degree, split, rest, rows, entries, shape, bounds })
    }

    /// A part of its rows.
    pub fn row(&self, bytes: Range<usize>) -> &'a [u8] {
        &self.rows[bytes]
    }

    /// Where entry `position` of the list is, or what it is.
    ///
    /// # Errors
    /// What is wrong with the entry, or that the list is shorter.
    #[inline]
    pub fn position(&self, position: u64) -> Result<Position, Damage> {
        if position < self.split.inline {
            return entry(self.entries, position, self.shape, self.bounds).map(Position::Here);
        }
        ensure(position < self.degree, || {
            format!("position {position} is out of range: the list has {} entries", self.degree)
        })?;
        let (rest, each) = (position - self.split.inline, self.shape.full_entries());
        let (number, index) = (rest / each, rest % each);
        let (page, section) = if number < self.split.full {
            (self.shape.place(self.rest.0).0 + number, 0)
        } else {
            self.shape.place(self.rest.1)
        };
        Ok(Position::There(Spot { page, section, index, node: self.node, number }))
    }
}

impl Primary<'_> {
    /// The last entry of each secondary section.
    pub(crate) fn last_spots(&self) -> impl Iterator<Item = Result<Position, Damage>> + '_ {
        let (each, split) = (self.shape.full_entries(), self.split);
        let full = (1..=split.full).map(move |number| split.inline + number * each - 1);
        full.chain((split.tail > 0).then(|| self.degree - 1)).map(|at| self.position(at))
    }
}

impl<'a> Secondary<'a> {
    /// Types section `index` of a page.
    pub(crate) fn decode(
        page: &'a [u8],
        index: usize,
        shape: &'a Shape,
        bounds: &'a Bounds,
    ) -> Result<Self, Damage> {
        let bytes = section(page, index)?;
        let head = &bytes[..2];
        ensure(head == [SECONDARY, 0], || format!("its kind is {head:?}, expected [2, 0]"))?;
        let node = shape.number(bytes, SECTION_HEADER);
        let number = shape.number(bytes, SECTION_HEADER + shape.width);
        let len = bytes.len().saturating_sub(shape.section_header());
        let whole = len > 0 && len.is_multiple_of(shape.entry_bytes());
        ensure(whole, || format!("{len} bytes is not a whole number of entries"))?;
        let entries = &bytes[shape.section_header()..];
        Ok(Self { node, number, entries, shape, bounds })
    }

    /// The entry that `spot` means.
    ///
    /// # Errors
    /// The section is another one, or shorter; or what is wrong with the entry.
    #[inline]
    pub fn entry(&self, spot: &Spot) -> Result<Entry, Damage> {
        let (found, wanted) = ((self.node, self.number), (spot.node, spot.number));
        ensure(found == wanted, || {
            format!("it belongs to (node, part) {found:?}, expected {wanted:?}")
        })?;
        entry(self.entries, spot.index, self.shape, self.bounds)
    }
}

/// The bytes of a section.
fn section(page: &[u8], index: usize) -> Result<&[u8], Damage> {
    let count = count_of(page);
    ensure(index < count, || format!("the page has only {count} sections"))?;
    let end = page.len().saturating_sub(count * SLOT_BYTES);
    let slot = page.len().saturating_sub((index + 1) * SLOT_BYTES);
    let start = usize::from(le_u16(page, slot));
    let len = usize::from(le_u16(page, start + 2));
    let inside = start >= PAGE_HEADER && start + len <= end;
    let bytes = page.get(start..start + len).filter(|bytes| inside && bytes.len() >= 2);
    bytes.ok_or_else(|| {
        Damage::new(format!("{len} bytes at {start} exceed the page, which ends at {end}"))
    })
}

#[inline]
fn entry(entries: &[u8], index: u64, shape: &Shape, bounds: &Bounds) -> Result<Entry, Damage> {
    let width = shape.entry_bytes();
    let at = (index as usize).saturating_mul(width);
    let bytes = entries.get(at..at.saturating_add(width));
    let bytes = bytes.ok_or_else(|| Damage::new(format!("it has no entry {index}")))?;
    let source = shape.number(bytes, 0);
    ensure(shape.place(source).0 < bounds.pages, || {
        format!("the address {source:#x} of a neighbour is out of range")
    })?;
    let mut entry = Entry { source, edge_id: 0, time: 0, weight: 0.0 };
    if shape.has_edge_ids {
        entry.edge_id = shape.edge_id(bytes);
        let (found, bound) = (entry.edge_id, bounds.edge_ids);
        ensure(found < bound, || {
            format!("edge id {found} is out of range: edge ids are below {bound}")
        })?;
    }
    if shape.has_time {
        entry.time = crate::bytes::le_u64(bytes, shape.time_at()).cast_signed();
    }
    if shape.has_weight {
        entry.weight = f32::from_bits(crate::bytes::le_u32(bytes, shape.weight_at()));
    }
    Ok(entry)
}

/// Appends an entry; `source` is an address.
pub(crate) fn put_entry(shape: &Shape, to: &mut Vec<u8>, entry: &Entry) {
    shape.put_number(to, entry.source);
    if shape.has_edge_ids {
        Shape::put_edge_id(to, entry.edge_id);
    }
    if shape.has_time {
        to.extend_from_slice(&entry.time.to_le_bytes());
    }
    if shape.has_weight {
        to.extend_from_slice(&entry.weight.to_bits().to_le_bytes());
    }
}

/// Begins a primary section; rows and entries follow.
pub(crate) fn begin_primary(
    shape: &Shape,
    to: &mut Vec<u8>,
    (node, degree): (u64, u64),
    rest: (u64, u64),
) {
    let split = shape.split(degree);
    to.clear();
    to.extend_from_slice(&[PRIMARY, if split.is_long { IS_LONG } else { 0 }]);
    to.extend_from_slice(&(split.section_bytes as u16).to_le_bytes());
    shape.put_number(to, node);
    shape.put_number(to, degree);
    if split.is_long {
        shape.put_number(to, rest.0);
        shape.put_number(to, rest.1);
    }
}

/// Begins a secondary section of `entries` entries, the `number`th of its node.
pub(crate) fn begin_secondary(
    shape: &Shape,
    to: &mut Vec<u8>,
    (node, number): (u64, u64),
    entries: u64,
) {
    to.clear();
    to.extend_from_slice(&[SECONDARY, 0]);
    to.extend_from_slice(&(shape.secondary_bytes(entries) as u16).to_le_bytes());
    shape.put_number(to, node);
    shape.put_number(to, number);
}

/// Puts a finished section at `at` of a page.
pub(crate) fn put_section(page: &mut [u8], index: usize, at: usize, section: &[u8]) {
    put(page, at, section);
    let slot = page.len().saturating_sub((index + 1) * SLOT_BYTES);
    put(page, slot, &(at as u16).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn shape(width: usize) -> Shape {
        Shape {
            page_bytes: PAGE,
            unit_pages: 1,
            width,
            section_bits: 8,
            row_bytes: 20,
            has_edge_ids: width == 5,
            has_time: width == 5,
            has_weight: true,
        }
    }

    fn bounds() -> Bounds {
        Bounds { nodes: 1000, entries: 50_000, edge_ids: 50_000, pages: 90 }
    }

    fn neighbor(shape: &Shape, at: u64) -> Entry {
        Entry {
            source: shape.address(at % 90, (at % 7) as usize),
            edge_id: if shape.has_edge_ids { at * 3 } else { 0 },
            time: if shape.has_time { -(at as i64) } else { 0 },
            weight: at as f32 / 7.0,
        }
    }

    /// A page of short sections, and one of a long list; then a page of secondary sections.
    fn pages(shape: &Shape) -> [Vec<u8>; 3] {
        let mut made = [vec![0; PAGE], vec![0; PAGE], vec![0; PAGE]];
        let mut section = Vec::new();
        let mut put = |page: usize, index: usize, at: usize, section: &[u8]| {
            put_section(&mut made[page], index, at, section);
            put_count(&mut made[page], index + 1);
            at + section.len()
        };
        let mut at = PAGE_HEADER;
        for (index, degree) in [3, 0, 12].into_iter().enumerate() {
            begin_primary(shape, &mut section, (index as u64, degree), (0, 0));
            section.extend([index as u8; 20]);
            (0..degree).for_each(|at| put_entry(shape, &mut section, &neighbor(shape, at)));
            at = put(0, index, at, &section);
        }
        let degree = shape.full_entries() * 5;
        let rest = (shape.address(40, 0), shape.address(70, 2));
        begin_primary(shape, &mut section, (9, degree), rest);
        section.extend([9; 20]);
        let inline = shape.split(degree).inline;
        (0..inline).for_each(|at| put_entry(shape, &mut section, &neighbor(shape, at)));
        put(1, 0, PAGE_HEADER, &section);
        let mut at = PAGE_HEADER;
        for (index, entries) in [5, 60].into_iter().enumerate() {
            begin_secondary(shape, &mut section, (9, 3 + index as u64), entries);
            (0..entries).for_each(|at| put_entry(shape, &mut section, &neighbor(shape, at)));
            at = put(2, index, at, &section);
        }
        made
    }

    fn put_count(page: &mut [u8], count: usize) {
        put(page, 6, &(count as u16).to_le_bytes());
    }

    #[test]
    fn sections_are_read_as_they_were_written() {
        for width in [4, 5, 8] {
            let (shape, bounds) = (shape(width), bounds());
            let pages = pages(&shape);
            for (index, degree) in [3_u64, 0, 12].into_iter().enumerate() {
                let found = Primary::decode(&pages[0], index, &shape, &bounds).expect("sound");
                assert_eq!((found.node, found.degree), (index as u64, degree));
                assert_eq!(found.row(5..9), [index as u8; 4]);
                for at in 0..degree {
                    let wanted = Position::Here(neighbor(&shape, at));
                    assert_eq!(found.position(at), Ok(wanted));
                }
                assert!(found.position(degree).is_err());
            }
            let found = Primary::decode(&pages[1], 0, &shape, &bounds).expect("sound");
            let (inline, each) = (shape.split(found.degree).inline, shape.full_entries());
            let spot = |page, section, index, number| {
                Ok(Position::There(Spot { page, section, index, node: 9, number }))
            };
            assert_eq!(found.position(inline), spot(40, 0, 0, 0));
            assert_eq!(found.position(inline + each + 3), spot(41, 0, 3, 1));
            let full = (found.degree - inline) / each;
            assert_eq!(found.position(inline + full * each), spot(70, 2, 0, full));
            assert_eq!(found.last_spots().count() as u64, full + 1);
            let spot = Spot { page: 0, section: 1, index: 59, node: 9, number: 4 };
            let part = Secondary::decode(&pages[2], 1, &shape, &bounds).expect("sound");
            assert_eq!(part.entry(&spot), Ok(neighbor(&shape, 59)));
            for other in [Spot { index: 60, ..spot }, Spot { node: 8, ..spot }] {
                assert!(part.entry(&other).is_err());
            }
            assert!(part.entry(&Spot { number: 3, ..spot }).is_err());
        }
    }

    #[test]
    fn changed_pages_are_refused_or_lead_somewhere_and_never_panic() {
        let mut number = 88_172_645_463_325_252_u64;
        let mut next = |bound: usize| {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            number as usize % bound
        };
        for width in [4, 5, 8] {
            let (shape, bounds) = (shape(width), bounds());
            let sound = pages(&shape);
            for step in 0..6000 {
                let mut page = sound[step % 3].clone();
                for _ in 0..=next(3) {
                    // Headers, then the directory, then anything.
                    let at = match next(3) {
                        0 => next(64),
                        1 => PAGE - 1 - next(8),
                        _ => next(PAGE),
                    };
                    page[at] = next(256) as u8;
                }
                for index in 0..4 {
                    if let Ok(found) = Primary::decode(&page, index, &shape, &bounds) {
                        for at in [0, 1, found.degree / 2, found.degree.wrapping_sub(1)] {
                            if let Ok(Position::There(spot)) = found.position(at) {
                                assert!(spot.page < bounds.pages);
                            }
                        }
                    }
                    if let Ok(part) = Secondary::decode(&page, index, &shape, &bounds) {
                        for at in [0, 5, u64::MAX] {
                            let spot = Spot { page: 0, section: 0, index: at, node: 9, number: 3 };
                            if let Ok(entry) = part.entry(&spot) {
                                assert!(shape.place(entry.source).0 < bounds.pages);
                            }
                        }
                    }
                }
            }
        }
    }
}
