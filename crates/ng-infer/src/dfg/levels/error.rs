//! Why a graph cannot be analysed.

use thiserror::Error;

use crate::dfg::DfgError;

/// Errors of following rows through a graph.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum LevelsError {
    /// Types do not match.
    #[error(transparent)]
    Dfg(#[from] DfgError),
    /// Rows cannot be followed through an operation.
    #[error("{node} ({op}) cannot be used in layer-wise inference: {problem}")]
    Node {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// The problem.
        problem: String,
    },
}
