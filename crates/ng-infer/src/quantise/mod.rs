//! Graphs in fewer bits: the same outputs, nearly, from smaller weights and cheaper products.
//!
//! What lives here: which operations and weights become narrow, and how their steps are found. What
//! must not: kernels, and files. The invariant: inputs and outputs keep their names and types, and
//! what stays as it was is said.

mod copy;
mod error;
mod fixed;
mod half;
mod steps;

pub use error::QuantiseError;
pub use fixed::{Calibration, Found, Search, Target, fixed_point, fixed_values};
pub use half::half;
pub use steps::steps;

use crate::dfg::Dfg;

/// A graph in fewer bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantised {
    /// The graph.
    pub dfg: Dfg,
    /// Names of the weights that are narrow now.
    pub narrowed: Vec<String>,
    /// Names of the weights of single precision that stay so, and why.
    pub kept: Vec<(String, String)>,
}
