//! What frames mean where they carry remote calls, as events (`docs/reference/shm.md`, "Calls").
//!
//! What must not live here: rings, waiting, and what a message holds. The invariants: any bytes
//! decode to an event or to an error, without a panic; every count and length is bounded before
//! anything is allocated by it; an event that encodes decodes to itself.

mod credit;
mod error;
mod event;
mod fields;
mod metadata;

pub use credit::{CREDIT_AT_FIRST, CREDIT_MAX, Credit};
pub use error::CallError;
pub use event::{Event, GoAway, Open, PATH_BYTES_MAX, TEXT_BYTES_MAX, Trailers};
pub use metadata::{METADATA_BYTES_MAX, Metadata, PAIRS_MAX};
