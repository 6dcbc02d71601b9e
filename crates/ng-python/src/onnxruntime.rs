//! ONNX Runtime, from the library of the user's package.

use std::collections::HashMap;
use std::path::PathBuf;

use ng_infer::dfg::{Constant, Elements};
use ng_plugin_host::Session;
use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arrays;
use crate::errors::{detached, named, raised};

/// A model in ONNX Runtime; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct OnnxRuntime {
    session: Session,
    #[pyo3(get)]
    version: String,
}

/// An output: its name, its shape, and its elements as a flat array.
type Output<'py> = (String, Vec<usize>, Bound<'py, PyAny>);

#[pymethods]
impl OnnxRuntime {
    #[new]
    fn new(
        py: Python<'_>,
        library: PathBuf,
        model: PyBackedBytes,
        files: HashMap<String, PyBackedBytes>,
        threads: usize,
    ) -> PyResult<Self> {
        detached(py, || {
            let runtime = ng_plugin_host::OnnxRuntime::open(&library)?;
            let files: Vec<(&str, &[u8])> =
                files.iter().map(|(name, bytes)| (name.as_str(), &**bytes)).collect();
            let session = runtime.session(&model, &files, threads)?;
            Ok::<_, ng_plugin_host::OnnxRuntimeError>(Self {
                session,
                version: runtime.version().to_owned(),
            })
        })
    }

    /// Names of the inputs.
    fn inputs(&self) -> Vec<String> {
        self.session.inputs().collect()
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: HashMap<String, Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Output<'py>>> {
        let tensors = inputs.iter().map(|(name, array)| Ok((name.as_str(), tensor(name, array)?)));
        let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
        let found = py.detach(|| self.session.run(&tensors)).map_err(raised)?;
        let output = |(name, tensor): (String, Constant)| {
            let array = match tensor.elements() {
                Elements::F32(all) => arrays::owned(py, all.clone(), None)?.into_any(),
                Elements::I64(all) => arrays::owned(py, all.clone(), None)?.into_any(),
                Elements::Bool(all) => arrays::owned(py, all.clone(), None)?.into_any(),
            };
            Ok((name, tensor.dims().to_vec(), array))
        };
        found.into_iter().map(output).collect()
    }
}

/// A contiguous array of f32, i64 or bool.
pub fn tensor(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Constant> {
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
        let message = format!("input {name:?} is not a contiguous array of f32, i64 or bool");
        named("UnsupportedArgument", message)
    };
    let (dims, elements) = found.ok_or_else(wrong)?;
    Constant::new(dims, elements).ok_or_else(wrong)
}
