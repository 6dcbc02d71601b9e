//! The trait that every kernel implements.

use std::sync::Arc;

use ng_types::Dtype;

use super::context::Context;
use super::error::KernelError;
use super::shapes::shapes;
use super::view::{View, ViewMut};
use crate::dfg::Op;

/// What computes operations: HolisticGNN's C-kernel.
pub trait Kernel: Send + Sync {
    /// A kernel for one node alone, made from those of its inputs that are the same in each run:
    /// weights in the order that it likes best. `None` if this one does the node itself.
    ///
    /// # Errors
    ///
    /// What it is given does not fit.
    fn prepare(
        &self,
        op: &Op,
        constants: &[Option<View<'_>>],
    ) -> Result<Option<Arc<dyn Kernel>>, KernelError> {
        let _ = (op, constants);
        Ok(None)
    }

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

    /// Whether the input at a place may be [`Data::Rows`](super::Data::Rows). Others are given
    /// copies of the rows.
    fn takes_rows(&self, op: &Op, input: usize) -> bool {
        let _ = (op, input);
        false
    }

    /// Whether each row of a result has the same bytes whatever other rows are computed with it, of
    /// operations that treat rows one by one, or add up the rows of a list.
    fn is_exact_by_row(&self) -> bool {
        false
    }

    /// Whether [`Kernel::run_in_place`] does `op` in the elements of the input at a place.
    fn in_place(&self, op: &Op, input: usize) -> bool {
        let _ = (op, input);
        false
    }

    /// Does `op` in the elements of the input at place `at`: `to` is that input, with the shape of
    /// the result, and `others` are the other inputs in order. Gives what [`Kernel::run`] would.
    ///
    /// # Errors
    ///
    /// As [`Kernel::run`], or the operation is not done in place.
    fn run_in_place(
        &self,
        op: &Op,
        at: usize,
        others: &[View<'_>],
        to: &mut ViewMut<'_>,
        context: &Context,
    ) -> Result<(), KernelError> {
        let _ = (at, others, to, context);
        Err(KernelError::NotServed(op.name()))
    }

    /// Fills `outputs`, which have the shapes that [`Kernel::shapes`] gives. The bytes are the same
    /// for any number of threads.
    ///
    /// # Errors
    ///
    /// What it is given does not fit; `outputs` may be filled in part then.
    fn run(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &mut [ViewMut<'_>],
        context: &Context,
    ) -> Result<(), KernelError>;
}
