//! Dataflow graphs: building, reading, writing and running them.

mod facts;
mod kernels;
mod plan;
pub mod quantise;
pub mod tensors;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use ng_engine::ModelFile;
use ng_infer::dfg::{
    Attribute, Attributes, Constant, Dfg as Graph, DfgError, Dim, Op, TensorType, Value,
};
use ng_infer::kernel::{Context, View};
use ng_infer::onnx::{ExternalFiles, Model, Range};
use ng_infer::plan::Options;
use ng_infer::run::RunError;
use ng_types::Dtype;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::computing::Computing;
use crate::errors::{detached, named, plain, raised};
use facts::FileFacts;
pub use plan::PyPlan;
use tensors::tensor;

/// A type and the lengths of a shape, as texts.
type Shown = (String, Vec<String>);

/// A length of a shape: a number, or the name of a count.
#[derive(FromPyObject)]
pub enum Length {
    Number(i64),
    Symbol(String),
}

/// A value of an attribute.
#[derive(FromPyObject)]
pub enum Given {
    Int(i64),
    Float(f32),
    Ints(Vec<i64>),
    Text(String),
}

#[pyclass(frozen, module = "neargraph._core")]
pub struct Dfg {
    graph: RwLock<Arc<Graph>>,
    /// Of a graph that was read from a file.
    file: Option<FileFacts>,
}

impl Dfg {
    fn of(graph: Graph, file: Option<FileFacts>) -> Self {
        Self { graph: RwLock::new(Arc::new(graph)), file }
    }

    /// The graph as it is now.
    pub fn graph(&self) -> Arc<Graph> {
        Arc::clone(&self.graph.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The graph with what its file says, for an engine.
    pub fn model(&self) -> ModelFile {
        let metadata = self.file.as_ref().map(|file| file.metadata.clone());
        let metadata = metadata.unwrap_or_default();
        ModelFile { graph: self.graph(), metadata, identity: None }
    }

    fn changed<T>(&self, change: impl FnOnce(&mut Graph) -> Result<T, DfgError>) -> PyResult<T> {
        let mut graph = self.graph.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut graph)).map_err(raised)
    }

    fn value(&self, node: &str, name: &str) -> PyResult<Value> {
        self.graph().value(name).ok_or_else(|| {
            raised(DfgError::Undefined { node: node.to_owned(), value: name.to_owned() })
        })
    }
}

fn shown(of: &TensorType) -> Shown {
    (of.dtype.name().to_owned(), of.shape.iter().map(ToString::to_string).collect())
}

#[pymethods]
impl Dfg {
    #[new]
    fn new() -> Self {
        Self::of(Graph::default(), None)
    }

    /// Reads a graph from the bytes of an ONNX file and of its external files.
    #[staticmethod]
    fn from_onnx(
        py: Python<'_>,
        model: PyBackedBytes,
        files: HashMap<String, PyBackedBytes>,
    ) -> PyResult<Self> {
        py.detach(|| {
            let model = Model::decode(&model).map_err(raised)?;
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
            let mut external = ExternalFiles::new(&model, len, read).map_err(raised)?;
            let mut bytes = |tensor: &_| external.bytes(tensor).map(|bytes| bytes.into_owned());
            let graph = Graph::from_onnx(&model, &mut bytes).map_err(raised)?;
            Ok(Self::of(graph, Some(FileFacts::of(&model))))
        })
    }

    /// Reads a graph from its text form. The inputs that `weights` names become weights.
    #[staticmethod]
    fn from_text(text: &str, weights: HashMap<String, Bound<'_, PyAny>>) -> PyResult<Self> {
        let graph = Graph::from_text(text).map_err(raised)?;
        let weights = tensors_of(&weights)?.into_iter().collect();
        Ok(Self::of(graph.with_weights(&weights).map_err(raised)?, None))
    }

    /// Returns the bytes of an ONNX file and of its external weights.
    fn to_onnx<'py>(
        &self,
        py: Python<'py>,
        metadata: Vec<(String, String)>,
        weights_name: &str,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let graph = self.graph();
        let files = py.detach(|| graph.to_onnx(&metadata, weights_name)).map_err(raised)?;
        Ok((PyBytes::new(py, &files.model), PyBytes::new(py, &files.weights)))
    }

    fn create_in(&self, name: &str, wanted: Option<(String, Vec<Length>)>) -> PyResult<()> {
        let wanted = wanted.map(|(dtype, shape)| input_type(name, &dtype, shape)).transpose()?;
        self.changed(|graph| graph.create_in(name, wanted).map(drop))
    }

    fn create_weight(&self, name: &str, array: &Bound<'_, PyAny>) -> PyResult<()> {
        let weight = tensor(&format!("weight {name:?}"), array)?;
        self.changed(|graph| graph.create_weight(name, weight).map(drop))
    }

    /// Adds an operation. Returns the names of its outputs.
    fn create_op(
        &self,
        name: &str,
        inputs: Vec<String>,
        attributes: HashMap<String, Given>,
    ) -> PyResult<Vec<String>> {
        let node = format!("node {}", self.graph().nodes().len() + 1);
        let attributes: BTreeMap<String, Attribute> =
            attributes.into_iter().map(|(key, value)| (key, value.into())).collect();
        let op = Op::from_name(Attributes::new(&node, name, attributes)).map_err(raised)?;
        let inputs = inputs.iter().map(|input| self.value(&node, input));
        let inputs = inputs.collect::<PyResult<Vec<_>>>()?;
        self.changed(|graph| {
            let made = graph.create_op(op, &inputs)?;
            Ok(made.iter().map(|value| graph.name(*value).to_owned()).collect())
        })
    }

    fn create_out(&self, name: &str, value: &str) -> PyResult<()> {
        let value = self.value(&format!("output {name:?}"), value)?;
        self.changed(|graph| graph.create_out(name, value))
    }

    /// Returns the metadata of the model file, as keys and values.
    fn metadata(&self) -> Vec<(String, String)> {
        self.model().metadata
    }

    fn text(&self) -> String {
        self.graph().text()
    }

    /// Returns the names of the inputs, with the expected type and shape of each.
    fn inputs(&self) -> Vec<(String, Option<Shown>)> {
        let graph = self.graph();
        graph.inputs().map(|(value, of)| (graph.name(value).to_owned(), of.map(shown))).collect()
    }

    /// Returns the names of the outputs.
    fn outputs(&self) -> Vec<String> {
        self.graph().outputs().iter().map(|(name, _)| name.clone()).collect()
    }

    /// Checks types and shapes; raises if the inputs have no types.
    fn check(&self) -> PyResult<()> {
        self.graph().check(&[]).map(drop).map_err(raised)
    }

    /// Returns the graph as dictionaries: inputs, weights, nodes with their devices, outputs.
    fn parts<'py>(&self, py: Python<'py>, devices: Computing) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &facts::parts(&self.graph(), &devices.table(py)?))
    }

    /// Returns the contents of the model file other than the graph; None without a file.
    fn file_facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &self.file)
    }

    /// Prepares the graph for execution. `kernels` maps operations to functions of arrays.
    #[pyo3(signature = (kernels, *, devices, fuse, threads))]
    fn plan(
        &self,
        py: Python<'_>,
        kernels: HashMap<String, Py<PyAny>>,
        devices: Computing,
        fuse: bool,
        threads: usize,
    ) -> PyResult<PyPlan> {
        let mut options = Options { fuse, ..Options::default() };
        options.fuse &= kernels.is_empty();
        let mut compute = devices.compute();
        if !kernels.is_empty() {
            let mut table = devices.table(py)?;
            kernels::add(kernels, &mut table).map_err(raised)?;
            compute = table.into();
        }
        let graph = self.graph();
        Ok(PyPlan::new(detached(py, || compute.serve(graph, options))?, threads))
    }

    /// Returns the steps of a run, with the cost of each if inputs are given.
    #[pyo3(signature = (inputs, *, devices, fuse, threads))]
    fn explain<'py>(
        &self,
        py: Python<'py>,
        inputs: Option<HashMap<String, Bound<'py, PyAny>>>,
        devices: Computing,
        fuse: bool,
        threads: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tensors = inputs.as_ref().map(tensors_of).transpose()?;
        let options = Options { fuse, ..Options::default() };
        let (graph, compute) = (self.graph(), devices.compute());
        let steps = py.detach(|| {
            let plan = compute.serve(graph, options)?.plan();
            let Some(tensors) = tensors else { return Ok(facts::steps(&plan.explain(), &[])) };
            let (_, costs) = plan.profile(&views(&tensors), &[], &Context::new(threads))?;
            Ok(facts::steps(&plan.explain(), &costs))
        });
        plain(py, &steps.map_err(|error: RunError| raised(error))?)
    }
}

fn tensors_of(inputs: &HashMap<String, Bound<'_, PyAny>>) -> PyResult<Vec<(String, Constant)>> {
    let named = |(name, array): (&String, &Bound<'_, PyAny>)| {
        Ok((name.clone(), tensor(&format!("input {name:?}"), array)?))
    };
    inputs.iter().map(named).collect()
}

fn views(tensors: &[(String, Constant)]) -> Vec<(&str, View<'_>)> {
    fn named((name, tensor): &(String, Constant)) -> (&str, View<'_>) {
        (name, View::new(tensor.dims(), tensor.elements()))
    }
    tensors.iter().map(named).collect()
}

fn input_type(name: &str, dtype: &str, shape: Vec<Length>) -> PyResult<TensorType> {
    let wrong = |problem: String| named("UnsupportedArgument", format!("input {name:?} {problem}"));
    let known = dtype.parse().ok().filter(|d| matches!(d, Dtype::F32 | Dtype::I64 | Dtype::Bool));
    let dtype =
        known.ok_or_else(|| wrong(format!("has dtype {dtype}; expected f32, i64 or bool")))?;
    let dim = |length| match length {
        Length::Number(number) if number < 0 => {
            Err(wrong(format!("has the negative length {number}")))
        }
        Length::Number(number) => Ok(Dim::from(number)),
        Length::Symbol(symbol) => Ok(Dim::symbol(&symbol)),
    };
    Ok(TensorType { dtype, shape: shape.into_iter().map(dim).collect::<PyResult<_>>()? })
}

impl From<Given> for Attribute {
    fn from(given: Given) -> Self {
        match given {
            Given::Int(number) => Self::Int(number),
            Given::Float(number) => Self::Float(number),
            Given::Ints(all) => Self::Ints(all),
            Given::Text(text) => Self::Text(text),
        }
    }
}
