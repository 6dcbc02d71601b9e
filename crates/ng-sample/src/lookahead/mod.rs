//! Reading far ahead of use: batches are sampled long before their rows are read, so the reads of
//! many batches are known together and can be fewer, longer and in the order of the file.
//!
//! What lives here: the window of sampled batches, the policies that say which rows are read when
//! and how long they stay, the memory for them, the threads that sample, plan, read and gather.
//! What must not: formats, checksums, the draws themselves. The invariants: a batch has the bytes
//! that [`crate::Sampler::sample`] gives, whatever the policy; memory is planned before the first
//! read and never passed.
//!
//! ```text
//!  jobs -> sample (threads) -> plan (one thread) -> read (one queue) -> gather -> consumer
//!            window of W          Policy, Places        slots            buffers
//! ```
//!
//! [`distribute`] has another way from samples to rows: through a file sorted by batch.

mod chosen;
mod decide;
mod distribute;
mod engine;
mod known;
mod memory;
mod pieces;
mod places;
mod planner;
mod policy;
mod prepare;
mod reader;
mod run;
mod spill;
mod state;
mod stretch;
mod study;
mod tell;

pub use chosen::Chosen;
pub(crate) use engine::LookAhead;
pub use engine::Settings;
pub use policy::Reading;
