//! Rows that come from Python, for a tensor that a store gets.

use ng_store::{NewTensor, TensorSpec, UpdateError};
use ng_types::{Dtype, NodeTypeId};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors;
use crate::progress::raised_or;

/// What ended the work: an error of the store, or what the function raised that gives the rows.
enum Failure {
    Store(UpdateError),
    Raised(PyErr),
}

impl From<UpdateError> for Failure {
    fn from(error: UpdateError) -> Self {
        Self::Store(error)
    }
}

/// What the tensor is; `dtype` by its name in catalogs.
pub fn described(
    node_type: u16,
    name: String,
    dtype: &str,
    shape: Vec<u64>,
    num_rows: u64,
    lsn: Option<u64>,
) -> PyResult<NewTensor> {
    let dtype: Dtype = dtype.parse().map_err(PyValueError::new_err)?;
    let spec = TensorSpec { name, dtype, shape, mask_width: None };
    Ok(NewTensor { node_type: NodeTypeId(node_type), spec, num_rows, lsn })
}

/// Adds the tensor; `rows` gives the bytes of some rows at each call, then None. The commit.
pub fn add(
    py: Python<'_>,
    store: &ng_store::Store,
    new: &NewTensor,
    rows: &Py<PyAny>,
) -> PyResult<u64> {
    let mut next = |out: &mut Vec<u8>| {
        let given = Python::attach(|py| {
            py.check_signals()?;
            let part = rows.call0(py)?;
            if part.is_none(py) {
                return Ok(());
            }
            let part: PyReadonlyArray1<'_, u8> = part.extract(py)?;
            out.extend_from_slice(part.as_slice()?);
            Ok(())
        });
        given.map_err(Failure::Raised)
    };
    let done = py.detach(|| store.add_tensor(new, &mut next));
    done.map(|report| report.lsn).map_err(|failure| match failure {
        Failure::Raised(error) => error,
        Failure::Store(error) => raised_or(errors::raised(error)),
    })
}
