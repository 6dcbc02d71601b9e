//! `Sampler`, `MiniBatch`, `BatchStream` and `seed_order`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ng_sample::{
    BatchPlan, Chosen, Column, ColumnSpec, Fanouts, Method, SampleSpec, Settings, SparseIndex,
};
use ng_store::{DirectFile, Owner, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId, Reservation, SeedOrder};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays;
use crate::compiled::EpochWriter;
use crate::errors;
use crate::snapshot::{self, Snapshot};

/// How long a wait goes on before Python may handle a signal.
const SIGNAL_POLL: Duration = Duration::from_millis(100);

/// Batches ahead of the consumer, and threads that prepare them, unless the caller says.
const PREFETCH: usize = 4;

/// Finished batches that a look-ahead keeps for its consumer: their memory is not there for rows.
const LOOK_AHEAD_PREFETCH: usize = 1;

/// Samples mini-batches; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Sampler {
    pub inner: ng_sample::Sampler,
}

#[pymethods]
impl Sampler {
    /// `dependent_batches` is of LABOR; without it, sampling is uniform.
    #[new]
    #[pyo3(signature = (snapshot, fanouts, replace, seed, columns, dependent_batches=None))]
    fn new(
        snapshot: &Snapshot,
        fanouts: Vec<Vec<i64>>,
        replace: bool,
        seed: u64,
        columns: Vec<(String, u16, String, Option<String>)>,
        dependent_batches: Option<u32>,
    ) -> PyResult<Self> {
        let snapshot = Arc::clone(&snapshot.inner);
        let columns = columns
            .iter()
            .map(|(kind, id, name, dtype)| {
                let tensor = snapshot::tensor(&snapshot, kind, *id, name)?;
                let is_sparse = dtype.as_deref() == Some("sparse");
                let dtype = if is_sparse { None } else { arrays::dtype(dtype.as_deref())? };
                Ok(ColumnSpec { tensor, dtype, is_sparse })
            })
            .collect::<PyResult<Vec<_>>>()?;
        let fanouts = Fanouts::new(fanouts).map_err(|error| errors::sample(&error))?;
        let labor = |dependent| Method::Labor { dependent };
        let method = dependent_batches.map_or(Method::Uniform, labor);
        let spec = SampleSpec { fanouts, method, replace, seed };
        let inner = ng_sample::Sampler::with_columns(snapshot, spec, &columns);
        Ok(Self { inner: inner.map_err(|error| errors::sample(&error))? })
    }

    /// The visits of batches: the seeds of all in one array, where each batch ends, its stream.
    fn trace(
        &self,
        py: Python<'_>,
        seeds: PyReadonlyArray1<'_, i64>,
        ends: Vec<usize>,
        streams: Vec<u64>,
    ) -> PyResult<crate::sim::Trace> {
        let seeds = arrays::ids(&seeds)?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let batches: Vec<(&[u64], u64)> = starts
            .zip(&ends)
            .zip(streams)
            .filter_map(|((start, end), stream)| Some((seeds.get(start..*end)?, stream)))
            .collect();
        let trace = py.detach(|| self.inner.trace(batches));
        let trace = trace.map_err(|error| errors::sample(&error))?;
        Ok(crate::sim::Trace { inner: Arc::new(trace) })
    }

    fn sample(
        &self,
        py: Python<'_>,
        seeds: Vec<(u16, PyReadonlyArray1<'_, i64>)>,
        stream: u64,
    ) -> PyResult<MiniBatch> {
        let mut typed = Vec::with_capacity(seeds.len());
        for (node_type, array) in &seeds {
            typed.push((NodeTypeId(*node_type), arrays::ids(array)?));
        }
        let batch = py.detach(|| {
            let lent: Vec<_> = typed.iter().map(|(t, ids)| (*t, ids.as_slice())).collect();
            self.inner.sample(&lent, stream)
        });
        let num_seeds = typed.iter().map(|(_, ids)| ids.len()).sum();
        let batch = batch.map_err(|error| errors::sample(&error))?;
        MiniBatch::new(py, batch, num_seeds, self.inner.snapshot())
    }

    /// The same sampler over a file of the direct layout.
    fn with_direct(&self, py: Python<'_>, directory: &str, name: &str) -> PyResult<Self> {
        let snapshot = Arc::clone(self.inner.snapshot());
        let made = py.detach(|| {
            let file = DirectFile::open(snapshot, Path::new(directory), name)?;
            self.inner.clone().with_direct(Arc::new(file))
        });
        Ok(Self { inner: made.map_err(|error| errors::sample(&error))? })
    }

    fn stages(&self) -> Vec<(&'static str, f64)> {
        self.inner.stage_seconds()
    }

    fn is_larger_than_memory(&self) -> bool {
        self.inner.is_larger_than_memory()
    }

    #[pyo3(signature = (
        node_type, seeds, batch_size, first_stream, prefetch=None, threads=None, drop_last=false
    ))]
    #[allow(clippy::too_many_arguments)]
    fn stream(
        &self,
        node_type: u16,
        seeds: PyReadonlyArray1<'_, i64>,
        batch_size: usize,
        first_stream: u64,
        prefetch: Option<usize>,
        threads: Option<usize>,
        drop_last: bool,
    ) -> PyResult<BatchStream> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let plan = BatchPlan {
            node_type: NodeTypeId(node_type),
            seeds: arrays::ids(&seeds)?,
            batch_size,
            first_stream,
            drop_last,
            prefetch: prefetch.unwrap_or(PREFETCH),
            threads: threads.unwrap_or(cores.min(PREFETCH)),
        };
        let num_seeds = plan.seeds.len();
        let inner = ng_sample::BatchStream::new(self.inner.clone(), plan);
        let inner = inner.map_err(|error| errors::sample(&error))?;
        Ok(BatchStream {
            inner: Source::new(inner),
            snapshot: Arc::clone(self.inner.snapshot()),
            left: Mutex::new(num_seeds),
            batch_size,
        })
    }
}

/// Batches that are read by looking ahead; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct LookAhead {
    inner: Source<ng_sample::LookAhead>,
    snapshot: Arc<ng_store::Snapshot>,
    /// Seeds of the batches that were given and not taken.
    num_seeds: Mutex<VecDeque<usize>>,
}

#[pymethods]
impl LookAhead {
    #[new]
    #[pyo3(signature = (
        sampler, node_type, reading, window=None, prefetch=None, threads=None, two_phase=None,
        spill_dir=None, spill_bytes=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        sampler: &Sampler,
        node_type: u16,
        reading: &str,
        window: Option<u64>,
        prefetch: Option<usize>,
        threads: Option<usize>,
        two_phase: Option<bool>,
        spill_dir: Option<PathBuf>,
        spill_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings {
            node_type: NodeTypeId(node_type),
            reading: reading.parse().map_err(PyValueError::new_err)?,
            window,
            prefetch: prefetch.unwrap_or(LOOK_AHEAD_PREFETCH),
            threads: threads.unwrap_or(cores.min(PREFETCH)),
            costs: None,
            two_phase,
            spill_dir,
            spill_bytes,
        };
        let snapshot = Arc::clone(sampler.inner.snapshot());
        let inner = ng_sample::LookAhead::new(sampler.inner.clone(), settings);
        let inner = inner.map_err(|error| errors::sample(&error))?;
        Ok(Self { inner: Source::new(inner), snapshot, num_seeds: Mutex::default() })
    }

    fn push(&self, seeds: PyReadonlyArray1<'_, i64>, stream: u64) -> PyResult<()> {
        let ids = arrays::ids(&seeds)?;
        let mut num_seeds = self.num_seeds.lock().unwrap_or_else(PoisonError::into_inner);
        num_seeds.push_back(ids.len());
        if let Some(inner) = &*self.inner.lock() {
            inner.push(ids, stream);
        }
        Ok(())
    }

    fn end(&self) {
        if let Some(inner) = &*self.inner.lock() {
            inner.end();
        }
    }

    fn wanted(&self) -> usize {
        self.inner.lock().as_ref().map_or(0, ng_sample::LookAhead::wanted)
    }

    fn chosen<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let lock = self.inner.lock();
        let chosen = lock.as_ref().and_then(ng_sample::LookAhead::chosen);
        chosen.map(|chosen| chosen_dict(py, chosen)).transpose()
    }

    fn choose<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        // Locked without the interpreter, which others may hold while they wait for the lock.
        let chosen = py.detach(|| {
            let lock = self.inner.lock();
            let within = |inner: &ng_sample::LookAhead| {
                inner.choose_within(SIGNAL_POLL).map(Option::<&Chosen>::cloned)
            };
            lock.as_ref().map(within)
        });
        let chosen = chosen.ok_or_else(errors::closed)?.map_err(|error| errors::sample(&error))?;
        chosen.map(|chosen| chosen_dict(py, &chosen)).transpose()
    }

    fn waits(&self) -> Vec<(&'static str, f64)> {
        self.inner.lock().as_ref().map_or_else(Vec::new, ng_sample::LookAhead::waits)
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<MiniBatch> {
        let batch = self.inner.next(py, ng_sample::LookAhead::next_within)?;
        let mut num_seeds = self.num_seeds.lock().unwrap_or_else(PoisonError::into_inner);
        let num_seeds = num_seeds.pop_front().unwrap_or(0);
        MiniBatch::new(py, batch, num_seeds, &self.snapshot)
    }

    fn write_next(&self, py: Python<'_>, writer: &EpochWriter) -> PyResult<bool> {
        let batch = self.inner.next(py, ng_sample::LookAhead::next_within)?;
        let mut num_seeds = self.num_seeds.lock().unwrap_or_else(PoisonError::into_inner);
        num_seeds.pop_front();
        drop(num_seeds);
        py.detach(|| writer.push(&batch)).map_err(|error| errors::sample(&error))
    }

    fn close(&self, py: Python<'_>) {
        self.inner.close(py);
    }
}

fn chosen_dict<'py>(py: Python<'py>, chosen: &Chosen) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("reading", chosen.reading.name())?;
    dict.set_item("window", chosen.window)?;
    dict.set_item("phases", 1 + u8::from(chosen.sampled_first.is_some()))?;
    dict.set_item("sampled_first", chosen.sampled_first)?;
    dict.set_item("hot_rows", chosen.hot_rows)?;
    dict.set_item("slots", chosen.slots)?;
    dict.set_item("slot_bytes", chosen.slot_bytes)?;
    dict.set_item("reads_per_batch", chosen.reads)?;
    dict.set_item("read_bytes_per_batch", chosen.read_bytes)?;
    dict.set_item("write_bytes_per_batch", chosen.write_bytes)?;
    dict.set_item("device_s_per_batch", chosen.seconds)?;
    Ok(dict)
}

/// The answer of a wait that ends now and then without one.
type Waited = Result<Option<Result<ng_sample::MiniBatch, ng_sample::SampleError>>, ()>;

/// What prepares batches in threads of its own, until it is closed.
pub struct Source<T>(Mutex<Option<T>>);

impl<T: Send> Source<T> {
    pub fn new(inner: T) -> Self {
        Self(Mutex::new(Some(inner)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a batch while Python handles signals.
    pub fn next(
        &self,
        py: Python<'_>,
        next: fn(&mut T, Duration) -> Waited,
    ) -> PyResult<ng_sample::MiniBatch> {
        let wait = || self.lock().as_mut().map_or(Ok(None), |inner| next(inner, SIGNAL_POLL));
        loop {
            match py.detach(wait) {
                Err(()) => py.check_signals()?,
                Ok(None) => return Err(PyStopIteration::new_err(())),
                Ok(Some(Err(error))) => return Err(errors::sample(&error)),
                Ok(Some(Ok(batch))) => return Ok(batch),
            }
        }
    }

    /// Stops the threads and gives the memory back.
    pub fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let inner = self.lock().take();
            drop(inner);
        });
    }
}

/// An iterator over prepared batches; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct BatchStream {
    inner: Source<ng_sample::BatchStream>,
    snapshot: Arc<ng_store::Snapshot>,
    left: Mutex<usize>,
    batch_size: usize,
}

#[pymethods]
impl BatchStream {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<MiniBatch> {
        let batch = self.inner.next(py, ng_sample::BatchStream::next_within)?;
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let num_seeds = self.batch_size.min(*left);
        *left -= num_seeds;
        MiniBatch::new(py, batch, num_seeds, &self.snapshot)
    }

    fn close(&self, py: Python<'_>) {
        self.inner.close(py);
    }
}

/// One batch as NumPy arrays; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct MiniBatch {
    #[pyo3(get)]
    num_seeds: usize,
    #[pyo3(get)]
    nbytes: u64,
    nodes: Vec<Nodes>,
    edges: Vec<Edges>,
    columns: Vec<(TensorRef, Py<PyAny>)>,
    snapshot: Arc<ng_store::Snapshot>,
}

struct Nodes {
    ids: Py<PyArray1<i64>>,
    per_hop: Vec<usize>,
}

struct Edges {
    index: Py<PyAny>,
    edge_ids: Option<Py<PyArray1<i64>>>,
    times: Option<Py<PyArray1<i64>>>,
    weights: Option<Py<PyArray1<f32>>>,
    per_hop: Vec<usize>,
}

impl MiniBatch {
    pub fn new(
        py: Python<'_>,
        batch: ng_sample::MiniBatch,
        num_seeds: usize,
        snapshot: &Arc<ng_store::Snapshot>,
    ) -> PyResult<Self> {
        let nbytes = batch.num_bytes();
        let (node_blocks, edge_blocks, column_blocks, held) = batch.into_parts();
        let mut held = held.into_iter().map(|held| held.map(Arc::new));
        let topology = held.next().flatten();
        let nodes = node_blocks
            .into_iter()
            .map(|block| {
                let ids = arrays::owned(py, block.ids, topology.clone())?.unbind();
                Ok(Nodes { ids, per_hop: block.per_hop })
            })
            .collect::<PyResult<_>>()?;
        let edges = edge_blocks
            .into_iter()
            .enumerate()
            .map(|(id, block)| Edges::new(py, block, topology.clone(), snapshot, id))
            .collect::<PyResult<_>>()?;
        let columns = column_blocks
            .into_iter()
            .map(|column| {
                let held = held.next().flatten();
                Ok((column.tensor, column_array(py, column, held, snapshot)?.unbind()))
            })
            .collect::<PyResult<_>>()?;
        Ok(Self { num_seeds, nbytes, nodes, edges, columns, snapshot: Arc::clone(snapshot) })
    }

    fn node(&self, node_type: usize) -> PyResult<&Nodes> {
        self.nodes.get(node_type).ok_or_else(|| no_type("node", node_type))
    }

    fn edge(&self, edge_type: usize) -> PyResult<&Edges> {
        self.edges.get(edge_type).ok_or_else(|| no_type("edge", edge_type))
    }
}

impl Edges {
    fn new(
        py: Python<'_>,
        block: ng_sample::EdgeBlock,
        held: Option<Arc<Reservation>>,
        snapshot: &ng_store::Snapshot,
        edge_type: usize,
    ) -> PyResult<Self> {
        let meta = &snapshot.catalog().edge_types[edge_type];
        let column = |wanted: bool, data: Vec<i64>| {
            wanted
                .then(|| Ok(arrays::owned(py, data, held.clone())?.unbind()))
                .transpose()
                .map_err(|error: PyErr| error)
        };
        let weights = meta
            .has_weight
            .then(|| Ok::<_, PyErr>(arrays::owned(py, block.weights, held.clone())?.unbind()))
            .transpose()?;
        Ok(Self {
            index: arrays::stacked(py, block.rows, block.cols, held.clone())?.unbind(),
            edge_ids: column(meta.has_edge_ids, block.edge_ids)?,
            times: column(meta.has_time, block.times)?,
            weights,
            per_hop: block.per_hop,
        })
    }
}

#[pymethods]
impl MiniBatch {
    fn nodes<'py>(&self, py: Python<'py>, nt: usize) -> PyResult<Bound<'py, PyArray1<i64>>> {
        Ok(self.node(nt)?.ids.bind(py).clone())
    }

    fn edges<'py>(&self, py: Python<'py>, et: usize) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.edge(et)?.index.bind(py).clone())
    }

    fn edge_ids<'py>(
        &self,
        py: Python<'py>,
        et: usize,
    ) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
        Ok(arrays::again(py, &self.edge(et)?.edge_ids))
    }

    fn times<'py>(
        &self,
        py: Python<'py>,
        et: usize,
    ) -> PyResult<Option<Bound<'py, PyArray1<i64>>>> {
        Ok(arrays::again(py, &self.edge(et)?.times))
    }

    fn weights<'py>(
        &self,
        py: Python<'py>,
        et: usize,
    ) -> PyResult<Option<Bound<'py, PyArray1<f32>>>> {
        Ok(arrays::again(py, &self.edge(et)?.weights))
    }

    fn num_sampled_nodes(&self, nt: usize) -> PyResult<Vec<usize>> {
        Ok(self.node(nt)?.per_hop.clone())
    }

    fn num_sampled_edges(&self, et: usize) -> PyResult<Vec<usize>> {
        Ok(self.edge(et)?.per_hop.clone())
    }

    fn tensor<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        type_id: u16,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wanted = snapshot::tensor(&self.snapshot, kind, type_id, name)?;
        let found = self.columns.iter().find(|(tensor, _)| *tensor == wanted);
        let (_, array) = found.ok_or_else(|| {
            errors::named(
                "NameNotFound",
                format!("tensor {name:?} was not asked for when the sampler was made"),
            )
        })?;
        Ok(array.bind(py).clone())
    }
}

/// Rows as `[n, *shape]`, or without their zeros as (indptr, columns, values).
fn column_array<'py>(
    py: Python<'py>,
    column: Column,
    held: Option<Arc<Reservation>>,
    snapshot: &ng_store::Snapshot,
) -> PyResult<Bound<'py, PyAny>> {
    let Column { tensor, dtype, sparse, bytes } = column;
    match sparse {
        None => {
            arrays::owned_rows(py, bytes, held, dtype, &snapshot::meta(snapshot, tensor)?.shape)
        }
        Some(SparseIndex { indptr, columns }) => {
            let index = |region| arrays::owned_rows(py, region, held.clone(), Dtype::I64, &[]);
            let values = arrays::owned_rows(py, bytes, held.clone(), dtype, &[])?;
            Ok((index(indptr)?, index(columns)?, values).into_pyobject(py)?.into_any())
        }
    }
}

fn no_type(kind: &str, id: usize) -> PyErr {
    errors::named("NameNotFound", format!("the store has no {kind} type {id}"))
}

/// Parses `"node"` or `"edge"` with a type id.
pub fn owner(kind: &str, type_id: u16) -> PyResult<Owner> {
    match kind {
        "node" => Ok(Owner::Node(NodeTypeId(type_id))),
        "edge" => Ok(Owner::Edge(EdgeTypeId(type_id))),
        other => Err(PyValueError::new_err(format!("kind is 'node' or 'edge', not {other:?}"))),
    }
}

/// Places `start..stop` of the keyed permutation of `0..n`.
#[pyfunction]
#[pyo3(signature = (n, seed, train_epoch, start=0, stop=None))]
pub fn seed_order(
    py: Python<'_>,
    n: u64,
    seed: u64,
    train_epoch: u64,
    start: u64,
    stop: Option<u64>,
) -> PyResult<Bound<'_, PyArray1<i64>>> {
    let stop = stop.unwrap_or(n).min(n);
    let order = SeedOrder::new(n, seed, train_epoch);
    let places = py.detach(|| (start..stop).map(|at| order.at(at) as i64).collect());
    arrays::owned(py, places, None)
}
