//! Answers that are kept: which of them a commit can change, and a cache of them.
//!
//! - [`affected`]: from what commits changed to the nodes whose answers can differ;
//! - [`cache`]: rows of answers by node, each with the snapshots that it is right for.
//!
//! What must not live here: how answers are made. The invariant: a kept answer is handed out for a
//! snapshot only if the engine would give the same bytes there.

pub(crate) mod affected;
pub(crate) mod cache;
mod history;
mod shard;
mod walk;
