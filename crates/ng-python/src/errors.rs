//! From Rust errors to the classes of `neargraph.exceptions`, in this one file.

use ng_import::ImportError;
use ng_sample::{CompiledError, ReorganizeError, SampleError};
use ng_store::{DirectError, OpenError, ReadError, UpdateError};
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
    named(open_class(error), error.to_string())
}

fn open_class(error: &OpenError) -> &'static str {
    match error {
        OpenError::NotFound { .. } => "StoreNotFound",
        OpenError::NotAStore { .. } | OpenError::NotADirectory { .. } => "NotAStore",
        OpenError::NewerVersion { .. } => "NewerVersion",
        OpenError::BudgetTooSmall { .. } | OpenError::CommitsTooLarge { .. } => "BudgetTooSmall",
        OpenError::Backend { .. } => "IoFailed",
        OpenError::Read(error) => read_class(error),
        OpenError::Recovery { source, .. } => update_class(source),
        _ => "StoreDamaged",
    }
}

pub fn read(error: &ReadError) -> PyErr {
    named(read_class(error), error.to_string())
}

fn read_class(error: &ReadError) -> &'static str {
    match error {
        ReadError::NodeOutOfRange { .. } | ReadError::RowOutOfRange { .. } => "NodeOutOfRange",
        ReadError::Damaged { .. } | ReadError::Checksum { .. } => "StoreDamaged",
        ReadError::Budget(_) => "BudgetTooSmall",
        ReadError::Missing { .. } => "NameNotFound",
        ReadError::Decode { .. } | ReadError::Order { .. } => "UnsupportedArgument",
        ReadError::Io(_) => "IoFailed",
        _ => "NeargraphError",
    }
}

pub fn update(error: &UpdateError) -> PyErr {
    named(update_class(error), error.to_string())
}

fn update_class(error: &UpdateError) -> &'static str {
    match error {
        UpdateError::Busy { .. } => "StoreBusy",
        UpdateError::NodeNotFound { .. } => "NodeNotFound",
        UpdateError::EdgeNotFound { .. } => "EdgeNotFound",
        UpdateError::ReverseMissing { .. } => "ReverseMissing",
        UpdateError::RowWidth { .. } => "RowWidth",
        UpdateError::Unsupported { .. } => "UnsupportedArgument",
        UpdateError::Broken { .. } => "BatchEnded",
        UpdateError::Poisoned { .. } => "StorePoisoned",
        UpdateError::LogDamaged { .. } => "LogDamaged",
        UpdateError::Open(error) => open_class(error),
        UpdateError::Read(error) => read_class(error),
        UpdateError::Write(_) | UpdateError::Build(_) => "IoFailed",
        _ => "NeargraphError",
    }
}

pub fn sample(error: &SampleError) -> PyErr {
    match error {
        SampleError::Read(error) => read(error),
        SampleError::Budget { .. } | SampleError::TooSmallToLookAhead { .. } => {
            named("BudgetTooSmall", error.to_string())
        }
        SampleError::Compiled(error) => compiled(error),
        SampleError::Direct(error) => direct(error),
        SampleError::NoMemory { .. } | SampleError::Spill(_) => {
            named("IoFailed", error.to_string())
        }
        SampleError::Spec(message) => named("UnsupportedArgument", message.clone()),
        _ => named("NeargraphError", error.to_string()),
    }
}

pub fn compiled(error: &CompiledError) -> PyErr {
    let class = match error {
        CompiledError::NotAnEpoch { .. } | CompiledError::Damaged { .. } => "StoreDamaged",
        CompiledError::Mismatch { .. } => "CompiledMismatch",
        CompiledError::Busy { .. } => "StoreBusy",
        _ => "IoFailed",
    };
    named(class, error.to_string())
}

pub fn direct(error: &DirectError) -> PyErr {
    let class = match error {
        DirectError::Store(error) => read_class(error),
        DirectError::Budget(_) => "BudgetTooSmall",
        DirectError::Unsupported(_) => "UnsupportedArgument",
        DirectError::NotDirect { .. } | DirectError::Damaged { .. } => "StoreDamaged",
        DirectError::Stale { .. } => "CompiledMismatch",
        DirectError::Busy { .. } => "StoreBusy",
        _ => "IoFailed",
    };
    named(class, error.to_string())
}

pub fn reorganize(error: &ReorganizeError) -> PyErr {
    match error {
        ReorganizeError::Sample(error) => sample(error),
        ReorganizeError::Read(error) => read(error),
        ReorganizeError::Update(error) => update(error),
        ReorganizeError::Memory { .. } => named("BudgetTooSmall", error.to_string()),
        ReorganizeError::Spec(message) => named("UnsupportedArgument", message.clone()),
        _ => named("NeargraphError", error.to_string()),
    }
}

pub fn import(error: &ImportError) -> PyErr {
    let class = match error {
        ImportError::BudgetTooSmall { .. } => "BudgetTooSmall",
        ImportError::DiskFull { .. } | ImportError::Io { .. } => "IoFailed",
        _ => "ImportFailed",
    };
    let raised = named(class, error.to_string());
    if let ImportError::Strict { notes } = error {
        let text = serde_json::to_string(notes).unwrap_or_default();
        // Without its notes the error is still the right one.
        let _ = Python::attach(|py| {
            let notes = py.import("json")?.call_method1("loads", (text,))?;
            raised.value(py).setattr("notes", notes)
        });
    }
    raised
}
