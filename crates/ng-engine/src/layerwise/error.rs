//! Errors of layer-wise inference.

use ng_infer::dfg::DfgError;
use ng_infer::dfg::levels::LevelsError;
use ng_infer::run::RunError;
use ng_io::{OpenError, WriteError};
use ng_store::ReadError;
use ng_types::{explain, format_bytes};
use thiserror::Error;

use crate::EngineError;

/// An error of layer-wise inference.
#[derive(Debug, Error)]
pub enum LayerwiseError {
    /// An operation of the model cannot be computed for blocks of nodes.
    #[error("{node} ({op}) cannot be used in layer-wise inference: {problem}")]
    Model {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// The problem.
        problem: String,
    },
    /// Rows cannot be followed through the model.
    #[error(transparent)]
    Levels(#[from] LevelsError),
    /// The graph of a part cannot be built.
    #[error(transparent)]
    Dfg(#[from] DfgError),
    /// The model does not fit the store.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A part of the model could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Even the smallest block of nodes does not fit.
    #[error(
        "the memory budget of {} is too small for layer-wise inference of this model",
        format_bytes(*limit_bytes)
    )]
    TooSmall {
        /// The budget.
        limit_bytes: u64,
        /// The memory of the smallest blocks.
        minimum_bytes: u64,
    },
    /// The folder of intermediate tables cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A table cannot be read.
    #[error(transparent)]
    ReadTable(#[from] ng_io::ReadError),
    /// A table or the record of what is done cannot be written.
    #[error("{source}; finished rows are kept in {folder}, and the next run resumes from them")]
    Write {
        /// The folder.
        folder: String,
        /// Why not.
        source: WriteError,
    },
    /// An operation on the folder failed.
    #[error("cannot {action} {folder}: {source}")]
    Folder {
        /// The action that failed.
        action: &'static str,
        /// The folder.
        folder: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Another process computes into the folder.
    #[error("another process is computing into {folder}; wait until it ends, or stop it")]
    Busy {
        /// The folder.
        folder: String,
    },
    /// A table is damaged.
    #[error("rows {first} to {last} of {file} are damaged; start a fresh run instead of resuming")]
    Damaged {
        /// The table.
        file: String,
        /// The first row of the piece.
        first: u64,
        /// Its last row.
        last: u64,
    },
    /// The caller stopped it.
    #[error(
        "the inference was stopped; finished rows are kept in {folder}, and the next run resumes \
         from them"
    )]
    Stopped {
        /// The folder.
        folder: String,
    },
}

explain! {
    LayerwiseError {
        Model | Levels | Dfg | Run => InvalidModel,
        TooSmall { minimum_bytes } => BudgetTooSmall [RaiseMemory(*minimum_bytes)],
        Open | Folder => IoFailed,
        Busy => StoreBusy,
        Damaged => StoreDamaged,
        Stopped => Stopped,
        Write => IoFailed,
    }
    of Engine.0, Read.0, ReadTable.0
}
