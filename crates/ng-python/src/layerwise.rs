//! `Layerwise`: a model for all nodes of a store, and `Inferred`: what it gave.

use std::path::PathBuf;
use std::sync::Arc;

use ng_engine::{Begun, LayerwiseError, LayerwiseOptions, Progress};
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::arrays;
use crate::computing::Computing;
use crate::dfg::Dfg;
use crate::errors::{self, detached, plain};
use crate::progress::reporting;
use crate::snapshot::Snapshot;

/// A model on a snapshot; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Layerwise {
    inner: ng_engine::Layerwise,
}

/// A run that came to its end.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Inferred {
    inner: ng_engine::Inferred,
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

    /// What a run reads, writes and holds.
    fn plan<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, self.inner.plan())
    }

    /// Tells this model on this snapshot from others.
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
        Ok(Inferred { inner })
    }
}

#[pymethods]
impl Inferred {
    /// Name, node type, shape of a row and number of rows of each output.
    fn outputs(&self) -> Vec<(String, String, Vec<usize>, u64)> {
        let outputs = self.inner.outputs().iter();
        outputs
            .map(|of| (of.name.clone(), of.node_type.clone(), of.dims.clone(), of.num_rows))
            .collect()
    }

    /// Rows of an output as a flat array.
    fn rows<'py>(
        &self,
        py: Python<'py>,
        output: usize,
        first: u64,
        end: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let all = detached(py, || match self.inner.outputs().get(output) {
            Some(of) => self.inner.rows(of, first..end.min(of.num_rows)),
            None => Ok(Vec::new()),
        })?;
        Ok(arrays::owned(py, all, None)?.into_any())
    }

    /// How the run began: `new`, `resumed` or `anew`, and what that means.
    fn begun(&self) -> (&'static str, String) {
        match self.inner.begun {
            Begun::New => ("new", String::new()),
            Begun::Resumed { passes, rows } => {
                ("resumed", format!("{passes} passes and {rows} rows were done"))
            }
            Begun::Anew(why) => ("anew", why.to_owned()),
        }
    }

    /// Bytes that were read of tables of the run.
    fn table_read_bytes(&self) -> u64 {
        self.inner.read_counts().read_bytes
    }
}
