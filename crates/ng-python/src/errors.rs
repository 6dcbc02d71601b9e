//! From Rust errors to the classes of `neargraph.exceptions`, in this one file.

use ng_import::ImportError;
use ng_sample::SampleError;
use ng_store::{OpenError, ReadError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// An instance of a class of `neargraph.exceptions`.
pub fn named(class: &str, message: String) -> PyErr {
    Python::attach(|py| {
        let found = py
            .import("neargraph.exceptions")
            .and_then(|module| module.getattr(class))
            .and_then(|class| Ok(class.cast_into::<PyType>()?));
        match found {
            Ok(class) => PyErr::from_type(class, message),
            Err(error) => error,
        }
    })
}

pub fn node_out_of_range(message: String) -> PyErr {
    named("NodeOutOfRange", message)
}

pub fn closed() -> PyErr {
    named("StoreClosed", "the store is closed; open it again with neargraph.open".into())
}

pub fn open(error: &OpenError) -> PyErr {
    let class = match error {
        OpenError::NotFound { .. } => "StoreNotFound",
        OpenError::NotAStore { .. } | OpenError::NotADirectory { .. } => "NotAStore",
        OpenError::NewerVersion { .. } => "NewerVersion",
        OpenError::BudgetTooSmall { .. } => "BudgetTooSmall",
        OpenError::Backend { .. } => "IoFailed",
        OpenError::Read(error) => return read(error),
        _ => "StoreDamaged",
    };
    named(class, error.to_string())
}

pub fn read(error: &ReadError) -> PyErr {
    let class = match error {
        ReadError::NodeOutOfRange { .. } | ReadError::RowOutOfRange { .. } => "NodeOutOfRange",
        ReadError::Damaged { .. } | ReadError::Checksum { .. } => "StoreDamaged",
        ReadError::Budget(_) => "BudgetTooSmall",
        ReadError::Missing { .. } => "NameNotFound",
        ReadError::Io(_) => "IoFailed",
        _ => "NeargraphError",
    };
    named(class, error.to_string())
}

pub fn sample(error: &SampleError) -> PyErr {
    match error {
        SampleError::Read(error) => read(error),
        SampleError::Budget { .. } => named("BudgetTooSmall", error.to_string()),
        SampleError::NoMemory { .. } => named("IoFailed", error.to_string()),
        SampleError::Spec(message) => named("UnsupportedArgument", message.clone()),
        _ => named("NeargraphError", error.to_string()),
    }
}

pub fn import(error: &ImportError) -> PyErr {
    let class = match error {
        ImportError::BudgetTooSmall { .. } => "BudgetTooSmall",
        ImportError::DiskFull { .. } | ImportError::Io { .. } => "IoFailed",
        _ => "ImportFailed",
    };
    named(class, error.to_string())
}
