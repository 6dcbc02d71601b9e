//! Errors of dataflow graphs.

use ng_types::explain;
use thiserror::Error;

/// Why a graph cannot be built, read or run.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DfgError {
    /// No operation has this name.
    #[error("{node}: unknown operation {name:?}")]
    UnknownOp {
        /// Which node.
        node: String,
        /// The name.
        name: String,
    },
    /// An attribute is missing, unknown, or has an invalid value.
    #[error("{node}: attribute {attribute:?} of {op}: {problem}")]
    Attribute {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// The attribute's name.
        attribute: String,
        /// The problem with it.
        problem: String,
    },
    /// The number of inputs or outputs of an operation is wrong.
    #[error("{node}: {op} {problem}")]
    Arity {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// The expected and the given number.
        problem: String,
    },
    /// A value is used but not defined.
    #[error("{node}: value {value:?} is not defined")]
    Undefined {
        /// The node that uses it.
        node: String,
        /// The value's name.
        value: String,
    },
    /// A name is defined twice.
    #[error("value {name:?} is defined twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// The nodes form a cycle.
    #[error("these nodes form a cycle: {}", nodes.join(", "))]
    Cycle {
        /// The nodes, in the order in which each feeds the next.
        nodes: Vec<String>,
    },
    /// The graph has no output.
    #[error("the graph has no output")]
    NoOutput,
    /// The type of an input is unknown.
    #[error("input {name:?} has no type")]
    NoType {
        /// Its name.
        name: String,
    },
    /// Types or shapes do not match.
    #[error("{node}: {op}: {problem}")]
    Type {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// The mismatch.
        problem: String,
    },
    /// A file of the text form cannot be read.
    #[error("line {line}: {problem}")]
    Text {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

explain! {
    DfgError {
        UnknownOp => UnsupportedModel,
        Attribute | Arity | Undefined | Twice | Cycle | NoOutput | Type | Text => InvalidModel,
        NoType => InvalidModel [TypeInputs],
    }
}
