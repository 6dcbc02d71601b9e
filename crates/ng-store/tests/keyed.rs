//! Transactions with a key are applied once, whatever happens in between.
#![allow(clippy::expect_used)]

use std::path::Path;
use std::sync::Barrier;
use std::thread;

use ng_store::{
    Begun, BuildOptions, EdgeTypeSpec, KeyedCommit, OpenOptions, Store, StoreBuilder, UpdateError,
    compact,
};
use ng_types::NodeTypeId;

const NODES: NodeTypeId = NodeTypeId(0);

fn build(path: &Path) {
    std::fs::create_dir(path).expect("made");
    let mut builder = StoreBuilder::create(path, BuildOptions::default()).expect("fresh");
    let node = builder.node_type("node", 10).expect("declared");
    let spec = EdgeTypeSpec {
        source: node,
        relation: "links".into(),
        destination: node,
        undirected: false,
        unique: false,
        has_edge_ids: false,
        has_time: false,
        has_weight: false,
    };
    let edge = builder.edge_type(spec).expect("declared");
    let part = builder.topology(edge).expect("declared").finish().expect("whole");
    builder.add(part).expect("added");
    builder.commit().expect("published");
}

fn open(path: &Path) -> Store {
    Store::open(path, &OpenOptions { memory: Some(64 << 20), ..OpenOptions::default() })
        .expect("opens")
}

/// Adds a node unless the key is known; what is known of it.
fn add(store: &Store, key: &[u8]) -> (bool, KeyedCommit) {
    match store.write_keyed(key, None).expect("may write") {
        Begun::Known(known) => (false, known),
        Begun::New(mut tx) => {
            let id = tx.add_node(NODES).expect("added");
            tx.keep(key, &id.to_le_bytes()).expect("new");
            let commit = tx.commit().expect("durable");
            let note = id.to_le_bytes().as_slice().into();
            (true, KeyedCommit { lsn: commit.lsn, key: key.into(), note })
        }
        Begun::Forgotten(to) => panic!("nothing was said of when, and {to} is forgotten"),
    }
}

fn nodes(store: &Store) -> u64 {
    store.snapshot().catalog().node_types[0].num_nodes
}

#[test]
fn a_key_is_applied_once_across_crashes_checkpoints_and_rewriting() {
    let dir = tempfile::tempdir().expect("made");
    let path = dir.path().join("g.ng");
    build(&path);
    let store = open(&path);
    let (is_new, first) = add(&store, b"first");
    // Taking up keys is a commit of its own.
    assert!(is_new && first.lsn == 2 && nodes(&store) == 11);
    assert_eq!(add(&store, b"first"), (false, first.clone()));
    // As after a kill: the log has it, the root does not.
    std::mem::forget(store);
    let copy = dir.path().join("copy.ng");
    std::fs::create_dir(&copy).expect("made");
    for file in std::fs::read_dir(&path).expect("listed") {
        let file = file.expect("listed").path();
        std::fs::copy(&file, copy.join(file.file_name().expect("named"))).expect("copied");
    }
    let store = open(&copy);
    assert_eq!(store.recovery().commits, 1);
    assert_eq!(add(&store, b"first"), (false, first.clone()));
    let fingerprint = store.snapshot().fingerprint();
    let (is_new, second) = add(&store, b"second");
    assert!(is_new && second.lsn == 3 && store.snapshot().fingerprint() != fingerprint);
    store.close().expect("written");
    let options = OpenOptions { memory: Some(64 << 20), ..OpenOptions::default() };
    compact(&copy, &options, &mut |_, _| true).expect("written anew");
    let store = open(&copy);
    assert_eq!(add(&store, b"second"), (false, second));
    assert_eq!(add(&store, b"first"), (false, first));
    assert_eq!((nodes(&store), store.snapshot().lsn()), (12, 3));
}

#[test]
fn keys_of_concurrent_batches_are_applied_once_and_share_syncs() {
    let dir = tempfile::tempdir().expect("made");
    let path = dir.path().join("g.ng");
    build(&path);
    let store = open(&path);
    let (threads, rounds) = (8, 25_u32);
    let barrier = Barrier::new(threads);
    let added: Vec<Vec<(bool, KeyedCommit)>> = thread::scope(|scope| {
        let run = || {
            let each = |round: u32| {
                barrier.wait();
                add(&store, &round.to_be_bytes())
            };
            (0..rounds).map(each).collect()
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        all.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for round in 0..rounds as usize {
        let answers: Vec<&(bool, KeyedCommit)> = added.iter().map(|all| &all[round]).collect();
        assert_eq!(answers.iter().filter(|(is_new, _)| *is_new).count(), 1);
        assert!(answers.iter().all(|(_, known)| *known == answers[0].1));
    }
    assert_eq!((nodes(&store), store.snapshot().lsn()), (10 + 25, 1 + 25));
}

#[test]
fn keys_and_notes_that_are_too_long_are_refused_and_change_nothing() {
    let dir = tempfile::tempdir().expect("made");
    let path = dir.path().join("g.ng");
    build(&path);
    let store = open(&path);
    for key in [[].as_slice(), &[1; 65]] {
        let refused = store.write_keyed(key, None).map(drop);
        assert!(matches!(refused, Err(UpdateError::Unsupported { .. })), "{refused:?}");
    }
    let Ok(Begun::New(mut tx)) = store.write_keyed(&[1; 64], None) else { panic!("it is new") };
    tx.add_node(NODES).expect("added");
    let refused = tx.keep(&[1; 64], &[0; 4097]);
    assert!(matches!(refused, Err(UpdateError::Unsupported { .. })), "{refused:?}");
    tx.keep(&[1; 64], &[0; 4096]).expect("fits");
    drop(tx);
    assert!(matches!(store.write_keyed(&[1; 64], None), Ok(Begun::New(_))));
    assert_eq!(nodes(&store), 10);
}

/// The window is 4,096 keys, of which 64 are forgotten together.
#[test]
fn a_batch_whose_key_was_forgotten_is_not_taken_for_a_new_one() {
    let dir = tempfile::tempdir().expect("made");
    let path = dir.path().join("g.ng");
    build(&path);
    let store = open(&path);
    let (_, first) = add(&store, b"first");
    // Transactions that are queued together share syncs.
    let store = &store;
    thread::scope(|scope| {
        for part in 0..16_u32 {
            scope.spawn(move || {
                for number in 0..257 {
                    assert!(add(store, &(part << 16 | number).to_be_bytes()).0);
                }
            });
        }
    });
    let before = (nodes(store), store.snapshot().lsn());
    let forgotten = |key: &[u8], since| match store.write_keyed(key, since).expect("may write") {
        Begun::Forgotten(to) => Some(to),
        Begun::New(_) | Begun::Known(_) => None,
    };
    let to = forgotten(b"first", Some(first.lsn - 1)).expect("it may have been committed");
    assert!((first.lsn..first.lsn + 128).contains(&to), "{to}");
    // What was first sent after that has not been committed, and without a commit nobody knows.
    assert_eq!(forgotten(b"other", Some(to)), None);
    assert_eq!(forgotten(b"first", None), None);
    assert_eq!(forgotten(b"other", Some(to - 1)), Some(to));
    // Those that are remembered are told, whenever they were first sent.
    assert!(matches!(store.write_keyed(&256_u32.to_be_bytes(), Some(0)), Ok(Begun::Known(_))));
    assert_eq!((nodes(store), store.snapshot().lsn()), before);
}
