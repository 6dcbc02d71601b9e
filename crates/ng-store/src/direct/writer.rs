//! Step 2: the bytes of all pages, into a file that has a temporary name until it is whole.
//!
//! Nodes come in the order of step 1, which gives every section its place once more; a page is
//! written when nothing is added to it any more. The invariant: memory is that of the open pages
//! and of the lists and rows of some nodes.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::error::DirectError;
use super::format::{Kind, PAGE_HEADER, Shape, seal};
use super::head::DIRECT;
use super::layout::{Placed, Placer, Slot};
use super::plan::{DirectPlan, DirectProgress, EDGE};
use super::section::{begin_primary, begin_secondary, put_entry, put_section};
use crate::sealed::SealedWriter;
use crate::store::{EXPAND_BYTES_PER_DESTINATION, EXPAND_BYTES_PER_ENTRY, GATHER_BYTES_PER_ROW};
use crate::topology::{Entry, Expansion};

/// Entries of lists that are in memory together.
const ENTRIES_TOGETHER: u64 = 1 << 15;
/// Bytes of rows that are in memory together.
const ROW_BYTES_TOGETHER: u64 = 2 << 20;
const NODES_TOGETHER: u64 = 4096;
/// Open pages of both kinds.
const OPEN_BYTES: u64 = 3 << 20;

impl DirectPlan {
    /// Writes the file `NAME.direct` in `directory`, replacing an existing one, and returns its
    /// size in bytes. A killed process leaves `NAME.direct.partial`. It is never read, and the next
    /// call removes it.
    ///
    /// # Errors
    /// [`DirectError::Stopped`] if `progress` says so, [`DirectError::Sealed`],
    /// [`DirectError::Budget`], those of reading.
    pub fn write(
        mut self,
        directory: &Path,
        name: &str,
        progress: &mut DirectProgress<'_>,
    ) -> Result<u64, DirectError> {
        let entries = ENTRIES_TOGETHER * (2 * EXPAND_BYTES_PER_ENTRY + 64);
        let nodes = NODES_TOGETHER * (EXPAND_BYTES_PER_DESTINATION + GATHER_BYTES_PER_ROW + 64);
        let rows = 2 * ROW_BYTES_TOGETHER.max(self.head.shape.row_bytes as u64);
        let beside = OPEN_BYTES + SealedWriter::BUFFER_BYTES;
        let _held = self.snapshot.reserve(entries + nodes + rows + beside)?;
        let name = format!("{name}{}", DIRECT.suffix);
        let bytes = self.head.file_bytes(self.head_bytes);
        let mut out = Pages {
            file: SealedWriter::create(directory, &name, &DIRECT, &self.head, &[])?,
            first: self.head.first_page_at(self.head_bytes),
            build: self.head.build,
            shape: self.head.shape,
            open: HashMap::new(),
        };
        out.file.allocate(bytes)?;
        out.file.pad_to(self.head.shape.page_bytes as u64)?;
        let mut placer = Placer::new(self.head.shape);
        let (mut done, total) = (0, self.order.len());
        let per_row = (ROW_BYTES_TOGETHER / (self.head.shape.row_bytes as u64).max(1)).max(1);
        while done < total {
            if !progress("write", done, total) {
                return Err(DirectError::Stopped);
            }
            let nodes = self.order.some(done, NODES_TOGETHER.min(per_row));
            self.write_nodes(&nodes, &mut placer, &mut out)?;
            done += nodes.len() as u64;
        }
        for (kind, page) in placer.open() {
            out.close(kind, page)?;
        }
        self.write_table(&mut out)?;
        out.file.seal(None)?;
        progress("write", total, total);
        Ok(bytes)
    }

    fn write_nodes(
        &mut self,
        nodes: &[u64],
        placer: &mut Placer,
        out: &mut Pages,
    ) -> Result<(), DirectError> {
        let widths = self.head.tensors.iter().map(|tensor| tensor.row_bytes).collect::<Vec<_>>();
        let mut columns = Vec::with_capacity(widths.len());
        for (tensor, width) in self.tensors.iter().zip(&widths) {
            let mut rows = vec![0; nodes.len() * width];
            self.snapshot.gather(*tensor, nodes, &mut rows)?;
            columns.push(rows);
        }
        let degrees = self.snapshot.degrees(EDGE, nodes)?;
        let mut lists = Lists { plan: self, part: 0..0, read: Expansion::default() };
        let (mut section, mut from) = (Vec::new(), 0);
        for (index, (node, degree)) in nodes.iter().zip(&degrees).enumerate() {
            if index >= from {
                from = lists.load(nodes, &degrees, index)?;
            }
            let mut closed = Vec::new();
            let placed = placer.place(*degree, &mut |kind, page| closed.push((kind, page)));
            let rows = columns.iter().zip(&widths);
            let rows = rows.map(|(rows, width)| &rows[index * width..(index + 1) * width]);
            let rows: Vec<&[u8]> = rows.collect();
            write_sections((*node, *degree), &placed, &rows, &mut lists, (&mut section, out))?;
            for (kind, page) in closed {
                out.close(kind, page)?;
            }
        }
        Ok(())
    }

    /// Addresses by node id, so that seeds can be found.
    fn write_table(&mut self, out: &mut Pages) -> Result<(), DirectError> {
        let (shape, num_nodes) = (self.head.shape, self.head.num_nodes);
        let per_page = shape.table_entries();
        let mut bytes = Vec::with_capacity(shape.page_bytes);
        for number in 0..self.head.table_pages() {
            let first = number * per_page;
            let mut addresses: Vec<u64> = (first..num_nodes.min(first + per_page)).collect();
            let count = addresses.len();
            self.addresses.translate(&mut addresses)?;
            bytes.clear();
            bytes.resize(PAGE_HEADER, 0);
            addresses.iter().for_each(|address| shape.put_number(&mut bytes, *address));
            bytes.resize(shape.page_bytes, 0);
            out.write(Kind::Table, self.head.num_pages() + number, count, &mut bytes)?;
        }
        Ok(())
    }
}

/// Writes all sections of a node.
fn write_sections(
    (node, degree): (u64, u64),
    placed: &Placed,
    rows: &[&[u8]],
    lists: &mut Lists<'_>,
    (section, out): (&mut Vec<u8>, &mut Pages),
) -> Result<(), DirectError> {
    let shape = out.shape;
    let split = shape.split(degree);
    let tail = placed.tail.map_or(0, |slot| shape.address(slot.page, slot.section));
    let rest = (shape.address(placed.run, 0), tail);
    begin_primary(&shape, section, (node, degree), rest);
    rows.iter().for_each(|row| section.extend_from_slice(row));
    lists.put(node, 0..split.inline, &shape, section)?;
    out.put(Kind::Primary, placed.primary, section);
    let each = shape.full_entries();
    let mut at = split.inline;
    for number in 0..split.full {
        begin_secondary(&shape, section, (node, number), each);
        lists.put(node, at..at + each, &shape, section)?;
        let page = placed.run + number;
        out.put(Kind::Secondary, Slot { page, section: 0, at: PAGE_HEADER }, section);
        out.close(Kind::Secondary, page)?;
        at += each;
    }
    if let Some(slot) = placed.tail {
        begin_secondary(&shape, section, (node, split.full), split.tail);
        lists.put(node, at..degree, &shape, section)?;
        out.put(Kind::Secondary, slot, section);
    }
    Ok(())
}

/// Neighbour lists with addresses for sources, some nodes at a time; a list that is longer than
/// what may be in memory, some entries at a time.
struct Lists<'a> {
    plan: &'a mut DirectPlan,
    /// Positions of the list that are there, if only a part of one is.
    part: Range<u64>,
    read: Expansion,
}

impl Lists<'_> {
    /// Reads the lists of nodes from `from` on, as many as fit; says which is the first that is not
    /// there.
    fn load(&mut self, nodes: &[u64], degrees: &[u64], from: usize) -> Result<usize, DirectError> {
        let mut sum = 0;
        let fits = |degree: &&u64| {
            sum += **degree;
            sum <= ENTRIES_TOGETHER
        };
        let count = degrees[from..].iter().take_while(fits).count();
        self.part = 0..0;
        self.read.clear();
        if count == 0 {
            return Ok(from + 1);
        }
        let snapshot = Arc::clone(&self.plan.snapshot);
        snapshot.neighbors(EDGE, &nodes[from..from + count], &mut self.read)?;
        self.plan.addresses.translate(&mut self.read.sources)?;
        // Lists are taken from the front.
        self.part = 0..self.read.sources.len() as u64;
        Ok(from + count)
    }

    /// Appends entries `positions` of the list of `node`, which is the next one.
    fn put(
        &mut self,
        node: u64,
        positions: Range<u64>,
        shape: &Shape,
        to: &mut Vec<u8>,
    ) -> Result<(), DirectError> {
        let mut wanted = positions;
        while !wanted.is_empty() {
            if self.part.is_empty() {
                self.load_part(node, wanted.start)?;
            }
            let count = (wanted.end - wanted.start).min(self.part.end - self.part.start);
            for at in self.part.start..self.part.start + count {
                put_entry(shape, to, &entry(&self.read, at as usize));
            }
            (self.part.start, wanted.start) = (self.part.start + count, wanted.start + count);
        }
        Ok(())
    }

    /// Reads a part of a long list.
    fn load_part(&mut self, node: u64, first: u64) -> Result<(), DirectError> {
        let mut draw = |_: usize, degree: u64, positions: &mut Vec<u64>| {
            positions.extend(first..degree.min(first + ENTRIES_TOGETHER));
        };
        self.read.clear();
        self.plan.snapshot.expand(EDGE, &[node], &mut draw, &mut self.read)?;
        self.plan.addresses.translate(&mut self.read.sources)?;
        self.part = 0..self.read.sources.len() as u64;
        if self.part.is_empty() {
            return Err(DirectError::Unsupported(format!("the list of node {node} ends early")));
        }
        Ok(())
    }
}

fn entry(read: &Expansion, at: usize) -> Entry {
    Entry {
        source: read.sources[at],
        edge_id: read.edge_ids.get(at).copied().unwrap_or(0),
        time: read.times.get(at).copied().unwrap_or(0),
        weight: read.weights.get(at).copied().unwrap_or(0.0),
    }
}

/// Pages on their way to the file.
struct Pages {
    file: SealedWriter,
    /// Where page 0 begins.
    first: u64,
    build: u64,
    shape: Shape,
    /// By number: sections so far, bytes.
    open: HashMap<u64, (usize, Vec<u8>)>,
}

impl Pages {
    fn put(&mut self, kind: Kind, slot: Slot, section: &[u8]) {
        let bytes = self.shape.bytes_of(kind);
        let (count, page) = self.open.entry(slot.page).or_insert_with(|| (0, vec![0; bytes]));
        put_section(page, slot.section, slot.at, section);
        *count = slot.section + 1;
    }

    fn close(&mut self, kind: Kind, page: u64) -> Result<(), DirectError> {
        let Some((count, mut bytes)) = self.open.remove(&page) else { return Ok(()) };
        self.write(kind, page, count, &mut bytes)
    }

    fn write(
        &mut self,
        kind: Kind,
        page: u64,
        count: usize,
        bytes: &mut [u8],
    ) -> Result<(), DirectError> {
        seal(bytes, kind, count, page, self.build);
        let at = self.first + page * self.shape.page_bytes as u64;
        Ok(self.file.write_at(at, bytes)?)
    }
}
