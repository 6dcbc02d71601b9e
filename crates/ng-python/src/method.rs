//! `Method`: how a `Sampler` chooses neighbours, and the table of what each is supported with.

use ng_sample::{METHODS, Source};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// How neighbours are chosen; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Method {
    pub inner: ng_sample::Method,
}

#[pymethods]
impl Method {
    #[staticmethod]
    #[pyo3(signature = (replace=false))]
    fn uniform(replace: bool) -> Self {
        Self { inner: ng_sample::Method::Uniform { replace } }
    }

    #[staticmethod]
    #[pyo3(signature = (dependent_batches=1))]
    fn labor(dependent_batches: u32) -> Self {
        Self { inner: ng_sample::Method::Labor { dependent: dependent_batches } }
    }

    #[staticmethod]
    #[pyo3(signature = (replace=false))]
    fn weighted(replace: bool) -> Self {
        Self { inner: ng_sample::Method::Weighted { replace } }
    }

    #[staticmethod]
    fn induced() -> Self {
        Self { inner: ng_sample::Method::Induced }
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.inner)
    }
}

/// Returns a table of the sampling methods. For each name, it has the data that the method reads,
/// its options, and whether each source of lists supports it.
#[pyfunction]
pub fn sampling_methods(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    for row in METHODS {
        let facts = PyDict::new(py);
        facts.set_item("needs", row.needs.name())?;
        facts.set_item("options", row.options)?;
        for source in Source::ALL {
            facts.set_item(source.name(), row.sources.contains(&source))?;
        }
        table.set_item(row.name, facts)?;
    }
    Ok(table)
}
