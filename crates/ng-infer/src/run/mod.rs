//! Devices: which kernel does an operation, and graphs that are served while that changes.
//!
//! What must not live here: how an operation is computed. The invariant: a run sees one table of
//! devices from its begin to its end.

pub(crate) mod devices;
pub(crate) mod error;
mod program;
mod shared;

pub use devices::{Binding, Devices, RegisterError};
pub use error::RunError;
pub use program::run;
pub use shared::{Compute, Served, SharedDevices};
