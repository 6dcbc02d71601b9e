//! Rotten blocks are errors that name the place, also while everything around them is served.
#![allow(clippy::expect_used)]

mod common;

use common::model::{Model, ModelEdges};
use common::{Files, disk_of, seeded};
use ng_store::{Expansion, OpenOptions, Owner, ReadError, RowQueue, Store};
use ng_types::{EdgeTypeId, NodeTypeId};

#[test]
fn a_rotten_block_fails_the_batches_that_need_it_and_no_others() {
    let mut random = seeded(2);
    let mut model = Model::new(&[2_000], 4096);
    let degrees: Vec<(u64, usize)> = (0..2_000).map(|node| (node, 30)).collect();
    model.edges(ModelEdges::default(), &degrees, &mut random);
    model.tensor(Owner::Node(NodeTypeId(0)), 512, &mut random);
    let mut files = model.files();
    let rot = |files: &mut Files, name: &str, at: usize| {
        let bytes = files.get_mut(name).expect("exists");
        bytes[at] ^= 0x10;
    };
    rot(&mut files, "e0.topo.dat", 10 * 4096 + 100);
    // An entry in the middle of a list: nothing but the checksum can see it.
    rot(&mut files, "t2.dat", 20 * 4096 + 7);
    let options = OpenOptions { memory: Some(16 << 20), ..OpenOptions::default() };
    let store = Store::open_on(disk_of(files), &options).expect("opens");
    let snapshot = store.snapshot();
    let mut failed = (0, 0);
    for node in 0..2_000 {
        let mut out = Expansion::default();
        match snapshot.neighbors(EdgeTypeId(0), &[node], &mut out) {
            Ok(()) => assert_eq!(out, model.expansion(0, &[node], |_, d| (0..d).collect())),
            Err(ReadError::Checksum { file, block, .. }) => {
                assert_eq!((file.as_str(), block), ("e0.topo.dat", 10));
                failed.0 += 1;
            }
            Err(other) => panic!("{other}"),
        }
        let mut row = vec![0; 512];
        let queue = RowQueue::new(&snapshot);
        let ticket = queue.ask(model.tensor_ref(0), &[node]).expect("sound tables");
        assert_eq!(queue.read().is_err(), (160..168).contains(&node));
        let rows = if (160..168).contains(&node) { Vec::new() } else { model.rows(0, &[node]) };
        assert!(queue.take(ticket) == rows);
        match snapshot.gather(model.tensor_ref(0), &[node], &mut row) {
            Ok(_) => assert_eq!(row, model.rows(0, &[node])),
            Err(ReadError::Checksum { file, page, .. }) => {
                assert_eq!((file.as_str(), page), ("t2.dat", 20));
                failed.1 += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!((20..40).contains(&failed.0), "{failed:?}");
    assert_eq!(failed.1, 8);
    let found = store.scrub(&mut |_, _| true, None).expect("scrubbed").problems;
    let held: Vec<&str> = found.iter().filter_map(|problem| problem.holds.as_deref()).collect();
    assert_eq!(held.len(), 2, "{found:?}");
    assert!(held[0].starts_with("neighbour lists of edge type"), "{held:?}");
    assert!(held[1].starts_with("tensor ") && held[1].contains(" of node type "), "{held:?}");
}
