//! Backups of stores: made, checked, restored.

use std::path::Path;

use pyo3::prelude::*;

use crate::errors;
use crate::progress::{Callback, reporting};

/// Copies the newest checkpoint of a store. Returns the report.
pub fn make<'py>(
    py: Python<'py>,
    store: &ng_store::Store,
    target: &str,
    base: Option<&str>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let report = reporting(py, progress, errors::raised, |callback| {
        let mut tell = |done, total| callback.call((done, total));
        ng_store::backup(store, Path::new(target), base.map(Path::new), &mut tell)
    })?;
    errors::plain(py, &report)
}

/// Restores the store from a backup. Returns the report.
#[pyfunction]
#[pyo3(signature = (path, target, progress=None))]
pub fn restore_backup<'py>(
    py: Python<'py>,
    path: &str,
    target: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let report = reporting(py, progress, errors::raised, |callback: &mut Callback| {
        let mut tell = |done, total| callback.call((done, total));
        ng_store::restore(Path::new(path), Path::new(target), &mut tell)
    })?;
    errors::plain(py, &report)
}

/// Reads a backup and its bases, as restoring does, and checks them. Returns the report.
#[pyfunction]
#[pyo3(signature = (path, progress=None))]
pub fn verify_backup<'py>(
    py: Python<'py>,
    path: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let report = reporting(py, progress, errors::raised, |callback: &mut Callback| {
        let mut tell = |done, total| callback.call((done, total));
        ng_store::verify_backup(Path::new(path), &mut tell)
    })?;
    errors::plain(py, &report)
}

/// Whether a directory looks like a backup.
#[pyfunction]
pub fn is_backup(path: &str) -> bool {
    ng_store::is_backup(Path::new(path))
}
