//! `Survey`, `HotSet`, `EpochWriter` and `EpochFile`.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ng_io::BackendChoice;
use ng_sample::{CompiledError, EpochId, EpochKey, SampleError};
use ng_types::{NodeId, NodeTypeId};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::arrays::Ids;
use crate::errors::{self, detached};
use crate::loader::memory_dict;
use crate::lock::locked;
use crate::progress::reporting;
use crate::sampler::Sampler;
use crate::snapshot::Snapshot;

/// A damaged batch: its number, where it begins, and what is wrong.
type Damage = (u64, u64, String);

/// Seeds of batches that follow each other, and their streams.
fn jobs(seeds: &Ids, batch_size: usize, first_stream: u64) -> Vec<(Vec<NodeId>, u64)> {
    let batches = seeds.0.chunks(batch_size.max(1)).map(<[NodeId]>::to_vec);
    let streams = (0..).map(|batch| first_stream.wrapping_add(batch));
    batches.zip(streams).collect()
}

/// Counts how often batches use each row, and chooses the hot rows; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Survey {
    inner: Mutex<ng_sample::Survey>,
}

#[pymethods]
impl Survey {
    #[new]
    fn new(py: Python<'_>, sampler: &Sampler) -> PyResult<Self> {
        let made = detached(py, || ng_sample::Survey::new(sampler.inner.clone()))?;
        Ok(Self { inner: Mutex::new(made) })
    }

    fn count(
        &self,
        py: Python<'_>,
        node_type: u16,
        seeds: Ids,
        batch_size: usize,
        first_stream: u64,
    ) -> PyResult<()> {
        let jobs = jobs(&seeds, batch_size, first_stream);
        detached(py, || locked(&self.inner).count(NodeTypeId(node_type), &jobs))
    }

    fn measure<'py>(
        &self,
        py: Python<'py>,
        node_type: u16,
        seeds: Ids,
        batch_size: usize,
        first_stream: u64,
        hot: &HotSet,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (jobs, node_type) = (jobs(&seeds, batch_size, first_stream), NodeTypeId(node_type));
        let found = detached(py, || locked(&self.inner).measure(node_type, &jobs, &hot.inner))?;
        [("batches", found.batches), ("bytes", found.bytes), ("row_bytes", found.row_bytes)]
            .into_py_dict(py)
    }

    fn choose<'py>(&self, py: Python<'py>) -> PyResult<(HotSet, Bound<'py, PyDict>)> {
        let (hot, memory) = py.detach(|| locked(&self.inner).choose());
        Ok((HotSet { inner: Arc::new(hot) }, memory_dict(py, &memory)?))
    }

    #[getter]
    fn table_bytes(&self) -> u64 {
        locked(&self.inner).table_bytes()
    }

    fn record_bytes(&self, py: Python<'_>, hot: &HotSet) -> u64 {
        py.detach(|| locked(&self.inner).record_bytes(&hot.inner))
    }

    fn disk_costs(&self, py: Python<'_>) -> PyResult<(f64, f64)> {
        let costs = detached(py, || locked(&self.inner).disk_costs())?;
        Ok((costs.reads_per_s, costs.bytes_per_s))
    }
}

/// Rows that a replay holds in memory; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct HotSet {
    pub inner: Arc<ng_sample::HotSet>,
}

#[pymethods]
impl HotSet {
    #[getter]
    fn num_rows(&self) -> u64 {
        self.inner.num_rows()
    }

    #[getter]
    fn row_bytes(&self) -> u64 {
        self.inner.row_bytes()
    }

    #[getter]
    fn digest(&self) -> u32 {
        self.inner.digest()
    }

    /// Returns a sampler for writing epochs. It makes the same draws as `sampler`, and gathers rows
    /// as they are stored.
    fn stored(&self, sampler: &Sampler) -> PyResult<Sampler> {
        Ok(Sampler { inner: sampler.inner.storing(&self.inner).map_err(errors::raised)? })
    }
}

/// Writes one epoch; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct EpochWriter {
    inner: Mutex<Option<ng_sample::EpochWriter>>,
}

impl EpochWriter {
    /// Appends a batch; false if the writer has ended.
    pub fn push(&self, batch: &ng_sample::MiniBatch) -> Result<bool, SampleError> {
        locked(&self.inner).as_mut().map_or(Ok(false), |writer| writer.push(batch).map(|()| true))
    }
}

#[pymethods]
impl EpochWriter {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        snapshot: &Snapshot,
        directory: &str,
        name: &str,
        key: EpochKey,
        epoch: u64,
        epochs: (u64, u64),
        hot: &HotSet,
    ) -> PyResult<Self> {
        let id = EpochId { key, epoch, set: epochs.0..epochs.1 };
        let (snapshot, hot) = (Arc::clone(&snapshot.inner), Arc::clone(&hot.inner));
        let writer = detached(py, || {
            ng_sample::EpochWriter::create(snapshot, Path::new(directory), name, id, hot)
        })?;
        Ok(Self { inner: Mutex::new(Some(writer)) })
    }

    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        let writer = locked(&self.inner).take().ok_or_else(errors::closed)?;
        detached(py, || writer.finish())
    }

    fn close(&self) {
        drop(locked(&self.inner).take());
    }
}

/// The file of a compiled epoch; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct EpochFile {
    inner: ng_sample::EpochFile,
}

#[pymethods]
impl EpochFile {
    #[new]
    fn new(py: Python<'_>, directory: &str, name: &str) -> PyResult<Self> {
        let mut files = detached(py, || {
            ng_sample::EpochFile::open_all(Path::new(directory), &[name], BackendChoice::Auto)
        })?;
        files.pop().map(|inner| Self { inner }).ok_or_else(errors::closed)
    }

    fn check(&self, key: EpochKey) -> PyResult<()> {
        self.inner.check(&key).map_err(errors::raised)
    }

    #[getter]
    fn key(&self) -> EpochKey {
        self.inner.id().key.clone()
    }

    #[getter]
    fn epoch(&self) -> u64 {
        self.inner.id().epoch
    }

    /// The range of epochs that were compiled together: the first one, and the one after the last.
    #[getter]
    fn epochs(&self) -> (u64, u64) {
        let set = &self.inner.id().set;
        (set.start, set.end)
    }

    #[pyo3(signature = (progress=None))]
    fn verify(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Vec<Damage>> {
        let found = reporting(py, progress, errors::raised, |callback| {
            self.inner.verify(&mut |done, all| callback.call((done, all)))
        })?;
        let places = found.iter().map(|error| {
            let CompiledError::Damaged { batch, offset, .. } = error else {
                return (0, 0, error.to_string());
            };
            (*batch, *offset, error.to_string())
        });
        Ok(places.collect())
    }

    #[getter]
    fn hot_digest(&self) -> u32 {
        self.inner.hot().digest()
    }

    #[getter]
    fn hot_bytes(&self) -> u64 {
        self.inner.hot().row_bytes()
    }
}
