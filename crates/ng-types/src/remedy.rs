//! What an error means to a caller: its kind, and what to do about it.
//!
//! What must not live here: words of a face. A message below the faces says what is wrong and
//! where, and advises only what every face would say in the same words; whatever takes an option
//! or a command is a [`Remedy`], which each face puts into its own words. Invariant: an error maps
//! each of its variants by name, so that a new one has no kind until somebody chooses it.

use serde::Serialize;

/// What went wrong, as far as callers act on it differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ErrorKind {
    /// There is nothing at the path of a store.
    StoreNotFound,
    /// Something else than a store is there.
    NotAStore,
    /// It was written by a newer release.
    NewerVersion,
    /// Files are not what they were when they were written, or a part of them is gone.
    StoreDamaged,
    /// The same of a commit in the log although later ones can be read.
    LogDamaged,
    /// The operating system failed a read or a write.
    IoFailed,
    /// Memory is too small for what was asked.
    BudgetTooSmall,
    /// An id or a row is not below its bound.
    NodeOutOfRange,
    /// The store has nothing of that name.
    NameNotFound,
    /// The arguments, or the store, do not allow what was asked.
    UnsupportedArgument,
    /// Somebody else writes.
    StoreBusy,
    /// A node to change does not exist.
    NodeNotFound,
    /// An edge to delete does not exist.
    EdgeNotFound,
    /// A reverse is needed that the store does not keep.
    ReverseMissing,
    /// A row has another width than its tensor.
    RowWidth,
    /// A transaction has ended.
    TransactionEnded,
    /// A write failed, so that no others are taken.
    StorePoisoned,
    /// Compiled files were made from other data or settings.
    CompiledMismatch,
    /// A model is not valid, or does not fit what it is run on.
    InvalidModel,
    /// A model asks for something that the engine does not have.
    UnsupportedModel,
    /// What a model is run on is not what it takes.
    WrongInput,
    /// A plug-in is not allowed, not safe where it lies, or did not pass its trial.
    PluginRefused,
    /// Compiled files have another version of the format.
    CompiledOutdated,
    /// The input or the target of an import is bad.
    ImportFailed,
    /// The caller itself stopped the work.
    Stopped,
    /// What no caller can cause or mend.
    Defect,
}

/// What a caller can do about an error or a note. Where there are several, each is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "name", content = "at_least_bytes")]
pub enum Remedy {
    /// Give a memory budget of so many bytes at least.
    RaiseMemory(u64),
    /// Leave the system more memory.
    FreeMemory,
    /// Ask for less at once.
    SmallerBatches,
    /// Give back batches that are still held.
    DropBatches,
    /// Make writing to the store possible.
    MakeWritable,
    /// Leave the choice of the back end to the store.
    AnyBackend,
    /// Read rows as they are asked for instead of ahead.
    ReadOnDemand,
    /// Check the path, or import a store to it.
    Import,
    /// Restore the store from a copy, or import it again; verifying lists all damage.
    Restore,
    /// Open the newest checkpoint without the commits in the log.
    OpenCheckpoint,
    /// Let the other writer end, or do the work.
    CloseOther,
    /// Wait longer for the other writer.
    WaitLonger,
    /// End the writer of a store before it is replaced, or give the new store another name.
    ReplaceLater,
    /// Compile epochs.
    Compile,
    /// Compile the direct layout.
    CompileDirect,
    /// Compile the direct layout again.
    RecompileDirect,
    /// Sample from the store itself instead of the direct layout.
    PagedLayout,
    /// Compile fewer or narrower tensors into the direct layout.
    FewerTensors,
    /// Import the store again and keep the reverse of edge types.
    KeepReverse,
    /// Import the store again and keep edge ids.
    KeepEdgeIds,
    /// Import the store again with dense rows.
    StoreDense,
    /// Declare a header line, or that names are not numbers.
    NameNodes,
    /// Give the factor that makes times whole.
    ScaleTimes,
    /// Number only the ids that occur.
    Relabel,
    /// Do not double edges that come in both directions, or keep one of each.
    KeepOneDirection,
    /// Keep one of edges that repeat each other.
    KeepOneOfEach,
    /// Convert features to f32.
    NarrowFeatures,
    /// Say which columns are times and weights.
    NameColumns,
    /// Do not declare a header line.
    NoHeader,
    /// Declare the encoding of a text.
    GiveEncoding,
    /// Export the model again, from what it was trained as.
    ExportAgain,
    /// Bring the files of the model from where they are whole.
    CopyModel,
    /// Train the model again: its weights are not numbers.
    TrainAgain,
    /// Say what type and shape the inputs have.
    TypeInputs,
    /// Bring a kernel for an operation, or an engine that has one.
    GiveKernel,
    /// Look at what a model takes.
    ShowModel,
}

/// An error that callers act on.
pub trait Explain: std::error::Error {
    /// What went wrong, and what to do about it.
    fn explain(&self) -> (ErrorKind, Vec<Remedy>);

    /// What went wrong.
    fn kind(&self) -> ErrorKind {
        self.explain().0
    }
}

/// Implements [`Explain`] by a table: `A | B => kind [remedies]`, where braces lend fields to the
/// remedies, and `of` names the fields of variants that are explained by what they hold.
#[macro_export]
macro_rules! explain {
    ($error:ident {
        $($($variant:ident $({ $($field:tt)+ })?)|+ => $kind:ident $([$($remedy:expr),+])?,)*
    } $(of $($outer:ident.$inner:tt),+)?) => {
        impl $crate::Explain for $error {
            fn explain(&self) -> ($crate::ErrorKind, Vec<$crate::Remedy>) {
                #[allow(unused_imports)]
                use $crate::{ErrorKind, Explain, Remedy::*};
                match self {
                    $($(Self::$variant { $($($field)+,)? .. })|+ => {
                        (ErrorKind::$kind, vec![$($($remedy),+)?])
                    })*
                    $($(Self::$outer { $inner: error, .. } => error.explain(),)+)?
                }
            }
        }
    };
}
