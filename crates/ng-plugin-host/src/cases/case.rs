//! One case.

use ng_infer::dfg::{Constant, Op};

/// What an operation is given.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Which sort it is of.
    pub what: &'static str,
    pub op: Op,
    pub inputs: Vec<Constant>,
}

pub(super) const ORDINARY: &str = "ordinary";
pub(super) const ODD: &str = "odd";
pub(super) const EMPTY: &str = "empty";
/// The elements do not fit, and kernels have to say so.
pub(super) const MISFIT: &str = "unfitting";

impl Case {
    pub(super) fn new(what: &'static str, op: Op, inputs: impl Into<Vec<Constant>>) -> Self {
        Self { what, op, inputs: inputs.into() }
    }
}
