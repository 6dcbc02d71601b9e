//! Dataflow graphs: what they are made of, how they are built and written, and what is checked
//! before one runs.
//!
//! What must not live here: kernels, devices, and the elements of a batch.

mod attributes;
mod bind;
mod constant;
mod dim;
mod error;
mod graph;
mod half;
mod infer;
pub mod levels;
mod lower;
mod names;
mod op;
mod order;
mod text;

pub use attributes::{Attribute, Attributes};
pub use constant::{Constant, Elements};
pub use dim::Dim;
pub use error::DfgError;
pub use graph::{Dfg, Node, Source, TensorType, Value};
pub(crate) use half::from_f16;
pub(crate) use infer::{Exact, Known, exact, place, places};
pub use lower::Moves;
pub use op::{Binary, FixedFormat, Op, Reduction, Unary};
pub use order::NamedNode;
