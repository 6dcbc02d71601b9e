//! `Store`, `open_store`, `verify` and `probe`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ng_io::{BackendChoice, Region};
use ng_store::{Expansion, OpenOptions, Problem, Snapshot, TensorMeta, TensorRef, VerifyReport};
use ng_types::{EdgeTypeId, NodeTypeId};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::arrays;
use crate::errors;
use crate::progress::Callback;

/// An open store; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Store {
    inner: Mutex<Option<Arc<ng_store::Store>>>,
    #[pyo3(get)]
    path: String,
}

type Neighbors<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Option<Bound<'py, PyArray1<i64>>>,
    Option<Bound<'py, PyArray1<i64>>>,
    Option<Bound<'py, PyArray1<f32>>>,
);

impl Store {
    fn store(&self) -> PyResult<Arc<ng_store::Store>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(errors::closed)
    }

    /// The snapshot, or `StoreClosed`.
    pub fn snapshot(&self) -> PyResult<Arc<Snapshot>> {
        Ok(self.store()?.snapshot())
    }
}

#[pymethods]
impl Store {
    #[getter]
    fn epoch(&self) -> PyResult<u64> {
        Ok(self.snapshot()?.epoch().0)
    }

    #[getter]
    fn backend(&self) -> PyResult<&'static str> {
        Ok(self.store()?.backend())
    }

    #[getter]
    fn backend_note(&self) -> PyResult<String> {
        Ok(self.store()?.stats().backend_note)
    }

    #[getter]
    fn memory_bytes(&self) -> PyResult<u64> {
        Ok(self.store()?.budget().limit_bytes())
    }

    #[getter]
    fn fingerprint(&self) -> PyResult<String> {
        Ok(format!("{:016x}", self.snapshot()?.fingerprint()))
    }

    fn catalog(&self) -> PyResult<String> {
        let snapshot = self.snapshot()?;
        Ok(crate::catalog::describe(&snapshot).to_string())
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.store()?;
        let (stats, budget) = (store.stats(), store.budget());
        let out = PyDict::new(py);
        let counts: BTreeMap<&str, u64> = BTreeMap::from([
            ("reads", stats.reads),
            ("read_bytes", stats.read_bytes),
            ("useful_bytes", stats.useful_bytes),
            ("retries", stats.retries),
            ("rows_served", stats.rows_served),
            ("rows_cached", stats.rows_cached),
            ("block_cache_bytes", stats.block_cache_bytes),
            ("row_cache_bytes", stats.row_cache_bytes),
            ("budget_limit", budget.limit_bytes()),
            ("budget_used", budget.used_bytes()),
            ("budget_peak", budget.peak_bytes()),
        ]);
        for (name, value) in counts {
            out.set_item(name, value)?;
        }
        out.set_item("hit_rate", stats.hit_rate())?;
        out.set_item("mean_queue_depth", stats.mean_queue_depth)?;
        Ok(out)
    }

    fn reset_stats(&self) -> PyResult<()> {
        self.store()?.reset_stats();
        Ok(())
    }

    /// Forgets the store. Samplers and arrays made from it stay usable and keep what they need.
    fn close(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn neighbors<'py>(
        &self,
        py: Python<'py>,
        edge_type: u16,
        ids: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Neighbors<'py>> {
        let (snapshot, ids) = (self.snapshot()?, arrays::ids(&ids)?);
        let meta = snapshot.catalog().edge_types.get(usize::from(edge_type));
        let (edge_ids, times, weights) =
            meta.map_or((false, false, false), |m| (m.has_edge_ids, m.has_time, m.has_weight));
        let mut out = Expansion::default();
        py.detach(|| snapshot.neighbors(EdgeTypeId(edge_type), &ids, &mut out))
            .map_err(|error| errors::read(&error))?;
        let offsets = out.offsets.into_iter().map(|offset| offset as u64).collect();
        Ok((
            arrays::from_ids(py, offsets)?,
            arrays::from_ids(py, out.sources)?,
            edge_ids.then(|| arrays::from_ids(py, out.edge_ids)).transpose()?,
            times.then(|| arrays::owned(py, out.times, None)).transpose()?,
            weights.then(|| arrays::owned(py, out.weights, None)).transpose()?,
        ))
    }

    fn degrees<'py>(
        &self,
        py: Python<'py>,
        edge_type: u16,
        ids: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let (snapshot, ids) = (self.snapshot()?, arrays::ids(&ids)?);
        let degrees = py.detach(|| snapshot.degrees(EdgeTypeId(edge_type), &ids));
        arrays::from_ids(py, degrees.map_err(|error| errors::read(&error))?)
    }

    fn rows<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        type_id: u16,
        name: &str,
        ids: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (store, snapshot, ids) = (self.store()?, self.snapshot()?, arrays::ids(&ids)?);
        let tensor = tensor(&snapshot, kind, type_id, name)?;
        let meta = meta(&snapshot, tensor)?;
        let len = ids.len() as u64 * meta.row_bytes();
        let held = py.detach(|| store.reserve_batch(len)).map_err(|error| errors::read(&error))?;
        let mut bytes = region(len)?;
        py.detach(|| snapshot.gather(tensor, &ids, bytes.as_mut_slice()))
            .map_err(|error| errors::read(&error))?;
        arrays::owned_rows(py, bytes, Some(Arc::new(held)), meta.dtype, &meta.shape)
    }

    /// A whole column. It is not charged to the budget: whoever asks for a tensor in memory has
    /// room for it.
    fn column<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        type_id: u16,
        name: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let snapshot = self.snapshot()?;
        let tensor = tensor(&snapshot, kind, type_id, name)?;
        let meta = meta(&snapshot, tensor)?;
        let row_bytes = meta.row_bytes() as usize;
        let mut bytes = region(meta.num_rows * meta.row_bytes())?;
        py.detach(|| {
            let out = bytes.as_mut_slice();
            snapshot.scan_tensor(tensor, &mut |first, rows| {
                let start = first as usize * row_bytes;
                out[start..start + rows.len()].copy_from_slice(rows);
                Ok(())
            })
        })
        .map_err(|error| errors::read(&error))?;
        arrays::owned_rows(py, bytes, None, meta.dtype, &meta.shape)
    }

    fn lookup<'py>(
        &self,
        py: Python<'py>,
        node_type: u16,
        keys: Vec<String>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let snapshot = self.snapshot()?;
        let lent: Vec<&str> = keys.iter().map(String::as_str).collect();
        let found = py.detach(|| snapshot.lookup_strings(NodeTypeId(node_type), &lent));
        let found = found.map_err(|error| errors::read(&error))?;
        arrays::owned(py, found.into_iter().map(|id| id.map_or(-1, |id| id as i64)).collect(), None)
    }

    fn names(
        &self,
        py: Python<'_>,
        node_type: u16,
        ids: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Vec<String>> {
        let (snapshot, ids) = (self.snapshot()?, arrays::ids(&ids)?);
        py.detach(|| snapshot.names(NodeTypeId(node_type), &ids))
            .map_err(|error| errors::read(&error))
    }
}

/// Finds a tensor by kind, type id and name.
pub fn tensor(snapshot: &Snapshot, kind: &str, type_id: u16, name: &str) -> PyResult<TensorRef> {
    let owner = crate::sampler::owner(kind, type_id)?;
    snapshot.catalog().find_tensor(owner, name).ok_or_else(|| {
        let message = format!("the store has no {kind} tensor {name:?} of {kind} type {type_id}");
        errors::named("NameNotFound", message)
    })
}

fn region(len: u64) -> PyResult<Region> {
    Region::new(len as usize).map_err(|error| {
        let message = format!("the system has no {len} bytes of memory for these rows: {error}");
        errors::named("IoFailed", message)
    })
}

/// What the catalog says of a tensor.
pub fn meta(snapshot: &Snapshot, tensor: TensorRef) -> PyResult<&TensorMeta> {
    let found = snapshot.catalog().tensor(tensor);
    found.ok_or_else(|| errors::named("NameNotFound", format!("no tensor {tensor:?}")))
}

fn backend_choice(name: &str) -> PyResult<BackendChoice> {
    name.parse::<BackendChoice>()
        .map_err(|error| errors::named("UnsupportedArgument", error.to_string()))
}

/// Opens a store.
#[pyfunction]
#[pyo3(signature = (path, memory, backend, queue_depth=None, epoch=None))]
pub fn open_store(
    py: Python<'_>,
    path: String,
    memory: Option<u64>,
    backend: &str,
    queue_depth: Option<usize>,
    epoch: Option<u64>,
) -> PyResult<Store> {
    let options = OpenOptions {
        memory,
        backend: backend_choice(backend)?,
        queue_depth: queue_depth.unwrap_or(OpenOptions::default().queue_depth),
        reading_threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..OpenOptions::default()
    };
    let store = py
        .detach(|| ng_store::Store::open(Path::new(&path), &options))
        .map_err(|error| errors::open(&error))?;
    let found = store.snapshot().epoch().0;
    if let Some(wanted) = epoch.filter(|wanted| *wanted != found) {
        let message = format!("{path}: epoch {wanted} is gone, the store is at epoch {found}");
        return Err(errors::named("SnapshotGone", message));
    }
    Ok(Store { inner: Mutex::new(Some(Arc::new(store))), path })
}

/// Checks every block and structure of a store; gives the report as JSON.
#[pyfunction]
#[pyo3(signature = (path, memory=None, backend="auto", progress=None))]
pub fn verify(
    py: Python<'_>,
    path: String,
    memory: Option<u64>,
    backend: &str,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let backend = backend_choice(backend)?;
    let mut callback = Callback::new(progress);
    let report = py.detach(|| {
        let options = OpenOptions { memory, backend, ..OpenOptions::default() };
        ng_store::verify(Path::new(&path), &options, &mut |done, total| callback.call(done, total))
    });
    callback.finish()?;
    let report = report.map_err(|error| errors::open(&error))?;
    Ok(describe(&report).to_string())
}

fn describe(report: &VerifyReport) -> Value {
    let problem =
        |p: &Problem| json!({"file": p.file, "page": p.page, "block": p.block, "what": p.what});
    json!({
        "ok": report.is_ok(),
        "blocks": report.blocks,
        "pages": report.pages,
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
        "problems_omitted": report.problems_omitted,
    })
}

/// What reading from `path` can use, as JSON, for `neargraph doctor`.
#[pyfunction]
pub fn probe(py: Python<'_>, path: String) -> PyResult<String> {
    let report = py.detach(|| ng_io::probe(Path::new(&path)));
    let report = report.map_err(|error| errors::named("IoFailed", error.to_string()))?;
    serde_json::to_string(&report)
        .map_err(|error| errors::named("NeargraphError", error.to_string()))
}
