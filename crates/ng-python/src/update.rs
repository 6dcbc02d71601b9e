//! `Transaction`: operations that become durable together, or not at all.

use std::sync::Mutex;

use ng_store::{EdgeData, UpdateError};
use ng_types::{EdgeTypeId, NodeTypeId};
use numpy::{
    PyArray1, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::{self, Ids};
use crate::errors::{self, detached};
use crate::lock::locked;
use crate::snapshot::owner;

/// An open transaction; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Transaction {
    inner: Mutex<Option<ng_store::Transaction>>,
}

impl Transaction {
    pub fn new(tx: ng_store::Transaction) -> Self {
        Self { inner: Mutex::new(Some(tx)) }
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut ng_store::Transaction) -> Result<T, UpdateError> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| locked(&self.inner).as_mut().map(work));
        done.ok_or_else(ended)?.map_err(errors::raised)
    }
}

fn ended() -> PyErr {
    errors::named(
        "TransactionEnded",
        "the transaction has ended; start a new one with store.write()".into(),
    )
}

#[pymethods]
impl Transaction {
    fn add_nodes(&self, py: Python<'_>, node_type: u16, count: u64) -> PyResult<Ids> {
        let node_type = NodeTypeId(node_type);
        self.with(py, |tx| (0..count).map(|_| tx.add_node(node_type)).collect()).map(Ids)
    }

    fn delete_node(&self, py: Python<'_>, node_type: u16, id: u64) -> PyResult<()> {
        self.with(py, |tx| tx.delete_node(NodeTypeId(node_type), id))
    }

    #[pyo3(signature = (edge_type, sources, destinations, times=None, weights=None))]
    fn add_edges(
        &self,
        py: Python<'_>,
        edge_type: u16,
        sources: Ids,
        destinations: Ids,
        times: Option<PyReadonlyArray1<'_, i64>>,
        weights: Option<PyReadonlyArray1<'_, f32>>,
    ) -> PyResult<Ids> {
        let mut data = Vec::new();
        if times.is_some() || weights.is_some() {
            data.resize(sources.0.len(), EdgeData::default());
        }
        let uneven = |found: usize| found != sources.0.len();
        if times.as_ref().is_some_and(|a| uneven(a.len()))
            || weights.as_ref().is_some_and(|a| uneven(a.len()))
        {
            return Err(PyValueError::new_err(
                "times= and weights= must have one element per edge",
            ));
        }
        for (edge, time) in data.iter_mut().zip(times.iter().flat_map(|a| a.as_array())) {
            edge.time = *time;
        }
        for (edge, weight) in data.iter_mut().zip(weights.iter().flat_map(|a| a.as_array())) {
            edge.weight = *weight;
        }
        let edge_type = EdgeTypeId(edge_type);
        self.with(py, |tx| tx.add_edges(edge_type, &sources.0, &destinations.0, &data)).map(Ids)
    }

    #[pyo3(signature = (edge_type, source, destination, edge_id=None))]
    fn delete_edge(
        &self,
        py: Python<'_>,
        edge_type: u16,
        source: u64,
        destination: u64,
        edge_id: Option<u64>,
    ) -> PyResult<u64> {
        let edge_type = EdgeTypeId(edge_type);
        self.with(py, |tx| tx.delete_edge(edge_type, source, destination, edge_id))
    }

    /// Replaces rows. `rows` holds their bytes, concatenated.
    fn set_rows(
        &self,
        py: Python<'_>,
        kind: &str,
        type_id: u16,
        name: &str,
        ids: Ids,
        rows: PyReadonlyArrayDyn<'_, u8>,
    ) -> PyResult<()> {
        let owner = owner(kind, type_id)?;
        let strided = |_| PyValueError::new_err("rows must be contiguous");
        let bytes = rows.as_slice().map_err(strided)?;
        self.with(py, |tx| {
            let tensor = tx.tensor(owner, name)?;
            tx.set_rows(tensor, &ids.0, bytes)
        })
    }

    /// Encodes rows of f32 as the tensor stores them. Returns the bytes for `set_rows`.
    fn encode_rows<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        type_id: u16,
        name: &str,
        values: &Bound<'py, PyUntypedArray>,
    ) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let (owner, values) = (owner(kind, type_id)?, arrays::bytes_of(values)?);
        let values = values.as_slice()?;
        let rows = self.with(py, |tx| {
            let tensor = tx.tensor(owner, name)?;
            tx.encode_rows(tensor, values)
        });
        arrays::owned(py, rows?, None)
    }

    /// Makes the transaction durable. Returns the number of the commit and of its operations.
    fn commit(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let tx = locked(&self.inner).take().ok_or_else(ended)?;
        let commit = detached(py, || tx.commit())?;
        Ok((commit.lsn, commit.ops))
    }

    /// Discards the transaction, if it has not ended.
    fn abort(&self, py: Python<'_>) {
        let tx = locked(&self.inner).take();
        py.detach(|| drop(tx));
    }
}
