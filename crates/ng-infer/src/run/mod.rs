//! Running a graph: which kernel does an operation, and in what order values come and go.
//!
//! What must not live here: how an operation is computed. The invariant: a run sees one table of
//! devices from its begin to its end.

mod devices;
mod program;

pub use devices::{Binding, Devices, RegisterError};
pub use program::{RunError, run};
