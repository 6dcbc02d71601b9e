//! `SeedPlan`, `Inputs`, `Epochs`, `Loader` and `Run`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ng_sample::{Chosen, EpochKey, ReplayMemory, Settings};
use ng_types::NodeTypeId;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::arrays::Ids;
use crate::compiled::EpochWriter;
use crate::errors::{self, detached};
use crate::lock::locked;
use crate::notes;
use crate::sampler::{MiniBatch, Sampler};
use crate::snapshot::Snapshot;

/// How long a wait goes on before Python may handle a signal.
const SIGNAL_POLL: Duration = Duration::from_millis(100);

/// Which seeds stand in which batch; see `_core.pyi`.
#[pyclass(frozen, eq, module = "neargraph._core")]
#[derive(PartialEq)]
pub struct SeedPlan {
    inner: ng_sample::SeedPlan,
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

    fn stream(&self, train_epoch: u64, batch: u64) -> u64 {
        self.inner.stream(train_epoch, batch)
    }

    fn places(&self, py: Python<'_>, train_epoch: u64, first: u64, last: u64) -> Ids {
        Ids(py.detach(|| self.inner.places(train_epoch, first..last)))
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

/// The seeds of a loader by place; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Inputs {
    pub inner: Arc<ng_sample::Inputs>,
}

#[pymethods]
impl Inputs {
    /// `ids`, or all nodes but the `deleted` ones.
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

    /// Links between `ends`, or all edges by number.
    #[staticmethod]
    #[pyo3(signature = (ends=None, times=None))]
    fn links(ends: Option<(Ids, Ids)>, times: Option<PyReadonlyArray1<'_, i64>>) -> PyResult<Self> {
        let inner = match ends {
            Some((sources, destinations)) if sources.0.len() == destinations.0.len() => {
                ng_sample::Inputs::links(sources.0, destinations.0)
            }
            Some(_) => return Err(PyValueError::new_err("a link has two ends")),
            None => ng_sample::Inputs::edges(None),
        };
        Ok(Self { inner: Arc::new(inner.with_times(owned_times(times))) })
    }

    /// Edges with these numbers.
    #[staticmethod]
    #[pyo3(signature = (numbers, times=None))]
    fn edges(numbers: Ids, times: Option<PyReadonlyArray1<'_, i64>>) -> Self {
        let inner = ng_sample::Inputs::edges(Some(numbers.0));
        Self { inner: Arc::new(inner.with_times(owned_times(times))) }
    }

    /// Groups of nodes, each between two of `ends`, among `nodes` or by number.
    #[staticmethod]
    #[pyo3(signature = (node_type, ends, nodes=None))]
    fn groups(node_type: u16, ends: Ids, nodes: Option<Ids>) -> PyResult<Self> {
        let last = ends.0.last().copied().unwrap_or(0);
        let counts = nodes.as_ref().is_none_or(|nodes| nodes.0.len() as u64 == last);
        if !ends.0.is_sorted() || ends.0.first() != Some(&0) || !counts {
            return Err(PyValueError::new_err("groups of nodes follow each other from 0 on"));
        }
        let nodes = nodes.map(|nodes| nodes.0);
        let inner = ng_sample::Inputs::groups(NodeTypeId(node_type), ends.0, nodes);
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Nodes that the sampler draws for each place anew.
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

/// Compiled epochs that fit a loader; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Epochs {
    inner: ng_sample::Epochs,
}

#[pymethods]
impl Epochs {
    #[new]
    fn new(py: Python<'_>, directory: &str, key: EpochKey) -> PyResult<Self> {
        let inner = detached(py, || ng_sample::Epochs::find(Path::new(directory), key))?;
        Ok(Self { inner })
    }
}

/// The batches of a plan, epoch after epoch; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Loader {
    inner: Arc<ng_sample::Loader>,
}

#[pymethods]
impl Loader {
    #[new]
    #[pyo3(signature = (
        sampler, inputs, plan, *, goes_on, reading="auto", window=None, two_phase=None,
        temporary_writes=None, prefetch=None, threads=None, spill_dir=None, compiled=None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        sampler: &Sampler,
        inputs: &Inputs,
        plan: &SeedPlan,
        goes_on: bool,
        reading: &str,
        window: Option<u64>,
        two_phase: Option<bool>,
        temporary_writes: Option<f64>,
        prefetch: Option<usize>,
        threads: Option<usize>,
        spill_dir: Option<PathBuf>,
        compiled: Option<(PyRef<'_, Epochs>, bool)>,
    ) -> PyResult<Self> {
        let reading = reading.parse().map_err(PyValueError::new_err)?;
        let (costs, spill_bytes) = (None, None);
        let settings = Settings {
            reading,
            window,
            prefetch,
            threads,
            costs,
            two_phase,
            temporary_writes,
            spill_dir,
            spill_bytes,
        };
        let compiled = compiled.map(|(epochs, insists)| (epochs.inner.clone(), insists));
        let (inputs, plan) = (Arc::clone(&inputs.inner), plan.inner);
        let sampler = sampler.inner.clone();
        let inner = detached(py, || {
            ng_sample::Loader::new(sampler, inputs, plan, settings, compiled, goes_on)
        })?;
        Ok(Self { inner })
    }

    fn run(&self, train_epoch: u64, first: u64) -> Run {
        let mut run = self.inner.run(train_epoch, first);
        run.listen();
        Run { inner: Mutex::new(Some(run)) }
    }

    fn epoch_of(&self, train_epoch: u64) -> u64 {
        self.inner.epoch_of(train_epoch)
    }

    #[getter]
    fn epochs(&self) -> Option<Vec<u64>> {
        self.inner.epochs().map(|epochs| epochs.numbers().collect())
    }

    fn chosen<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        // Locked without the interpreter, which others may hold while they wait for the lock.
        let (chosen, memory) = py.detach(|| (self.inner.chosen(), self.inner.memory()));
        match (chosen, memory) {
            (Some(chosen), _) => chosen_dict(py, &chosen).map(Some),
            (None, Some(memory)) => {
                let dict = memory_dict(py, &memory)?;
                dict.set_item("reading", "compiled")?;
                dict.set_item("epochs", self.inner.epochs().map_or(0, |all| all.numbers().len()))?;
                Ok(Some(dict))
            }
            (None, None) => Ok(None),
        }
    }

    fn choose<'py>(&self, py: Python<'py>, epoch: u64) -> PyResult<Bound<'py, PyDict>> {
        loop {
            match detached(py, || self.inner.choose_within(epoch, SIGNAL_POLL))? {
                Some(chosen) => return chosen_dict(py, &chosen),
                None => py.check_signals()?,
            }
        }
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }
}

/// The batches of one epoch; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Run {
    inner: Mutex<Option<ng_sample::Run>>,
}

impl Run {
    /// Waits for a batch while Python handles signals; `None` after the last one.
    fn wait(&self, py: Python<'_>) -> PyResult<Option<ng_sample::MiniBatch>> {
        loop {
            let (found, note) = py.detach(|| {
                let mut lock = locked(&self.inner);
                let Some(run) = lock.as_mut() else { return (Ok(None), None) };
                (run.next_within(SIGNAL_POLL), run.take_note())
            });
            if let Some(note) = note {
                notes::tell(py, note)?;
            }
            match found {
                Err(()) => py.check_signals()?,
                Ok(None) => return Ok(None),
                Ok(Some(batch)) => return batch.map(Some).map_err(errors::raised),
            }
        }
    }
}

#[pymethods]
impl Run {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<MiniBatch> {
        let batch = self.wait(py)?.ok_or_else(|| PyStopIteration::new_err(()))?;
        let lock = locked(&self.inner);
        let run = lock.as_ref().ok_or_else(errors::closed)?;
        MiniBatch::new(py, batch, run.sampler().snapshot())
    }

    fn write_next(&self, py: Python<'_>, writer: &EpochWriter) -> PyResult<bool> {
        let Some(batch) = self.wait(py)? else { return Ok(false) };
        detached(py, || writer.push(&batch))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let run = locked(&self.inner).take();
            drop(run);
        });
    }
}

/// How rows are read as plain data.
pub fn chosen_dict<'py>(py: Python<'py>, chosen: &Chosen) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("reading", chosen.reading.name())?;
    dict.set_item("window", chosen.window)?;
    dict.set_item("phases", 1 + u8::from(chosen.sampled_first.is_some()))?;
    dict.set_item("sampled_first", chosen.sampled_first)?;
    dict.set_item("hot_rows", chosen.hot_rows)?;
    dict.set_item("slots", chosen.slots)?;
    dict.set_item("slot_bytes", chosen.slot_bytes)?;
    dict.set_item("reads_per_batch", chosen.reads)?;
    dict.set_item("read_bytes_per_batch", chosen.read_bytes)?;
    dict.set_item("write_bytes_per_batch", chosen.write_bytes)?;
    dict.set_item("device_s_per_batch", chosen.seconds)?;
    Ok(dict)
}

/// Memory of a replay as plain data.
pub fn memory_dict<'py>(py: Python<'py>, memory: &ReplayMemory) -> PyResult<Bound<'py, PyDict>> {
    [
        ("hot_bytes", memory.hot),
        ("whole_bytes", memory.whole),
        ("record_bytes", memory.record),
        ("buffer_bytes", memory.buffers),
        ("other_bytes", memory.others),
        ("bytes", memory.num_bytes()),
    ]
    .into_py_dict(py)
}
