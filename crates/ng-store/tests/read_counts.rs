//! How many reads a batch costs, exactly.
#![allow(clippy::expect_used)]

mod common;

use common::model::{Model, ModelEdges};
use common::seeded;
use ng_store::{Expansion, Owner, Store};
use ng_types::{EdgeTypeId, NodeTypeId};

const EDGES: EdgeTypeId = EdgeTypeId(0);

/// Nodes of 40 neighbours, about 22 to a page, and one hub of 100,000.
fn graph(hub: bool) -> Model {
    let mut random = seeded(4);
    let mut model = Model::new(&[20_000], 4096);
    let mut degrees: Vec<(u64, usize)> = (0..10_000).map(|node| (node, 40)).collect();
    if hub {
        degrees.push((15_000, 100_000));
    }
    model.edges(ModelEdges::default(), &degrees, &mut random);
    model
}

fn reads(store: &Store, work: impl FnOnce()) -> u64 {
    let before = store.stats().reads;
    work();
    store.stats().reads - before
}

#[test]
fn a_cold_expansion_reads_the_path_to_its_pages_once_and_a_warm_one_nothing() {
    let store = graph(false).open(64 << 20);
    let snapshot = store.snapshot();
    let expand = |nodes: &[u64]| {
        snapshot.neighbors(EDGES, nodes, &mut Expansion::default()).expect("sound");
    };
    // The index' page table, the index and the topology's page table as a whole, one page.
    assert_eq!(reads(&store, || expand(&[5])), 3 + 1);
    assert_eq!(reads(&store, || expand(&[5, 5, 6])), 0);
    // 20 nodes far apart: 20 pages.
    let far: Vec<u64> = (0..20).map(|i| 400 + i * 480).collect();
    assert_eq!(reads(&store, || expand(&far)), 20);
    assert_eq!(reads(&store, || expand(&far)), 0);
    // Neighbouring pages are merged into one read.
    let near: Vec<u64> = (100..300).collect();
    assert_eq!(reads(&store, || expand(&near)), 1);
}

#[test]
fn ten_positions_of_a_hub_cost_at_most_ten_blocks() {
    let store = graph(true).open(64 << 20);
    let snapshot = store.snapshot();
    let expand = |positions: &[u64]| {
        let mut draw = |_: usize, degree: u64, out: &mut Vec<u64>| {
            assert_eq!(degree, 100_000);
            out.extend_from_slice(positions);
        };
        snapshot.expand(EDGES, &[15_000], &mut draw, &mut Expansion::default()).expect("sound");
    };
    // The index (with gmap directory, bitmap, H index) and its page table; that of the topology.
    assert_eq!(reads(&store, || expand(&[])), 2);
    let spread: Vec<u64> = (0..10).map(|i| i * 9_876).collect();
    assert_eq!(reads(&store, || expand(&spread)), 1 + 10);
    assert_eq!(reads(&store, || expand(&spread)), 0);
    assert_eq!(reads(&store, || expand(&[50_000, 50_001, 50_001, 50_000])), 1);
    // The whole list: 99 blocks, merged into reads of 64 where none is cached in between.
    let all = reads(&store, || expand(&(0..100_000).collect::<Vec<_>>()));
    assert!(all <= 13, "{all} reads");
}

#[test]
fn a_gather_reads_each_block_once_and_rows_of_one_block_together() {
    let mut random = seeded(6);
    let mut model = Model::new(&[4_000], 4096);
    model.tensor(Owner::Node(NodeTypeId(0)), 1024, &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 8, &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 14_740, &mut random);
    let store = model.open(256 << 20);
    let snapshot = store.snapshot();
    let gather = |tensor: usize, rows: &[u64]| {
        let mut out = vec![0; rows.len() * model.tensors[tensor].row_bytes];
        snapshot.gather(model.tensor_ref(tensor), rows, &mut out).expect("sound")
    };
    // The page table as a whole. Rows 0 to 3 share a block, row 2,000 is far away.
    assert_eq!(reads(&store, || assert_eq!(gather(0, &[3, 2_000, 0, 3]).rows_cached, 0)), 1 + 2);
    assert_eq!(reads(&store, || assert_eq!(gather(0, &[3, 2_000, 0]).rows_cached, 3)), 0);
    // Rows 1 and 2 were not asked for, so they are not cached, though their block was read.
    assert_eq!(reads(&store, || assert_eq!(gather(0, &[1]).rows_cached, 0)), 1);
    // Narrow rows are cached by the block: 512 rows of 8 bytes.
    assert_eq!(reads(&store, || assert_eq!(gather(1, &[0, 511, 512]).rows_cached, 0)), 1 + 1);
    assert_eq!(reads(&store, || assert_eq!(gather(1, &[77, 1023]).rows_cached, 2)), 0);
    // One row of 14,740 bytes in a page of 16 KiB: one request of 4 blocks; another for the page
    // table, which has a leaf for 254 pages and an inner block.
    let before = store.stats();
    gather(2, &[1_234]);
    let after = store.stats();
    assert_eq!(after.reads - before.reads, 2);
    assert_eq!(after.read_bytes - before.read_bytes, (4 + 17) * 4096);
    assert_eq!(after.useful_bytes - before.useful_bytes, 14_740);
}
