//! Arrays of NumPy as tensors of a graph, and back.

use ng_infer::dfg::{Constant, Elements};
use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;

use crate::arrays;
use crate::errors::named;

/// A contiguous array of f32, i64 or bool; `what` it is, for messages.
pub fn tensor(what: &str, array: &Bound<'_, PyAny>) -> PyResult<Constant> {
    fn parts<T: numpy::Element + Clone>(array: &Bound<'_, PyAny>) -> Option<(Vec<usize>, Vec<T>)> {
        let array: PyReadonlyArrayDyn<'_, T> = array.extract().ok()?;
        let dims = array.as_array().shape().to_vec();
        Some((dims, array.as_slice().ok()?.to_vec()))
    }
    let found = parts::<f32>(array)
        .map(|(dims, all)| (dims, Elements::F32(all)))
        .or_else(|| parts::<i64>(array).map(|(dims, all)| (dims, Elements::I64(all))))
        .or_else(|| parts::<bool>(array).map(|(dims, all)| (dims, Elements::Bool(all))));
    let wrong = || {
        let message = format!("{what} is not a contiguous array of f32, i64 or bool");
        named("UnsupportedArgument", message)
    };
    let (dims, elements) = found.ok_or_else(wrong)?;
    Constant::new(dims, elements).ok_or_else(wrong)
}

/// The shape of a tensor, and its elements as a flat array.
pub fn flat<'py>(py: Python<'py>, of: &Constant) -> PyResult<(Vec<usize>, Bound<'py, PyAny>)> {
    let array = match of.elements() {
        Elements::F32(all) => arrays::owned(py, all.clone(), None)?.into_any(),
        Elements::I64(all) => arrays::owned(py, all.clone(), None)?.into_any(),
        Elements::Bool(all) => arrays::owned(py, all.clone(), None)?.into_any(),
        Elements::F16(_) | Elements::I8(_) => return Err(arrays::narrow()),
    };
    Ok((of.dims().to_vec(), array))
}
