//! The decoders as plain functions of bytes, for fuzzers and tests; no part of the interface.
//!
//! Checksums, and ids that a reader knows beforehand, are made right, so that only the decoder
//! stands between the bytes and the reader. What it answers does not matter; it must not panic.

use std::hint::black_box;

use ng_types::checksum;

use crate::bytes::{le_u32, le_u64};
use crate::dictionary::page::StringPage;
use crate::io::BLOCK_BYTES;
use crate::limits::PAGES_BOUND;
use crate::page::{
    Entries, FAN_CHILDREN, INNER_ENTRIES, Inner, Leaf, LeafSpec, pages_per_child, pages_per_leaf,
};
use crate::topology::{
    Entry, EntryLayout, HLayout, LPage, PageHeader, ROOM_BIT, check_h_page, degree_of,
};
use crate::tree::{TreeKind, TreePage};
use crate::version::root::{self, RootHeader};
use crate::write::log::{BlockHeader, Record, chain};
use crate::write::op::Op;

/// A decoder.
pub type Target = fn(&[u8]);

/// All of them by name.
pub const TARGETS: [(&str, Target); 8] = [
    ("root", root),
    ("page_table", page_table),
    ("l_page", l_page),
    ("h_page", h_page),
    ("tree", tree),
    ("strings", strings),
    ("log", log),
    ("ops", ops),
];

/// The bytes as a page of one of the sizes there are.
fn page(data: &[u8]) -> Vec<u8> {
    let mut page = data.to_vec();
    page.truncate(65_536);
    page.resize(page.len().next_power_of_two().max(BLOCK_BYTES), 0);
    page
}

fn block(data: &[u8]) -> Vec<u8> {
    let mut block = data.to_vec();
    block.resize(BLOCK_BYTES, 0);
    block
}

fn seen<T>(value: T) {
    black_box(value);
}

/// A slot: the header block, then the catalog.
pub fn root(data: &[u8]) {
    let (header, body) = data.split_at(data.len().min(BLOCK_BYTES));
    let mut header = block(header);
    checksum::seal(&mut header, 0..44, 44);
    let decoded = RootHeader::decode(&header);
    black_box(RootHeader::check_padding(&header).is_ok());
    let Ok(header) = decoded else { return };
    let body_bytes = body.len() as u64;
    let header = RootHeader { body_bytes, body_crc: checksum::of(body), ..header };
    if let Ok(catalog) = root::decode_body(&header, body) {
        black_box(catalog.disk_bytes());
        black_box(root::encode(&catalog, header.checkpoint_id, header.lsn).is_ok());
    }
}

/// A block of a page table, of any kind.
pub fn page_table(data: &[u8]) {
    let block = block(data);
    let (segment, first_logical) = (le_u32(&block, 4), le_u64(&block, 8) % PAGES_BOUND);
    let (index, count) = (le_u32(&block, 8), le_u32(&block, 12) as usize % INNER_ENTRIES);
    if let Ok(inner) = Inner::decode(&block, segment, index, count, PAGES_BOUND) {
        (0..=count).for_each(|leaf| seen(inner.leaf(leaf)));
    }
    for blocks_per_page in [1, 2, 4, 8, 16] {
        let page_bytes = blocks_per_page as u32 * BLOCK_BYTES as u32;
        let spec = LeafSpec {
            segment,
            first_logical,
            num_pages: pages_per_leaf(page_bytes),
            blocks_per_page,
            physical_pages: PAGES_BOUND,
            map_blocks: PAGES_BOUND,
        };
        let end = (first_logical + spec.num_pages) * blocks_per_page;
        let asked: Vec<u64> = (first_logical * blocks_per_page..end).step_by(7).collect();
        match Leaf::decode(&block, &spec) {
            Ok(Leaf::Run(run)) => {
                asked.iter().for_each(|block| seen(run.block(*block)));
                black_box(run.pages(blocks_per_page).1.count());
            }
            Ok(Leaf::Fan(fan)) => {
                black_box(fan.split(&asked, 0..asked.len(), blocks_per_page).count());
                (0..FAN_CHILDREN).for_each(|child| seen(fan.child(child)));
            }
            Err(_) => {}
        }
        if let Ok(entries) = Entries::decode(&block, &spec, first_logical) {
            asked.iter().for_each(|block| seen(entries.block(*block)));
            let last = pages_per_child(page_bytes);
            (0..=last).for_each(|place| seen(entries.entry(place)));
        }
    }
}

/// The edge type and the columns that the header of a topology page claims.
fn claimed(page: &[u8]) -> (u32, EntryLayout) {
    let flags = page.get(4).copied().unwrap_or(0);
    let layout = EntryLayout {
        id_width: if page.get(3) == Some(&5) { 5 } else { 4 },
        has_edge_ids: flags & 1 != 0,
        has_time: flags & 2 != 0,
        has_weight: flags & 4 != 0,
    };
    (le_u32(page, 24), layout)
}

fn entries(layout: EntryLayout, raw: &[u8]) {
    let decode = |bytes| layout.decode(bytes);
    let sum = raw.chunks_exact(layout.entry_bytes()).map(decode);
    black_box(sum.fold(0, |sum: u64, Entry { source, .. }| sum ^ source));
}

/// An L-type page: all of its lists, and lists that it does not have.
pub fn l_page(data: &[u8]) {
    let page = page(data);
    let (edge_type, layout) = claimed(&page);
    black_box(LPage::check(&page, edge_type, layout).is_ok());
    let Ok(typed) = LPage::decode(&page, edge_type, layout) else { return };
    black_box((typed.first(), typed.end(), typed.used_bytes()));
    for index in 0..=typed.len() {
        if let Ok((node, raw)) = typed.slot(index) {
            entries(layout, raw);
            for near in [node, node.wrapping_add(1), node.wrapping_sub(1)] {
                black_box(typed.list(near).is_ok());
            }
        }
    }
}

/// An H-type page, of the list that it claims to be of and of a longer one.
pub fn h_page(data: &[u8]) {
    let page = page(data);
    let (edge_type, layout) = claimed(&page);
    let Ok(header) = PageHeader::decode(&page, edge_type, layout) else { return };
    let (h_layout, part) = (HLayout::new(layout, page.len() as u32), header.end_or_part.into());
    let before = part * h_layout.per_page();
    for degree in [before + u64::from(header.num_entries), degree_of(u64::MAX), 0, ROOM_BIT - 1] {
        let found = check_h_page(&page, edge_type, layout, (header.node, degree), part);
        black_box(h_layout.pages(degree));
        for (start, count) in h_layout.blocks(found.unwrap_or_default()) {
            let raw = page.get(start..start + count * layout.entry_bytes());
            entries(layout, raw.unwrap_or_default());
        }
    }
}

/// A page of a tree of any kind.
pub fn tree(data: &[u8]) {
    let block = block(data);
    for kind in [TreeKind::L, TreeKind::H, TreeKind::Gmap, TreeKind::Names] {
        for level in 0..3 {
            black_box(TreePage::check(&block, kind, level).is_ok());
            let Ok(typed) = TreePage::decode(&block, kind, level) else { continue };
            for index in 0..=typed.len() {
                black_box(typed.record(index));
                black_box(typed.lower_bound(index, typed.key(index / 2)));
            }
        }
    }
}

/// A page of a dictionary.
pub fn strings(data: &[u8]) {
    let block = block(data);
    let (segment, level) = (le_u32(&block, 8), block.get(2).copied().unwrap_or(0));
    black_box(StringPage::check(&block, segment, level).is_ok());
    let Ok(typed) = StringPage::decode(&block, segment, level) else { return };
    for index in 0..=typed.len() {
        if let Ok((_, text)) = typed.entry(index) {
            black_box(typed.lower_bound(text).is_ok());
        }
    }
}

/// Blocks of a log, and the record that they may be.
pub fn log(data: &[u8]) {
    let mut joined = Vec::new();
    for part in data.chunks(BLOCK_BYTES).take(16) {
        let mut block = block(part);
        checksum::seal(&mut block, 8..BLOCK_BYTES, 4);
        black_box(BlockHeader::decode(&block).is_ok());
        joined.extend_from_slice(crate::write::log::payload(&block));
    }
    if let Ok(record) = Record::decode(joined) {
        black_box(chain(record.chain, 1, &record.ops));
        ops(&record.ops);
    }
}

/// The operations of a record.
pub fn ops(data: &[u8]) {
    let mut rest = data;
    while let Ok(op) = Op::decode(&mut rest) {
        black_box(op);
    }
}
