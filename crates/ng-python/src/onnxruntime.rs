//! ONNX Runtime, from the library of the user's package.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use ng_infer::dfg::Constant;
use ng_infer::plan::WholeModel;
use ng_plugin_host::Session;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::dfg::tensors::{flat, tensor};
use crate::errors::{detached, raised};

/// A model in ONNX Runtime; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct OnnxRuntime {
    session: Arc<Session>,
    #[pyo3(get)]
    version: String,
}

impl OnnxRuntime {
    /// The model as what computes a graph.
    pub fn whole_model(&self) -> WholeModel {
        self.session.whole_model()
    }
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
            let session = Arc::new(runtime.session(&model, &files, threads)?);
            Ok::<_, ng_plugin_host::OnnxRuntimeError>(Self {
                session,
                version: runtime.version().to_owned(),
            })
        })
    }

    /// Returns the names of the inputs.
    fn inputs(&self) -> Vec<String> {
        self.session.inputs().collect()
    }

    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: HashMap<String, Bound<'py, PyAny>>,
    ) -> PyResult<Vec<Output<'py>>> {
        let tensors = inputs.iter().map(|(name, array)| named_tensor(name, array));
        let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
        let found = py.detach(|| self.session.run(&tensors)).map_err(raised)?;
        let output = |(name, tensor)| {
            let (dims, array) = flat(py, &tensor)?;
            Ok((name, dims, array))
        };
        found.into_iter().map(output).collect()
    }
}

/// An array of an input as a tensor.
pub fn named_tensor<'a>(name: &'a str, array: &Bound<'_, PyAny>) -> PyResult<(&'a str, Constant)> {
    Ok((name, tensor(&format!("input {name:?}"), array)?))
}
