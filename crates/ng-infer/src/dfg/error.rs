//! What is wrong with a dataflow graph.

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
    /// An attribute is missing, unknown, or has a value that the operation does not take.
    #[error("{node}: attribute {attribute:?} of {op}: {problem}")]
    Attribute {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// The attribute's name.
        attribute: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An operation takes another number of values, or gives another.
    #[error("{node}: {op} {problem}")]
    Arity {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// What it takes or gives, and what it was given.
        problem: String,
    },
    /// Nothing gives a value that is taken.
    #[error("{node}: {value:?} is not defined")]
    Undefined {
        /// Who takes it.
        node: String,
        /// The value's name.
        value: String,
    },
    /// Two things have one name.
    #[error("{name:?} is defined twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// Nodes wait for each other.
    #[error("these nodes form a cycle: {}", nodes.join(", "))]
    Cycle {
        /// The nodes, in the order in which each feeds the next.
        nodes: Vec<String>,
    },
    /// The graph has no output.
    #[error("the graph has no output")]
    NoOutput,
    /// The type of an input is not known.
    #[error("input {name:?} has no type")]
    NoType {
        /// Its name.
        name: String,
    },
    /// Types or shapes do not fit.
    #[error("{node}: {op}: {problem}")]
    Type {
        /// Which node.
        node: String,
        /// Its operation.
        op: String,
        /// What does not fit.
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
