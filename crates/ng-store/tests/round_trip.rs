//! What was written is what is read, for random graphs of every shape.
#![allow(clippy::expect_used)]

mod common;

use common::model::{Model, ModelEdges};
use common::seeded;
use ng_store::Owner;
use ng_testing::Random;
use ng_types::{EdgeTypeId, NodeTypeId};

const PAGE_BYTES: [u32; 5] = [4096, 8192, 16_384, 32_768, 65_536];

fn columns(bits: u64) -> ModelEdges {
    ModelEdges {
        has_edge_ids: bits & 1 != 0,
        has_time: bits & 2 != 0,
        has_weight: bits & 4 != 0,
        ..ModelEdges::default()
    }
}

/// Degrees of `count` nodes out of `bound`: mostly short lists, some long, a few over many pages.
fn degrees(random: &mut Random, bound: u64, count: u64) -> Vec<(u64, usize)> {
    let mut all = std::collections::BTreeMap::new();
    for _ in 0..count {
        let degree = match random.below(40) {
            0 => random.below(20_000),
            1 => random.below(1_200),
            2 => 0,
            _ => random.below(30),
        };
        all.insert(random.below(bound), degree as usize);
    }
    all.into_iter().filter(|(_, degree)| *degree > 0).collect()
}

#[test]
fn random_graphs_come_back_with_every_page_size_and_column() {
    for seed in 0..40 {
        let mut random = seeded(seed);
        let page_bytes = PAGE_BYTES[seed as usize % PAGE_BYTES.len()];
        let nodes = 1 + random.below(3_000);
        let mut model = Model::new(&[nodes], page_bytes);
        model.fill = 0.3 + random.below(8) as f64 / 10.0;
        let degrees = degrees(&mut random, nodes, nodes / 2);
        model.edges(columns(seed), &degrees, &mut random);
        let store = model.open_unruly(32 << 20, 7);
        model.compare(&store.snapshot(), &mut random, 300);
        model.read_all(&store.snapshot()).expect("sound");
    }
}

#[test]
fn ids_past_2_to_the_32_take_five_bytes_and_come_back() {
    for seed in 100..108 {
        let mut random = seeded(seed);
        let nodes = (1 << 40) - random.below(1 << 30);
        let mut model = Model::new(&[nodes], PAGE_BYTES[seed as usize % 5]);
        let mut degrees = degrees(&mut random, nodes, 400);
        degrees.push((nodes - 1, 3_000));
        model.edges(columns(seed), &degrees, &mut random);
        let store = model.open_unruly(32 << 20, 7);
        model.compare(&store.snapshot(), &mut random, 300);
    }
}

#[test]
fn empty_graphs_and_isolated_nodes_have_no_neighbours() {
    let mut random = seeded(1);
    for nodes in [0, 1, 70_000] {
        let mut model = Model::new(&[nodes], 4096);
        model.edges(columns(7), &[], &mut random);
        model.tensor(Owner::Node(NodeTypeId(0)), 12, &mut random);
        model.tensor(Owner::Edge(EdgeTypeId(0)), 12, &mut random);
        let store = model.open_unruly(32 << 20, 7);
        model.compare(&store.snapshot(), &mut random, 100);
    }
}

#[test]
fn parallel_edges_and_self_loops_are_kept_in_list_order() {
    let mut random = seeded(5);
    let mut model = Model::new(&[2], 4096);
    model.edges(columns(1), &[(0, 1_500), (1, 700)], &mut random);
    let store = model.open_unruly(32 << 20, 7);
    model.read_all(&store.snapshot()).expect("sound");
}

#[test]
fn rows_of_every_width_come_back() {
    let mut random = seeded(9);
    for width in [1, 8, 100, 255, 256, 500, 1024, 1433, 4096, 5732, 9_000, 14_740, 300_000] {
        let rows = (2_000_000 / width as u64).clamp(9, 3_000);
        let mut model = Model::new(&[rows], 4096);
        model.tensor(Owner::Node(NodeTypeId(0)), width, &mut random);
        let store = model.open_unruly(16 << 20, 8);
        for _ in 0..4 {
            model.compare(&store.snapshot(), &mut random, 64);
        }
        model.read_all(&store.snapshot()).expect("sound");
    }
}

#[test]
fn heterogeneous_graphs_keep_their_types_apart() {
    let mut random = seeded(11);
    let mut model = Model::new(&[500, 90, 3_000], 8192);
    model.names(0, &mut random);
    model.names(2, &mut random);
    for (source, destination) in [(0, 1), (1, 0), (2, 2)] {
        let edges = ModelEdges { source, destination, has_edge_ids: true, ..columns(4) };
        let bound = model.num_nodes[usize::from(destination)];
        let degrees = degrees(&mut random, bound, bound);
        model.edges(edges, &degrees, &mut random);
    }
    model.tensor(Owner::Node(NodeTypeId(2)), 512, &mut random);
    model.tensor(Owner::Edge(EdgeTypeId(1)), 16, &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 2_000, &mut random);
    model.tensor(Owner::Node(NodeTypeId(2)), 1, &mut random);
    model.tensor(Owner::Edge(EdgeTypeId(2)), 300, &mut random);
    for memory in [4 << 20, 64 << 20] {
        let store = model.open_unruly(memory, 9);
        model.compare(&store.snapshot(), &mut random, 400);
        model.read_all(&store.snapshot()).expect("sound");
        assert!(store.budget().peak_bytes() <= memory);
    }
}

#[test]
fn equal_calls_give_equal_bytes() {
    let build = || {
        let mut random = seeded(21);
        let mut model = Model::new(&[1_000], 4096);
        let degrees = degrees(&mut random, 1_000, 900);
        model.edges(columns(7), &degrees, &mut random);
        model.tensor(Owner::Node(NodeTypeId(0)), 700, &mut random);
        model.names(0, &mut random);
        model.files()
    };
    assert!(build() == build());
}
