//! Versions of a store, and the root slots that say which checkpoint is the newest.
//!
//! What must not live here: how a version comes into being (`write`), and who reads it.

pub(crate) mod base;
pub(crate) mod changes;
pub(crate) mod open_root;
pub(crate) mod root;
