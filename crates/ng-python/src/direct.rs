//! Files of the direct layout: planning, writing, describing, checking; see `_core.pyi`.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ng_store::{DirectFile, DirectInfo, DirectOptions};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::progress::Callback;
use crate::snapshot::Snapshot;

fn info_dict<'py>(py: Python<'py>, info: &DirectInfo) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("fingerprint", &info.fingerprint)?;
    out.set_item("lsn", info.lsn)?;
    out.set_item("num_nodes", info.num_nodes)?;
    out.set_item("num_edges", info.num_edges)?;
    out.set_item("tensors", &info.tensors)?;
    out.set_item("page_bytes", info.page_bytes)?;
    out.set_item("pages_per_section", info.unit_pages)?;
    out.set_item("address_bytes", info.address_bytes)?;
    out.set_item("section_bits", info.section_bits)?;
    out.set_item("row_bytes", info.row_bytes)?;
    out.set_item("primary_pages", info.primary_pages)?;
    out.set_item("secondary_pages", info.secondary_pages)?;
    out.set_item("table_pages", info.table_pages)?;
    out.set_item("file_bytes", info.file_bytes)?;
    out.set_item("inflation", info.inflation)?;
    Ok(out)
}

/// A layout that is known and not written yet; see `_core.pyi`.
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
        let mut callback = Callback::new(progress);
        let plan = py.detach(|| {
            let mut report = |phase: &str, done, total| callback.call_phase(phase, done, total);
            ng_store::DirectPlan::new(snapshot, Path::new(scratch_dir), &options, &mut report)
        });
        let plan = callback.finish(plan, errors::raised)?;
        Ok(Self { info: plan.info(), inner: Mutex::new(Some(plan)) })
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        info_dict(py, &self.info)
    }

    #[pyo3(signature = (directory, name, progress=None))]
    fn write(
        &self,
        py: Python<'_>,
        directory: &str,
        name: &str,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let plan = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        let plan = plan.ok_or_else(errors::closed)?;
        let mut callback = Callback::new(progress);
        let written = py.detach(|| {
            let mut report = |phase: &str, done, total| callback.call_phase(phase, done, total);
            plan.write(Path::new(directory), name, &mut report)
        });
        callback.finish(written, errors::raised)
    }

    fn close(&self) {
        drop(self.inner.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// What a file says about itself.
#[pyfunction]
pub fn describe_direct<'py>(
    py: Python<'py>,
    directory: &str,
    name: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let info = py.detach(|| DirectFile::describe(Path::new(directory), name));
    info_dict(py, &info.map_err(errors::raised)?)
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
    let mut callback = Callback::new(progress);
    let checked = py.detach(|| {
        let file = DirectFile::open(snapshot, Path::new(directory), name)?;
        file.verify(&mut |done, total| callback.call(done, total))
    });
    callback.finish(checked, errors::raised)
}
