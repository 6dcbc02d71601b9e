//! `Sampler` and `MiniBatch`.

use std::path::Path;
use std::sync::Arc;

use ng_sample::{Column, ColumnSpec, CompactEdges, Fanouts, SampleSpec, SparseIndex, Walks};
use ng_store::{DirectFile, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId, Reservation};
use numpy::{Element, PyArray1};
use pyo3::prelude::*;

use crate::arrays::{self, Ids};
use crate::errors::{self, detached};
use crate::inputs::Inputs;
use crate::method::Method;
use crate::shape::{Links, Roots, Shape};
use crate::snapshot::{self, Snapshot};

/// Samples mini-batches; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Sampler {
    pub inner: ng_sample::Sampler,
}

#[pymethods]
impl Sampler {
    #[new]
    #[pyo3(signature = (
        snapshot, fanouts, method, seed, columns, shape=None, links=None, roots=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        snapshot: &Snapshot,
        fanouts: Vec<Vec<i64>>,
        method: &Method,
        seed: u64,
        columns: Vec<(String, u16, String, Option<String>)>,
        shape: Option<&Shape>,
        links: Option<&Links>,
        roots: Option<&Roots>,
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
        let fanouts = Fanouts::new(fanouts).map_err(errors::raised)?;
        let spec = SampleSpec {
            shape: shape.map(|shape| shape.inner.clone()).unwrap_or_default(),
            links: links.map(|links| links.inner.clone()),
            roots: roots.map(|roots| roots.inner.clone()),
            ..SampleSpec::new(fanouts, method.inner, seed)
        };
        let inner = ng_sample::Sampler::with_columns(snapshot, spec, &columns);
        Ok(Self { inner: inner.map_err(errors::raised)? })
    }

    /// Returns the trace of batches. `seeds` holds the seeds of all batches, `ends` the end of each
    /// batch in `seeds`, and `streams` the stream of each batch.
    fn trace(
        &self,
        py: Python<'_>,
        seeds: Ids,
        ends: Vec<usize>,
        streams: Vec<u64>,
    ) -> PyResult<crate::sim::Trace> {
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let batches: Vec<(&[u64], u64)> = starts
            .zip(&ends)
            .zip(streams)
            .filter_map(|((start, end), stream)| Some((seeds.0.get(start..*end)?, stream)))
            .collect();
        let trace = detached(py, || self.inner.trace(batches))?;
        Ok(crate::sim::Trace { inner: Arc::new(trace) })
    }

    fn sample(&self, py: Python<'_>, seeds: Vec<(u16, Ids)>, stream: u64) -> PyResult<MiniBatch> {
        let lent: Vec<_> = seeds.iter().map(|(t, ids)| (NodeTypeId(*t), &*ids.0)).collect();
        let batch = detached(py, || self.inner.sample(&lent, stream))?;
        MiniBatch::new(py, batch, self.inner.snapshot())
    }

    /// Returns one batch of all `inputs`, as the part of a global batch that begins at `first`.
    fn make(
        &self,
        py: Python<'_>,
        inputs: &Inputs,
        stream: u64,
        first: u64,
        batch_size: u64,
    ) -> PyResult<MiniBatch> {
        let job = inputs.inner.part(stream, first, batch_size);
        let batch = detached(py, || self.inner.make(&job))?;
        MiniBatch::new(py, batch, self.inner.snapshot())
    }

    /// Returns walks of length + 1 nodes from `starts`, concatenated; -1 after a walk ends.
    fn walk<'py>(
        &self,
        py: Python<'py>,
        path: Vec<u16>,
        length: u32,
        bias: Option<(f64, f64)>,
        starts: Ids,
        stream: u64,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let path = path.into_iter().map(EdgeTypeId).collect();
        let walks = Walks { path, length, bias };
        let found = detached(py, || self.inner.walk(&walks, &starts.0, stream))?;
        let id = |node: Option<u64>| node.map_or(-1, |node| node as i64);
        arrays::owned(py, found.nodes.into_iter().map(id).collect(), None)
    }

    /// Returns the same sampler, reading a file of the direct layout.
    fn with_direct(&self, py: Python<'_>, directory: &str, name: &str) -> PyResult<Self> {
        let snapshot = Arc::clone(self.inner.snapshot());
        let inner = detached(py, || {
            let file = DirectFile::open(snapshot, Path::new(directory), name)?;
            self.inner.clone().with_direct(Arc::new(file))
        })?;
        Ok(Self { inner })
    }

    fn stages(&self) -> Vec<(&'static str, f64)> {
        self.inner.worked_seconds()
    }

    fn busy(&self) -> Vec<&'static str> {
        self.inner.busy_stages()
    }

    fn waits(&self) -> Vec<(&'static str, f64)> {
        self.inner.waited_seconds()
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
    /// By node type; empty where all seeds share one subgraph.
    subgraphs: Vec<Py<PyAny>>,
    targets: Py<PyAny>,
    seed_times: Option<Py<PyAny>>,
    /// Ends and shares of visits; none where no walks were made.
    visits: Option<(Py<PyAny>, Py<PyAny>)>,
    snapshot: Arc<ng_store::Snapshot>,
}

struct Nodes {
    ids: Py<PyAny>,
    per_hop: Vec<usize>,
}

struct Edges {
    index: Py<PyAny>,
    edge_ids: Option<Py<PyAny>>,
    times: Option<Py<PyAny>>,
    weights: Option<Py<PyAny>>,
    per_hop: Vec<usize>,
}

impl MiniBatch {
    pub fn new(
        py: Python<'_>,
        batch: ng_sample::MiniBatch,
        snapshot: &Arc<ng_store::Snapshot>,
    ) -> PyResult<Self> {
        let (num_seeds, nbytes) = (batch.num_seeds(), batch.num_bytes());
        let (node_blocks, edge_blocks, column_blocks, extras, held) = batch.into_parts();
        let mut held = held.into_iter().map(|held| held.map(Arc::new));
        let topology = held.next().flatten();
        let nodes = node_blocks
            .into_iter()
            .map(|block| {
                let ids = arrays::owned(py, block.ids, topology.clone())?.into_any().unbind();
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
        let wide = |numbers: Vec<u32>| -> PyResult<Py<PyAny>> {
            let numbers = numbers.into_iter().map(i64::from).collect();
            Ok(arrays::owned(py, numbers, topology.clone())?.into_any().unbind())
        };
        let subgraphs = extras.subgraphs.into_iter().map(wide).collect::<PyResult<_>>()?;
        let targets = wide(extras.targets)?;
        let seed_times = column(py, !extras.times.is_empty(), extras.times, &topology)?;
        let visits = visits(py, extras.visits, &topology)?;
        let snapshot = Arc::clone(snapshot);
        Ok(Self {
            num_seeds,
            nbytes,
            nodes,
            edges,
            columns,
            subgraphs,
            targets,
            seed_times,
            visits,
            snapshot,
        })
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
        // Edges that were turned round into another type lack what that keeps.
        let count = block.rows.len();
        let (ids, times, weights) = (block.edge_ids.len(), block.times.len(), block.weights.len());
        Ok(Self {
            index: arrays::stacked(py, block.rows, block.cols, held.clone())?.unbind(),
            edge_ids: column(py, meta.has_edge_ids && ids == count, block.edge_ids, &held)?,
            times: column(py, meta.has_time && times == count, block.times, &held)?,
            weights: column(py, meta.has_weight && weights == count, block.weights, &held)?,
            per_hop: block.per_hop,
        })
    }
}

/// What an edge type has beside its lists, if it has it.
fn column<T: Element + Send + Sync + 'static>(
    py: Python<'_>,
    wanted: bool,
    data: Vec<T>,
    held: &Option<Arc<Reservation>>,
) -> PyResult<Option<Py<PyAny>>> {
    let array = wanted.then(|| arrays::owned(py, data, held.clone())).transpose()?;
    Ok(array.map(|array| array.into_any().unbind()))
}

#[pymethods]
impl MiniBatch {
    fn nodes(&self, nt: usize) -> PyResult<&Py<PyAny>> {
        Ok(&self.node(nt)?.ids)
    }

    fn edges(&self, et: usize) -> PyResult<&Py<PyAny>> {
        Ok(&self.edge(et)?.index)
    }

    fn edge_ids(&self, et: usize) -> PyResult<Option<&Py<PyAny>>> {
        Ok(self.edge(et)?.edge_ids.as_ref())
    }

    fn times(&self, et: usize) -> PyResult<Option<&Py<PyAny>>> {
        Ok(self.edge(et)?.times.as_ref())
    }

    fn weights(&self, et: usize) -> PyResult<Option<&Py<PyAny>>> {
        Ok(self.edge(et)?.weights.as_ref())
    }

    /// Returns the subgraph of each node; None if all seeds share one subgraph.
    fn subgraphs(&self, nt: usize) -> Option<&Py<PyAny>> {
        self.subgraphs.get(nt)
    }

    /// The local numbers of the ends of the links: sources, then destinations. Empty for other
    /// seeds.
    #[getter]
    fn targets(&self) -> &Py<PyAny> {
        &self.targets
    }

    /// The times of the seeds; None unless sampling is temporal.
    #[getter]
    fn seed_times(&self) -> Option<&Py<PyAny>> {
        self.seed_times.as_ref()
    }

    /// The local ids of both ends of each visit, and its share of visits; None without walks.
    #[getter]
    fn visits(&self, py: Python<'_>) -> Option<(Py<PyAny>, Py<PyAny>)> {
        self.visits.as_ref().map(|(ends, shares)| (ends.clone_ref(py), shares.clone_ref(py)))
    }

    fn num_sampled_nodes(&self, nt: usize) -> PyResult<Vec<usize>> {
        Ok(self.node(nt)?.per_hop.clone())
    }

    fn num_sampled_edges(&self, et: usize) -> PyResult<Vec<usize>> {
        Ok(self.edge(et)?.per_hop.clone())
    }

    fn tensor(&self, kind: &str, type_id: u16, name: &str) -> PyResult<&Py<PyAny>> {
        let wanted = snapshot::tensor(&self.snapshot, kind, type_id, name)?;
        let found = self.columns.iter().find(|(tensor, _)| *tensor == wanted);
        found.map(|(_, array)| array).ok_or_else(|| {
            let message = format!("tensor {name:?} was not requested when the sampler was created");
            errors::named("NameNotFound", message)
        })
    }
}

/// Visits as `[2, e]` and `[e]`; none where no node was asked for any.
fn visits(
    py: Python<'_>,
    visits: CompactEdges,
    held: &Option<Arc<Reservation>>,
) -> PyResult<Option<(Py<PyAny>, Py<PyAny>)>> {
    if visits.counts.is_empty() {
        return Ok(None);
    }
    let (rows, cols) = visits.ends();
    let ends = arrays::stacked(py, rows, cols, held.clone())?.unbind();
    Ok(Some((ends, arrays::owned(py, visits.weights, held.clone())?.into_any().unbind())))
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
    errors::named("NameNotFound", format!("{kind} type {id} does not exist in the store"))
}
