//! What computes, as callers of Python say it: names, a table of devices, or another program.

use ng_infer::run::{Compute, Devices as Table};
use pyo3::prelude::*;

use crate::errors::named;
use crate::onnxruntime::OnnxRuntime;
use crate::plugins::Devices;

/// What computes.
#[derive(FromPyObject)]
pub enum Computing {
    /// Names of devices, the preferred one first.
    Names(Vec<String>),
    /// A table that may change.
    Devices(Py<Devices>),
    /// A program that has the model.
    Model(Py<OnnxRuntime>),
}

impl Computing {
    /// For graphs that are served.
    pub fn compute(&self) -> Compute {
        match self {
            Self::Names(names) => preferring(names).into(),
            Self::Devices(devices) => Compute::Devices(devices.get().shared()),
            Self::Model(model) => Compute::Model(model.get().whole_model()),
        }
    }

    /// The table as it is now.
    pub fn table(&self, py: Python<'_>) -> PyResult<Table> {
        match self {
            Self::Names(names) => Ok(preferring(names)),
            Self::Devices(devices) => {
                let devices = devices.get();
                // Somebody may be changing it.
                Ok(py.detach(|| devices.table()))
            }
            Self::Model(_) => {
                let problem = "onnxruntime runs whole models, so it has no table of kernels";
                Err(named("UnsupportedArgument", problem.to_owned()))
            }
        }
    }
}

/// The devices that are named, the first one preferred.
fn preferring(names: &[String]) -> Table {
    let has_cpu = names.iter().any(|name| name == "cpu");
    let mut devices = if has_cpu { Table::with_cpu() } else { Table::default() };
    for (priority, name) in (1..).zip(names.iter().rev()) {
        devices.register_device(name, priority);
    }
    devices
}
