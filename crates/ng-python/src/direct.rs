//! Files of the direct layout: planning, writing, describing, checking; see `_core.pyi`.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ng_store::{DirectFile, DirectInfo, DirectOptions};
use pyo3::prelude::*;

use crate::errors::{self, detached};
use crate::lock::locked;
use crate::progress::reporting;
use crate::snapshot::Snapshot;

/// A planned direct layout, before its file is written; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct DirectPlan {
    inner: Mutex<Option<ng_store::DirectPlan>>,
    info: DirectInfo,
}

#[pymethods]
impl DirectPlan {
    #[new]
    #[pyo3(signature = (snapshot, scratch_dir, page_bytes, tensors=None, progress=None))]
    fn new(
        py: Python<'_>,
        snapshot: &Snapshot,
        scratch_dir: &str,
        page_bytes: usize,
        tensors: Option<Vec<String>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let snapshot = Arc::clone(&snapshot.inner);
        let options = DirectOptions { page_bytes, tensors, ..DirectOptions::default() };
        let plan = reporting(py, progress, errors::raised, |callback| {
            let mut report = |phase: &str, done, total| callback.call((phase, done, total));
            ng_store::DirectPlan::new(snapshot, Path::new(scratch_dir), &options, &mut report)
        })?;
        Ok(Self { info: plan.info(), inner: Mutex::new(Some(plan)) })
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        errors::plain(py, &self.info)
    }

    #[pyo3(signature = (directory, name, progress=None))]
    fn write(
        &self,
        py: Python<'_>,
        directory: &str,
        name: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let plan = locked(&self.inner).take().ok_or_else(errors::closed)?;
        reporting(py, progress, errors::raised, |callback| {
            let mut report = |phase: &str, done, total| callback.call((phase, done, total));
            plan.write(Path::new(directory), name, &mut report)
        })
    }

    fn close(&self) {
        drop(locked(&self.inner).take());
    }
}

/// Returns the description of a file.
#[pyfunction]
pub fn describe_direct<'py>(
    py: Python<'py>,
    directory: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    errors::plain(py, &detached(py, || DirectFile::describe(Path::new(directory), name))?)
}

/// Returns the name of the file that was compiled from the version of a snapshot.
#[pyfunction]
pub fn find_direct(
    py: Python<'_>,
    snapshot: &Snapshot,
    directory: &str,
    tensors: Vec<String>,
) -> PyResult<String> {
    let snapshot = &snapshot.inner;
    detached(py, || DirectFile::find(Path::new(directory), snapshot, &tensors))
}

/// Checks all pages and sections of a file.
#[pyfunction]
#[pyo3(signature = (snapshot, directory, name, progress=None))]
pub fn verify_direct(
    py: Python<'_>,
    snapshot: &Snapshot,
    directory: &str,
    name: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let snapshot = Arc::clone(&snapshot.inner);
    reporting(py, progress, errors::raised, |callback| {
        let file = DirectFile::open(snapshot, Path::new(directory), name)?;
        file.verify(&mut |done, total| callback.call((done, total)))
    })
}
