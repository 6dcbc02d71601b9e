//! `Sampler` and `MiniBatch`.

use std::path::Path;
use std::sync::Arc;

use ng_sample::{Column, ColumnSpec, Fanouts, SampleSpec, SparseIndex};
use ng_store::{DirectFile, Owner, TensorRef};
use ng_types::{Dtype, EdgeTypeId, NodeTypeId, Reservation};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays;
use crate::errors;
use crate::method::Method;
use crate::snapshot::{self, Snapshot};

/// Samples mini-batches; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Sampler {
    pub inner: ng_sample::Sampler,
}

#[pymethods]
impl Sampler {
    #[new]
    fn new(
        snapshot: &Snapshot,
        fanouts: Vec<Vec<i64>>,
        method: &Method,
        seed: u64,
        columns: Vec<(String, u16, String, Option<String>)>,
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
        let spec = SampleSpec { fanouts, method: method.inner, seed };
        let inner = ng_sample::Sampler::with_columns(snapshot, spec, &columns);
        Ok(Self { inner: inner.map_err(errors::raised)? })
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
        let trace = py.detach(|| self.inner.trace(batches)).map_err(errors::raised)?;
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
        let batch = batch.map_err(errors::raised)?;
        MiniBatch::new(py, batch, self.inner.snapshot())
    }

    /// The same sampler over a file of the direct layout.
    fn with_direct(&self, py: Python<'_>, directory: &str, name: &str) -> PyResult<Self> {
        let snapshot = Arc::clone(self.inner.snapshot());
        let made = py.detach(|| {
            let file = DirectFile::open(snapshot, Path::new(directory), name)?;
            self.inner.clone().with_direct(Arc::new(file))
        });
        Ok(Self { inner: made.map_err(errors::raised)? })
    }

    fn stages(&self) -> Vec<(&'static str, f64)> {
        self.inner.worked_seconds()
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
        snapshot: &Arc<ng_store::Snapshot>,
    ) -> PyResult<Self> {
        let (num_seeds, nbytes) = (batch.num_seeds(), batch.num_bytes());
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
