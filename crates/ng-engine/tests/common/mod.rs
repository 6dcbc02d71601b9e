//! A generated graph in a store, a disk that counts, and models for both.
#![allow(dead_code, clippy::expect_used)]

pub mod changing;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use ng_engine::ModelFile;
use ng_infer::dfg::{Constant, Dfg, Elements, Op, Reduction};
use ng_io::{Access, BackendChoice, Disk, FileId, Lock, NextRead, OpenOptions, ReadDone, open_dir};
use ng_store::{BuildOptions, EdgeTypeSpec, Entry, Owner, Store, StoreBuilder, TensorSpec};
use ng_testing::Random;
use ng_types::Dtype;

/// Elements of a row: four rows to a block.
pub const WIDTH: usize = 256;

/// Builds a store of `nodes` nodes: lists of some 15 entries, and every 200th node a hub.
pub fn build(dir: &Path, nodes: u64, seed: u64) {
    build_as(dir, nodes, seed, Dtype::F32);
}

/// The same, with rows that are stored as `dtype`; i8 has scales.
pub fn build_as(dir: &Path, nodes: u64, seed: u64, dtype: Dtype) {
    let mut random = Random::new(seed);
    let mut builder = StoreBuilder::create(dir, BuildOptions::default()).expect("builder");
    let node = builder.node_type("node", nodes).expect("type");
    let spec = EdgeTypeSpec {
        source: node,
        relation: "to".into(),
        destination: node,
        undirected: false,
        unique: false,
        has_edge_ids: false,
        has_time: false,
        has_weight: false,
    };
    let edge_type = builder.edge_type(spec).expect("edge type");
    let mut writer = builder.topology(edge_type).expect("writer");
    for destination in 0..nodes {
        let degree = if destination % 200 == 7 { 3_000 } else { 5 + random.below(20) };
        let mut list: Vec<u64> = (0..degree).map(|_| random.below(nodes)).collect();
        list.sort_unstable();
        for source in list {
            let entry = Entry { source, edge_id: 0, time: 0, weight: 0.0 };
            writer.push(destination, entry).expect("push");
        }
    }
    builder.add(writer.finish().expect("finish")).expect("add");
    let (name, shape) = ("x".into(), vec![WIDTH as u64]);
    let spec = TensorSpec { name, dtype, shape, mask_width: None };
    let scales: Vec<f32> = (1..=WIDTH).map(|column| column as f32 / 8192.0).collect();
    let owner = Owner::Node(node);
    let writer = match dtype {
        Dtype::I8 => builder.scaled_tensor(owner, spec, &scales),
        _ => builder.tensor(owner, spec),
    };
    let mut writer = writer.expect("tensor");
    for node in 0..nodes {
        let numbers = (0..WIDTH as u64).map(|column| node * 31 + column * 7);
        let bytes: Vec<u8> = match dtype {
            Dtype::F16 => {
                numbers.flat_map(|n| (0x3400 + (n % 2000) as u16).to_le_bytes()).collect()
            }
            Dtype::Bf16 => {
                numbers.flat_map(|n| (0x3E80 + (n % 300) as u16).to_le_bytes()).collect()
            }
            Dtype::I8 => numbers.map(|n| (n % 255) as u8).collect(),
            _ => numbers.flat_map(|n| ((n % 1000) as f32 / 500.0).to_le_bytes()).collect(),
        };
        writer.push_rows(&bytes).expect("row");
    }
    builder.add(writer.finish().expect("finish")).expect("add");
    builder.commit().expect("commit");
}

/// Calls of [`Disk::read`] by thread: how many reads each made.
#[derive(Default)]
pub struct Counts(Mutex<HashMap<ThreadId, Vec<u64>>>);

impl Counts {
    /// What was counted since the last time.
    pub fn take(&self) -> HashMap<ThreadId, Vec<u64>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A disk that counts.
struct Counting {
    inner: Arc<dyn Disk>,
    counts: Arc<Counts>,
}

/// Opens a store whose reads are counted.
pub fn open(dir: &Path, memory: u64) -> (Store, Arc<Counts>) {
    let opened = open_dir(dir, BackendChoice::Pread, &OpenOptions::default()).expect("directory");
    let counts = Arc::new(Counts::default());
    let disk = Counting { inner: opened.disk, counts: Arc::clone(&counts) };
    let options = ng_store::OpenOptions { memory: Some(memory), ..Default::default() };
    (Store::open_on(Arc::new(disk), &options).expect("store"), counts)
}

impl Disk for Counting {
    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()> {
        let mut reads = 0;
        let mut counted = || next().inspect(|_| reads += 1);
        let result = self.inner.read(&mut counted, done);
        if reads > 0 {
            let mut all = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(std::thread::current().id()).or_default().push(reads);
        }
        result
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

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(file, offset, bytes)
    }

    fn allocate(&self, file: FileId, len: u64) -> io::Result<()> {
        self.inner.allocate(file, len)
    }

    fn sync(&self, file: FileId) -> io::Result<()> {
        self.inner.sync(file)
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

    fn pin(&self, epoch: u64) -> io::Result<Option<Lock>> {
        self.inner.pin(epoch)
    }

    fn is_pinned_below(&self, epoch: u64) -> io::Result<bool> {
        self.inner.is_pinned_below(epoch)
    }
}

/// Two layers of a mean of neighbours and a product of 8 columns.
pub fn model() -> ModelFile {
    let mut graph = Dfg::default();
    let edges = graph.create_in("edge_index", None).expect("input");
    let x = graph.create_in("x", None).expect("input");
    let mut h = x;
    for (layer, (from, to)) in [(WIDTH, 8), (8, 3)].into_iter().enumerate() {
        let weights = (0..from * to).map(|at| (at % 13) as f32 / 26.0 - 0.2).collect();
        let weights = Constant::new(vec![from, to], Elements::F32(weights)).expect("weights");
        let weights = graph.create_weight(&format!("w{layer}"), weights).expect("weight");
        let mean = graph.create_op(Op::Spmm(Reduction::Mean), &[edges, h]).expect("mean");
        h = graph.create_op(Op::MatMul, &[mean[0], weights]).expect("product")[0];
    }
    graph.create_out("out", h).expect("output");
    ModelFile::of_graph(graph)
}
