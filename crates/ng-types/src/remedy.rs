//! The meaning of an error to a caller: its kind and its remedies.
//!
//! What must not live here: words of a face. A message below the faces says what is wrong and
//! where. It gives only advice that every face would give in the same words. Advice that needs an
//! option or a command is a [`Remedy`], which each face puts into its own words. Invariant: an
//! error maps each of its variants by name, so that a new one has no kind until somebody chooses
//! it.

use serde::Serialize;

/// The kind of an error. Errors that callers handle differently have different kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ErrorKind {
    /// There is no store at the path.
    StoreNotFound,
    /// The path does not lead to a store.
    NotAStore,
    /// The store was written by a newer release.
    NewerVersion,
    /// Files of the store are damaged, truncated or missing.
    StoreDamaged,
    /// A commit in the log is damaged although later ones are readable.
    LogDamaged,
    /// The operating system reported an error on a read or a write.
    IoFailed,
    /// The memory budget, or the system's memory, is too small for the request.
    BudgetTooSmall,
    /// An id or a row is not below its bound.
    NodeOutOfRange,
    /// The store does not contain the name.
    NameNotFound,
    /// The arguments or the store do not support the request.
    UnsupportedArgument,
    /// Another process or handle is writing to the store.
    StoreBusy,
    /// A node to change does not exist.
    NodeNotFound,
    /// An edge to delete does not exist.
    EdgeNotFound,
    /// The operation needs the reverse of an edge type, and the store does not keep it.
    ReverseMissing,
    /// The width of a row differs from that of its tensor.
    RowWidth,
    /// A transaction has ended.
    TransactionEnded,
    /// A write failed, so the store accepts no more writes.
    StorePoisoned,
    /// Compiled files were made from other data or settings.
    CompiledMismatch,
    /// A model is not valid, or does not fit the store or graph it runs on.
    InvalidModel,
    /// A model uses something that the engine does not support.
    UnsupportedModel,
    /// The inputs of a model have the wrong names, types or shapes.
    WrongInput,
    /// A plug-in is not in the allow-list, its file is not safe, or it failed its trial.
    PluginRefused,
    /// Compiled files have another version of the format.
    CompiledOutdated,
    /// The input or the target of an import is not valid.
    ImportFailed,
    /// The caller stopped the work.
    Stopped,
    /// A defect, which callers can neither cause nor fix.
    Defect,
}

/// What a caller can do about an error or a note. If there are several remedies, each one is
/// enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "name", content = "at_least_bytes")]
pub enum Remedy {
    /// Set a memory budget of at least this number of bytes.
    RaiseMemory(u64),
    /// Free memory of the system.
    FreeMemory,
    /// Use smaller batches or requests.
    SmallerBatches,
    /// Drop batches that are still held.
    DropBatches,
    /// Make writing to the store possible.
    MakeWritable,
    /// Let the store choose the back end.
    AnyBackend,
    /// Read rows on demand instead of ahead.
    ReadOnDemand,
    /// Check the path, or import a store to it.
    Import,
    /// Restore the store from a copy, or import it again; verifying lists all damage.
    Restore,
    /// Open the newest checkpoint without the commits in the log.
    OpenCheckpoint,
    /// Close the other writer, or do the work with it.
    CloseOther,
    /// Wait longer for the other writer.
    WaitLonger,
    /// Close the writer before replacing the store, or choose another name for the new store.
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
    /// Do not add reverse edges to input that has both directions, or keep one edge of each pair.
    KeepOneDirection,
    /// Keep one edge of each set of duplicates.
    KeepOneOfEach,
    /// Convert features to f32.
    NarrowFeatures,
    /// Name the columns of times and weights.
    NameColumns,
    /// Do not declare a header line.
    NoHeader,
    /// Declare the encoding of a text.
    GiveEncoding,
    /// Export the trained model again.
    ExportAgain,
    /// Copy the files of the model again from an intact copy.
    CopyModel,
    /// Train the model again: its weights are not numbers.
    TrainAgain,
    /// Give the types and shapes of the inputs.
    TypeInputs,
    /// Provide a kernel for the operation, or use an engine that has one.
    GiveKernel,
    /// Show the inputs of the model.
    ShowModel,
}

/// An error with a kind and remedies.
pub trait Explain: std::error::Error {
    /// Returns the kind of the error and its remedies.
    fn explain(&self) -> (ErrorKind, Vec<Remedy>);

    /// Returns the kind of the error.
    fn kind(&self) -> ErrorKind {
        self.explain().0
    }
}

/// Implements [`Explain`] by a table: `A | B => kind [remedies]`. Braces pass fields to the
/// remedies. `of` names the fields of variants that delegate to the error they hold.
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
