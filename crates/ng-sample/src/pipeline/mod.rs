//! What all ways of making batches have in common: the queue of finished batches, the admission of
//! memory, the gatherer and the rows that it takes.
//!
//! ```text
//! Job (seeds, stream) -> sampled (compact subgraph) -> rows at hand -> gathered -> MiniBatch
//! ```
//!
//! What must not live here: looking ahead, files of compiled epochs, and the choice between ways.
//! The invariants: batches leave in the order of their jobs; memory of a batch is in the budget
//! from its allocation until the consumer drops it.

mod each;
mod gather;
mod pace;
mod rows;
mod shared;

pub(crate) use each::Each;
pub(crate) use gather::{Gatherer, Source};
pub(crate) use rows::{COLD, HotRows, Memory, ResidentTensor, Rows, Slots, hottest};
pub(crate) use shared::{Shared, State};
