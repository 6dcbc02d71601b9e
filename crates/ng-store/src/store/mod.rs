//! An open store: its handle, what all of its snapshots share, and the questions that can be put to
//! one version.
//!
//! What must not live here: formats, and how updates are done.

mod handle;
mod hold;
mod inner;
mod load;
mod memory;
mod options;
mod snapshot;
mod tenants;

pub use handle::Store;
pub(crate) use handle::{PAUSE_MAX, REPLACED_MAX};
pub(crate) use inner::Inner;
pub(crate) use load::{load_base, load_version};
pub use options::{MemoryShare, OpenOptions, StoreStats};
pub use snapshot::{
    EXPAND_BYTES_PER_DESTINATION, EXPAND_BYTES_PER_ENTRY, GATHER_BYTES_PER_ROW,
    SPARSE_BYTES_PER_ROW, Snapshot,
};
pub use tenants::{Spare, Tenant, Tenants};
