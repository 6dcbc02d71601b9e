//! Functions of Python as kernels.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ng_infer::dfg::{Constant, Elements, Op};
use ng_infer::kernel::{Context, Data, DataMut, Kernel, KernelError, View, ViewMut};
use ng_infer::run::{Devices, RegisterError};
use ng_types::Dtype;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::tensors::{flat, tensor};

/// The name of the device that functions of Python are.
const DEVICE: &str = "python";

/// Puts `kernels` before all devices.
pub fn add(
    kernels: HashMap<String, Py<PyAny>>,
    devices: &mut Devices,
) -> Result<(), RegisterError> {
    if !kernels.is_empty() {
        devices.register_device(DEVICE, i32::MAX);
    }
    for (op, function) in kernels {
        let kernel = Arc::new(PyKernel { function, found: Mutex::new(None) });
        devices.register_op_definition(&op, DEVICE, kernel)?;
    }
    Ok(())
}

/// A function that takes arrays and returns one, or a tuple of them.
struct PyKernel {
    function: Py<PyAny>,
    /// Only the function knows the shapes, so it has run when they are asked for.
    found: Mutex<Option<Vec<Constant>>>,
}

impl PyKernel {
    fn call(&self, op: &Op, inputs: &[View<'_>]) -> Result<Vec<Constant>, KernelError> {
        let misfit = |error: PyErr| KernelError::Misfit(error.to_string());
        Python::attach(|py| {
            let arrays = inputs.iter().map(|input| array(py, input));
            let arrays = arrays.collect::<PyResult<Vec<_>>>().map_err(misfit)?;
            let arguments = PyTuple::new(py, arrays).map_err(misfit)?;
            let found = self.function.bind(py).call1(arguments).map_err(misfit)?;
            let found: Vec<Bound<'_, PyAny>> = match found.cast::<PyTuple>() {
                Ok(tuple) => tuple.iter().collect(),
                Err(_) => vec![found],
            };
            if found.len() != op.outputs() {
                let (wanted, given) = (op.outputs(), found.len());
                let problem = format!("the function returned {given} arrays, expected {wanted}");
                return Err(KernelError::Misfit(problem));
            }
            let tensors =
                found.iter().map(|array| tensor("the return value of the function", array));
            tensors.collect::<PyResult<_>>().map_err(misfit)
        })
    }
}

fn array<'py>(py: Python<'py>, input: &View<'_>) -> PyResult<Bound<'py, PyAny>> {
    let elements = match input.data {
        Data::F32(all) => Elements::F32(all.to_vec()),
        Data::I64(all) => Elements::I64(all.to_vec()),
        Data::Bool(all) => Elements::Bool(all.to_vec()),
        Data::F16(all) => Elements::F16(all.to_vec()),
        Data::I8(all) => Elements::I8(all.to_vec()),
        // Only kernels that say so see them.
        Data::Rows(_) => Elements::F32(Vec::new()),
    };
    let wrong = || {
        crate::errors::named(
            "WrongInput",
            "the length of an input does not match its \
                                                       shape"
                .to_owned(),
        )
    };
    let input = Constant::new(input.dims.to_vec(), elements).ok_or_else(wrong)?;
    let (dims, array) = flat(py, &input)?;
    array.call_method1("reshape", (dims,))
}

impl Kernel for PyKernel {
    fn shapes(
        &self,
        op: &Op,
        inputs: &[View<'_>],
    ) -> Result<Vec<(Dtype, Vec<usize>)>, KernelError> {
        let found = self.call(op, inputs)?;
        let shapes = found.iter().map(|one| (one.elements().dtype(), one.dims().to_vec()));
        let shapes = shapes.collect();
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        Ok(shapes)
    }

    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        _: &Context,
    ) -> Result<(), KernelError> {
        let before = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let found = before.map_or_else(|| self.call(op, inputs), Ok)?;
        for (from, to) in found.iter().zip(outputs) {
            let other = || {
                KernelError::Misfit("the function returned an array of another shape".to_owned())
            };
            if from.dims() != to.dims {
                return Err(other());
            }
            match (from.elements(), &mut to.data) {
                (Elements::F32(from), DataMut::F32(to)) => to.copy_from_slice(from),
                (Elements::I64(from), DataMut::I64(to)) => to.copy_from_slice(from),
                (Elements::Bool(from), DataMut::Bool(to)) => to.copy_from_slice(from),
                _ => return Err(other()),
            }
        }
        Ok(())
    }
}
