//! Simulated devices, from Python: traces as columns, runs as JSON.

use std::fmt::Display;
use std::sync::Arc;

use ng_ssdsim::{
    Accelerator, Allowed, Config, DATASETS, Dataset, Job, MORE_PLATFORMS, PLATFORMS, Request,
    run_all, run_requests,
};
use ng_store::{DirectOptions, places};
use ng_types::Places;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::arrays;
use crate::errors;
use crate::progress::reporting;
use crate::snapshot::Snapshot;

/// A dictionary of the named columns.
macro_rules! columns {
    ($py:expr, $of:expr, $($name:ident),+) => {{
        let columns = PyDict::new($py);
        $(columns.set_item(stringify!($name), arrays::owned($py, $of.$name.clone(), None)?)?;)+
        columns
    }};
}

/// The nodes and edges that the sampling of batches visits.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Trace {
    pub inner: Arc<ng_types::Trace>,
}

#[pymethods]
impl Trace {
    /// Creates batches of a published data set from its numbers of nodes and edges.
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
            let message = format!("unknown data set {name:?}; known: {known}");
            return Err(errors::named("NameNotFound", message));
        };
        let trace = py.detach(|| set.trace(batches, targets, &fanouts, seed));
        Ok(Self { inner: Arc::new(trace) })
    }

    /// Creates a trace from saved columns, and checks them.
    #[staticmethod]
    fn of_columns(columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        let trace = ng_types::Trace {
            node: column(columns, "node")?,
            degree: column(columns, "degree")?,
            hop: column(columns, "hop")?,
            first_draw: column(columns, "first_draw")?,
            position: column(columns, "position")?,
            found: column(columns, "found")?,
            first_entry: column(columns, "first_entry")?,
            places: None,
        };
        trace.check().map_err(failed)?;
        Ok(Self { inner: Arc::new(trace) })
    }

    /// Returns the columns by name.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let trace = &self.inner;
        Ok(columns!(py, trace, node, degree, hop, first_draw, position, found, first_entry))
    }

    /// Returns the trace with the positions of its nodes in `snapshot`, on pages of `page_bytes`.
    #[pyo3(signature = (snapshot, page_bytes, tensor, progress=None))]
    fn with_places_of(
        &self,
        py: Python<'_>,
        snapshot: &Snapshot,
        page_bytes: usize,
        tensor: String,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let options =
            DirectOptions { page_bytes, tensors: Some(vec![tensor]), ..DirectOptions::default() };
        let found = reporting(py, progress, errors::raised, |callback| {
            let mut nodes = self.inner.node.clone();
            nodes.sort_unstable();
            nodes.dedup();
            let mut report = |phase: &str, done, total| callback.call((phase, done, total));
            places(&snapshot.inner, &options, &nodes, &mut report)
        })?;
        self.with(found)
    }

    /// Returns the trace with saved positions, and checks them.
    fn with_places(&self, columns: &Bound<'_, PyDict>) -> PyResult<Self> {
        self.with(places_of(columns)?)
    }

    /// Returns the positions as columns by name, with the constants of the layout; None without
    /// positions.
    fn places<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(places) = &self.inner.places else { return Ok(None) };
        let columns =
            columns!(py, places, node, beside_row, primary, run, full, tail, first_entry, row);
        columns.set_item("page_bytes", places.page_bytes)?;
        columns.set_item("entries_per_page", places.entries_per_page)?;
        Ok(Some(columns))
    }

    #[getter]
    fn page_bytes(&self) -> Option<u32> {
        self.inner.places.as_ref().map(|places| places.page_bytes)
    }

    #[getter]
    fn num_batches(&self) -> usize {
        self.inner.batches()
    }
}

impl Trace {
    fn with(&self, places: Places) -> PyResult<Self> {
        let trace = ng_types::Trace {
            places: Some(Arc::new(places)),
            ..ng_types::Trace::clone(&self.inner)
        };
        trace.check().map_err(failed)?;
        Ok(Self { inner: Arc::new(trace) })
    }
}

fn column<'py, T: numpy::Element + Clone>(
    columns: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<Vec<T>> {
    let array: PyReadonlyArray1<'py, T> = columns.as_any().get_item(name)?.extract()?;
    Ok(array.as_slice()?.to_vec())
}

fn places_of(columns: &Bound<'_, PyDict>) -> PyResult<Places> {
    Ok(Places {
        page_bytes: columns.as_any().get_item("page_bytes")?.extract()?,
        entries_per_page: columns.as_any().get_item("entries_per_page")?.extract()?,
        node: column(columns, "node")?,
        beside_row: column(columns, "beside_row")?,
        primary: column(columns, "primary")?,
        run: column(columns, "run")?,
        full: column(columns, "full")?,
        tail: column(columns, "tail")?,
        first_entry: column(columns, "first_entry")?,
        row: column(columns, "row")?,
    })
}

/// Returns the configuration of a mode, `paper` or `detailed`, as JSON.
#[pyfunction]
pub fn sim_config(mode: &str) -> PyResult<String> {
    let config = match mode {
        "paper" => Config::paper(),
        "detailed" => Config::detailed(),
        _ => {
            let message = format!("mode {mode:?} is not valid: expected \"paper\" or \"detailed\"");
            return Err(failed(message));
        }
    };
    Ok(json!(config).to_string())
}

/// Returns the platforms, the data sets, the published accelerators, the differences of the two
/// modes, and the ranges of constants, as JSON.
#[pyfunction]
pub fn sim_names() -> String {
    let sets = DATASETS.map(|set| {
        json!({
            "name": set.name, "nodes": set.nodes, "edges": set.edges, "columns": set.columns,
        })
    });
    let switches: Vec<&str> = Config::SWITCHES.iter().map(|(name, _)| *name).collect();
    let constants = Config::constants().map(|constant| {
        let (range, among) = match constant.allowed {
            Allowed::Whole(least, most) => (json!([least, most]), json!(null)),
            Allowed::Among(values) => (json!(null), json!(values)),
            Allowed::Time | Allowed::Rate | Allowed::Energy => (json!(null), json!(null)),
        };
        let allowed = constant.allowed.to_string();
        let about = json!({ "whole": range, "among": among, "allowed": allowed });
        (constant.field.to_owned(), about)
    });
    let accelerators =
        Accelerator::PUBLISHED.map(|(name, make)| json!({ "name": name, "constants": make() }));
    let names = json!({
        "platforms": PLATFORMS, "more_platforms": MORE_PLATFORMS, "datasets": sets,
        "accelerators": accelerators, "switches": switches,
        "constants": constants.collect::<serde_json::Map<_, _>>(),
    });
    names.to_string()
}

/// Returns a configuration with one cost replaced by that of another, as JSON.
#[pyfunction]
pub fn sim_switched(config: &str, switch: &str, other: &str) -> PyResult<String> {
    let (mut config, other): (Config, Config) = (parsed(config)?, parsed(other)?);
    let found = Config::SWITCHES.iter().find(|(name, _)| *name == switch);
    let Some((_, take)) = found else {
        let known: Vec<&str> = Config::SWITCHES.iter().map(|(name, _)| *name).collect();
        let message = format!("unknown switch {switch:?}; known: {}", known.join("; "));
        return Err(errors::named("NameNotFound", message));
    };
    take(&mut config, &other);
    Ok(json!(config).to_string())
}

/// Simulates jobs, a JSON list, on a trace. Returns the runs as a JSON list in the same order.
#[pyfunction]
pub fn simulate(py: Python<'_>, trace: &Trace, jobs: &str) -> PyResult<String> {
    let jobs: Vec<Job> = parsed(jobs)?;
    let trace = Arc::clone(&trace.inner);
    let runs = py.detach(|| run_all(&trace, &jobs)).map_err(failed)?;
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

/// Simulates requests of whole pages of an SSD, with `depth` requests in flight. Returns the result
/// as JSON.
#[pyfunction]
pub fn simulate_requests(
    py: Python<'_>,
    first_page: PyReadonlyArray1<'_, u64>,
    pages: PyReadonlyArray1<'_, u32>,
    config: &str,
    depth: u32,
) -> PyResult<String> {
    let config: Config = parsed(config)?;
    let both = first_page.as_slice()?.iter().zip(pages.as_slice()?);
    let requests: Vec<Request> = both.map(|(&page, &pages)| Request { page, pages }).collect();
    let found = py.detach(|| run_requests(&config, &requests, depth)).map_err(failed)?;
    Ok(json!(found).to_string())
}

pub fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text)
        .map_err(|error| failed(format!("invalid settings of the simulation: {error}")))
}

pub fn failed<E: Display>(why: E) -> PyErr {
    errors::named("UnsupportedArgument", why.to_string())
}
