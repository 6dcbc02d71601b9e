//! A sound store has no problems, whatever its shape and however small the budget.
#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;

use common::changing::{Shape, change, open};
use common::model::{Model, ModelEdges};
use common::{Files, disk_of, seeded};
use ng_store::{OpenOptions, Owner, VerifyReport, verify_on};
use ng_testing::MemDisk;
use ng_types::{EdgeTypeId, NodeTypeId};

#[test]
fn sound_stores_have_no_problems_and_progress_reaches_the_end() {
    for seed in 0..12 {
        let mut random = seeded(seed);
        let nodes = 1 + random.below(5_000);
        let page_bytes = 4096 << random.below(5);
        let mut model = Model::new(&[nodes, 100_000], page_bytes);
        let mut degrees = std::collections::BTreeMap::new();
        for _ in 0..nodes {
            let degree = if random.below(50) == 0 { random.below(9_000) } else { random.below(20) };
            degrees.insert(random.below(100_000), 1 + degree as usize);
        }
        let degrees: Vec<(u64, usize)> = degrees.into_iter().collect();
        let edges = ModelEdges {
            destination: 1,
            has_edge_ids: true,
            has_weight: seed % 2 == 0,
            ..ModelEdges::default()
        };
        model.edges(edges, &degrees, &mut random);
        model.edges(ModelEdges::default(), &[], &mut random);
        model.tensor(Owner::Node(NodeTypeId(0)), 1 + random.below(9_000) as usize, &mut random);
        model.tensor(Owner::Edge(EdgeTypeId(0)), 4, &mut random);
        model.names(0, &mut random);
        let memory = if seed % 3 == 0 { 4 << 20 } else { 64 << 20 };
        let options = OpenOptions { memory: Some(memory), ..OpenOptions::default() };
        let mut last = (0, 0);
        let mut progress = |done, total| {
            assert!(done > last.0 && done <= total);
            last = (done, total);
            true
        };
        let report = verify_on(model.build(), &options, &mut progress).expect("opens");
        assert_eq!(report.problems, []);
        assert_eq!((last.0, report.blocks), (last.1, last.1));
    }
}

fn shape(seed: u64) -> Shape {
    let has = |bit: u64| seed >> bit & 1 == 1;
    Shape {
        num_nodes: [3, 90, 2_000][(seed % 3) as usize],
        page_bytes: 4096 << (seed % 4),
        row_bytes: [40, 3_000, 9_000][(seed / 3 % 3) as usize],
        undirected: has(0),
        unique: has(1),
        has_edge_ids: has(2),
        has_time: has(3),
        has_weight: has(4),
        reuse_ids: has(2),
    }
}

fn check(disk: &MemDisk) -> VerifyReport {
    let options = OpenOptions { memory: Some(8 << 20), ..OpenOptions::default() };
    verify_on(Arc::new(disk.clone()), &options, &mut |_, _| true).expect("opens")
}

#[test]
fn stores_that_changed_have_no_problems_before_and_after_checkpoints() {
    let mut long_lists = 0;
    for seed in 0..32 {
        let (mut random, shape) = (seeded(seed), shape(seed));
        let disk = shape.build();
        let mut store = open(&disk);
        for round in 0..12 {
            let contained = store.snapshot().lsn();
            for _ in 0..1 + random.below(3) {
                let count = random.below(600);
                change(&store, &shape, &mut random, count);
            }
            let waiting = store.snapshot().lsn() - contained;
            let before = disk.image();
            let report = check(&disk);
            assert_eq!((report.problems, report.log_commits), (vec![], waiting), "{shape:?}");
            assert!(disk.image() == before, "verify must not write");
            store.checkpoint().expect("written");
            let report = check(&disk);
            assert_eq!((report.problems, report.log_commits), (vec![], 0), "{shape:?} {round}");
            assert!(!report.log_torn);
            if random.below(3) == 0 {
                drop(store);
                store = open(&disk);
            }
        }
        let stats = store.update_stats().unwrap_or_default();
        long_lists += stats.lists.promotions;
    }
    assert!(long_lists > 0);
}

#[test]
fn a_torn_end_of_the_log_is_told_and_is_no_problem() {
    let shape = shape(1);
    let disk = shape.build();
    let mut random = seeded(1);
    let store = open(&disk);
    change(&store, &shape, &mut random, 50);
    change(&store, &shape, &mut random, 50);
    let mut files = disk.image();
    let log = files.get_mut("wal.a").expect("exists");
    let last = log.chunks(4096).rposition(|block| block.iter().any(|b| *b != 0)).expect("used");
    log[last * 4096 + 700] ^= 1;
    let report = check(&disk_of(files));
    assert_eq!((report.problems, report.log_commits, report.log_torn), (vec![], 1, true));
}

#[test]
fn one_damaged_root_slot_is_noted_and_mended_by_the_next_writer() {
    let shape = shape(1);
    let disk = shape.build();
    let mut random = seeded(2);
    let store = open(&disk);
    change(&store, &shape, &mut random, 50);
    drop(store);
    let older = shape.build().image();
    type Change = Box<dyn Fn(&mut Vec<u8>)>;
    let changes: [(&str, Change); 6] = [
        ("checksum", Box::new(|bytes| bytes[30] ^= 1)),
        ("checksum", Box::new(|bytes| bytes[4100] ^= 1)),
        ("truncated", Box::new(|bytes| bytes.truncate(100))),
        ("truncated", Box::new(|bytes| bytes.truncate(4096))),
        ("padding", Box::new(|bytes| bytes[4000] = 1)),
        ("checkpoint 1", Box::new(move |bytes| bytes.clone_from(&older["root.a"]))),
    ];
    for (expected, change) in changes {
        for slot in ["root.a", "root.b"] {
            let mut files = disk.image();
            change(files.get_mut(slot).expect("exists"));
            let damaged = MemDisk::from_image(files);
            let report = check(&damaged);
            assert!(report.is_ok(), "{expected}, {slot}: {:?}", report.problems);
            let [note] = report.notes.as_slice() else { panic!("{:?}", report.notes) };
            assert!(note.file == slot && note.what.contains(expected), "{note:?}");
            drop(open(&damaged).write().expect("the only writer"));
            let report = check(&damaged);
            assert_eq!((report.problems, report.notes), (vec![], vec![]));
        }
    }
    let mut files = disk.image();
    for slot in ["root.a", "root.b"] {
        files.get_mut(slot).expect("exists")[4000] = 1;
    }
    assert!(!check(&disk_of(files)).is_ok(), "both are damaged");
}

/// Changes the catalog in both slots and makes their checksums right.
fn edit_catalog(files: &mut Files, change: impl Fn(&mut serde_json::Value)) {
    for slot in ["root.a", "root.b"] {
        let bytes = files.get_mut(slot).expect("exists");
        let len = u64::from_le_bytes(bytes[16..24].try_into().expect("eight")) as usize;
        let mut catalog = serde_json::from_slice(&bytes[4096..4096 + len]).expect("a catalog");
        change(&mut catalog);
        let body = serde_json::to_vec(&catalog).expect("plain data");
        bytes.truncate(4096);
        bytes[16..24].copy_from_slice(&(body.len() as u64).to_le_bytes());
        bytes[40..44].copy_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..44]);
        bytes[44..48].copy_from_slice(&sum.to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
    }
}

#[test]
fn what_is_sound_by_itself_and_wrong_as_a_whole_is_a_problem() {
    let shape = Shape { num_nodes: 300, undirected: false, ..shape(24) };
    let disk = shape.build();
    let mut random = seeded(9);
    let store = open(&disk);
    for _ in 0..12 {
        change(&store, &shape, &mut random, 2_000);
    }
    drop(store);
    type Change = Box<dyn Fn(&mut serde_json::Value)>;
    let number = |path: &'static str, by: i64| -> Change {
        Box::new(move |catalog| {
            let place = catalog.pointer_mut(path).expect("there");
            *place = (place.as_i64().expect("a number") + by).into();
        })
    };
    let cases: Vec<(&str, Change)> = vec![
        ("deleted nodes", number("/node_types/0/num_nodes_live", 1)),
        ("(edges, L-type pages", number("/edge_types/0/num_edges", -1)),
        ("number of edges", number("/edge_types/0/num_edges", -1)),
        ("(edges, L-type pages", number("/edge_types/1/topology/num_l_pages", -1)),
        (
            "index page",
            Box::new(move |catalog| {
                let roots = &mut catalog["edge_types"][0]["topology"];
                roots["h_root"] = roots["l_root"].clone();
            }),
        ),
        (
            "two pointers lead",
            Box::new(move |catalog| {
                let roots = &mut catalog["edge_types"][0]["topology"];
                roots["gmap_root"] = roots["l_root"].clone();
            }),
        ),
        (
            "no pointer leads to",
            Box::new(move |catalog| {
                let roots = &mut catalog["edge_types"][0]["topology"];
                roots["num_h_lists"] = 0.into();
                roots["h_root"] = serde_json::Value::Null;
                roots["gmap_root"] = serde_json::Value::Null;
            }),
        ),
    ];
    for (expected, change) in cases {
        let mut files = disk.image();
        edit_catalog(&mut files, change);
        let report = check(&disk_of(files));
        let found = report.problems.iter().any(|problem| problem.what.contains(expected));
        assert!(found, "{expected}: {:?}", report.problems);
    }
}
