//! Whoever takes a snapshot or reads counters waits for no I/O of a commit, a checkpoint or a
//! recovery: each access to the disk is held up in turn, and both are asked for meanwhile.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use ng_io::{Access, BackendChoice, Disk, FileId, Lock, NextRead, ReadDone, open_dir};
use ng_store::{BuildOptions, EdgeTypeSpec, Entry, OpenOptions, Store, StoreBuilder};
use ng_types::NodeTypeId;

const NODES: u64 = 3_000;
const NODE: NodeTypeId = NodeTypeId(0);
const PATIENCE: Duration = Duration::from_secs(20);

/// Node 0 and all others are neighbours of each other.
fn build(path: &Path) {
    let mut builder = StoreBuilder::create(path, BuildOptions::default()).expect("fresh");
    let node = builder.node_type("node", NODES).expect("declared");
    let spec = EdgeTypeSpec {
        source: node,
        relation: "links".into(),
        destination: node,
        undirected: true,
        unique: false,
        has_edge_ids: false,
        has_time: false,
        has_weight: false,
    };
    let edge = builder.edge_type(spec).expect("declared");
    builder.set_reverse(edge, edge).expect("declared");
    let mut writer = builder.topology(edge).expect("declared");
    let mut push = |destination, source| {
        let entry = Entry { source, edge_id: 0, time: 0, weight: 0.0 };
        writer.push(destination, entry).expect("pushed");
    };
    (1..NODES).for_each(|other| push(0, other));
    (1..NODES).for_each(|other| push(other, 0));
    let part = writer.finish().expect("whole");
    builder.add(part).expect("added");
    builder.commit().expect("published");
}

#[derive(Default)]
struct Turnstile {
    is_closed: bool,
    is_waiting: bool,
    /// The work that is watched has ended.
    has_ended: bool,
}

/// A disk that lets one access through at a time, while it is closed.
struct Held {
    inner: Arc<dyn Disk>,
    turnstile: Arc<(Mutex<Turnstile>, Condvar)>,
}

impl Held {
    fn pass(&self) {
        let (state, turn) = &*self.turnstile;
        let mut state = state.lock().unwrap();
        if !state.is_closed {
            return;
        }
        state.is_waiting = true;
        turn.notify_all();
        while state.is_waiting && state.is_closed {
            state = turn.wait(state).unwrap();
        }
        state.is_waiting = false;
    }
}

impl Disk for Held {
    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()> {
        self.pass();
        self.inner.read(next, done)
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.pass();
        self.inner.write(file, offset, bytes)
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.pass();
        self.inner.sync(file)
    }

    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileId> {
        self.inner.open(name, access)
    }

    fn len(&self, file: FileId) -> io::Result<u64> {
        self.inner.len(file)
    }

    fn allocate(&self, file: FileId, len: u64) -> io::Result<()> {
        self.inner.allocate(file, len)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.inner.sync_dir()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn lock_writer(&self) -> io::Result<Option<Lock>> {
        self.inner.lock_writer()
    }

    fn hold_off_writer(&self) -> io::Result<Option<Lock>> {
        self.inner.hold_off_writer()
    }

    fn pin(&self, checkpoint_id: u64) -> io::Result<Option<Lock>> {
        self.inner.pin(checkpoint_id)
    }

    fn is_pinned_below(&self, checkpoint_id: u64) -> io::Result<bool> {
        self.inner.is_pinned_below(checkpoint_id)
    }
}

/// Says that the work has ended, one way or another.
struct Ended<'a>(&'a (Mutex<Turnstile>, Condvar));

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock().unwrap();
        (state.is_closed, state.has_ended) = (false, true);
        self.0.1.notify_all();
    }
}

/// Does `work` one access to the disk after the other; between them a snapshot and counters are
/// there at once. Returns how many accesses there were.
fn watched(
    store: &Store,
    disk: &Arc<(Mutex<Turnstile>, Condvar)>,
    work: impl FnOnce() + Send,
) -> u32 {
    let (state, turn) = &**disk;
    *state.lock().unwrap() = Turnstile { is_closed: true, ..Turnstile::default() };
    let mut held = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ended = Ended(disk);
            work();
        });
        loop {
            let mut now = state.lock().unwrap();
            while !now.is_waiting && !now.has_ended {
                now = turn.wait(now).unwrap();
            }
            if now.has_ended {
                break;
            }
            drop(now);
            let (tell, told) = mpsc::channel();
            scope.spawn(move || {
                let seen = (store.snapshot().lsn(), store.update_stats().map(|s| s.commits));
                let _late = tell.send(seen);
            });
            let seen = told.recv_timeout(PATIENCE);
            let mut now = state.lock().unwrap();
            // Otherwise a failure would wait for ever, too.
            (now.is_waiting, now.is_closed) = (false, seen.is_ok());
            turn.notify_all();
            drop(now);
            assert!(seen.is_ok(), "access {held} to the disk holds up those who read");
            held += 1;
        }
    });
    held
}

#[test]
fn snapshots_and_counters_wait_for_no_commit_no_checkpoint_and_no_recovery() {
    let dir = tempfile::tempdir().expect("made");
    let path = dir.path().join("g.ng");
    std::fs::create_dir(&path).expect("made");
    build(&path);
    let turnstile = Arc::default();
    let open = || {
        let opened = open_dir(&path, BackendChoice::Pread, &ng_io::OpenOptions::default());
        let inner = opened.expect("opened").disk;
        let disk = Held { inner, turnstile: Arc::clone(&turnstile) };
        let options =
            OpenOptions { memory: Some(64 << 20), recover: false, ..OpenOptions::default() };
        Store::open_on(Arc::new(disk), &options).expect("store")
    };
    let store = open();
    let first = watched(&store, &turnstile, || {
        let mut tx = store.write().expect("writer");
        tx.add_node(NODE).expect("added");
        tx.commit().expect("durable");
    });
    // Its neighbours' lists are read when it is committed.
    let deleted = watched(&store, &turnstile, || {
        let mut tx = store.write().expect("transaction");
        tx.delete_node(NODE, 0).expect("deleted");
        tx.commit().expect("durable");
    });
    let checkpoint = watched(&store, &turnstile, || {
        store.checkpoint().expect("written");
    });
    let mut tx = store.write().expect("transaction");
    tx.add_node(NODE).expect("added");
    let last = tx.commit().expect("durable").lsn;
    // As after a kill: the log has it, the root does not.
    let copy = tempfile::tempdir().expect("made");
    for file in std::fs::read_dir(&path).expect("listed") {
        let file = file.expect("listed").path();
        std::fs::copy(&file, copy.path().join(file.file_name().expect("named"))).expect("copied");
    }
    drop(store);
    for file in std::fs::read_dir(copy.path()).expect("listed") {
        let file = file.expect("listed").path();
        std::fs::copy(&file, path.join(file.file_name().expect("named"))).expect("copied");
    }
    let store = open();
    assert_eq!(store.snapshot().lsn(), last - 1);
    let recovery =
        watched(&store, &turnstile, || store.become_writer(&mut || true).expect("writer"));
    assert_eq!((store.recovery().commits, store.snapshot().lsn()), (1, last));
    println!("{first} {deleted} {checkpoint} {recovery} accesses");
    assert!(first > 3 && deleted > 5 && checkpoint > 5 && recovery > 8);
}
