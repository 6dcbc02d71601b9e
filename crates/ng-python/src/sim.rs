//! Simulated devices, from Python: traces as columns, runs as JSON.

use std::sync::Arc;

use ng_ssdsim::{
    Config, DATASETS, Dataset, Job, MORE_PLATFORMS, PLATFORMS, SimulateError, run_all,
};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::arrays;
use crate::errors;

/// What batches visit.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Trace {
    pub inner: Arc<ng_types::Trace>,
}

#[pymethods]
impl Trace {
    /// Batches of a graph that is known by its counts.
    #[staticmethod]
    fn of_dataset(
        py: Python<'_>,
        name: &str,
        batches: u64,
        targets: u32,
        fanouts: Vec<u32>,
        seed: u64,
    ) -> PyResult<Self> {
        let Some(set) = Dataset::by_name(name) else {
            let known = DATASETS.map(|set| set.name).join(", ");
            let message = format!("no data set {name:?}; there are {known}");
            return Err(errors::named("NameNotFound", message));
        };
        let trace = py.detach(|| set.trace(batches, targets, &fanouts, seed));
        Ok(Self { inner: Arc::new(trace) })
    }

    /// A trace of columns that were saved; they are checked.
    #[staticmethod]
    fn of_columns(
        node: PyReadonlyArray1<'_, u64>,
        degree: PyReadonlyArray1<'_, u32>,
        hop: PyReadonlyArray1<'_, u8>,
        first_draw: PyReadonlyArray1<'_, u64>,
        position: PyReadonlyArray1<'_, u32>,
        found: PyReadonlyArray1<'_, u32>,
        first_entry: PyReadonlyArray1<'_, u64>,
    ) -> PyResult<Self> {
        let trace = ng_types::Trace {
            node: node.as_slice()?.to_vec(),
            degree: degree.as_slice()?.to_vec(),
            hop: hop.as_slice()?.to_vec(),
            first_draw: first_draw.as_slice()?.to_vec(),
            position: position.as_slice()?.to_vec(),
            found: found.as_slice()?.to_vec(),
            first_entry: first_entry.as_slice()?.to_vec(),
        };
        trace.check().map_err(|error| errors::named("UnsupportedArgument", error.to_string()))?;
        Ok(Self { inner: Arc::new(trace) })
    }

    /// The columns by name.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (columns, trace) = (PyDict::new(py), &self.inner);
        columns.set_item("node", arrays::owned(py, trace.node.clone(), None)?)?;
        columns.set_item("degree", arrays::owned(py, trace.degree.clone(), None)?)?;
        columns.set_item("hop", arrays::owned(py, trace.hop.clone(), None)?)?;
        columns.set_item("first_draw", arrays::owned(py, trace.first_draw.clone(), None)?)?;
        columns.set_item("position", arrays::owned(py, trace.position.clone(), None)?)?;
        columns.set_item("found", arrays::owned(py, trace.found.clone(), None)?)?;
        columns.set_item("first_entry", arrays::owned(py, trace.first_entry.clone(), None)?)?;
        Ok(columns)
    }

    #[getter]
    fn num_batches(&self) -> usize {
        self.inner.batches()
    }
}

/// The configuration of a mode, `paper` or `detailed`, as JSON.
#[pyfunction]
pub fn sim_config(mode: &str) -> PyResult<String> {
    let config = match mode {
        "paper" => Config::paper(),
        "detailed" => Config::detailed(),
        _ => {
            let message = format!("mode {mode:?}: use \"paper\" or \"detailed\"");
            return Err(errors::named("UnsupportedArgument", message));
        }
    };
    Ok(json!(config).to_string())
}

/// Platforms, data sets, and what the two modes differ in, as JSON.
#[pyfunction]
pub fn sim_names() -> String {
    let sets = DATASETS.map(|set| {
        json!({
            "name": set.name, "nodes": set.nodes, "edges": set.edges, "columns": set.columns,
        })
    });
    let switches: Vec<&str> = Config::SWITCHES.iter().map(|(name, _)| *name).collect();
    let names = json!({
        "platforms": PLATFORMS, "more_platforms": MORE_PLATFORMS, "datasets": sets,
        "switches": switches,
    });
    names.to_string()
}

/// A configuration with one cost taken from another, as JSON.
#[pyfunction]
pub fn sim_switched(config: &str, switch: &str, other: &str) -> PyResult<String> {
    let (mut config, other): (Config, Config) = (parsed(config)?, parsed(other)?);
    let found = Config::SWITCHES.iter().find(|(name, _)| *name == switch);
    let Some((_, take)) = found else {
        return Err(errors::named("NameNotFound", format!("no switch {switch:?}")));
    };
    take(&mut config, &other);
    Ok(json!(config).to_string())
}

/// Runs jobs, a JSON list, on a trace; the runs as a JSON list in the same order.
#[pyfunction]
pub fn simulate(py: Python<'_>, trace: &Trace, jobs: &str) -> PyResult<String> {
    let jobs: Vec<Job> = parsed(jobs)?;
    let trace = Arc::clone(&trace.inner);
    let runs = py.detach(|| run_all(&trace, &jobs)).map_err(|error| failed(&error))?;
    let rows: Vec<_> = runs
        .iter()
        .map(|run| {
            let mut row = json!(run);
            row["targets_per_s"] = json!(run.targets_per_s());
            row["targets_per_joule"] = json!(run.targets_per_joule());
            row
        })
        .collect();
    Ok(json!(rows).to_string())
}

pub(crate) fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text)
        .map_err(|error| errors::named("UnsupportedArgument", format!("simulation: {error}")))
}

fn failed(error: &SimulateError) -> PyErr {
    errors::named("UnsupportedArgument", error.to_string())
}
