//! Streams of Arrow IPC: record batches of numbers and of fixed-size lists of numbers.
//!
//! What lives here: the part of the format that columns of a graph have. What must not: what a
//! column means, and where it goes. The invariants: bytes are hostile until they are typed here; no
//! memory is taken for a length before the bytes have come; what cannot be stored as it is (nulls,
//! text, dictionaries, compressed buffers) is refused by its name, and never guessed.
//!
//! The format's own crates are not used: they bring some fifteen others, a second version of one
//! that is here already, and their readers have met hostile bytes with panics more than once. What
//! is needed of the format is small: <https://arrow.apache.org/docs/format/Columnar.html>.

mod batch;
mod error;
mod flat;
mod schema;
mod stream;

pub use batch::{ArrowBatch, OwnedIds};
pub use error::ArrowError;
pub use schema::{ArrowField, Elements};
pub use stream::{ArrowEvent, ArrowReader};
