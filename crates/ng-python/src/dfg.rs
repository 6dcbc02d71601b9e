//! Dataflow graphs: reading them and running them on arrays.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use ng_engine::ModelFile;
use ng_infer::dfg::{Constant, Dfg as Graph, Elements};
use ng_infer::kernel::Context;
use ng_infer::onnx::{ExternalFiles, Model, Range};
use ng_infer::run::{Devices, run};
use numpy::PyReadonlyArrayDyn;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::arrays;
use crate::errors::named;

/// A type and the lengths of a shape, as texts.
type Shown = (String, Vec<String>);

#[pyclass(frozen, module = "neargraph._core")]
pub struct Dfg {
    pub model: ModelFile,
}

impl Dfg {
    fn of(graph: Graph) -> Self {
        Self { model: ModelFile { graph: Arc::new(graph), metadata: Vec::new() } }
    }
}

fn invalid(error: impl std::fmt::Display) -> PyErr {
    named("InvalidModel", error.to_string())
}

#[pymethods]
impl Dfg {
    /// From the bytes of an ONNX file, and those of the files beside it.
    #[staticmethod]
    fn from_onnx(
        py: Python<'_>,
        model: PyBackedBytes,
        files: HashMap<String, PyBackedBytes>,
    ) -> PyResult<Self> {
        py.detach(|| {
            let model = Model::decode(&model).map_err(invalid)?;
            let file = |name: &str| {
                let missing = || io::Error::from(io::ErrorKind::NotFound);
                files.get(name).ok_or_else(missing)
            };
            let read = |range: &Range, to: &mut [u8]| {
                let start = range.offset as usize;
                to.copy_from_slice(&file(&range.file)?[start..start + range.length as usize]);
                Ok(())
            };
            let len = |name: &str| Ok(file(name)?.len() as u64);
            let mut external = ExternalFiles::new(&model, len, read).map_err(invalid)?;
            let mut bytes = |tensor: &_| external.bytes(tensor).map(|bytes| bytes.into_owned());
            let graph = Graph::from_onnx(&model, &mut bytes).map_err(invalid)?;
            Ok(Self { model: ModelFile { metadata: model.metadata, graph: Arc::new(graph) } })
        })
    }

    #[staticmethod]
    fn from_text(text: &str) -> PyResult<Self> {
        Ok(Self::of(Graph::from_text(text).map_err(invalid)?))
    }

    /// Keys and values of the model file.
    fn metadata(&self) -> Vec<(String, String)> {
        self.model.metadata.clone()
    }

    fn text(&self) -> String {
        self.model.graph.text()
    }

    /// Names of the inputs, with what each has to be.
    fn inputs(&self) -> Vec<(String, Option<Shown>)> {
        let shown = |(value, wanted): (_, Option<&ng_infer::dfg::TensorType>)| {
            let wanted = wanted.map(|wanted| {
                let dims = wanted.shape.iter().map(ToString::to_string).collect();
                (wanted.dtype.name().to_owned(), dims)
            });
            (self.model.graph.name(value).to_owned(), wanted)
        };
        self.model.graph.inputs().map(shown).collect()
    }

    /// Names of the outputs.
    fn outputs(&self) -> Vec<String> {
        self.model.graph.outputs().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Checks types and shapes; raises if the inputs have no types.
    fn check(&self) -> PyResult<()> {
        self.model.graph.check(&[]).map(drop).map_err(invalid)
    }

    /// What the graph gives: shapes, and elements as flat arrays.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: HashMap<String, Bound<'py, PyAny>>,
    ) -> PyResult<Vec<(Vec<usize>, Bound<'py, PyAny>)>> {
        let tensors = inputs.iter().map(|(name, array)| Ok((name.as_str(), tensor(name, array)?)));
        let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
        let found = py
            .detach(|| run(&self.model.graph, &Devices::default(), &tensors, &Context::default()));
        let found = found.map_err(invalid)?;
        found.into_iter().map(|tensor| flat(py, &tensor)).collect()
    }
}

/// A contiguous array of f32, i64 or bool.
fn tensor(name: &str, array: &Bound<'_, PyAny>) -> PyResult<Constant> {
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

fn flat<'py>(py: Python<'py>, of: &Constant) -> PyResult<(Vec<usize>, Bound<'py, PyAny>)> {
    let array = match of.elements() {
        Elements::F32(all) => arrays::owned(py, all.clone(), None)?.into_any(),
        Elements::I64(all) => arrays::owned(py, all.clone(), None)?.into_any(),
        Elements::Bool(all) => arrays::owned(py, all.clone(), None)?.into_any(),
    };
    Ok((of.dims().to_vec(), array))
}
