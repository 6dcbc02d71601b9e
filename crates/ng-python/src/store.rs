//! `Store`, `open_store`, `verify` and `probe`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ng_io::BackendChoice;
use ng_store::{DiskCosts, OpenOptions, Problem, UpdateStats, VerifyReport};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::errors;
use crate::progress::{Callback, go_on, raised_or};
use crate::snapshot::Snapshot;
use crate::update::WriteBatch;

/// An open store; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Store {
    inner: Mutex<Option<Arc<ng_store::Store>>>,
    #[pyo3(get)]
    path: String,
}

impl Store {
    fn store(&self) -> PyResult<Arc<ng_store::Store>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clone().ok_or_else(errors::closed)
    }
}

#[pymethods]
impl Store {
    /// The newest durable version.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        let store = self.store()?;
        // A commit may be on its way into the newest version.
        Ok(Snapshot { inner: py.detach(|| store.snapshot()) })
    }

    /// Waits for its turn and opens a batch.
    fn write(&self, py: Python<'_>) -> PyResult<WriteBatch> {
        let store = self.store()?;
        let batch = py.detach(|| store.write());
        Ok(WriteBatch::new(batch.map_err(|error| raised_or(errors::raised(error)))?))
    }

    fn checkpoint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.store()?;
        let report = py.detach(|| store.checkpoint());
        let report = report.map_err(|error| raised_or(errors::raised(error)))?;
        let out = PyDict::new(py);
        out.set_item("epoch", report.epoch)?;
        out.set_item("lsn", report.lsn)?;
        out.set_item("pages", report.pages)?;
        out.set_item("table_blocks", report.table_blocks)?;
        Ok(out)
    }

    fn close_writer(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store()?;
        py.detach(|| store.close_writer()).map_err(errors::raised)
    }

    /// Every checksum of the last checkpoint, while readers and writers go on; the report as JSON.
    #[pyo3(signature = (bytes_per_second=None, progress=None))]
    fn scrub(
        &self,
        py: Python<'_>,
        bytes_per_second: Option<u64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let store = self.store()?;
        let mut callback = Callback::new(progress);
        let report = py.detach(|| {
            store.scrub(&mut |done, total| callback.call(done, total), bytes_per_second)
        });
        Ok(describe(&callback.finish(report, errors::raised)?).to_string())
    }

    /// What was put into the store when it was opened, or when it was first written to.
    fn recovery(&self) -> PyResult<(u64, bool)> {
        let recovery = self.store()?.recovery();
        Ok((recovery.commits, recovery.torn))
    }

    /// Why what a crashed writer has left is in memory alone, if it is.
    #[getter]
    fn read_only_because(&self) -> PyResult<Option<String>> {
        Ok(self.store()?.read_only_because())
    }

    fn update_stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let store = self.store()?;
        let stats = py.detach(|| store.update_stats()).unwrap_or_default();
        let out = PyDict::new(py);
        for (name, value) in counts_of(&stats) {
            out.set_item(name, value)?;
        }
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
        let out = PyDict::new(py);
        let counts: BTreeMap<&str, u64> = BTreeMap::from([
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
        ]);
        for (name, value) in counts {
            out.set_item(name, value)?;
        }
        let memory = PyDict::new(py);
        for found in &stats.memory {
            let bytes = PyDict::new(py);
            bytes.set_item("share", found.share_bytes)?;
            bytes.set_item("held", found.held_bytes)?;
            memory.set_item(found.user.name(), bytes)?;
        }
        out.set_item("memory", memory)?;
        out.set_item("hit_rate", stats.hit_rate())?;
        out.set_item("mean_queue_depth", stats.mean_queue_depth)?;
        out.set_item("device_busy_seconds", stats.device_busy_us as f64 / 1e6)?;
        Ok(out)
    }

    fn trace_reads(&self, path: &str) -> PyResult<()> {
        Ok(self.store()?.trace_reads(Path::new(path))?)
    }

    fn end_trace(&self, py: Python<'_>) -> PyResult<u64> {
        let store = self.store()?;
        Ok(py.detach(|| store.end_trace())?)
    }

    /// (reads a second, bytes a second), measured now; None if all files are too short.
    fn measure_disk(&self, py: Python<'_>) -> PyResult<Option<(f64, f64)>> {
        let snapshot = self.store()?.snapshot();
        let costs = py.detach(|| snapshot.measure_disk()).map_err(errors::raised)?;
        Ok(costs.map(|costs| (costs.reads_per_s, costs.bytes_per_s)))
    }

    fn set_disk_rates(&self, reads_per_s: f64, bytes_per_s: f64) -> PyResult<()> {
        let costs = DiskCosts::possible(reads_per_s, bytes_per_s).ok_or_else(|| {
            let (reads, bytes) = (reads_per_s, bytes_per_s);
            PyValueError::new_err(format!("no disk gives {reads} reads and {bytes} bytes a second"))
        })?;
        self.store()?.snapshot().set_disk_costs(&costs);
        Ok(())
    }

    /// (bytes, random requests a second, sequential ones) by length.
    fn disk_curve(&self, py: Python<'_>) -> PyResult<Vec<(u64, f64, f64)>> {
        let snapshot = self.store()?.snapshot();
        let curve = py.detach(|| snapshot.disk_curve()).map_err(errors::raised)?;
        Ok(curve.iter().map(|r| (r.bytes, r.random_per_s, r.sequential_per_s)).collect())
    }

    fn reset_stats(&self) -> PyResult<()> {
        self.store()?.reset_stats();
        Ok(())
    }

    /// Checkpoints what was written and forgets the store, even if the checkpoint fails, which
    /// loses nothing: the log has it all. Samplers and arrays made from it stay usable and keep
    /// what they need.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| store.map_or(Ok(()), |store| store.close_writer())).map_err(errors::raised)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
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
        PyValueError::new_err(format!("busy_timeout is {seconds}; give seconds, 0 or more"))
    })
}

fn counts_of(stats: &UpdateStats) -> [(&'static str, u64); 16] {
    let lists = &stats.lists;
    [
        ("commits", stats.commits),
        ("checkpoints", stats.checkpoints),
        ("payload_bytes", stats.payload_bytes),
        ("write_bytes", stats.write_bytes),
        ("log_bytes", stats.log_bytes),
        ("writes", stats.writes),
        ("syncs", stats.syncs),
        ("sync_us", stats.sync_us),
        ("pages_written", stats.pages_written),
        ("pages_reused", stats.pages_reused),
        ("changed_bytes", stats.changed_bytes),
        ("list_updates", lists.list_updates),
        ("evictions", lists.evictions),
        ("lists_evicted", lists.lists_evicted),
        ("promotions", lists.promotions),
        ("demotions", lists.demotions),
    ]
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
    let store = py
        .detach(|| ng_store::Store::open(Path::new(&path), &options))
        .map_err(|error| raised_or(errors::raised(error)))?;
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
        let options = OpenOptions { memory, backend, go_on, ..OpenOptions::default() };
        ng_store::verify(Path::new(&path), &options, &mut |done, total| callback.call(done, total))
    });
    let report = callback.finish(report, errors::raised)?;
    if report.stopped {
        return Err(raised_or(errors::named("NeargraphError", "stopped".into())));
    }
    Ok(describe(&report).to_string())
}

/// Rewrites a store into fresh files; gives bytes before and after, the epoch, and why old files
/// are left.
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
    let mut callback = Callback::new(progress);
    let report = py.detach(|| {
        let options =
            OpenOptions { memory, backend, busy_timeout, go_on, ..OpenOptions::default() };
        ng_store::compact(Path::new(&path), &options, &mut |done, total| callback.call(done, total))
    });
    let report = callback.finish(report, errors::raised)?;
    Ok((report.bytes_before, report.bytes_after, report.epoch, report.leftover))
}

fn describe(report: &VerifyReport) -> Value {
    let problem =
        |p: &Problem| json!({"file": p.file, "page": p.page, "block": p.block, "what": p.what});
    json!({
        "ok": report.is_ok(),
        "blocks": report.blocks,
        "pages": report.pages,
        "log_commits": report.log_commits,
        "log_torn": report.log_torn,
        "problems": report.problems.iter().map(problem).collect::<Vec<_>>(),
        "problems_omitted": report.problems_omitted,
        "notes": report.notes.iter().map(problem).collect::<Vec<_>>(),
    })
}

/// Loads a file through a back end: (seconds of opening, seconds of reading, bytes, the back end).
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

/// What reading from `path` can use, as JSON, for `neargraph doctor`.
#[pyfunction]
pub fn probe(py: Python<'_>, path: String) -> PyResult<String> {
    let report = py.detach(|| ng_io::probe(Path::new(&path)));
    let report = report.map_err(|error| errors::named("IoFailed", error.to_string()))?;
    serde_json::to_string(&report)
        .map_err(|error| errors::named("NeargraphError", error.to_string()))
}
