//! `Importer`: hands arrays, strings and files to `ng-import`.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use ng_import::{
    Column, CsrChunk, EdgeTypeSpec, IdSlice, ImportError, ImportOptions, Note, NpyLayout, Progress,
    SelfLoops, TensorId, TextOptions,
};
use ng_store::SparseValue;
use ng_types::{EdgeTypeId, NodeTypeId};
use numpy::{PyReadonlyArray1, PyUntypedArray};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::arrays;
use crate::errors;
use crate::lock::locked;
use crate::progress::reporting;
use crate::snapshot::owner;

/// Builds a store; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Importer {
    inner: Mutex<Option<ng_import::Importer>>,
}

/// An integer array of any type that ids come in, borrowed from NumPy.
#[derive(FromPyObject)]
enum Ids<'py> {
    I64(PyReadonlyArray1<'py, i64>),
    I32(PyReadonlyArray1<'py, i32>),
    U32(PyReadonlyArray1<'py, u32>),
    U64(PyReadonlyArray1<'py, u64>),
}

impl<'py> Ids<'py> {
    fn new(name: &str, array: &Bound<'py, PyAny>) -> PyResult<Self> {
        array.extract().map_err(|_| {
            PyTypeError::new_err(format!(
                "{name} must be a one-dimensional NumPy array of int32, int64, uint32 or uint64"
            ))
        })
    }

    fn slice(&self) -> PyResult<IdSlice<'_>> {
        let strided = |_| PyValueError::new_err("id arrays must be contiguous");
        Ok(match self {
            Self::I32(array) => IdSlice::I32(array.as_slice().map_err(strided)?),
            Self::I64(array) => IdSlice::I64(array.as_slice().map_err(strided)?),
            Self::U32(array) => IdSlice::U32(array.as_slice().map_err(strided)?),
            Self::U64(array) => IdSlice::U64(array.as_slice().map_err(strided)?),
        })
    }
}

impl Importer {
    fn with<T>(
        &self,
        work: impl FnOnce(&mut ng_import::Importer) -> Result<T, ImportError>,
    ) -> PyResult<T> {
        let done = locked(&self.inner).as_mut().map(work);
        done.ok_or_else(ended)?.map_err(errors::import)
    }
}

fn ended() -> PyErr {
    errors::named("ImportFailed", "this import has ended; start a new one".into())
}

#[pymethods]
impl Importer {
    #[new]
    #[pyo3(signature = (
        out, memory=None, threads=None, page_bytes=4096, fill=0.9, overwrite=false, reuse_ids=false,
        strict=false
    ))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)]
    fn new(
        out: String,
        memory: Option<u64>,
        threads: Option<usize>,
        page_bytes: usize,
        fill: f64,
        overwrite: bool,
        reuse_ids: bool,
        strict: bool,
    ) -> PyResult<Self> {
        let options = ImportOptions {
            memory,
            threads,
            page_bytes,
            fill,
            overwrite,
            reuse_ids,
            strict,
            ..Default::default()
        };
        let inner = ng_import::Importer::new(Path::new(&out), options).map_err(errors::import)?;
        Ok(Self { inner: Mutex::new(Some(inner)) })
    }

    /// Adds a node type whose nodes are the integers that occur in edges, in ascending order.
    fn relabelled_node_type(&self, name: &str) -> PyResult<u16> {
        self.with(|inner| Ok(inner.relabelled_node_type(name)?.0))
    }

    /// Appends nodes with these names to a type. All names must come before the first edge.
    fn push_keys(&self, py: Python<'_>, node_type: u16, keys: Vec<String>) -> PyResult<()> {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        py.detach(|| self.with(|inner| inner.push_keys(NodeTypeId(node_type), &keys)))
    }

    /// Adds a note to the notes of the report.
    fn add_note(
        &self,
        code: String,
        count: u64,
        place: String,
        message: String,
        requested: bool,
    ) -> PyResult<()> {
        let note = Note { code, count, place, message, remedy: None, requested };
        self.with(|inner| {
            inner.add_note(note);
            Ok(())
        })
    }

    #[pyo3(signature = (name, num_nodes=None, strings=false))]
    fn node_type(&self, name: &str, num_nodes: Option<u64>, strings: bool) -> PyResult<u16> {
        self.with(|inner| Ok(inner.node_type(name, num_nodes, strings)?.0))
    }

    #[pyo3(signature = (
        source, relation, destination, undirected=false, unique=false, self_loops="keep",
        reverse=false, edge_ids=false, time=false, weight=false
    ))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)]
    fn edge_type(
        &self,
        source: String,
        relation: String,
        destination: String,
        undirected: bool,
        unique: bool,
        self_loops: &str,
        reverse: bool,
        edge_ids: bool,
        time: bool,
        weight: bool,
    ) -> PyResult<u16> {
        let self_loops = match self_loops {
            "keep" => SelfLoops::Keep,
            "remove" => SelfLoops::Remove,
            "add" => SelfLoops::Add,
            other => {
                let message =
                    format!("self_loops must be \"keep\", \"remove\" or \"add\", got {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        let spec = EdgeTypeSpec {
            source,
            relation,
            destination,
            undirected,
            unique,
            self_loops,
            reverse,
            edge_ids,
            time,
            weight,
        };
        self.with(|inner| Ok(inner.edge_type(spec)?.0))
    }

    #[pyo3(signature = (et, sources, destinations, edge_ids=None, times=None, weights=None))]
    #[allow(clippy::too_many_arguments)]
    fn push_edges<'py>(
        &self,
        py: Python<'py>,
        et: u16,
        sources: &Bound<'py, PyAny>,
        destinations: &Bound<'py, PyAny>,
        edge_ids: Option<&Bound<'py, PyAny>>,
        times: Option<PyReadonlyArray1<'py, i64>>,
        weights: Option<PyReadonlyArray1<'py, f32>>,
    ) -> PyResult<()> {
        let sources = Ids::new("sources", sources)?;
        let destinations = Ids::new("destinations", destinations)?;
        let edge_ids = edge_ids.map(|ids| Ids::new("edge_ids", ids)).transpose()?;
        let (sources, destinations) = (sources.slice()?, destinations.slice()?);
        let edge_ids = edge_ids.as_ref().map(Ids::slice).transpose()?;
        let times = times.as_ref().map(|t| t.as_slice()).transpose()?;
        let weights = weights.as_ref().map(|w| w.as_slice()).transpose()?;
        py.detach(|| {
            self.with(|inner| {
                inner.push_edges(EdgeTypeId(et), sources, destinations, edge_ids, times, weights)
            })
        })
    }

    #[pyo3(signature = (et, sources, destinations, times=None, weights=None))]
    fn push_string_edges<'py>(
        &self,
        py: Python<'py>,
        et: u16,
        sources: Vec<String>,
        destinations: Vec<String>,
        times: Option<PyReadonlyArray1<'py, i64>>,
        weights: Option<PyReadonlyArray1<'py, f32>>,
    ) -> PyResult<()> {
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        let destinations: Vec<&str> = destinations.iter().map(String::as_str).collect();
        let times = times.as_ref().map(|t| t.as_slice()).transpose()?;
        let weights = weights.as_ref().map(|w| w.as_slice()).transpose()?;
        py.detach(|| {
            self.with(|inner| {
                inner.push_string_edges(EdgeTypeId(et), &sources, &destinations, times, weights)
            })
        })
    }

    #[pyo3(signature = (et, text, progress=None))]
    fn read_text(
        &self,
        py: Python<'_>,
        et: u16,
        text: Text,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let (path, options) = text.options()?;
        reporting(py, progress, PyErr::from, |callback| {
            let mut report = |p: Progress| callback.call((p.done, p.total));
            self.with(|inner| inner.read_text(EdgeTypeId(et), &path, &options, &mut report))
        })
    }

    /// Returns the first edges of a text file, as `read_text` would read them.
    fn preview_text<'py>(
        &self,
        py: Python<'py>,
        et: u16,
        text: Text,
        rows: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (path, options) = text.options()?;
        let preview =
            || self.with(|inner| inner.preview_text(EdgeTypeId(et), &path, &options, rows));
        errors::plain(py, &py.detach(preview)?)
    }

    /// Reads edges from an npy file. `layout` is `pairs` for `[E, 2]` and `rows` for `[2, E]`. None
    /// chooses by the shape.
    #[pyo3(signature = (et, path, layout=None, progress=None))]
    fn read_npy(
        &self,
        py: Python<'_>,
        et: u16,
        path: String,
        layout: Option<&str>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<u64> {
        let layout = match layout {
            None => None,
            Some("pairs") => Some(NpyLayout::Pairs),
            Some("rows") => Some(NpyLayout::TwoRows),
            Some(other) => {
                let message = format!("layout must be \"pairs\" or \"rows\", got {other:?}");
                return Err(PyValueError::new_err(message));
            }
        };
        reporting(py, progress, PyErr::from, |callback| {
            let mut report = |p: Progress| callback.call((p.done, p.total));
            self.with(|inner| inner.read_npy(EdgeTypeId(et), Path::new(&path), layout, &mut report))
        })
    }

    #[pyo3(signature = (kind, type_id, name, dtype, shape, mask_width=None))]
    fn begin_tensor(
        &self,
        kind: &str,
        type_id: u16,
        name: &str,
        dtype: &str,
        shape: Vec<u64>,
        mask_width: Option<u32>,
    ) -> PyResult<usize> {
        let dtype = dtype.parse().map_err(|error| errors::named("ImportFailed", error))?;
        let owner = owner(kind, type_id)?;
        self.with(|inner| Ok(inner.begin_tensor(owner, name, dtype, &shape, mask_width)?.0))
    }

    /// Begins a tensor of classes. Its rows are i64: indexes into `class_names`, or -1.
    fn begin_class_tensor(
        &self,
        kind: &str,
        type_id: u16,
        name: &str,
        class_names: Vec<String>,
    ) -> PyResult<usize> {
        let owner = owner(kind, type_id)?;
        self.with(|inner| Ok(inner.begin_class_tensor(owner, name, class_names)?.0))
    }

    /// Begins a tensor whose rows are given as f32 and stored as `dtype`.
    fn begin_narrow_tensor(
        &self,
        kind: &str,
        type_id: u16,
        name: &str,
        dtype: &str,
        shape: Vec<u64>,
    ) -> PyResult<usize> {
        let dtype = dtype.parse().map_err(|error| errors::named("ImportFailed", error))?;
        let owner = owner(kind, type_id)?;
        self.with(|inner| Ok(inner.begin_narrow_tensor(owner, name, dtype, &shape)?.0))
    }

    /// Begins a sparse tensor. Its rows are given as f32, dense or as CSR, and stored without
    /// zeros. `value` is `SparseProbe.value`.
    fn begin_sparse_tensor(
        &self,
        kind: &str,
        type_id: u16,
        name: &str,
        shape: Vec<u64>,
        value: &str,
    ) -> PyResult<usize> {
        let owner = owner(kind, type_id)?;
        let known = SparseValue::ALL.into_iter().find(|known| known.name() == value);
        let value = known.ok_or_else(|| {
            let all = SparseValue::ALL.map(SparseValue::name).join(", ");
            let message =
                format!("{value:?} is not a valid kind of sparse values: expected one of {all}");
            PyValueError::new_err(message)
        })?;
        self.with(|inner| Ok(inner.begin_sparse_tensor(owner, name, &shape, value)?.0))
    }

    #[pyo3(signature = (tensor, indptr, columns, values=None))]
    fn push_csr_rows<'py>(
        &self,
        py: Python<'py>,
        tensor: usize,
        indptr: PyReadonlyArray1<'py, i64>,
        columns: &Bound<'py, PyAny>,
        values: Option<PyReadonlyArray1<'py, f32>>,
    ) -> PyResult<()> {
        let columns = Ids::new("columns", columns)?;
        let values = values.as_ref().map(|v| v.as_slice()).transpose()?;
        let chunk = CsrChunk { indptr: indptr.as_slice()?, columns: columns.slice()?, values };
        py.detach(|| self.with(|inner| inner.push_csr_rows(TensorId(tensor), chunk)))
    }

    /// Finds the largest magnitude of each column of an i8 tensor, in a first pass over its rows of
    /// f32, C-contiguous.
    fn measure_rows(
        &self,
        py: Python<'_>,
        tensor: usize,
        array: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let bytes = arrays::bytes_of(array)?;
        let bytes = bytes.as_slice()?;
        py.detach(|| self.with(|inner| inner.measure_rows(TensorId(tensor), bytes)))
    }

    /// Appends rows, C-contiguous. Their bytes must have the format that the tensor expects.
    fn push_rows(
        &self,
        py: Python<'_>,
        tensor: usize,
        array: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let bytes = arrays::bytes_of(array)?;
        let bytes = bytes.as_slice()?;
        py.detach(|| self.with(|inner| inner.push_rows(TensorId(tensor), bytes)))
    }

    fn build_topology(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.with(ng_import::Importer::build_topology))
    }

    /// Waits until the topology is written and the temporary files of its sort are deleted.
    #[pyo3(signature = (progress=None))]
    fn wait_for_topology(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        reporting(py, progress, PyErr::from, |callback| {
            self.with(|inner| inner.wait_for_topology(&mut |p| callback.call((p.done, p.total))))
        })
    }

    fn estimate(&self, edges: u64) -> PyResult<String> {
        errors::json(&self.with(|inner| inner.estimate(edges, 0))?)
    }

    /// Returns the number of nodes of a type; None while it depends on edges not yet read.
    fn num_nodes(&self, type_id: u16) -> PyResult<Option<u64>> {
        self.with(|inner| Ok(inner.num_nodes(NodeTypeId(type_id))))
    }

    #[pyo3(signature = (progress=None))]
    fn finish(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<String> {
        let inner = locked(&self.inner).take().ok_or_else(ended)?;
        let report = reporting(py, progress, errors::import, |callback| {
            inner.finish(&mut |p| callback.call((p.done, p.total)))
        })?;
        errors::json(&report)
    }

    /// Cancels the import, and deletes its files.
    fn abort(&self, py: Python<'_>) {
        let inner = locked(&self.inner).take();
        py.detach(|| drop(inner));
    }
}

/// A first pass over rows of f32; see `_core.pyi`.
#[pyclass(frozen, module = "neargraph._core")]
pub struct SparseProbe {
    inner: Mutex<ng_import::SparseProbe>,
}

#[pymethods]
impl SparseProbe {
    #[new]
    fn new(columns: u64) -> Self {
        Self { inner: Mutex::new(ng_import::SparseProbe::new(columns)) }
    }

    fn add_dense(&self, py: Python<'_>, array: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
        let bytes = arrays::bytes_of(array)?;
        let bytes = bytes.as_slice()?;
        py.detach(|| locked(&self.inner).add_dense(bytes));
        Ok(())
    }

    #[pyo3(signature = (indptr, columns, values=None))]
    fn add_csr<'py>(
        &self,
        py: Python<'py>,
        indptr: PyReadonlyArray1<'py, i64>,
        columns: &Bound<'py, PyAny>,
        values: Option<PyReadonlyArray1<'py, f32>>,
    ) -> PyResult<()> {
        let columns = Ids::new("columns", columns)?;
        let values = values.as_ref().map(|v| v.as_slice()).transpose()?;
        let chunk = CsrChunk { indptr: indptr.as_slice()?, columns: columns.slice()?, values };
        py.detach(|| locked(&self.inner).add_csr(chunk)).map_err(errors::import)
    }

    /// Returns whether storing the rows sparse saves space, or still may, if there are `rows` rows.
    fn pays(&self, rows: u64) -> bool {
        locked(&self.inner).pays(rows)
    }

    #[getter]
    fn value(&self) -> &'static str {
        locked(&self.inner).value().name()
    }
}

/// A text file and where its columns are: a dictionary with exactly these keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Text {
    path: PathBuf,
    shown: Option<PathBuf>,
    delimiter: String,
    comment: Option<String>,
    header: bool,
    source_column: usize,
    destination_column: usize,
    time_column: Option<usize>,
    weight_column: Option<usize>,
    time_scale: Option<f64>,
}

impl Text {
    fn options(self) -> PyResult<(PathBuf, TextOptions)> {
        let options = TextOptions {
            delimiter: Some(one_byte(&self.delimiter)?),
            comment: self.comment,
            header: self.header,
            source_column: Column::Index(self.source_column),
            destination_column: Column::Index(self.destination_column),
            time_column: self.time_column.map(Column::Index),
            weight_column: self.weight_column.map(Column::Index),
            time_scale: self.time_scale,
            shown: self.shown,
            ..TextOptions::default()
        };
        Ok((self.path, options))
    }
}

fn one_byte(delimiter: &str) -> PyResult<u8> {
    match delimiter.as_bytes() {
        [byte] => Ok(*byte),
        _ => Err(PyValueError::new_err(format!(
            "the delimiter must be one ASCII character, got {delimiter:?}"
        ))),
    }
}
