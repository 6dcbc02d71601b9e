//! Answers that are kept, and which of them commits leave as they are.
//!
//! - [`reach`]: the nodes that an answer was made of;
//! - [`between`]: what changed between two snapshots that answers can be made of ([`changed`]);
//! - [`cache`]: rows of answers by node, each with the snapshots that it is right for.
//!
//! What must not live here: how answers are made. The invariant: a kept answer is handed out for a
//! snapshot only if the engine would give the same bytes there.

mod between;
pub(crate) mod cache;
pub(crate) mod changed;
mod history;
pub(crate) mod reach;
mod shard;
