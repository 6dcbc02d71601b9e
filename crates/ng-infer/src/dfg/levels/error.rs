//! Why a graph cannot be analysed.

use thiserror::Error;

use crate::dfg::DfgError;

/// Why it is not known which rows a value has.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum LevelsError {
    /// Types do not fit.
    #[error(transparent)]
    Dfg(#[from] DfgError),
    /// An operation treats rows in a way that cannot be followed.
    #[error("{node}: {op}: {problem}")]
    Node {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// What it does with rows.
        problem: String,
    },
}
