//! Calling a Python progress function from a long call that has released the GIL.

use pyo3::prelude::*;

/// A progress function that may be absent, and the exception that it raised.
pub struct Callback {
    function: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Callback {
    pub fn new(function: Option<Py<PyAny>>) -> Self {
        Self { function, raised: None }
    }

    /// Reports `done` of `total`, and lets Python handle signals. False means stop.
    pub fn call(&mut self, done: u64, total: u64) -> bool {
        let result = Python::attach(|py| {
            py.check_signals()?;
            if let Some(function) = &self.function {
                function.call1(py, (done, total))?;
            }
            Ok(())
        });
        self.raised = result.err().or(self.raised.take());
        self.raised.is_none()
    }

    /// The same with the name of what is done.
    pub fn call_phase(&mut self, phase: &str, done: u64, total: u64) -> bool {
        let result = Python::attach(|py| {
            py.check_signals()?;
            if let Some(function) = &self.function {
                function.call1(py, (phase, done, total))?;
            }
            Ok(())
        });
        self.raised = result.err().or(self.raised.take());
        self.raised.is_none()
    }

    /// The exception that stopped the call, if one did.
    pub fn finish(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}
