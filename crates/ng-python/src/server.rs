//! `Server`: a server in this process; and the commands that serve and that load servers.

use std::sync::{Mutex, PoisonError};

use ng_server::{Config, Serving, serve};
use pyo3::prelude::*;

use crate::errors::named;

/// A server in this process; see `_core.pyi`. It handles requests without the GIL.
#[pyclass(frozen, module = "neargraph._core")]
pub struct Server {
    addresses: Vec<String>,
    side_address: String,
    serving: Mutex<Option<Serving>>,
}

#[pymethods]
impl Server {
    /// Starts a server. `config` is JSON with the names of the settings file.
    #[new]
    fn new(py: Python<'_>, config: &str) -> PyResult<Self> {
        let refused = |error: &dyn std::fmt::Display| named("ServeFailed", error.to_string());
        let config: Config = serde_json::from_str(config).map_err(|error| refused(&error))?;
        let serving = py.detach(|| serve(config)).map_err(|error| refused(&error))?;
        Ok(Self {
            addresses: serving.addresses().to_vec(),
            side_address: serving.side_address().to_owned(),
            serving: Mutex::new(Some(serving)),
        })
    }

    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    #[getter]
    fn side_address(&self) -> String {
        self.side_address.clone()
    }

    /// Rejects new requests, finishes those in progress, and waits for the threads.
    fn end(&self, py: Python<'_>) {
        py.detach(|| {
            let serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(serving) = serving {
                serving.end();
            }
        });
    }
}

/// Runs a server until a signal stops it. Returns the exit code. `probe` is the command that runs
/// trials of plug-ins.
#[pyfunction]
pub fn run_server(py: Python<'_>, args: Vec<String>, probe: Vec<String>) -> u8 {
    py.detach(|| ng_server::run_command(args, probe))
}

/// Runs a load test against a server. Returns the exit code.
#[pyfunction]
pub fn run_load(py: Python<'_>, args: Vec<String>) -> u8 {
    py.detach(|| ng_client::load::run_command(args))
}
