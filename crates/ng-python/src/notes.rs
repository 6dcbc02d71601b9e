//! What the user of a loader should hear: warnings, and lines of the log.
//!
//! What must not live here: the words about decisions, which are those of `neargraph.loader.notes`.

use ng_sample::{Decided, Note};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors;
use crate::loader::chosen_dict;

/// Has Python hear a note.
pub fn tell(py: Python<'_>, note: Note) -> PyResult<()> {
    match note {
        Note::NotReplayed(error) => {
            warn(py, &format!("{error}; batches are sampled instead of replayed"))
        }
        Note::NotAhead(error) => {
            let advice = errors::raised(error).value(py).str()?;
            let what = "rows are read batch by batch, without look-ahead, so more bytes are read \
                        from the disk";
            warn(py, &format!("{what}: {advice}"))
        }
        Note::Decided(decided) => {
            let module = py.import("neargraph.loader.notes")?;
            module.call_method1("log_decision", (decided_dict(py, &decided)?,)).map(drop)
        }
    }
}

fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = std::ffi::CString::new(text).map_err(PyErr::from)?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 3)
}

fn decided_dict<'py>(py: Python<'py>, decided: &Decided) -> PyResult<Bound<'py, PyDict>> {
    let others = PyList::empty(py);
    for other in &decided.others {
        others.append(chosen_dict(py, other)?)?;
    }
    let before = decided.before.as_ref().map(|before| chosen_dict(py, before)).transpose()?;
    let dict = PyDict::new(py);
    dict.set_item("chosen", chosen_dict(py, &decided.chosen)?)?;
    dict.set_item("before", before)?;
    dict.set_item("others", others)?;
    dict.set_item("reading_s", decided.measured.reading)?;
    dict.set_item("sampling_s", decided.measured.sampling)?;
    dict.set_item("consumer_s", decided.measured.consumer)?;
    if let Some(writes) = &decided.writes {
        dict.set_item("epoch_write_bytes", writes.epoch_bytes)?;
        dict.set_item("write_directory", writes.directory.display().to_string())?;
        dict.set_item("is_asked", writes.is_asked)?;
    }
    Ok(dict)
}
