//! `Engine`: a model that answers from a store.

use std::sync::Arc;

use ng_engine::{Answer, EngineError, EngineOptions, EngineStats, Prepare};
use ng_infer::dfg::Elements;
use ng_sample::Fanouts;
use ng_types::Reservation;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::{self, Ids};
use crate::computing::Computing;
use crate::dfg::Dfg;
use crate::errors::{detached, raised};
use crate::progress::{go_on, raised_or};
use crate::snapshot::Snapshot;

/// The shape of an answer, and its elements as a flat array.
type Flat<'py> = (Vec<usize>, Bound<'py, PyAny>);

/// A model on a store; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Engine {
    inner: ng_engine::Engine,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (
        snapshot, model, fanouts, *, devices, output, prepare, threads, batch_nodes
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        snapshot: &Snapshot,
        model: &Dfg,
        fanouts: Vec<Vec<i64>>,
        devices: Computing,
        output: Option<String>,
        prepare: &str,
        threads: usize,
        batch_nodes: usize,
    ) -> PyResult<Self> {
        let prepare = match prepare {
            "metadata" => Prepare::Metadata,
            "hot" => Prepare::Hot,
            "all" => Prepare::All,
            other => {
                return Err(PyValueError::new_err(format!(
                    "{other:?} is not a valid way to prepare: expected \"metadata\", \"hot\" or \
                     \"all\""
                )));
            }
        };
        let options = EngineOptions {
            fanouts: Fanouts::new(fanouts).map_err(raised)?,
            output,
            devices: devices.compute(),
            prepare,
            threads,
            batch_nodes,
            go_on,
        };
        let (snapshot, model) = (Arc::clone(&snapshot.inner), model.model());
        let inner = detached(py, || ng_engine::Engine::open(snapshot, model, options))?;
        Ok(Self { inner })
    }

    /// Uses `snapshot` for new requests. Returns whether it switched; an older snapshot, or one
    /// with equal content, changes nothing.
    fn refresh(&self, py: Python<'_>, snapshot: &Snapshot) -> PyResult<bool> {
        detached(py, || self.inner.refresh(Arc::clone(&snapshot.inner)))
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { inner: self.inner.snapshot() }
    }

    #[getter]
    fn node_type(&self) -> u16 {
        self.inner.node_type().0
    }

    #[getter]
    fn ready(&self) -> f64 {
        self.inner.ready()
    }

    /// Returns whether preparation has ended, and its error, if it failed.
    fn prepared(&self) -> (bool, Option<String>) {
        let over = self.inner.prepared();
        (over.is_some(), over.and_then(Result::err))
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let EngineStats {
            batches,
            seeds,
            distinct_seeds,
            lists,
            rows,
            rows_prepared,
            rows_in_place,
            sample_seconds,
            gather_seconds,
            run_seconds,
        } = self.inner.stats();
        let stats = PyDict::new(py);
        stats.set_item("batches", batches)?;
        stats.set_item("seeds", seeds)?;
        stats.set_item("distinct_seeds", distinct_seeds)?;
        stats.set_item("lists", lists)?;
        stats.set_item("rows", rows)?;
        stats.set_item("rows_prepared", rows_prepared)?;
        stats.set_item("rows_in_place", rows_in_place)?;
        stats.set_item("sample_seconds", sample_seconds)?;
        stats.set_item("gather_seconds", gather_seconds)?;
        stats.set_item("run_seconds", run_seconds)?;
        Ok(stats)
    }

    fn explain(&self) -> String {
        self.inner.explain()
    }

    fn run<'py>(&self, py: Python<'py>, ids: Ids, seed: u64) -> PyResult<Flat<'py>> {
        answered(py, || self.inner.run(&ids.0, seed))
    }

    fn scores<'py>(
        &self,
        py: Python<'py>,
        sources: Ids,
        destinations: Ids,
        seed: u64,
    ) -> PyResult<Flat<'py>> {
        answered(py, || self.inner.scores((&sources.0, &destinations.0), seed))
    }

    fn graphs<'py>(&self, py: Python<'py>, ids: Ids) -> PyResult<Flat<'py>> {
        answered(py, || self.inner.graphs(&ids.0))
    }
}

fn answered<'py>(
    py: Python<'py>,
    ask: impl FnOnce() -> Result<Answer, EngineError> + Send,
) -> PyResult<Flat<'py>> {
    let Answer { dims, elements, held } =
        py.detach(ask).map_err(|error| raised_or(raised(error)))?;
    let held: Option<Arc<Reservation>> = held.map(Arc::new);
    let array = match elements {
        Elements::F32(all) => arrays::owned(py, all, held)?.into_any(),
        Elements::I64(all) => arrays::owned(py, all, held)?.into_any(),
        Elements::Bool(all) => arrays::owned(py, all, held)?.into_any(),
        Elements::F16(_) | Elements::I8(_) => return Err(arrays::narrow()),
    };
    Ok((dims, array))
}
