//! From Rust errors to the classes of `neargraph.exceptions`, in this one file.
//!
//! What must not live here: the words of remedies, which are those of `neargraph.remedies`.

use ng_import::ImportError;
use ng_types::{ErrorKind, Explain};
use pyo3::prelude::*;
use pyo3::types::PyType;
use serde::Serialize;

/// An instance of a class of `neargraph.exceptions`.
pub fn named(class: &str, message: String) -> PyErr {
    Python::attach(|py| {
        let found = py
            .import("neargraph.exceptions")
            .and_then(|module| module.getattr(class))
            .and_then(|class| Ok(class.cast_into::<PyType>()?));
        match found {
            Ok(class) => PyErr::from_type(class, (message,)),
            Err(error) => error,
        }
    })
}

/// Formats a number of bytes for messages. With `up`, it is rounded up.
#[pyfunction]
pub fn format_bytes(count: u64, up: bool) -> String {
    if up { ng_types::format_bytes_up(count) } else { ng_types::format_bytes(count) }
}

pub fn closed() -> PyErr {
    named("StoreClosed", "the store is closed; open it again with neargraph.open".into())
}

/// The exception of an error, with what to do about it: its class has the name of its kind, if
/// that is one which callers tell apart.
pub fn raised(error: impl Explain) -> PyErr {
    let (kind, remedies) = error.explain();
    let raised = match kind {
        ErrorKind::Stopped | ErrorKind::Defect => named("NeargraphError", error.to_string()),
        kind => named(&format!("{kind:?}"), error.to_string()),
    };
    carrying(raised, "remedies", &remedies)
}

/// Does `work` without the interpreter; its error is raised.
pub fn detached<T: Send, E: Explain + Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(raised)
}

/// As [`raised`], with the notes of an import that was strict.
pub fn import(error: ImportError) -> PyErr {
    let ImportError::Strict { notes } = &error else { return raised(error) };
    carrying(named("ImportFailed", error.to_string()), "notes", notes)
}

/// The exception with an attribute more. Without it the exception is still the right one.
fn carrying(raised: PyErr, name: &str, value: &impl Serialize) -> PyErr {
    let _ = Python::attach(|py| raised.value(py).setattr(name, plain(py, value)?));
    raised
}

/// A value as JSON.
pub fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| named("NeargraphError", error.to_string()))
}

/// A value as dictionaries and lists of Python.
pub fn plain<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json(value)?,))
}
