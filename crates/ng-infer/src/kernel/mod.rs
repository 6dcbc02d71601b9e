//! Kernels: what computes an operation on a device.
//!
//! What lives here: the trait, the tensors that it sees, and the reference device. What must not:
//! which kernel is chosen. The invariant: a kernel gives the same bytes each time.

mod context;
mod contract;
mod cpu;
mod error;
mod numbers;
mod rows;
mod scalar;
mod shapes;
mod view;

pub use context::Context;
pub use contract::Kernel;
pub use cpu::Cpu;
pub use error::KernelError;
pub use rows::TableRows;
pub use scalar::Scalar;
pub use shapes::shapes;
pub use view::{Data, DataMut, View, ViewMut};
