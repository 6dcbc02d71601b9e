//! Plans: graphs made ready to run, and their runs.
//!
//! What lives here: what becomes of a graph before it runs (nodes that nobody needs, constants,
//! fusion, trimming), memory that runs share, and the run itself. What must not: how an operation
//! is computed. The invariant: a plan does not change, so a run ends with the kernels that it began
//! with.

mod arena;
mod bind;
mod build;
mod draft;
mod edges;
mod explain;
mod forms;
mod inputs;
mod linear;
mod prepare;
mod row_by_row;
mod run;
mod simplify;
mod unfold;
mod whole_model;

pub use explain::{Cost, Explanation, StepInfo};
pub use inputs::Hops;
pub use prepare::{Options, Plan};
pub use run::Answer;
pub use whole_model::{RunModel, WholeModel};
