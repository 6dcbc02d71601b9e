//! One value, or one row, for each edge, as attention needs them.
//!
//! What lives here: [`GraphKernels::edge_softmax`], [`GraphKernels::edge_dot`] and
//! [`GraphKernels::edge_add`]. What must not: learned weights and activations. The invariant: the
//! order of every sum is fixed and no product is fused with it, so all paths give the same bits.
//! Every NaN in an output is [`f32::NAN`].

mod products;
mod softmax;

pub use products::EdgePairs;

#[cfg(doc)]
use crate::kernels::GraphKernels;

#[inline(always)]
fn canonical(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}
