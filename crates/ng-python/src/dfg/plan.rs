//! Graphs that are ready to run, on arrays that are read where they lie.

use std::collections::HashMap;
use std::sync::Arc;

use ng_infer::kernel::{Context, Data, View};
use ng_infer::run::Served;
use numpy::{Element, PyReadonlyArrayDyn};
use pyo3::prelude::*;

use super::tensors::flat;
use crate::errors::{named, raised};

#[pyclass(frozen, name = "Plan", module = "neargraph._core")]
pub struct PyPlan {
    served: Arc<Served>,
    context: Context,
}

impl PyPlan {
    /// One that runs on so many threads.
    pub fn new(served: Arc<Served>, threads: usize) -> Self {
        Self { served, context: Context::new(threads) }
    }
}

#[pymethods]
impl PyPlan {
    /// Runs the graph. Returns the shape of each output, and its elements as a flat array. `hops`
    /// has the number of nodes of each hop, by the symbol for the number of nodes.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: HashMap<String, Bound<'py, PyAny>>,
        hops: Vec<(String, Vec<usize>)>,
    ) -> PyResult<Vec<(Vec<usize>, Bound<'py, PyAny>)>> {
        let arrays = arrays(&inputs)?;
        let views = arrays.iter().map(view).collect::<PyResult<Vec<_>>>()?;
        let hops: Vec<(&str, &[usize])> =
            hops.iter().map(|(name, counts)| (name.as_str(), counts.as_slice())).collect();
        let found = py.detach(|| {
            let plan = self.served.plan();
            let answer = plan.run(&views, &hops, &self.context);
            answer.map(|answer| answer.to_constants())
        });
        found.map_err(raised)?.iter().map(|tensor| flat(py, tensor)).collect()
    }
}

/// An array of a type that graphs compute with.
enum Array<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    I64(PyReadonlyArrayDyn<'py, i64>),
    Bool(PyReadonlyArrayDyn<'py, bool>),
}

type Named<'a, 'py> = (&'a str, Vec<usize>, Array<'py>);

fn wrong(name: &str) -> PyErr {
    let message = format!("input {name:?} is not a contiguous array of f32, i64 or bool");
    named("UnsupportedArgument", message)
}

fn arrays<'a, 'py>(
    inputs: &'a HashMap<String, Bound<'py, PyAny>>,
) -> PyResult<Vec<Named<'a, 'py>>> {
    fn of<'py, T: Element>(
        array: &Bound<'py, PyAny>,
    ) -> Option<(Vec<usize>, PyReadonlyArrayDyn<'py, T>)> {
        let array: PyReadonlyArrayDyn<'py, T> = array.extract().ok()?;
        Some((array.as_array().shape().to_vec(), array))
    }
    let array = |(name, array): (&'a String, &Bound<'py, PyAny>)| {
        let found = of(array)
            .map(|(dims, array)| (dims, Array::F32(array)))
            .or_else(|| of(array).map(|(dims, array)| (dims, Array::I64(array))))
            .or_else(|| of(array).map(|(dims, array)| (dims, Array::Bool(array))));
        let (dims, array) = found.ok_or_else(|| wrong(name))?;
        Ok((name.as_str(), dims, array))
    };
    inputs.iter().map(array).collect()
}

fn view<'a>((name, dims, array): &'a Named<'a, '_>) -> PyResult<(&'a str, View<'a>)> {
    let data = match array {
        Array::F32(array) => array.as_slice().map(Data::F32),
        Array::I64(array) => array.as_slice().map(Data::I64),
        Array::Bool(array) => array.as_slice().map(Data::Bool),
    };
    Ok((*name, View { dims, data: data.map_err(|_| wrong(name))? }))
}
