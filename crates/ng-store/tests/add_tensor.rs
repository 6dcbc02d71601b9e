//! A tensor that a store gets later: it is what was given, whatever the order of rows; others see
//! it when it is durable, and nobody sees a part of it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::graph::{Graph, Op, Schema};
use common::seeded;
use ng_store::{
    BuildError, BuildOptions, NewTensor, OpenOptions, Owner, RowOrder, Store, StoreBuilder,
    TensorRef, TensorSpec, UpdateError, compact, reorganize, verify, verify_on,
};
use ng_testing::{CrashDisk, ImageChoice, MemDisk, Random, Room};
use ng_types::{Dtype, NodeTypeId};

const LEFTOVERS: [&str; 2] = ["dat", "map"];

fn options() -> OpenOptions {
    let busy_timeout = std::time::Duration::ZERO;
    OpenOptions { memory: Some(16 << 20), busy_timeout, ..OpenOptions::default() }
}

fn open(path: &Path) -> Store {
    Store::open(path, &options()).unwrap()
}

fn verified(path: &Path) {
    let report = verify(path, &options(), &mut |_, _| true).unwrap();
    assert!(report.is_ok(), "{:?}", report.problems);
}

/// A store with one commit, and what it holds.
fn build(path: &Path, random: &mut Random, reuse_ids: bool) -> Graph {
    let options = BuildOptions { reuse_ids, ..BuildOptions::default() };
    let mut graph = Graph::new(Schema::everything(60, options), random);
    std::fs::create_dir(path).unwrap();
    graph.build(StoreBuilder::create(path, graph.schema.options).unwrap());
    let store = open(path);
    change(&store, &mut graph, random);
    graph
}

fn change(store: &Store, graph: &mut Graph, random: &mut Random) {
    let mut tx = store.write().unwrap();
    (0..200).for_each(|_| drop(graph.step(&mut tx, random, true).unwrap()));
    let op = Op::AddNode(0);
    let outcome = graph.run(&mut tx, &op).unwrap();
    graph.apply(&op, Some(&outcome));
    tx.commit().unwrap();
}

#[test]
fn a_tensor_is_what_was_given_and_stays_right_when_the_store_changes_is_compacted_and_reordered() {
    let (dir, mut random) = (tempfile::tempdir().unwrap(), seeded(11));
    let path = dir.path().join("g.ng");
    let mut graph = build(&path, &mut random, true);
    for round in 0..3 {
        let (store, other) = (open(&path), open(&path));
        for _ in 0..4 {
            let (held, before) = (store.snapshot(), graph.clone());
            // Some commits are in the log alone.
            change(&store, &mut graph, &mut random);
            let wanted = store.snapshot().lsn() + 1;
            graph.draw_tensor(&mut random);
            assert_eq!(graph.add_tensor_to(&store).unwrap(), wanted);
            graph.check(&store.snapshot()).unwrap();
            before.check(&held).unwrap();
            assert_eq!(held.catalog().find_tensor(Owner::Node(NodeTypeId(0)), "no"), None);
            let counts = [&held, &store.snapshot()].map(|s| s.catalog().tensor_refs().count());
            assert_eq!(counts[0] + 1, counts[1]);
            // Nobody has to close or checkpoint for others to see it.
            graph.check(&open(&path).snapshot()).unwrap();
            // Rows of the new tensor change, too.
            change(&store, &mut graph, &mut random);
        }
        let busy = other.write().err();
        assert!(matches!(busy, Some(UpdateError::Busy { .. })), "{busy:?}");
        drop(store);
        verified(&path);
        let mut here = other.write().unwrap();
        let outcome = graph.run(&mut here, &Op::AddNode(1)).unwrap();
        graph.apply(&Op::AddNode(1), Some(&outcome));
        here.commit().unwrap();
        graph.check(&other.snapshot()).unwrap();
        drop(other);
        if round == 0 {
            compact(&path, &options(), &mut |_, _| true).unwrap();
        } else {
            reorder(&path, &mut random);
        }
        verified(&path);
        graph.check(&open(&path).snapshot()).unwrap();
    }
    let added = &graph.schema.tensors[5..];
    assert!(added.len() == 12 && added.iter().any(|(_, width)| *width > 4096), "{added:?}");
}

fn reorder(path: &Path, random: &mut Random) {
    let seed = random.next_u64();
    let mut orders = |snapshot: &Arc<ng_store::Snapshot>| {
        let mut random = Random::new(seed);
        let order = |id: u16| {
            let count = snapshot.catalog().node_types[usize::from(id)].num_nodes as u32;
            let mut ids: Vec<u32> = (0..count).collect();
            (1..count).for_each(|at| ids.swap(at as usize, random.below(at as u64 + 1) as usize));
            let held = snapshot.budget().reserve(RowOrder::bytes_for(count.into())).unwrap();
            (NodeTypeId(id), RowOrder::of(&ids, held).unwrap())
        };
        Ok::<_, UpdateError>([0, 1].map(order).into())
    };
    reorganize(path, &options(), &mut orders, &mut |_, _| true).unwrap();
}

fn spec(name: &str, dtype: Dtype, shape: &[u64]) -> TensorSpec {
    TensorSpec { name: name.into(), dtype, shape: shape.into(), mask_width: None }
}

/// Adds rows of ones.
fn add(store: &Store, new: &NewTensor, given: u64) -> Result<u64, UpdateError> {
    let width: u64 = new.spec.shape.iter().product::<u64>() * new.spec.dtype.size_bytes() as u64;
    let mut rows = Some(vec![1; (given * width) as usize]);
    let mut next = |out: &mut Vec<u8>| {
        out.extend(rows.take().into_iter().flatten());
        Ok(())
    };
    store.add_tensor::<UpdateError>(new, &mut next).map(|report| report.lsn)
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let (dir, mut random) = (tempfile::tempdir().unwrap(), seeded(12));
    let path = dir.path().join("g.ng");
    let graph = build(&path, &mut random, false);
    let store = open(&path);
    let count = graph.live[0].len() as u64;
    let new = |name: &str, dtype, shape: &[u64]| NewTensor {
        node_type: NodeTypeId(0),
        spec: spec(name, dtype, shape),
        num_rows: count,
        lsn: None,
    };
    let good = new("h", Dtype::F32, &[3]);
    let unknown = NewTensor { node_type: NodeTypeId(9), ..good.clone() };
    let of_then = NewTensor { num_rows: count + 1, lsn: Some(0), ..good.clone() };
    for (new, given, wanted) in [
        (new("x0", Dtype::F32, &[3]), 0, "already has a tensor \"x0\""),
        (new("", Dtype::F32, &[3]), 0, "needs a name"),
        (NewTensor { num_rows: count - 1, ..good.clone() }, 0, "give a row for every id"),
        (NewTensor { num_rows: count + 1, ..good.clone() }, 0, "give a row for every id"),
        (of_then, 0, "give a row for every id"),
        (new("h", Dtype::F32, &[0]), 0, "1 to 1073741824 bytes"),
        (new("h", Dtype::F32, &[1 << 40]), 0, "1 to 1073741824 bytes"),
        (new("h", Dtype::F64, &[u64::MAX, u64::MAX]), 0, "1 to 1073741824 bytes"),
        (unknown, 0, "node type 9"),
        (good.clone(), count - 1, "rows, expected"),
        (good.clone(), count + 1, "bytes after 0 rows"),
    ] {
        let error = if new.spec.shape.iter().any(|dim| *dim > 1 << 30) {
            store.add_tensor::<UpdateError>(&new, &mut |_| Ok(())).unwrap_err()
        } else {
            add(&store, &new, given).unwrap_err()
        };
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(!matches!(error, UpdateError::Build(_)), "{error:?}");
    }
    // An error of whoever gives the rows, and a part of a row.
    let stopped = store.add_tensor(&good, &mut |_| Err(UpdateError::Stopped)).unwrap_err();
    assert!(matches!(stopped, UpdateError::Stopped));
    let mut torn = |out: &mut Vec<u8>| {
        out.extend([1; 13]);
        Ok(())
    };
    let error = store.add_tensor::<UpdateError>(&good, &mut torn).unwrap_err();
    assert!(error.to_string().contains("got 13 bytes"), "{error}");
    let segment = segments(&path);
    for ending in LEFTOVERS {
        assert!(!path.join(format!("t{segment}.{ending}")).exists());
    }
    graph.check(&store.snapshot()).unwrap();
    assert_eq!(store.snapshot().lsn(), 1);
    // Nothing of that is in the way of a good one; and its name is taken from then on.
    assert_eq!(add(&store, &good, count).unwrap(), 2);
    assert!(add(&store, &good, count).unwrap_err().to_string().contains("already"));
    verified(&path);
}

/// Segments of the last checkpoint.
fn segments(path: &Path) -> usize {
    let text = String::from_utf8_lossy(&std::fs::read(path.join("root.a")).unwrap()).into_owned();
    text.matches("\"page_bytes\"").count() - 1
}

#[test]
fn nodes_that_came_after_the_rows_have_zeros_unless_ids_are_given_out_again() {
    for reuse_ids in [false, true] {
        let (dir, mut random) = (tempfile::tempdir().unwrap(), seeded(13));
        let path = dir.path().join("g.ng");
        let mut graph = build(&path, &mut random, reuse_ids);
        let store = open(&path);
        let then = store.snapshot();
        let given = then.catalog().node_types[0].num_nodes;
        change(&store, &mut graph, &mut random);
        let now = store.snapshot().catalog().node_types[0].num_nodes;
        assert!(reuse_ids || given < now);
        let new = NewTensor {
            node_type: NodeTypeId(0),
            spec: spec("h", Dtype::U8, &[5]),
            num_rows: given,
            lsn: Some(then.lsn()),
        };
        let added = add(&store, &new, given);
        if reuse_ids {
            let error = added.unwrap_err().to_string();
            assert!(error.contains("reuses ids of deleted nodes"), "{error}");
            continue;
        }
        added.unwrap();
        let snapshot = store.snapshot();
        let tensor = snapshot.catalog().find_tensor(Owner::Node(NodeTypeId(0)), "h").unwrap();
        let mut rows = vec![9; now as usize * 5];
        snapshot.gather(tensor, &(0..now).collect::<Vec<_>>(), &mut rows).unwrap();
        let (first, rest) = rows.split_at(given as usize * 5);
        assert!(first.iter().all(|byte| *byte == 1) && rest.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_full_disk_costs_the_tensor_alone_and_what_a_crash_has_left_is_removed() {
    let mut random = seeded(14);
    let mut graph = Graph::new(Schema::everything(30, BuildOptions::default()), &mut random);
    let disk = graph.disk();
    let store = Store::open_on(Arc::new(disk.clone()), &options()).unwrap();
    change(&store, &mut graph, &mut random);
    let before = graph.clone();
    graph.draw_tensor(&mut random);
    let files = disk.image().len();
    disk.set_room(Room::Full);
    let error = graph.add_tensor_to(&store).unwrap_err();
    assert!(matches!(&error, UpdateError::Build(error) if matches!(**error, BuildError::Write(_))));
    before.check(&store.snapshot()).unwrap();
    disk.set_room(Room::Free);
    assert_eq!(disk.image().len(), files);
    // The writer goes on. Files that nobody names are in nobody's way, and go with the next one.
    change(&store, &mut before.clone(), &mut Random::new(1));
    drop(store);
    let segment = disk.image().keys().filter(|name| name.ends_with(".dat")).count();
    let mut image = disk.image();
    for ending in LEFTOVERS {
        image.insert(format!("t{segment}.{ending}"), vec![7; 9000]);
    }
    let disk = MemDisk::from_image(image);
    let report = verify_on(Arc::new(disk.clone()), &options(), &mut |_, _| true).unwrap();
    assert!(report.is_ok(), "{:?}", report.problems);
    let reader = Store::open_on(Arc::new(disk.clone()), &options()).unwrap();
    assert!(disk.image().contains_key(&format!("t{segment}.dat")), "a reader removes nothing");
    drop(reader.write().unwrap());
    assert!(!disk.image().contains_key(&format!("t{segment}.dat")));
}

#[test]
fn batches_and_checkpoints_of_other_threads_wait() {
    let mut random = seeded(15);
    let mut graph = Graph::new(Schema::everything(30, BuildOptions::default()), &mut random);
    let disk = graph.disk();
    let store = Store::open_on(Arc::new(disk.clone()), &options()).unwrap();
    graph.draw_tensor(&mut random);
    std::thread::scope(|scope| {
        let (begun, wait) = std::sync::mpsc::channel();
        let of_others = &store;
        let writing = scope.spawn(move || {
            wait.recv().unwrap();
            let lsn = of_others.write().map(|mut tx| {
                tx.add_node(NodeTypeId(0)).unwrap();
                tx.commit().unwrap().lsn
            });
            lsn.unwrap()
        });
        let checkpointing = scope.spawn(|| store.checkpoint().unwrap());
        let mut rows = Some(graph.rows.last().unwrap().clone());
        let mut next = |out: &mut Vec<u8>| {
            let _ = begun.send(());
            std::thread::sleep(std::time::Duration::from_millis(20));
            out.extend(rows.take().into_iter().flatten());
            Ok::<_, UpdateError>(())
        };
        assert_eq!(store.add_tensor(&graph.new_tensor(), &mut next).unwrap().lsn, 1);
        assert_eq!(writing.join().unwrap(), 2);
        checkpointing.join().unwrap();
    });
    graph.apply(&Op::AddNode(0), None);
    graph.check(&store.snapshot()).unwrap();
    let index = graph.tensor_ref(graph.rows.len() - 1);
    assert!(matches!(index, TensorRef { owner: Owner::Node(_), .. }));
    drop(store);
    graph.check(&Store::open_on(Arc::new(disk), &options()).unwrap().snapshot()).unwrap();
}

#[test]
fn power_is_lost_at_any_moment_and_the_tensor_is_there_whole_or_not_at_all() {
    let mut random = seeded(16);
    let options = BuildOptions::default();
    let schema = Schema { edges: vec![], ..Schema::everything(40, options) };
    let schema = Schema { nodes: vec![40], tensors: vec![schema.tensors[1]], ..schema };
    let mut graph = Graph::new(schema, &mut random);
    let disk = CrashDisk::new(graph.disk());
    let open = |disk: MemDisk| Store::open_on(Arc::new(disk), &self::options()).unwrap();
    let shared: Arc<dyn ng_io::Disk> = Arc::new(disk.clone());
    let store = Store::open_on(shared, &self::options()).unwrap();
    disk.mark(0);
    let mut states = vec![graph.clone()];
    for step in 0..3 {
        // With and without commits that only the log has; over what an addition has left.
        if step != 1 {
            let mut tx = store.write().unwrap();
            let op = Op::SetRow(0, step, random.bytes(12));
            assert_eq!(graph.run(&mut tx, &op).unwrap(), graph.apply(&op, None));
            disk.mark(tx.commit().unwrap().lsn);
            states.push(graph.clone());
        }
        let mut failing = graph.clone();
        failing.draw_tensor(&mut random);
        let stopped = |rows: &mut Vec<u8>| -> Result<(), UpdateError> {
            if rows.is_empty() { Err(UpdateError::Stopped) } else { Ok(()) }
        };
        store.add_tensor(&failing.new_tensor(), &mut { stopped }).unwrap_err();
        graph.draw_tensor(&mut random);
        disk.mark(graph.add_tensor_to(&store).unwrap());
        states.push(graph.clone());
    }
    drop(store);
    let choice = ImageChoice { seed: 16, random: 2, most: 8, ..ImageChoice::default() };
    let (mut tried, mut added) = (0, 0);
    disk.for_each_image(&choice, &mut |image| {
        let disk = image.disk();
        let snapshot = open(disk.clone()).snapshot();
        let (lsn, mark) = (snapshot.lsn(), image.mark.unwrap_or(0));
        assert!((mark..=mark + 1).contains(&lsn), "{image}: commit {lsn}");
        let mut graph = states[lsn as usize].clone();
        graph.check(&snapshot).unwrap_or_else(|what| panic!("{image}: {what}"));
        (tried, added) = (tried + 1, added + u64::from(lsn > mark));
        drop(snapshot);
        if tried % 5 == 0 {
            let report = verify_on(Arc::new(disk.clone()), &self::options(), &mut |_, _| true);
            let report = report.unwrap();
            assert!(report.is_ok(), "{image}: {:?}", report.problems);
            let store = open(disk);
            graph.draw_tensor(&mut random);
            graph.add_tensor_to(&store).unwrap();
            graph.check(&store.snapshot()).unwrap();
        }
    });
    println!("{tried} images, {added} with a commit that was not acknowledged");
    assert!(tried > 300 && added > 20, "{tried} images, {added}");
}

#[test]
fn whoever_opens_the_store_beside_it_sees_whole_tensors() {
    let (dir, mut random) = (tempfile::tempdir().unwrap(), seeded(17));
    let path = dir.path().join("g.ng");
    let graph = build(&path, &mut random, false);
    let count = graph.live[0].len() as u64;
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let (mut opens, mut seen) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let store = open(&path);
            for at in 0..20_u8 {
                let shape = [u64::from(at) * 300 + 1];
                let spec = spec(&format!("h{at}"), Dtype::U8, &shape);
                let new = NewTensor { node_type: NodeTypeId(0), spec, num_rows: count, lsn: None };
                let mut rows = Some(vec![at; (count * shape[0]) as usize]);
                let mut next = |out: &mut Vec<u8>| {
                    out.extend(rows.take().into_iter().flatten());
                    Ok::<_, UpdateError>(())
                };
                store.add_tensor(&new, &mut next).unwrap();
            }
            is_done.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut is_last = false;
        while !is_last {
            is_last = is_done.load(std::sync::atomic::Ordering::Acquire);
            let snapshot = open(&path).snapshot();
            graph.check(&snapshot).unwrap();
            let added = snapshot.catalog().tensor_refs().count() - graph.rows.len();
            assert_eq!(added as u64, snapshot.lsn() - 1);
            for at in 0..added as u8 {
                let owner = Owner::Node(NodeTypeId(0));
                let tensor = snapshot.catalog().find_tensor(owner, &format!("h{at}")).unwrap();
                let width = usize::from(at) * 300 + 1;
                let mut rows = vec![99; count as usize * width];
                snapshot.gather(tensor, &(0..count).collect::<Vec<_>>(), &mut rows).unwrap();
                assert!(rows.iter().all(|byte| *byte == at));
            }
            (opens, seen) = (opens + 1, seen.max(added));
        }
    });
    println!("{opens} opens");
    assert!(opens > 1 && seen == 20, "{opens} opens, {seen} tensors");
}
