//! An open store: its handle, what all of its snapshots share, and the questions that can be put to
//! one version.
//!
//! What must not live here: formats, and how updates are done.

pub(crate) mod handle;
pub(crate) mod inner;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod snapshot;
pub(crate) mod tenants;
