//! Groups, orders and kept answers: the bytes are those of each node alone, and each switch changes
//! the work that is done.
#![allow(clippy::expect_used)]

mod help;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use help::{client, folder, register, run, started};
use ng_engine::{Engine, EngineOptions, Prepare};
use ng_infer::dfg::Elements;
use ng_infer::run::Devices;
use ng_rpc::v1;
use ng_sample::Fanouts;
use ng_server::Config;
use ng_server::schedule::{ScheduleStats, Switches};
use ng_store::{OpenOptions, Store};
use ng_testing::Random;

const NODES: u64 = 2_000;
const CLIENTS: u64 = 8;
const REQUESTS: usize = 40;

/// What each node gets alone, as bytes.
fn alone(folder: &std::path::Path) -> impl Fn(u64) -> Vec<u8> {
    let options = OpenOptions { memory: Some(64 << 20), ..OpenOptions::default() };
    let store = Store::open(&folder.join("small.ng"), &options).expect("store");
    let options = EngineOptions {
        fanouts: Fanouts::uniform(&[25, 10], 1).expect("fanouts"),
        output: None,
        devices: Devices::with_cpu().into(),
        prepare: Prepare::Metadata,
        threads: 1,
        batch_nodes: 1024,
        go_on: || true,
    };
    let engine = Engine::open(store.snapshot(), help::common::model(), options).expect("engine");
    move |node| {
        let _open = &store;
        match engine.run(&[node], 0).expect("answer").elements {
            Elements::F32(all) => all.iter().flat_map(|number| number.to_le_bytes()).collect(),
            _ => Vec::new(),
        }
    }
}

/// Has clients ask beside each other for nodes of a small range, which repeat; checks each byte.
fn asked(switches: &str, seed: u64) -> ScheduleStats {
    let folder = folder(NODES);
    let switches: Switches = switches.parse().expect("switches");
    let memory = Some(256 << 20);
    let set = |config| Config { scheduler: switches, lanes: 1, memory, ..config };
    let serving = started(folder.path(), set);
    register(&client(&serving, 0));
    let alone = alone(folder.path());
    let expected: Arc<Vec<Vec<u8>>> = Arc::new((0..200).map(alone).collect());
    std::thread::scope(|scope| {
        for one in 0..CLIENTS {
            let (client, expected) = (client(&serving, 1), Arc::clone(&expected));
            scope.spawn(move || {
                let mut random = Random::new(seed + one);
                for _ in 0..REQUESTS {
                    let count = 1 + random.below(4);
                    let nodes: Vec<u64> = (0..count).map(|_| random.below(200)).collect();
                    let rows = client.run(run(&nodes)).expect("answer").rows.expect("rows");
                    let wanted = nodes.iter().map(|node| expected[*node as usize].as_slice());
                    assert_eq!(rows.data, wanted.collect::<Vec<_>>().concat(), "{nodes:?}");
                }
            });
        }
    });
    let stats = serving.schedule();
    serving.end();
    assert_eq!(stats.requests, CLIENTS * REQUESTS as u64);
    stats
}

#[test]
fn answers_are_those_of_each_node_alone_and_switches_change_the_work() {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("clock");
    let seed = clock.subsec_nanos().into();
    println!("seed {seed}");
    let none = asked("N", seed);
    assert_eq!((none.groups, none.cached), (none.requests, 0));
    let grouped = asked("G", seed);
    assert!(grouped.groups < grouped.requests, "{grouped:?}");
    assert!(grouped.duplicates > none.duplicates, "{grouped:?} {none:?}");
    assert!(grouped.computed < none.computed);
    let ordered = asked("GS", seed);
    assert!(ordered.groups < ordered.requests);
    let kept = asked("CGS", seed);
    assert!(kept.cached > kept.computed, "{kept:?}");
    assert!(kept.computed <= 200);
}

#[test]
fn a_bad_node_fails_its_own_request_alone() {
    let folder = folder(NODES);
    let serving = started(folder.path(), |config| Config { lanes: 1, ..config });
    register(&client(&serving, 0));
    std::thread::scope(|scope| {
        for one in 0..CLIENTS {
            let client = client(&serving, 1);
            scope.spawn(move || {
                for at in 0..20 {
                    let answer = client.run(run(&[at, if one == 0 { NODES } else { one }]));
                    assert_eq!(answer.is_err(), one == 0);
                }
            });
        }
    });
}

#[test]
fn pairs_are_scored_by_the_rows_of_their_nodes() {
    let folder = folder(NODES);
    let serving = started(folder.path(), |config| config);
    let client = client(&serving, 0);
    register(&client);
    let edges =
        v1::Edges { sources: vec![3, 9], destinations: vec![9, 11], ..v1::Edges::default() };
    let targets = Some(v1::Targets { targets: Some(v1::targets::Targets::Edges(edges)) });
    let scores = client.run(v1::RunRequest { targets, ..run(&[]) }).expect("scores");
    let rows = client.run(run(&[3, 9, 11])).expect("rows").rows.expect("rows").data;
    let floats = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let rows = floats(&rows);
    let dot =
        |a: usize, b: usize| (0..3).map(|at| rows[3 * a + at] * rows[3 * b + at]).sum::<f32>();
    assert_eq!(floats(&scores.rows.expect("rows").data), [dot(0, 1), dot(1, 2)]);
    assert_eq!(scores.rows_cached, 0);
}

#[test]
fn what_is_not_kept_is_counted_once() {
    let folder = folder(NODES);
    let serving = started(folder.path(), |config| config);
    let client = client(&serving, 0);
    register(&client);
    client.run(run(&[1, 2])).expect("answer");
    let counts = || {
        let stats = serving.answers().expect("they are kept");
        (stats.hits, stats.misses)
    };
    let (hits, misses) = counts();
    assert_eq!(client.run(run(&[2, 3, 4])).expect("answer").rows_cached, 1);
    assert_eq!(counts(), (hits + 1, misses + 2));
    assert_eq!(client.run(run(&[1, 4])).expect("answer").rows_cached, 2);
    assert_eq!(counts(), (hits + 3, misses + 2));
}
