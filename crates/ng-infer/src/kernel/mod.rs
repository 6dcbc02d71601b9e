//! Kernels: what computes an operation on a device.
//!
//! What lives here: the trait, the tensors that it sees, and the reference device. What must not:
//! which kernel is chosen. The invariant: a kernel gives the same bytes each time.

mod scalar;
mod shapes;
mod view;

use ng_types::Dtype;
use thiserror::Error;

use crate::dfg::Op;
pub use scalar::Scalar;
pub use shapes::shapes;
pub use view::{Data, DataMut, View, ViewMut};

/// Why an operation cannot be done on certain tensors.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum KernelError {
    /// Types, shapes or numbers do not fit.
    #[error("{0}")]
    Misfit(String),
    /// An index is not below the length that it has to be below.
    #[error("index {index} at place {place} is out of range: there are {len}")]
    Index {
        /// The index.
        index: i64,
        /// Where it is in its tensor.
        place: usize,
        /// How many there are.
        len: usize,
    },
    /// The kernel does not do this operation.
    #[error("the kernel does not do {0}")]
    NotServed(String),
}

/// What computes operations: HolisticGNN's C-kernel.
pub trait Kernel: Send + Sync {
    /// Types and shapes of what the operation gives.
    ///
    /// # Errors
    ///
    /// What it is given does not fit.
    fn shapes(
        &self,
        op: &Op,
        inputs: &[View<'_>],
    ) -> Result<Vec<(Dtype, Vec<usize>)>, KernelError> {
        shapes(op, inputs)
    }

    /// Fills `outputs`, which have the shapes that [`Kernel::shapes`] gives.
    ///
    /// # Errors
    ///
    /// What it is given does not fit; `outputs` may be filled in part then.
    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
    ) -> Result<(), KernelError>;
}
