//! Errors of changing a store.

use std::sync::Arc;
use std::time::Duration;

use ng_types::explain;
use thiserror::Error;

use crate::error::{BuildError, OpenError, ReadError};
use crate::io::WriteError;

/// An error of changing a store. Unless the message says otherwise, only this transaction is lost.
#[derive(Debug, Clone, Error)]
pub enum UpdateError {
    /// Another process or handle is writing to the store or replacing it.
    #[error(
        "{path}: another process or handle is writing to this store or replacing it, and did not \
         finish within {} s; a store has one writer at a time",
        .waited.as_secs_f64()
    )]
    Busy {
        /// The store.
        path: String,
        /// How long this handle has waited.
        waited: Duration,
    },
    /// The id was never assigned, or its node is deleted.
    #[error("node {id} of type {node_type:?} does not exist: {why}")]
    NodeNotFound {
        /// Name of the node type.
        node_type: String,
        /// The id.
        id: u64,
        /// That it was deleted, or the bound.
        why: String,
    },
    /// There is no such edge.
    #[error("edge {source_node} -> {destination} of type {edge_type:?}{detail} does not exist")]
    EdgeNotFound {
        /// Name of the relation.
        edge_type: String,
        /// Where it would come from.
        source_node: u64,
        /// Where it would go.
        destination: u64,
        /// The requested edge id, if any.
        detail: String,
    },
    /// Deleting a node needs the reverse of each edge type.
    #[error(
        "cannot delete node {id}: edge type {edge_type:?} keeps no reverse, so the lists that \
         contain the node are unknown"
    )]
    ReverseMissing {
        /// Name of the relation.
        edge_type: String,
        /// The node.
        id: u64,
    },
    /// A row has the wrong number of bytes.
    #[error("tensor {tensor:?}: the given row has {found} bytes, expected {expected}")]
    RowWidth {
        /// Name of the tensor.
        tensor: String,
        /// Bytes of a row.
        expected: u64,
        /// Bytes given.
        found: u64,
    },
    /// Rows of a sparse tensor cannot be changed.
    #[error("tensor {tensor:?} is stored sparse, so its rows cannot be changed")]
    Sparse {
        /// Name of the tensor.
        tensor: String,
    },
    /// The store, its format or this release does not support the operation.
    #[error("{what}")]
    Unsupported {
        /// What, and what to do instead.
        what: String,
    },
    /// An operation of this transaction failed half way, so the transaction cannot be committed.
    #[error(
        "the transaction cannot be committed, because an operation failed ({cause}); start a new \
         transaction"
    )]
    Broken {
        /// The error of the operation.
        cause: String,
    },
    /// An earlier write or sync failed. Readers continue, and acknowledged commits are safe.
    #[error(
        "the store accepts no more writes ({cause}); acknowledged commits are in the log; fix the \
         cause, then close the store and open it again"
    )]
    Poisoned {
        /// What failed.
        cause: Arc<str>,
    },
    /// The log is damaged at a commit that was durable.
    #[error(
        "{file}: commit {lsn} was durable but is damaged or missing, which a torn write cannot \
         cause; checkpoint {checkpoint_id} can still be read"
    )]
    LogDamaged {
        /// The log file.
        file: String,
        /// The first commit that cannot be read.
        lsn: u64,
        /// The root that the log continues.
        checkpoint_id: u64,
    },
    /// The caller stopped the work; nothing has changed.
    #[error("stopped; the store is unchanged")]
    Stopped,
    /// New files could not be written; the store is as it was.
    #[error(transparent)]
    Build(Arc<BuildError>),
    /// The store could not be opened.
    #[error(transparent)]
    Open(Arc<OpenError>),
    /// Reading failed.
    #[error(transparent)]
    Read(Arc<ReadError>),
    /// Writing failed.
    #[error(transparent)]
    Write(Arc<WriteError>),
}

explain! { UpdateError {
    Busy => StoreBusy [CloseOther, WaitLonger],
    NodeNotFound => NodeNotFound,
    EdgeNotFound => EdgeNotFound,
    ReverseMissing => ReverseMissing [KeepReverse],
    RowWidth => RowWidth,
    Sparse => UnsupportedArgument [StoreDense],
    Unsupported => UnsupportedArgument,
    Broken => TransactionEnded,
    Poisoned => StorePoisoned,
    LogDamaged => LogDamaged [Restore, OpenCheckpoint],
    Stopped => Stopped,
    Write => IoFailed,
} of Open.0, Read.0, Build.0 }

impl From<ReadError> for UpdateError {
    fn from(error: ReadError) -> Self {
        Self::Read(Arc::new(error))
    }
}

impl From<WriteError> for UpdateError {
    fn from(error: WriteError) -> Self {
        Self::Write(Arc::new(error))
    }
}

impl From<BuildError> for UpdateError {
    fn from(error: BuildError) -> Self {
        Self::Build(Arc::new(error))
    }
}

impl From<OpenError> for UpdateError {
    fn from(error: OpenError) -> Self {
        Self::Open(Arc::new(error))
    }
}

impl UpdateError {
    /// Whether memory was short, so that it may work once others have given some back.
    pub(crate) fn is_shortage(&self) -> bool {
        matches!(self, Self::Read(error) if matches!(**error, ReadError::Budget(_)))
    }

    /// Whether the operation that gave this changed nothing, so that its transaction can go on.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::NodeNotFound { .. }
                | Self::EdgeNotFound { .. }
                | Self::ReverseMissing { .. }
                | Self::RowWidth { .. }
                | Self::Sparse { .. }
                | Self::Unsupported { .. }
        )
    }
}
