//! `Layerwise`: a model for all nodes of a store, and `Inferred`: what it gave.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ng_engine::{Begun, LayerwiseError, LayerwiseOptions, Progress};
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::arrays;
use crate::computing::Computing;
use crate::dfg::Dfg;
use crate::errors::{self, detached, plain};
use crate::lock::locked;
use crate::progress::reporting;
use crate::snapshot::Snapshot;

/// Layer-wise inference of a model on a snapshot; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Layerwise {
    inner: ng_engine::Layerwise,
}

/// Name, node type, shape of a row and number of rows of an output.
type Described = (String, String, Vec<usize>, u64);

/// The result of a complete run.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Inferred {
    inner: Mutex<Option<Arc<ng_engine::Inferred>>>,
}

impl Inferred {
    fn get(&self) -> PyResult<Arc<ng_engine::Inferred>> {
        let closed = || {
            errors::named("NeargraphError", "the result of layer-wise inference is closed".into())
        };
        locked(&self.inner).clone().ok_or_else(closed)
    }
}

#[pymethods]
impl Layerwise {
    #[new]
    #[pyo3(signature = (snapshot, model, *, threads, device, block_rows, chunk_rows))]
    fn new(
        py: Python<'_>,
        snapshot: &Snapshot,
        model: &Dfg,
        threads: usize,
        device: Computing,
        block_rows: Option<u64>,
        chunk_rows: Option<u64>,
    ) -> PyResult<Self> {
        let devices = device.table(py)?;
        let options = LayerwiseOptions { devices, threads, block_rows, chunk_rows };
        let (snapshot, model) = (Arc::clone(&snapshot.inner), model.model());
        let inner = detached(py, || ng_engine::Layerwise::new(snapshot, &model, &options))?;
        Ok(Self { inner })
    }

    /// Returns the bytes that a run reads, writes and holds in memory.
    fn plan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, self.inner.plan())
    }

    /// Returns the name and the node type of each output.
    fn outputs(&self) -> Vec<(String, String)> {
        self.inner.outputs().into_iter().map(|of| (of.name, of.node_type)).collect()
    }

    /// Returns a key that identifies the snapshot, the model and the device.
    fn key(&self) -> String {
        self.inner.key()
    }

    #[pyo3(signature = (folder, *, fresh, progress))]
    fn run(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        fresh: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Inferred> {
        let raised = |error: LayerwiseError| errors::raised(error);
        let inner = reporting(py, progress, raised, |callback| {
            let mut hear =
                |at: Progress| callback.call((at.pass, at.passes, at.rows as u64, at.num_rows));
            self.inner.run(&folder, fresh, &mut hear)
        })?;
        Ok(Inferred { inner: Mutex::new(Some(Arc::new(inner))) })
    }
}

#[pymethods]
impl Inferred {
    /// Returns the name, node type, shape of a row and number of rows of each output.
    fn outputs(&self) -> PyResult<Vec<Described>> {
        let inner = self.get()?;
        let outputs = inner.outputs().iter();
        let described =
            outputs.map(|of| (of.name.clone(), of.node_type.clone(), of.dims.clone(), of.num_rows));
        Ok(described.collect())
    }

    /// Deletes the files of the run in its folder.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.get()?;
        detached(py, || inner.clear())
    }

    /// Releases the folder, so that another run can use it.
    fn close(&self) {
        locked(&self.inner).take();
    }

    /// Returns rows `first` to `end` - 1 of an output as a flat array.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        output: usize,
        first: u64,
        end: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let inner = self.get()?;
        let all = detached(py, || match inner.outputs().get(output) {
            Some(of) => inner.rows(of, first..end.min(of.num_rows)),
            None => Ok(Vec::new()),
        })?;
        Ok(arrays::owned(py, all, None)?.into_any())
    }

    /// Returns how the run began (`new`, `resumed` or `anew`), with an explanation.
    fn begun(&self) -> PyResult<(&'static str, String)> {
        Ok(match self.get()?.begun {
            Begun::New => ("new", String::new()),
            Begun::Resumed { passes, rows } => {
                ("resumed", format!("{passes} passes and {rows} rows were already computed"))
            }
            Begun::Anew(why) => ("anew", why.to_owned()),
        })
    }

    /// Returns the number of bytes read from tables of the run.
    fn table_read_bytes(&self) -> PyResult<u64> {
        Ok(self.get()?.read_counts().read_bytes)
    }
}
