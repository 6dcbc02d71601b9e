//! C1: damage is an error, never a panic, a hang or a wrong answer; and verify sees all of it.
//!
//! Flips bytes, cuts at every sector, swaps blocks, and replays blocks and whole files of an older
//! state, of small stores. Each damaged store either refuses, or answers exactly right. One column
//! is of its own: damage inside the very last record of the log cannot be told from the torn end
//! that a loss of power leaves, so it may roll back that one commit.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::changing::{EDGES, NODES, ROWS, Shape};
use common::model::{Model, ModelEdges};
use common::seeded;
use ng_store::{
    EdgeData, Expansion, OpenOptions, Owner, ReadError, Snapshot, SparseValue, Store, TensorRef,
    VerifyReport, verify_on,
};
use ng_testing::{MemDisk, Random};
use ng_types::{EdgeTypeId, NodeTypeId};

const SECTOR: usize = 512;
const BLOCK: usize = 4096;

type Shared = BTreeMap<String, Arc<Vec<u8>>>;

/// What is damaged: a store, what it answers, and what is known about its files.
struct Subject {
    files: Shared,
    /// An earlier state of the same files, or those of another store.
    older: Shared,
    /// Destinations that are asked for.
    nodes: Vec<u64>,
    answers: u64,
    /// What is answered without the last commit, and the blocks of its record.
    rolled_back: Option<(u64, BTreeSet<(String, usize)>)>,
    waiting: u64,
    /// Blocks that something leads to, and those of records that no checkpoint contains.
    used: BTreeSet<(String, usize)>,
}

#[derive(Default, Debug)]
struct Tally {
    tried: u64,
    refused: u64,
    right: u64,
    rolled_back: u64,
    silent_wrong: u64,
    panics: u64,
    unseen_by_verify: u64,
    first: Option<String>,
}

fn shared(files: common::Files) -> Shared {
    files.into_iter().map(|(name, bytes)| (name, Arc::new(bytes))).collect()
}

fn options() -> OpenOptions {
    OpenOptions { memory: Some(4 << 20), ..OpenOptions::default() }
}

fn is_log(name: &str) -> bool {
    name.starts_with("wal")
}

/// All that a store answers, as one number.
fn ask(snapshot: &Snapshot, nodes: &[u64]) -> Result<u64, ReadError> {
    let mut hash = DefaultHasher::new();
    let catalog = snapshot.catalog();
    for (index, meta) in (0..).zip(&catalog.edge_types) {
        let bound = catalog.node_types[usize::from(meta.destination.0)].num_nodes;
        let nodes: Vec<u64> = nodes.iter().copied().filter(|node| *node < bound).collect();
        let mut found = Expansion::default();
        snapshot.neighbors(EdgeTypeId(index), &nodes, &mut found)?;
        let times: Vec<u32> = found.weights.iter().map(|weight| weight.to_bits()).collect();
        (found.offsets, found.sources, found.edge_ids, found.times, times).hash(&mut hash);
        tensors(snapshot, Owner::Edge(EdgeTypeId(index)), meta.tensors.len(), &mut hash)?;
    }
    for (index, meta) in (0..).zip(&catalog.node_types) {
        (meta.num_nodes, meta.num_nodes_live).hash(&mut hash);
        let id = NodeTypeId(index);
        tensors(snapshot, Owner::Node(id), meta.tensors.len(), &mut hash)?;
        if meta.has_dictionary() {
            let names = snapshot.names(id, &(0..meta.num_nodes).collect::<Vec<_>>())?;
            let keys: Vec<&str> = names.iter().map(String::as_str).collect();
            snapshot.lookup_strings(id, &keys)?.hash(&mut hash);
            names.hash(&mut hash);
        }
    }
    Ok(hash.finish())
}

fn tensors(
    snapshot: &Snapshot,
    owner: Owner,
    count: usize,
    hash: &mut DefaultHasher,
) -> Result<(), ReadError> {
    for index in 0..count as u16 {
        let tensor = TensorRef { owner, index };
        let meta = snapshot.catalog().tensor(tensor).expect("exists");
        let rows: Vec<u64> = (0..meta.num_rows).collect();
        let decoder = snapshot.decoder(tensor, meta.read_dtype())?;
        let mut bytes = vec![0; rows.len() * decoder.out_bytes()];
        snapshot.gather_decoded(tensor, &decoder, &rows, &mut bytes)?;
        bytes.hash(hash);
    }
    Ok(())
}

fn open_and_ask(files: &Shared, nodes: &[u64]) -> Option<u64> {
    let disk = Arc::new(MemDisk::from_shared(files.clone()));
    let store = Store::open_on(disk, &options()).ok()?;
    ask(&store.snapshot(), nodes).ok()
}

fn check(files: &Shared) -> Option<VerifyReport> {
    verify_on(Arc::new(MemDisk::from_shared(files.clone())), &options(), &mut |_, _| true).ok()
}

/// Whether verify has something to say.
fn is_told(report: &VerifyReport) -> bool {
    !report.is_ok() || !report.notes.is_empty()
}

impl Subject {
    fn new(files: Shared, older: Shared, nodes: Vec<u64>, waiting: u64) -> Self {
        let answers = open_and_ask(&files, &nodes).expect("sound");
        let (rolled_back, used) = (None, BTreeSet::new());
        let mut this = Self { files, older, nodes, answers, rolled_back, waiting, used };
        let sound = check(&this.files).expect("opens");
        assert_eq!((sound.problems, sound.log_commits), (vec![], waiting));
        for name in this.files.keys().filter(|name| !is_log(name)) {
            for block in 0..this.files[name].len() / BLOCK {
                let damaged = this.with(name, |bytes| bytes[block * BLOCK] ^= 1);
                if check(&damaged).is_none_or(|report| is_told(&report)) {
                    this.used.insert((name.clone(), block));
                }
            }
        }
        let lsn = u64::from_le_bytes(this.files["root.a"][32..40].try_into().expect("eight"));
        for (name, bytes) in this.files.iter().filter(|(name, _)| is_log(name)) {
            let blocks = bytes.chunks(BLOCK).enumerate();
            let later =
                |block: &[u8]| u64::from_le_bytes(block[8..16].try_into().expect("eight")) > lsn;
            let waiting = blocks.filter(|(_, block)| later(block));
            this.used.extend(waiting.map(|(at, _)| (name.clone(), at)));
        }
        let data = this.used.iter().filter(|(name, _)| name.ends_with(".dat")).count();
        assert_eq!(data as u64, sound.blocks, "every block that is read is one that is used");
        this
    }

    fn with(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Shared {
        let mut files = self.files.clone();
        if let Some(bytes) = files.get_mut(name) {
            change(Arc::make_mut(bytes));
        }
        files
    }

    /// Whether any of some blocks of a file is one that something leads to.
    fn is_used(&self, name: &str, blocks: &[usize]) -> bool {
        blocks.iter().any(|block| self.used.contains(&(name.to_owned(), *block)))
    }

    fn may_roll_back(&self, name: &str, blocks: &[usize]) -> Option<u64> {
        let (answers, record) = self.rolled_back.as_ref()?;
        let mut blocks = blocks.iter().map(|block| (name.to_owned(), *block));
        blocks.any(|block| record.contains(&block)).then_some(*answers)
    }

    /// Tries a store in which these blocks of a file were changed.
    fn try_damage(
        &self,
        tally: &mut Tally,
        files: &Shared,
        (name, blocks): (&str, Vec<usize>),
        what: impl Fn() -> String,
    ) {
        tally.tried += 1;
        let mut note = |text: &str| {
            tally.first.get_or_insert_with(|| format!("{}: {text}", what()));
        };
        let read = catch_unwind(AssertUnwindSafe(|| open_and_ask(files, &self.nodes)));
        match read {
            Ok(None) => tally.refused += 1,
            Ok(Some(answers)) if answers == self.answers => tally.right += 1,
            Ok(Some(answers)) if Some(answers) == self.may_roll_back(name, &blocks) => {
                tally.rolled_back += 1;
            }
            Ok(Some(_)) => {
                tally.silent_wrong += 1;
                note("a wrong answer");
            }
            Err(_) => {
                tally.panics += 1;
                note("a panic");
            }
        }
        let refused = matches!(read, Ok(None));
        let rolled_back = matches!(read, Ok(Some(answers)) if answers != self.answers);
        let wanted = self.waiting - u64::from(rolled_back && self.waiting > 0);
        // A log shows its damage by the commits that are left of it.
        let must_tell = if is_log(name) { refused } else { self.is_used(name, &blocks) };
        match catch_unwind(AssertUnwindSafe(|| check(files))) {
            Err(_) => {
                tally.panics += 1;
                note("verify panicked");
            }
            Ok(Some(report))
                if !is_told(&report) && (must_tell || report.log_commits != wanted) =>
            {
                tally.unseen_by_verify += 1;
                note("verify saw nothing");
            }
            Ok(_) => {}
        }
    }

    /// Every byte of what means something. Of long stretches of zeros, of rows and of blocks that
    /// nothing leads to, whose bytes are all alike to a checksum, one in so many; all of them where
    /// `NEARGRAPH_DAMAGE_EVERY_BYTE` is set.
    fn flip_bytes(&self, tally: &mut Tally) {
        let mut random = seeded(77);
        let all = std::env::var_os("NEARGRAPH_DAMAGE_EVERY_BYTE").is_some();
        for (name, bytes) in &self.files {
            for at in 0..bytes.len() {
                let block = at / BLOCK * BLOCK;
                let idle = !self.is_used(name, &[at / BLOCK]);
                let empty = bytes[block..block + BLOCK].iter().all(|byte| *byte == 0);
                let near = &bytes[at.saturating_sub(8)..(at + 8).min(bytes.len())];
                let plain = near.iter().all(|byte| *byte == 0) || is_rows(name);
                let step = match (idle || empty, plain) {
                    (true, _) => 256,
                    (_, true) => 10,
                    _ => 1,
                };
                if all || random.below(step) == 0 {
                    let mask = 1 << random.below(8);
                    let damaged = self.with(name, |bytes| bytes[at] ^= mask);
                    let place = (name.as_str(), vec![at / BLOCK]);
                    self.try_damage(tally, &damaged, place, || {
                        format!("flip {name} byte {at} by {mask}")
                    });
                }
            }
        }
    }

    fn cut_at_every_sector(&self, tally: &mut Tally) {
        for (name, bytes) in &self.files {
            for len in (0..bytes.len()).step_by(SECTOR) {
                let rest = len / BLOCK..bytes.len() / BLOCK;
                let damaged = self.with(name, |bytes| bytes.truncate(len));
                // A file that was cut is no torn record.
                let place =
                    (name.as_str(), if is_log(name) { vec![] } else { rest.clone().collect() });
                self.try_damage(tally, &damaged, place, || format!("cut {name} at {len}"));
                let damaged = self.with(name, |bytes| bytes[len..].fill(0));
                if damaged[name] != self.files[name] {
                    let changes = |block: &usize| {
                        let range = block * BLOCK..(block + 1) * BLOCK;
                        damaged[name][range.clone()] != bytes[range]
                    };
                    let place = (name.as_str(), rest.filter(changes).collect());
                    self.try_damage(tally, &damaged, place, || format!("zero {name} from {len}"));
                }
            }
        }
    }

    /// Blocks of other places, of other files, and of an older state at the same place. Zeros are
    /// put there once.
    fn swap_and_replay(&self, tally: &mut Tally) {
        let mut blocks: Vec<(&String, &[u8])> = Vec::new();
        for (name, bytes) in &self.files {
            blocks.extend(bytes.chunks(BLOCK).map(|block| (name, block)));
        }
        let mut seen = BTreeSet::new();
        blocks.retain(|(_, block)| seen.insert(*block));
        for (name, bytes) in &self.files {
            for at in (0..bytes.len()).step_by(BLOCK) {
                let own = &bytes[at..at + BLOCK];
                let idle = own.iter().all(|byte| *byte == 0) && at > 2 * BLOCK;
                let stale = self.older.get(name).and_then(|b| b.get(at..at + BLOCK));
                let others = if idle { &[] } else { &blocks[..] };
                let others = others.iter().copied().chain(stale.map(|block| (name, block)));
                for (other, block) in others.filter(|(_, block)| *block != own) {
                    let damaged = self.with(name, |b| b[at..at + BLOCK].copy_from_slice(block));
                    let place = (name.as_str(), vec![at / BLOCK]);
                    self.try_damage(tally, &damaged, place, || {
                        format!("{name} at {at} from {other}")
                    });
                }
            }
            let stale = self.older.get(name).filter(|stale| *stale != bytes);
            if let Some(stale) = stale {
                let damaged = self.with(name, |bytes| bytes.clone_from(stale));
                let place = (name.as_str(), (0..bytes.len() / BLOCK).collect());
                self.try_damage(tally, &damaged, place, || format!("older {name}"));
            }
        }
    }

    /// Plays all damages.
    fn play(&self) -> Tally {
        // Panics are counted, not printed one by one.
        std::panic::set_hook(Box::new(|_| {}));
        let mut tally = Tally::default();
        self.flip_bytes(&mut tally);
        self.cut_at_every_sector(&mut tally);
        self.swap_and_replay(&mut tally);
        drop(std::panic::take_hook());
        let Tally { tried, refused, right, rolled_back, silent_wrong, panics, .. } = &tally;
        let unseen = tally.unseen_by_verify;
        println!(
            "figure: {{\"id\":\"C1\",\"tried\":{tried},\"failed\":{},\"refused\":{refused},\
             \"right\":{right},\"rolled_back\":{rolled_back},\"silent_wrong\":{silent_wrong},\
             \"panics\":{panics},\"unseen_by_verify\":{unseen}}}",
            silent_wrong + panics + unseen
        );
        assert_eq!((tally.silent_wrong, tally.panics), (0, 0), "{tally:?}");
        assert_eq!(tally.unseen_by_verify, 0, "{tally:?}");
        tally
    }
}

/// Files of opaque rows.
fn is_rows(name: &str) -> bool {
    name.starts_with('t') && name.ends_with(".dat")
}

/// A store as imported, with every structure in it.
fn imported(seed: u64) -> Model {
    let mut random = seeded(seed);
    let mut model = Model::new(&[12, 40_000], 4096);
    let edges = ModelEdges { destination: 1, has_edge_ids: seed % 2 == 1, ..Default::default() };
    let hub = if seed % 2 == 1 { 300 } else { 1_100 };
    let degrees = [(3, 2), (40, 1), (900, hub), (39_999, 3)];
    model.edges(edges, &degrees, &mut random);
    if seed % 2 == 1 {
        model.tensor(Owner::Edge(EdgeTypeId(0)), 4, &mut random);
        model.names(0, &mut random);
    } else {
        model.tensor(Owner::Node(NodeTypeId(0)), 300, &mut random);
    }
    model
}

fn play_imported(seed: u64) {
    let (model, older) = (imported(seed), imported(seed + 2));
    model.read_all(&model.open(16 << 20).snapshot()).expect("sound");
    let nodes = (0..50).chain([900, 901, 39_998, 39_999]).collect();
    let tally = Subject::new(shared(model.files()), shared(older.files()), nodes, 0).play();
    assert!(tally.tried >= 12_500 && tally.rolled_back == 0, "{tally:?}");
}

#[test]
fn damage_to_topology_and_wide_rows_is_an_error_or_harmless_and_verify_sees_it() {
    play_imported(0);
}

#[test]
fn damage_to_edge_ids_dictionaries_and_narrow_rows_is_an_error_or_harmless_and_verify_sees_it() {
    play_imported(1);
}

#[test]
fn damage_to_scales_and_scaled_rows_is_an_error_or_harmless_and_verify_sees_it() {
    let scaled = |seed| {
        let mut random = seeded(seed);
        let mut model = Model::new(&[40, 40], 4096);
        // One row of scales shares a page with nothing, one is wider than a page.
        model.scaled_tensor(Owner::Node(NodeTypeId(0)), 90, &mut random);
        model.scaled_tensor(Owner::Node(NodeTypeId(1)), 1500, &mut random);
        model
    };
    let (model, older) = (scaled(3), scaled(4));
    let subject = Subject::new(shared(model.files()), shared(older.files()), vec![], 0);
    let tally = subject.play();
    assert!(tally.tried >= 2_000 && tally.rolled_back == 0, "{tally:?}");
}

#[test]
fn damage_to_sparse_rows_is_an_error_or_harmless_and_verify_sees_it() {
    let sparse = |seed| {
        let mut random = seeded(seed);
        let mut model = Model::new(&[60, 700], 4096);
        let of = |id| Owner::Node(NodeTypeId(id));
        model.sparse_tensor(of(0), 900, 20, SparseValue::F32, &mut random);
        model.sparse_tensor(of(1), 70, 9, SparseValue::One, &mut random);
        model
    };
    let (model, older) = (sparse(6), sparse(7));
    let subject = Subject::new(shared(model.files()), shared(older.files()), vec![], 0);
    let tally = subject.play();
    assert!(tally.tried >= 2_000 && tally.rolled_back == 0, "{tally:?}");
}

/// A hub that grows, a node that dies, rows: what commit `number` does.
fn commit(store: &Store, number: u64, random: &mut Random) {
    let mut tx = store.write().unwrap();
    for _ in 0..if number < 2 { 250 } else { 12 } {
        let data = EdgeData { time: random.below(9) as i64, weight: 0.0 };
        tx.add_edge(EDGES, random.below(30), 40 - random.below(20) / 15, data).unwrap();
    }
    tx.set_row(ROWS, number, &random.bytes(300)).unwrap();
    if number.is_multiple_of(2) {
        tx.delete_node(NODES, 50 + number).unwrap();
    }
    tx.commit().unwrap();
}

#[test]
fn damage_to_a_store_that_changed_and_to_its_log_is_an_error_or_harmless_and_verify_sees_it() {
    let shape = Shape {
        num_nodes: 60,
        page_bytes: 4096,
        row_bytes: 300,
        undirected: true,
        has_time: true,
        ..Shape::default()
    };
    let (mut random, disk) = (seeded(5), shape.build());
    let store = common::changing::open(&disk);
    let nodes: Vec<u64> = (0..60).collect();
    let mut states = Vec::new();
    for number in 0..5 {
        commit(&store, number, &mut random);
        if number < 2 {
            store.checkpoint().unwrap();
        }
        states.push((disk.image(), ask(&store.snapshot(), &nodes).unwrap()));
    }
    let files = shared(disk.image());
    let lsn = store.snapshot().lsn();
    let mut subject = Subject::new(files, shared(states[0].0.clone()), nodes, 3);
    assert_eq!(subject.answers, states[4].1);
    let mut record = BTreeSet::new();
    for (name, bytes) in subject.files.iter().filter(|(name, _)| is_log(name)) {
        let blocks = bytes.chunks(BLOCK).enumerate();
        let is_note = |block: &[u8]| block[28..32] == [255; 4];
        let last = blocks.filter(|(_, block)| block[8..16] == lsn.to_le_bytes() && !is_note(block));
        record.extend(last.map(|(at, _)| (name.clone(), at)));
    }
    assert_eq!(record.len(), 1);
    subject.rolled_back = Some((states[3].1, record));
    let tally = subject.play();
    assert!(tally.tried >= 25_000 && tally.rolled_back > 500, "{tally:?}");
}
