//! What an accelerator computes of a batch, and how long it takes.
//!
//! This module is a list of names. What crosses the interface of its memory: `scratchpad`.

mod cycles;
mod layers;
mod model;
mod work;

pub use cycles::Computing;
pub use layers::RowWork;
pub use model::{Layer, Model, WidthError};
pub use work::{Gemm, Operand, Product, Work};
