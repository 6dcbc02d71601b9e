//! The trait that every kernel implements.

use ng_types::Dtype;

use super::error::KernelError;
use super::shapes::shapes;
use super::view::{View, ViewMut};
use crate::dfg::Op;

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
