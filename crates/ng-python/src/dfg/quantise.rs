//! Graphs in fewer bits.

use std::collections::HashMap;
use std::sync::Arc;

use ng_infer::dfg::{Constant, Dfg as Graph, FixedFormat};
use ng_infer::kernel::Context;
use ng_infer::quantise::{Calibration, Quantised, Search, Target, fixed_point, half, steps};
use ng_infer::run::Devices;
use pyo3::prelude::*;

use super::Dfg;
use super::tensors::tensor;
use crate::errors::{detached, raised};
use crate::progress::reporting;

/// A graph, names of the weights that are narrow now, and those that are not, with the reason.
type Parts = (Dfg, Vec<String>, Vec<(String, String)>);

/// A format by name of a value: bits and fraction bits.
type Named = (String, u32, i32);

fn parts(made: Quantised) -> Parts {
    (Dfg::of(made.dfg, None), made.narrowed, made.kept)
}

/// Quantises linear layers to integers of 8 bits, with a scale for each column.
#[pyfunction]
pub fn quantise_steps(py: Python<'_>, dfg: PyRef<'_, Dfg>) -> PyResult<Parts> {
    let graph = dfg.graph();
    detached(py, || steps(&graph)).map(parts)
}

/// Converts weights to half precision.
#[pyfunction]
pub fn quantise_half(py: Python<'_>, dfg: PyRef<'_, Dfg>) -> PyResult<Parts> {
    let graph = dfg.graph();
    detached(py, || half(&graph)).map(parts)
}

/// Returns the graph in fixed point, with formats from `search_formats`.
#[pyfunction]
pub fn fixed_point_graph(
    py: Python<'_>,
    dfg: PyRef<'_, Dfg>,
    formats: Vec<Named>,
) -> PyResult<Parts> {
    let graph = dfg.graph();
    let formats: Vec<_> = formats.into_iter().map(format).collect();
    detached(py, || fixed_point(&graph, &[], &formats)).map(parts)
}

fn format((name, bits, fraction): Named) -> (String, FixedFormat) {
    (name, FixedFormat { bits, fraction })
}

/// Searches fixed-point formats for the values of a graph. Returns the formats, the loss with them,
/// the loss in single precision, and the number of runs. `labels` holds row numbers and the class
/// of each row. Without labels, the loss is the mean square difference from single precision.
/// `progress` is called with (runs done, maximum number of runs).
#[pyfunction]
#[pyo3(signature = (dfg, inputs, bits, rounds, labels=None, progress=None))]
pub fn search_formats(
    py: Python<'_>,
    dfg: PyRef<'_, Dfg>,
    inputs: HashMap<String, Bound<'_, PyAny>>,
    bits: u32,
    rounds: usize,
    labels: Option<(Vec<usize>, Vec<usize>)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<Named>, f64, f64, usize)> {
    let graph: Arc<Graph> = dfg.graph();
    let named = |(name, array): (&String, &Bound<'_, PyAny>)| {
        Ok((name.clone(), tensor(&format!("input {name:?}"), array)?))
    };
    let tensors = inputs.iter().map(named).collect::<PyResult<Vec<_>>>()?;
    let target = match labels {
        None => Target::Itself,
        Some((rows, labels)) => Target::Labels { rows, labels },
    };
    let found = reporting(py, progress, raised, |callback| {
        let inputs: Vec<(&str, Constant)> =
            tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
        let calibration = Calibration { inputs: &inputs, target };
        let (devices, context) = (Devices::with_cpu(), Context::default());
        let mut report = |done: usize, total: usize, _| callback.call((done, total));
        Search { bits, rounds }.search(&graph, &calibration, &devices, &context, &mut report)
    })?;
    let named = |(name, format): (String, FixedFormat)| (name, format.bits, format.fraction);
    let formats = found.formats.into_iter().map(named).collect();
    Ok((formats, found.loss, found.float_loss, found.runs))
}
