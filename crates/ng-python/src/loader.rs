//! `Epochs`, `Loader` and `Run`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ng_sample::{Chosen, EpochKey, ReplayMemory, Settings};
use pyo3::exceptions::{PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::compiled::EpochWriter;
use crate::errors::{self, detached};
use crate::inputs::{Inputs, SeedPlan};
use crate::lock::locked;
use crate::notes;
use crate::sampler::{MiniBatch, Sampler};

/// How long a wait goes on before Python may handle a signal.
const SIGNAL_POLL: Duration = Duration::from_millis(100);

/// The compiled epochs with a loader's key; see `_core.pyi`.
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

/// The batches of a `SeedPlan`, epoch after epoch; see `_core.pyi`.
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

    fn run(&self, epoch: u64, first: u64) -> Run {
        let mut run = self.inner.run(epoch, first);
        run.listen();
        Run { inner: Mutex::new(Some(run)) }
    }

    fn epoch_of(&self, epoch: u64) -> u64 {
        self.inner.epoch_of(epoch)
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
