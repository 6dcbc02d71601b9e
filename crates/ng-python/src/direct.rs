//! Files of the direct layout: planning, writing, describing, checking; see `_core.pyi`.

use std::path::Path;
use std::sync::Arc;

use ng_store::{DirectFile, DirectInfo, DirectOptions, DirectPlan};
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

/// Lays a snapshot out and, where `name` is given, writes `NAME.direct` in `directory`.
#[pyfunction]
#[pyo3(signature = (snapshot, directory, page_bytes, tensors=None, name=None, progress=None))]
pub fn compile_direct<'py>(
    py: Python<'py>,
    snapshot: &Snapshot,
    directory: &str,
    page_bytes: usize,
    tensors: Option<Vec<String>>,
    name: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let snapshot = Arc::clone(&snapshot.inner);
    let options = DirectOptions { page_bytes, tensors };
    let mut callback = Callback::new(progress);
    let made = py.detach(|| {
        let mut report = |phase: &str, done, total| callback.call_phase(phase, done, total);
        let plan = DirectPlan::new(snapshot, Path::new(directory), &options, &mut report)?;
        let info = plan.info();
        if let Some(name) = name {
            plan.write(name, &mut report)?;
        }
        Ok(info)
    });
    callback.finish()?;
    info_dict(py, &made.map_err(|error| errors::direct(&error))?)
}

/// What a file says about itself.
#[pyfunction]
pub fn describe_direct<'py>(
    py: Python<'py>,
    directory: &str,
    name: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let info = py.detach(|| DirectFile::describe(Path::new(directory), name));
    info_dict(py, &info.map_err(|error| errors::direct(&error))?)
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
    callback.finish()?;
    checked.map_err(|error| errors::direct(&error))
}
