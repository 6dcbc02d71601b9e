//! Step 1 of Algorithm 1 (BeaconGNN): which section goes into which page, from the sizes alone.
//!
//! Nodes come one after the other; each section goes into the first open page that has room, and
//! few pages are open at a time. The same calls give the same places, so that step 2 repeats step
//! 1 with buffers. What must not live here: bytes, files.

use super::format::{Kind, PAGE_HEADER, SLOT_BYTES, Shape};

/// Memory for the open pages of a kind, which bounds how many there are.
const OPEN_BYTES: usize = 1 << 20;

/// A page that may take another section.
#[derive(Clone, Copy, Debug)]
struct Open {
    page: u64,
    /// From the beginning of the page.
    used: usize,
    sections: usize,
}

/// Where a section goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub page: u64,
    pub section: usize,
    /// Its first byte in the page.
    pub at: usize,
}

/// Where the sections of a node go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub primary: Slot,
    /// First of the pages that secondary sections fill; 0 if there are none.
    pub run: u64,
    /// The last secondary section, if it is not one of them.
    pub tail: Option<Slot>,
}

/// Open pages of one kind, the oldest first.
struct Pages {
    open: Vec<Open>,
    bytes: usize,
    /// The least that any section takes.
    section_min: usize,
    open_max: usize,
}

impl Pages {
    fn new(bytes: usize, section_min: usize) -> Self {
        Self { open: Vec::new(), bytes, section_min, open_max: (OPEN_BYTES / bytes).clamp(8, 64) }
    }

    fn free(&self, open: &Open) -> usize {
        self.bytes - open.used - open.sections * SLOT_BYTES
    }

    /// Puts `bytes` into the first page that has room, or a new one at `next`; says which, whether
    /// it is new, and which page was closed.
    fn put(&mut self, bytes: usize, sections_max: usize, next: u64) -> (Slot, bool, Option<u64>) {
        let wanted = bytes + SLOT_BYTES;
        let found = self.open.iter().position(|open| self.free(open) >= wanted);
        let mut closed = None;
        let index = found.unwrap_or_else(|| {
            if self.open.len() >= self.open_max {
                let fullest = (0..self.open.len()).min_by_key(|at| self.free(&self.open[*at]));
                closed = fullest.map(|at| self.open.remove(at).page);
            }
            self.open.push(Open { page: next, used: PAGE_HEADER, sections: 0 });
            self.open.len() - 1
        });
        let open = &mut self.open[index];
        let slot = Slot { page: open.page, section: open.sections, at: open.used };
        open.used += bytes;
        open.sections += 1;
        let open = *open;
        let is_full =
            open.sections == sections_max || self.free(&open) < self.section_min + SLOT_BYTES;
        // At most one page closes in a call: a new one that is full at once was not among the open.
        if is_full && closed.is_none() {
            closed = Some(self.open.remove(index).page);
        }
        (slot, found.is_none(), closed)
    }
}

/// Hands out places.
pub(crate) struct Placer {
    shape: Shape,
    primary: Pages,
    secondary: Pages,
    next: u64,
    /// Sections of the fullest page.
    pub sections_most: usize,
    pub primary_pages: u64,
    pub secondary_pages: u64,
}

impl Placer {
    pub fn new(shape: Shape) -> Self {
        let primary = Pages::new(shape.unit_bytes(), shape.section_header() + shape.row_bytes);
        let secondary = Pages::new(shape.page_bytes, shape.secondary_bytes(1));
        let (sections_most, primary_pages, secondary_pages) = (1, 0, 0);
        Self { shape, primary, secondary, next: 0, sections_most, primary_pages, secondary_pages }
    }

    /// Pages so far.
    pub fn num_pages(&self) -> u64 {
        self.next
    }

    /// Places the sections of the next node. `closed` gets pages that nothing is added to any more.
    pub fn place(&mut self, degree: u64, closed: &mut dyn FnMut(Kind, u64)) -> Placed {
        let split = self.shape.split(degree);
        let primary = self.put(Kind::Primary, split.section_bytes, closed);
        let run = if split.full > 0 { self.next } else { 0 };
        self.next += split.full;
        self.secondary_pages += split.full;
        let tail = (split.tail > 0)
            .then(|| self.put(Kind::Secondary, self.shape.secondary_bytes(split.tail), closed));
        Placed { primary, run, tail }
    }

    fn put(&mut self, kind: Kind, bytes: usize, closed: &mut dyn FnMut(Kind, u64)) -> Slot {
        let (pages, taken) = match kind {
            Kind::Primary => (&mut self.primary, self.shape.unit_pages as u64),
            _ => (&mut self.secondary, 1),
        };
        let (slot, is_new, ended) = pages.put(bytes, self.shape.sections_max(), self.next);
        if is_new {
            self.next += taken;
            let count = match kind {
                Kind::Primary => &mut self.primary_pages,
                _ => &mut self.secondary_pages,
            };
            *count += taken;
        }
        self.sections_most = self.sections_most.max(slot.section + 1);
        if let Some(page) = ended {
            closed(kind, page);
        }
        slot
    }

    /// The pages that are still open.
    pub fn open(&self) -> impl Iterator<Item = (Kind, u64)> + '_ {
        let primary = self.primary.open.iter().map(|open| (Kind::Primary, open.page));
        primary.chain(self.secondary.open.iter().map(|open| (Kind::Secondary, open.page)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn shape(unit_pages: usize, row_bytes: usize) -> Shape {
        Shape {
            page_bytes: 4096,
            unit_pages,
            width: 4,
            section_bits: 5,
            row_bytes,
            has_edge_ids: true,
            has_time: false,
            has_weight: false,
        }
    }

    /// Degrees with hubs, without a library.
    fn degree(node: u64) -> u64 {
        let mixed = (node * 2_654_435_761) % 1009;
        if mixed < 3 { mixed * 9000 } else { mixed % 40 }
    }

    #[test]
    fn sections_never_overlap_and_every_page_closes_once() {
        for shape in [shape(1, 0), shape(1, 900), shape(3, 9000)] {
            shape.check().expect("sound");
            let mut placer = Placer::new(shape);
            let mut ends: HashMap<(Kind, u64), (usize, usize)> = HashMap::new();
            let mut ended = HashSet::new();
            for node in 0..5000 {
                let split = shape.split(degree(node));
                let placed = placer.place(degree(node), &mut |kind, page| {
                    assert!(ended.insert((kind, page)), "{kind:?} page {page} closed twice");
                });
                let tail = placed.tail.map(|slot| (Kind::Secondary, slot, split.tail));
                let sections = [Some((Kind::Primary, placed.primary, 0)), tail];
                for (kind, slot, entries) in sections.into_iter().flatten() {
                    let bytes = match kind {
                        Kind::Primary => split.section_bytes,
                        _ => shape.secondary_bytes(entries),
                    };
                    let end = ends.entry((kind, slot.page)).or_insert((PAGE_HEADER, 0));
                    assert_eq!((slot.at, slot.section), *end);
                    *end = (slot.at + bytes, slot.section + 1);
                    assert!(end.0 + end.1 * SLOT_BYTES <= shape.bytes_of(kind));
                    assert!(end.1 <= shape.sections_max());
                }
            }
            for open in placer.open() {
                assert!(ended.insert(open));
            }
            assert_eq!(ended, ends.keys().copied().collect());
            let pages = placer.primary_pages + placer.secondary_pages;
            assert_eq!(pages, placer.num_pages());
        }
    }
}
