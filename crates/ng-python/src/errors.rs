//! From Rust errors to the classes of `neargraph.exceptions`, in this one file.
//!
//! The invariant: each variant is named, so that a new one has no class until somebody chooses it.

use ng_import::ImportError;
use ng_io::{ReadError as DeviceError, StagingError};
use ng_sample::{CompiledError, ReorganizeError, SampleError};
use ng_store::{BuildError, DirectError, OpenError, ReadError, SealedError, UpdateError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// An instance of a class of `neargraph.exceptions`.
pub fn named(class: &str, message: String) -> PyErr {
    with_arguments(class, (message,))
}

/// A count of bytes for people; with `up`, never too low.
#[pyfunction]
pub fn format_bytes(count: u64, up: bool) -> String {
    if up { ng_types::format_bytes_up(count) } else { ng_types::format_bytes(count) }
}

fn with_arguments<A>(class: &str, arguments: A) -> PyErr
where
    A: pyo3::PyErrArguments + Send + Sync + 'static,
{
    Python::attach(|py| {
        let found = py
            .import("neargraph.exceptions")
            .and_then(|module| module.getattr(class))
            .and_then(|class| Ok(class.cast_into::<PyType>()?));
        match found {
            Ok(class) => PyErr::from_type(class, arguments),
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

/// What an error becomes.
enum Class {
    Named(&'static str),
    /// With what to do about it, in the words of Python.
    Advised(&'static str, &'static str),
    /// `BudgetTooSmall`, with the smallest budget that does, and what else helps in Python.
    TooSmall(u64, &'static str),
    /// `BudgetTooSmall`, where the system is what lacks memory.
    NoMemory,
}

use Class::{Advised, Named, NoMemory, TooSmall};

/// What no caller can cause or mend.
const DEFECT: Class = Named("NeargraphError");
/// The caller itself stopped the work.
const STOPPED: Class = Named("NeargraphError");

fn raised(class: Class, error: &impl std::error::Error) -> PyErr {
    match class {
        Named(class) => named(class, error.to_string()),
        Advised(class, advice) => named(class, format!("{error}; {advice}")),
        TooSmall(minimum_bytes, otherwise) => {
            with_arguments("BudgetTooSmall", (error.to_string(), minimum_bytes, otherwise))
        }
        NoMemory => {
            let message = format!("{error}; free memory, or open the store with a smaller budget");
            named("BudgetTooSmall", message)
        }
    }
}

pub fn open(error: &OpenError) -> PyErr {
    raised(open_class(error), error)
}

fn open_class(error: &OpenError) -> Class {
    match error {
        OpenError::NotFound { .. } => Named("StoreNotFound"),
        OpenError::NotAStore { .. } | OpenError::NotADirectory { .. } => Named("NotAStore"),
        OpenError::NewerVersion { .. } => Named("NewerVersion"),
        OpenError::BudgetTooSmall { minimum_bytes, .. } => TooSmall(*minimum_bytes, ""),
        OpenError::CommitsTooLarge { minimum_bytes, .. } => {
            TooSmall(*minimum_bytes, "make it possible to write there")
        }
        OpenError::Backend { .. } => Named("IoFailed"),
        OpenError::Read(error) => read_class(error),
        OpenError::Recovery { source, .. } => update_class(source),
        OpenError::RootsDamaged { .. }
        | OpenError::RootsDisagree { .. }
        | OpenError::Truncated { .. } => Named("StoreDamaged"),
    }
}

pub fn read(error: &ReadError) -> PyErr {
    raised(read_class(error), error)
}

fn read_class(error: &ReadError) -> Class {
    match error {
        ReadError::NodeOutOfRange { .. } | ReadError::RowOutOfRange { .. } => {
            Named("NodeOutOfRange")
        }
        ReadError::Damaged { .. } | ReadError::Checksum { .. } => Named("StoreDamaged"),
        ReadError::Budget(error) => {
            TooSmall(error.minimum_bytes(), "use smaller batches or fanouts")
        }
        ReadError::NoMemory { .. } => NoMemory,
        ReadError::Missing { .. } => Named("NameNotFound"),
        ReadError::Decode { .. } | ReadError::Order { .. } => Named("UnsupportedArgument"),
        ReadError::Io(error) => device_class(error),
        ReadError::PositionOutOfRange { .. } | ReadError::OutputSize { .. } | ReadError::NotYet => {
            DEFECT
        }
    }
}

fn device_class(error: &DeviceError) -> Class {
    match error {
        DeviceError::Open { .. }
        | DeviceError::Io { .. }
        | DeviceError::EndOfFile { .. }
        | DeviceError::Stalled { .. }
        | DeviceError::Queue { .. }
        | DeviceError::Forked { .. } => Named("IoFailed"),
        DeviceError::Misaligned { .. } => DEFECT,
    }
}

pub fn update(error: &UpdateError) -> PyErr {
    raised(update_class(error), error)
}

fn update_class(error: &UpdateError) -> Class {
    match error {
        UpdateError::Busy { .. } => Named("StoreBusy"),
        UpdateError::NodeNotFound { .. } => Named("NodeNotFound"),
        UpdateError::EdgeNotFound { .. } => Named("EdgeNotFound"),
        UpdateError::ReverseMissing { .. } => Named("ReverseMissing"),
        UpdateError::RowWidth { .. } => Named("RowWidth"),
        UpdateError::Unsupported { .. } => Named("UnsupportedArgument"),
        UpdateError::Broken { .. } => Named("BatchEnded"),
        UpdateError::Poisoned { .. } => Named("StorePoisoned"),
        UpdateError::LogDamaged { .. } => Named("LogDamaged"),
        UpdateError::Stopped => STOPPED,
        UpdateError::Open(error) => open_class(error),
        UpdateError::Read(error) => read_class(error),
        UpdateError::Write(_) => Named("IoFailed"),
        UpdateError::Build(error) => build_class(error),
    }
}

/// Of files that are written from a store: what they hold was checked when it came into the store.
fn build_class(error: &BuildError) -> Class {
    match error {
        BuildError::Write(_) => Named("IoFailed"),
        BuildError::Invalid { .. }
        | BuildError::OutOfOrder { .. }
        | BuildError::IdOutOfRange { .. }
        | BuildError::RowCount { .. }
        | BuildError::TopologyMissing { .. } => DEFECT,
    }
}

pub fn sample(error: &SampleError) -> PyErr {
    raised(sample_class(error), error)
}

fn sample_class(error: &SampleError) -> Class {
    match error {
        SampleError::Spec(_) | SampleError::Weight { .. } => Named("UnsupportedArgument"),
        SampleError::Read(error) => read_class(error),
        SampleError::Compiled(error) => compiled_class(error),
        SampleError::Direct(error) => direct_class(error),
        SampleError::Budget { minimum_bytes, .. } => {
            TooSmall(*minimum_bytes, "drop the batches that you still keep")
        }
        SampleError::TooSmallToLookAhead { wanted_bytes, free_bytes, limit_bytes } => TooSmall(
            limit_bytes + wanted_bytes.saturating_sub(*free_bytes),
            "use smaller batches or reading=\"direct\"",
        ),
        SampleError::NoMemory { .. } => NoMemory,
        SampleError::Spill(_) => Named("IoFailed"),
        SampleError::NoThread { .. }
        | SampleError::ThreadLost
        | SampleError::MadeRoom
        | SampleError::Stopped => DEFECT,
    }
}

pub fn compiled(error: &CompiledError) -> PyErr {
    raised(compiled_class(error), error)
}

fn compiled_class(error: &CompiledError) -> Class {
    match error {
        CompiledError::Sealed(error) => sealed_class(error),
        CompiledError::Damaged { .. } | CompiledError::Incomplete { .. } => Named("StoreDamaged"),
        CompiledError::Mismatch { .. } => Named("CompiledMismatch"),
        CompiledError::NoEpochs { .. } => {
            Advised("CompiledMismatch", "make them with `neargraph compile`")
        }
    }
}

fn sealed_class(error: &SealedError) -> Class {
    match error {
        SealedError::NotWhole { .. } => Named("StoreDamaged"),
        SealedError::Version { .. } => Named("CompiledOutdated"),
        SealedError::Busy { .. } => Named("StoreBusy"),
        SealedError::Read(error) => device_class(error),
        SealedError::Open(_) | SealedError::Write(_) | SealedError::Directory { .. } => {
            Named("IoFailed")
        }
    }
}

pub fn direct(error: &DirectError) -> PyErr {
    raised(direct_class(error), error)
}

fn direct_class(error: &DirectError) -> Class {
    match error {
        DirectError::Store(error) => read_class(error),
        DirectError::Budget(error) => TooSmall(error.minimum_bytes(), ""),
        DirectError::Unsupported(_) => Named("UnsupportedArgument"),
        DirectError::Sealed(error) => sealed_class(error),
        DirectError::Damaged { .. } => Named("StoreDamaged"),
        DirectError::Stale { .. } => Named("CompiledMismatch"),
        DirectError::Stopped => STOPPED,
        DirectError::Scratch(_) => Named("IoFailed"),
    }
}

pub fn reorganize(error: &ReorganizeError) -> PyErr {
    raised(reorganize_class(error), error)
}

fn reorganize_class(error: &ReorganizeError) -> Class {
    match error {
        ReorganizeError::Sample(error) => sample_class(error),
        ReorganizeError::Read(error) => read_class(error),
        ReorganizeError::Update(error) => update_class(error),
        ReorganizeError::Memory { minimum_bytes, .. } => TooSmall(*minimum_bytes, ""),
        ReorganizeError::Spec(_) => Named("UnsupportedArgument"),
        ReorganizeError::Stopped => STOPPED,
    }
}

pub fn import(error: &ImportError) -> PyErr {
    let raised = raised(import_class(error), error);
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

fn import_class(error: &ImportError) -> Class {
    match error {
        ImportError::BudgetTooSmall { minimum_bytes, .. } => TooSmall(*minimum_bytes, ""),
        ImportError::DiskFull { .. } | ImportError::Io { .. } | ImportError::Scratch(_) => {
            Named("IoFailed")
        }
        ImportError::Place(error) => staging_class(error),
        ImportError::Line { .. }
        | ImportError::Row { .. }
        | ImportError::File { .. }
        | ImportError::Spec(_)
        | ImportError::Store(_)
        | ImportError::RowCount { .. }
        | ImportError::Source(_)
        | ImportError::Exists { .. }
        | ImportError::Cancelled
        | ImportError::Strict { .. }
        | ImportError::Failed { .. } => Named("ImportFailed"),
    }
}

fn staging_class(error: &StagingError) -> Class {
    match error {
        StagingError::Io { .. } => Named("IoFailed"),
        StagingError::Exists { .. }
        | StagingError::Busy { .. }
        | StagingError::BadName { .. }
        | StagingError::NoParent { .. } => Named("ImportFailed"),
    }
}
