//! NumPy arrays over Rust memory, without copies. An array keeps its memory, and the budget
//! reservation that covers it, until Python drops it.

use std::any::Any;
use std::sync::Arc;

use ng_sample::Buffer;
use ng_types::{Dtype, Reservation};
use numpy::ndarray::ArrayView1;
use numpy::{
    Element, PyArray1, PyArrayMethods, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;

/// What an array lends its bytes from.
#[pyclass(frozen, module = "neargraph._core")]
struct ArrayOwner {
    _data: Box<dyn Any + Send + Sync>,
    _held: Option<Arc<Reservation>>,
}

/// Hands `data` to NumPy as a one-dimensional array.
pub fn owned<T: Element + Send + Sync + 'static>(
    py: Python<'_>,
    data: Vec<T>,
    held: Option<Arc<Reservation>>,
) -> PyResult<Bound<'_, PyArray1<T>>> {
    let view: *const [T] = data.as_slice();
    // SAFETY: the slice is the heap memory of the vector, which does not move with the vector.
    unsafe { lend(py, view, Box::new(data), held) }
}

/// An array over `view`, which lies inside `data`.
///
/// # Safety
/// The elements stay where they are as long as `data` lives, wherever the box goes, and nothing
/// else reaches them.
unsafe fn lend<T: Element>(
    py: Python<'_>,
    view: *const [T],
    data: Box<dyn Any + Send + Sync>,
    held: Option<Arc<Reservation>>,
) -> PyResult<Bound<'_, PyArray1<T>>> {
    let owner = Bound::new(py, ArrayOwner { _data: data, _held: held })?.into_any();
    // SAFETY: the caller promises that the elements stay; the array keeps `owner` alive.
    Ok(unsafe { PyArray1::borrow_from_array(&ArrayView1::from(&*view), owner) })
}

/// Hands the bytes of rows to NumPy as `[rows, *shape]` of `dtype` (bf16 as uint16).
pub fn owned_rows<'py>(
    py: Python<'py>,
    bytes: Buffer,
    held: Option<Arc<Reservation>>,
    dtype: Dtype,
    shape: &[u64],
) -> PyResult<Bound<'py, PyAny>> {
    let row_bytes = shape.iter().product::<u64>() as usize * dtype.size_bytes();
    let rows = bytes.as_slice().len().checked_div(row_bytes).unwrap_or(0);
    let mut full: Vec<u64> = vec![rows as u64];
    full.extend_from_slice(shape);
    let view: *const [u8] = bytes.as_slice();
    // SAFETY: the slice is a mapping, which does not move with the region that owns it.
    let flat = unsafe { lend(py, view, Box::new(bytes), held) }?.into_any();
    flat.call_method1("view", (numpy_name(dtype),))?.call_method1("reshape", (full,))
}

/// Hands two rows of equal length to NumPy as `[2, n]`.
pub fn stacked(
    py: Python<'_>,
    mut first: Vec<i64>,
    second: Vec<i64>,
    held: Option<Arc<Reservation>>,
) -> PyResult<Bound<'_, PyAny>> {
    let len = first.len();
    first.extend(second);
    owned(py, first, held)?.into_any().call_method1("reshape", ((2, len),))
}

fn numpy_name(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F16 => "<f2",
        Dtype::Bf16 => "<u2",
        Dtype::F32 => "<f4",
        Dtype::F64 => "<f8",
        Dtype::I8 => "|i1",
        Dtype::U8 => "|u1",
        Dtype::I16 => "<i2",
        Dtype::I32 => "<i4",
        Dtype::I64 => "<i8",
        Dtype::Bool => "|b1",
    }
}

/// The bytes of a C-contiguous array, lent.
pub fn bytes_of<'py>(array: &Bound<'py, PyUntypedArray>) -> PyResult<PyReadonlyArray1<'py, u8>> {
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("rows must be C-contiguous"));
    }
    let bytes = array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",))?;
    Ok(bytes.cast_into::<PyArray1<u8>>()?.readonly())
}

/// A dtype by its name; None stays None.
pub fn dtype(name: Option<&str>) -> PyResult<Option<Dtype>> {
    name.map(str::parse)
        .transpose()
        .map_err(|error: String| errors::named("UnsupportedArgument", error))
}

/// Ids, or other counts: unsigned in the engine, int64 in NumPy.
pub struct Ids(pub Vec<u64>);

impl<'py> FromPyObject<'_, 'py> for Ids {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let array: PyReadonlyArray1<'py, i64> = object.extract()?;
        let view = array.as_array();
        if let Some(negative) = view.iter().find(|id| **id < 0) {
            let message = format!("node or edge id {negative} is negative; ids start at 0");
            return Err(errors::named("NodeOutOfRange", message));
        }
        Ok(Self(view.iter().map(|id| *id as u64).collect()))
    }
}

impl<'py> IntoPyObject<'py> for Ids {
    type Target = PyArray1<i64>;
    type Output = Bound<'py, Self::Target>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        owned(py, self.0.into_iter().map(|id| id as i64).collect(), None)
    }
}

/// Why weights that are kept narrow do not come out of a graph.
pub fn narrow() -> PyErr {
    let message =
        "a tensor of a narrow type (such as f16 or i8) cannot be returned as an array; cast the \
         tensor in the graph"
            .to_owned();
    crate::errors::named("UnsupportedModel", message)
}
