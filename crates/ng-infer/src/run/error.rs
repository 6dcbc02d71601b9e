//! Why a graph does not run.

use ng_types::explain;
use thiserror::Error;

use crate::dfg::DfgError;
use crate::kernel::KernelError;

/// Why a run cannot begin, or ended.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum RunError {
    /// The graph cannot run, whatever the batch.
    #[error(transparent)]
    Graph(#[from] DfgError),
    /// The hops of a batch do not fit.
    #[error("hops of {nodes:?}: {problem}")]
    Hops {
        /// The symbol of the number of nodes.
        nodes: String,
        /// The mismatch.
        problem: String,
    },
    /// An input of the graph was not given.
    #[error("input {name:?} is missing")]
    MissingInput {
        /// Its name.
        name: String,
    },
    /// A given name is not an input of the graph.
    #[error("the graph has no input {name:?}")]
    UnknownInput {
        /// Its name.
        name: String,
    },
    /// The type or shape of an input differs from that of the graph.
    #[error("input {name:?}: {problem}")]
    WrongInput {
        /// Its name.
        name: String,
        /// The problem with it.
        problem: String,
    },
    /// No device has a kernel for an operation.
    #[error("{node}: no device has a kernel for {op}")]
    NoKernel {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
    },
    /// A kernel failed.
    #[error("{node}: {op}: {source}")]
    Kernel {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// Why.
        source: KernelError,
    },
    /// The program that computes the whole model failed.
    #[error("device {device:?}: {problem}")]
    Model {
        /// The device that the program is.
        device: String,
        /// Why not.
        problem: String,
    },
    /// The values of a run would exceed the memory limit.
    #[error(
        "{node}: {op}: with a result of shape {dims:?}, the values of the run would take {bytes} \
         bytes, more than the limit of {limit}"
    )]
    TooLarge {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// The shape.
        dims: Vec<usize>,
        /// Bytes of all values that would be there.
        bytes: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Memory cannot be allocated.
    #[error("{node}: cannot allocate memory for a result of shape {dims:?}")]
    Memory {
        /// Which node.
        node: String,
        /// The shape.
        dims: Vec<usize>,
    },
}

explain! {
    RunError {
        Hops | MissingInput | UnknownInput | WrongInput => WrongInput [ShowModel],
        Kernel | Model => WrongInput,
        NoKernel => UnsupportedModel [GiveKernel],
        Memory | TooLarge => BudgetTooSmall [SmallerBatches],
    } of Graph.0
}
