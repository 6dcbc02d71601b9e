//! `SeedPlan` and `Inputs`: which seeds stand in which batch.

use std::sync::Arc;

use ng_types::NodeTypeId;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arrays::Ids;
use crate::errors::{self, detached};
use crate::snapshot::Snapshot;

/// The order of seeds, and their division into batches; see `_core.pyi`.
#[pyclass(frozen, eq, module = "neargraph._core")]
#[derive(PartialEq)]
pub struct SeedPlan {
    pub inner: ng_sample::SeedPlan,
}

#[pymethods]
impl SeedPlan {
    #[new]
    #[pyo3(signature = (
        *, num_seeds, batch_size, shuffle=false, seed=0, drop_last=false, pad=false, rank=0,
        world_size=1
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        num_seeds: u64,
        batch_size: i64,
        shuffle: bool,
        seed: u64,
        drop_last: bool,
        pad: bool,
        rank: i64,
        world_size: i64,
    ) -> PyResult<Self> {
        let plan = ng_sample::SeedPlan {
            num_seeds,
            batch_size: count("batch_size", batch_size)?,
            shuffle,
            seed,
            drop_last,
            pad,
            rank: count("rank", rank)?,
            world_size: count("world_size", world_size)?,
        };
        let given = format!("batch_size={batch_size}, rank={rank}, world_size={world_size}");
        let refused = |error| PyValueError::new_err(format!("{error} ({given})"));
        Ok(Self { inner: plan.checked().map_err(refused)? })
    }

    /// For pickle.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<((), Bound<'py, PyAny>)> {
        Ok(((), errors::plain(py, &self.inner)?))
    }

    #[getter]
    fn num_seeds(&self) -> u64 {
        self.inner.num_seeds
    }

    #[getter]
    fn batch_size(&self) -> u64 {
        self.inner.batch_size
    }

    #[getter]
    fn shuffle(&self) -> bool {
        self.inner.shuffle
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.inner.seed
    }

    #[getter]
    fn drop_last(&self) -> bool {
        self.inner.drop_last
    }

    #[getter]
    fn pad(&self) -> bool {
        self.inner.pad
    }

    #[getter]
    fn rank(&self) -> u64 {
        self.inner.rank
    }

    #[getter]
    fn world_size(&self) -> u64 {
        self.inner.world_size
    }

    #[getter]
    fn local_batch_size(&self) -> u64 {
        self.inner.local_batch_size()
    }

    #[getter]
    fn steps(&self) -> u64 {
        self.inner.steps()
    }

    fn stream(&self, epoch: u64, batch: u64) -> u64 {
        self.inner.stream(epoch, batch)
    }

    fn places(&self, py: Python<'_>, epoch: u64, first: u64, last: u64) -> Ids {
        Ids(py.detach(|| self.inner.places(epoch, first..last)))
    }

    fn first(&self, batch: u64) -> u64 {
        self.inner.first(batch)
    }

    fn padding(&self, batch: u64) -> u64 {
        self.inner.padding(batch)
    }
}

/// A number that Python may give as a negative one.
fn count(name: &str, value: i64) -> PyResult<u64> {
    let refuse = |_| PyValueError::new_err(format!("{name} must not be negative, got {value}"));
    u64::try_from(value).map_err(refuse)
}

/// The seeds of a loader, by their position before shuffling; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Inputs {
    pub inner: Arc<ng_sample::Inputs>,
}

#[pymethods]
impl Inputs {
    /// The nodes `ids`, or all nodes except the `deleted` ones.
    #[new]
    #[pyo3(signature = (node_type, ids, deleted, times=None))]
    fn new(
        node_type: u16,
        ids: Option<Ids>,
        deleted: Option<Ids>,
        times: Option<PyReadonlyArray1<'_, i64>>,
    ) -> Self {
        let node_type = NodeTypeId(node_type);
        let inner = match ids {
            Some(ids) => ng_sample::Inputs::listed(node_type, ids.0),
            None => ng_sample::Inputs::live(node_type, &deleted.map_or(Vec::new(), |ids| ids.0)),
        };
        Self { inner: Arc::new(inner.with_times(owned_times(times))) }
    }

    /// Returns links between `ends`, or all edges by their numbers.
    #[staticmethod]
    #[pyo3(signature = (ends=None, times=None))]
    fn links(ends: Option<(Ids, Ids)>, times: Option<PyReadonlyArray1<'_, i64>>) -> PyResult<Self> {
        let inner = match ends {
            Some((sources, destinations)) if sources.0.len() == destinations.0.len() => {
                ng_sample::Inputs::links(sources.0, destinations.0)
            }
            Some(_) => {
                return Err(PyValueError::new_err(
                    "sources and destinations of links differ in number",
                ));
            }
            None => ng_sample::Inputs::edges(None),
        };
        Ok(Self { inner: Arc::new(inner.with_times(owned_times(times))) })
    }

    /// Returns the edges with these numbers.
    #[staticmethod]
    #[pyo3(signature = (numbers, times=None))]
    fn edges(numbers: Ids, times: Option<PyReadonlyArray1<'_, i64>>) -> Self {
        let inner = ng_sample::Inputs::edges(Some(numbers.0));
        Self { inner: Arc::new(inner.with_times(owned_times(times))) }
    }

    /// Returns groups of nodes: `nodes`, or all nodes by number, cut at `ends`.
    #[staticmethod]
    #[pyo3(signature = (node_type, ends, nodes=None))]
    fn groups(node_type: u16, ends: Ids, nodes: Option<Ids>) -> PyResult<Self> {
        let last = ends.0.last().copied().unwrap_or(0);
        let counts = nodes.as_ref().is_none_or(|nodes| nodes.0.len() as u64 == last);
        if !ends.0.is_sorted() || ends.0.first() != Some(&0) || !counts {
            return Err(PyValueError::new_err(
                "the ends of groups must start at 0, must not decrease, and must end at the \
                 number of nodes",
            ));
        }
        let nodes = nodes.map(|nodes| nodes.0);
        let inner = ng_sample::Inputs::groups(NodeTypeId(node_type), ends.0, nodes);
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns places for which the sampler draws nodes.
    #[staticmethod]
    fn drawn() -> Self {
        Self { inner: Arc::new(ng_sample::Inputs::drawn()) }
    }

    #[staticmethod]
    fn clusters(py: Python<'_>, snapshot: &Snapshot, node_type: u16, count: u64) -> PyResult<Self> {
        let (snapshot, node_type) = (&snapshot.inner, NodeTypeId(node_type));
        let made = detached(py, || ng_sample::Inputs::clusters(snapshot, node_type, count))?;
        Ok(Self { inner: Arc::new(made) })
    }

    fn nodes(&self, py: Python<'_>, places: Ids) -> Ids {
        Ids(py.detach(|| self.inner.nodes(places.0)))
    }
}

fn owned_times(times: Option<PyReadonlyArray1<'_, i64>>) -> Vec<i64> {
    times.map_or(Vec::new(), |times| times.as_array().iter().copied().collect())
}
