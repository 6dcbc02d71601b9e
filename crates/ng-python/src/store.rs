//! `Store`, `open_store`, `verify` and `probe`.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ng_io::BackendChoice;
use ng_store::{DiskCosts, OpenOptions, VerifyReport};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use serde_json::json;

use crate::add_tensor;
use crate::backup;
use crate::errors::{self, detached};
use crate::lock::locked;
use crate::progress::{go_on, raised_or, reporting};
use crate::snapshot::Snapshot;
use crate::update::Transaction;

/// An open store; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Store {
    inner: Mutex<Option<Arc<ng_store::Store>>>,
    #[pyo3(get)]
    path: String,
}

impl Store {
    fn store(&self) -> PyResult<Arc<ng_store::Store>> {
        locked(&self.inner).clone().ok_or_else(errors::closed)
    }
}

#[pymethods]
impl Store {
    /// Returns a snapshot of the newest durable version.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let store = self.store()?;
        // A commit may be on its way into the newest version.
        Ok(Snapshot { inner: py.detach(|| store.snapshot()) })
    }

    /// Waits for other writers, and opens a transaction.
    fn write(&self, py: Python<'_>) -> PyResult<Transaction> {
        let store = self.store()?;
        detached(py, || store.write()).map(Transaction::new).map_err(raised_or)
    }

    /// Adds a tensor. `rows` returns the bytes of some rows at each call, and None at the end.
    /// Returns the number of the commit.
    #[pyo3(signature = (node_type, name, dtype, shape, num_rows, lsn, rows))]
    #[allow(clippy::too_many_arguments)]
    fn add_tensor(
        &self,
        py: Python<'_>,
        node_type: u16,
        name: String,
        dtype: &str,
        shape: Vec<u64>,
        num_rows: u64,
        lsn: Option<u64>,
        rows: Py<PyAny>,
    ) -> PyResult<u64> {
        let store = self.store()?;
        let new = add_tensor::described(node_type, name, dtype, shape, num_rows, lsn)?;
        add_tensor::add(py, &store, &new, &rows)
    }

    fn checkpoint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store()?;
        errors::plain(py, &detached(py, || store.checkpoint()).map_err(raised_or)?)
    }

    fn close_writer(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store()?;
        detached(py, || store.close_writer())
    }

    /// Compares all checksums of the last checkpoint while the store is in use. Returns the report
    /// as JSON.
    #[pyo3(signature = (bytes_per_second=None, progress=None))]
    fn scrub(
        &self,
        py: Python<'_>,
        bytes_per_second: Option<u64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let store = self.store()?;
        let report = reporting(py, progress, errors::raised, |callback| {
            store.scrub(&mut |done, total| callback.call((done, total)), bytes_per_second)
        })?;
        Ok(describe(&report))
    }

    /// Copies the newest checkpoint to a new directory. Returns the report.
    #[pyo3(signature = (target, base=None, progress=None))]
    fn backup<'py>(
        &self,
        py: Python<'py>,
        target: &str,
        base: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        backup::make(py, &*self.store()?, target, base, progress)
    }

    /// Returns the number of commits that recovery applied, and whether the log ended in an
    /// incomplete commit.
    fn recovery(&self) -> PyResult<(u64, bool)> {
        let recovery = self.store()?.recovery();
        Ok((recovery.commits, recovery.torn))
    }

    /// Why recovery kept the commits of a crashed writer in memory only; None if they are written,
    /// or there are none.
    #[getter]
    fn read_only_because(&self) -> PyResult<Option<String>> {
        Ok(self.store()?.read_only_because())
    }

    fn update_stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store()?;
        let stats = py.detach(|| store.update_stats()).unwrap_or_default();
        let out = errors::plain(py, &stats)?;
        out.set_item("write_amplification", stats.write_amplification())?;
        Ok(out)
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

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.store()?;
        let (stats, budget) = (store.stats(), store.budget());
        let out = [
            ("reads", stats.reads),
            ("read_bytes", stats.read_bytes),
            ("useful_bytes", stats.useful_bytes),
            ("retries", stats.retries),
            ("temporary_write_bytes", stats.scratch_write_bytes),
            ("rows_served", stats.rows_served),
            ("rows_cached", stats.rows_cached),
            ("block_cache_bytes", stats.block_cache_bytes),
            ("row_cache_bytes", stats.row_cache_bytes),
            ("budget_limit", budget.limit_bytes()),
            ("budget_used", budget.used_bytes()),
            ("budget_peak", budget.peak_bytes()),
        ]
        .into_py_dict(py)?;
        let memory = PyDict::new(py);
        for found in &stats.memory {
            let bytes = [("share", Some(found.share_bytes)), ("held", found.held_bytes)];
            let bytes = bytes.into_py_dict(py)?;
            memory.set_item(found.user.name(), bytes)?;
        }
        out.set_item("memory", memory)?;
        out.set_item("hit_rate", stats.hit_rate())?;
        out.set_item("mean_queue_depth", stats.mean_queue_depth)?;
        out.set_item("device_busy_seconds", stats.device_busy_us as f64 / 1e6)?;
        Ok(out)
    }

    fn log_reads(&self, path: &str) -> PyResult<()> {
        Ok(self.store()?.log_reads(Path::new(path))?)
    }

    fn end_read_log(&self, py: Python<'_>) -> PyResult<u64> {
        let store = self.store()?;
        Ok(py.detach(|| store.end_read_log())?)
    }

    /// Measures the disk. Returns (reads per second, bytes per second); None if all files are too
    /// short.
    fn measure_disk(&self, py: Python<'_>) -> PyResult<Option<(f64, f64)>> {
        let snapshot = self.store()?.snapshot();
        let costs = detached(py, || snapshot.measure_disk())?;
        Ok(costs.map(|costs| (costs.reads_per_s, costs.bytes_per_s)))
    }

    fn set_disk_rates(&self, reads_per_s: f64, bytes_per_s: f64) -> PyResult<()> {
        let costs = DiskCosts::possible(reads_per_s, bytes_per_s).ok_or_else(|| {
            let (reads, bytes) = (reads_per_s, bytes_per_s);
            PyValueError::new_err(format!(
                "{reads} reads and {bytes} bytes per second are not valid disk rates: expected 1 \
                 to 1e9 reads and 1e3 to 1e13 bytes"
            ))
        })?;
        self.store()?.snapshot().set_disk_costs(&costs);
        Ok(())
    }

    /// Returns (bytes, random requests per second, sequential requests per second) by length.
    fn disk_curve(&self, py: Python<'_>) -> PyResult<Vec<(u64, f64, f64)>> {
        let snapshot = self.store()?.snapshot();
        let curve = detached(py, || snapshot.disk_curve())?;
        Ok(curve.iter().map(|r| (r.bytes, r.random_per_s, r.sequential_per_s)).collect())
    }

    fn reset_stats(&self) -> PyResult<()> {
        self.store()?.reset_stats();
        Ok(())
    }

    /// Writes a checkpoint and closes the store, even if the checkpoint fails. No commit is lost
    /// then: the log holds all of them. Samplers and arrays of the store stay usable.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let store = locked(&self.inner).take();
        detached(py, || store.map_or(Ok(()), |store| store.close_writer()))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let inner = locked(&self.inner).take();
        // Of a checkpoint that fails only the hook of the interpreter can be told.
        if let Some(Err(error)) = inner.and_then(Arc::into_inner).map(ng_store::Store::close) {
            Python::attach(|py| errors::raised(error).write_unraisable(py, None));
        }
    }
}

/// Seconds that a caller is ready to wait; infinity is for ever.
pub fn busy_timeout(seconds: f64) -> PyResult<Duration> {
    if seconds == f64::INFINITY {
        return Ok(Duration::MAX);
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!(
            "busy_timeout must be a number of seconds, 0 or more, got {seconds}"
        ))
    })
}

pub fn backend_choice(name: &str) -> PyResult<BackendChoice> {
    name.parse::<BackendChoice>()
        .map_err(|error| errors::named("UnsupportedArgument", error.to_string()))
}

/// Opens a store.
#[pyfunction]
#[pyo3(signature = (path, memory, backend, queue_depth=None, recover=true, busy_timeout=5.0))]
pub fn open_store(
    py: Python<'_>,
    path: String,
    memory: Option<u64>,
    backend: &str,
    queue_depth: Option<usize>,
    recover: bool,
    busy_timeout: f64,
) -> PyResult<Store> {
    let options = OpenOptions {
        memory,
        backend: backend_choice(backend)?,
        queue_depth: queue_depth.unwrap_or(OpenOptions::default().queue_depth),
        reading_threads: std::thread::available_parallelism().map_or(1, usize::from),
        recover,
        busy_timeout: self::busy_timeout(busy_timeout)?,
        go_on,
        ..OpenOptions::default()
    };
    let store =
        detached(py, || ng_store::Store::open(Path::new(&path), &options)).map_err(raised_or)?;
    Ok(Store { inner: Mutex::new(Some(Arc::new(store))), path })
}

/// Checks every block and structure of a store. Returns the report as JSON.
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
    let options = OpenOptions { memory, backend, go_on, ..OpenOptions::default() };
    let report = reporting(py, progress, errors::raised, |callback| {
        let mut report = |done, total| callback.call((done, total));
        ng_store::verify(Path::new(&path), &options, &mut report)
    })?;
    if report.stopped {
        return Err(raised_or(errors::named("NeargraphError", "stopped".into())));
    }
    Ok(describe(&report))
}

/// Rewrites a store into new files. Returns the bytes before and after, the checkpoint, and the
/// reason if old files could not be deleted.
#[pyfunction]
#[pyo3(signature = (path, memory=None, backend="auto", progress=None, busy_timeout=5.0))]
pub fn compact(
    py: Python<'_>,
    path: String,
    memory: Option<u64>,
    backend: &str,
    progress: Option<Py<PyAny>>,
    busy_timeout: f64,
) -> PyResult<(u64, u64, u64, Option<String>)> {
    let backend = backend_choice(backend)?;
    let busy_timeout = self::busy_timeout(busy_timeout)?;
    let options = OpenOptions { memory, backend, busy_timeout, go_on, ..OpenOptions::default() };
    let report = reporting(py, progress, errors::raised, |callback| {
        let mut report = |done, total| callback.call((done, total));
        ng_store::compact(Path::new(&path), &options, &mut report)
    })?;
    Ok((report.bytes_before, report.bytes_after, report.checkpoint_id, report.leftover))
}

fn describe(report: &VerifyReport) -> String {
    let mut found = json!(report);
    found["ok"] = report.is_ok().into();
    found.to_string()
}

/// Loads a file through a back end. Returns (seconds of opening, seconds of reading, bytes, back
/// end).
#[pyfunction]
pub fn load_file(
    py: Python<'_>,
    directory: String,
    name: String,
    backend: &str,
) -> PyResult<(f64, f64, usize, String)> {
    let choice = backend_choice(backend)?;
    let loaded = py.detach(|| ng_io::load_file(Path::new(&directory), &name, choice));
    let loaded = loaded.map_err(|error| errors::named("IoFailed", error.to_string()))?;
    let (opening, reading) = (loaded.opening.as_secs_f64(), loaded.reading.as_secs_f64());
    Ok((opening, reading, loaded.bytes.len(), loaded.note))
}

/// Returns the back ends available for reading from `path`, as JSON, for `neargraph doctor`.
#[pyfunction]
pub fn probe(py: Python<'_>, path: String) -> PyResult<String> {
    let report = py.detach(|| ng_io::probe(Path::new(&path)));
    let report = report.map_err(|error| errors::named("IoFailed", error.to_string()))?;
    errors::json(&report)
}
