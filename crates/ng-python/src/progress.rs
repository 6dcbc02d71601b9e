//! Calling a Python progress function, or the handlers of signals alone, from a long call that has
//! released the GIL.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// Handlers of signals are called this often; each time may mean waiting for the GIL.
const PAUSE: Duration = Duration::from_millis(50);

thread_local! {
    static ASKED: Cell<Option<Instant>> = const { Cell::new(None) };
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Lets Python handle signals. False means stop: one of them has raised an exception, such as
/// `KeyboardInterrupt`.
pub fn go_on() -> bool {
    if ASKED.get().is_some_and(|asked| asked.elapsed() < PAUSE) {
        return true;
    }
    ASKED.set(Some(Instant::now()));
    let raised = Python::attach(|py| py.check_signals()).err();
    let goes_on = raised.is_none();
    RAISED.set(raised);
    goes_on
}

/// The exception that made [`go_on`] stop the call on this thread, if one did, else `error`.
pub fn raised_or(error: PyErr) -> PyErr {
    RAISED.take().unwrap_or(error)
}

/// A progress function that may be absent, and the exception that it raised.
pub struct Callback {
    function: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

/// Does `work` without the interpreter; it reports to `function`. Gives what the work gave, or the
/// exception that stopped it.
pub fn reporting<T: Send, E: Send>(
    py: Python<'_>,
    function: Option<Py<PyAny>>,
    raised: impl FnOnce(E) -> PyErr,
    work: impl FnOnce(&mut Callback) -> Result<T, E> + Send,
) -> PyResult<T> {
    let mut callback = Callback { function, raised: None };
    let given = py.detach(|| work(&mut callback));
    callback.raised.map_or_else(|| given.map_err(|error| raised_or(raised(error))), Err)
}

impl Callback {
    /// Reports (done, total), or the name of what is done before them, and lets Python handle
    /// signals. False means stop.
    pub fn call<A: for<'py> PyCallArgs<'py>>(&mut self, report: A) -> bool {
        let result = Python::attach(|py| {
            py.check_signals()?;
            if let Some(function) = &self.function {
                function.call1(py, report)?;
            }
            Ok(())
        });
        self.raised = result.err().or(self.raised.take());
        self.raised.is_none()
    }
}
