//! The direct layout (BeaconGNN, sections IV.A and VI.A): a snapshot compiled into one immutable
//! file in which a node's rows stand beside its neighbours, and neighbours are the places of their
//! sections, so that a hop needs no index.
//!
//! What lives here: the bytes (`format.rs`), which section goes where ([`DirectPlan`]), writing the
//! file, which file serves a snapshot (`choice.rs`), and reading checked sections of it
//! ([`DirectFile`]). What must not: draws and hops. The invariants: every page has a checksum, its
//! number and the number of its build; an address that leads nowhere is an error that names file,
//! page and section.

mod addresses;
mod cache;
mod choice;
mod error;
mod format;
mod head;
mod layout;
mod places;
mod plan;
mod reader;
mod section;
mod writer;

pub(crate) use cache::PageCaches;
pub use error::DirectError;
pub use head::DirectInfo;
pub use places::places;
pub use plan::{DirectOptions, DirectPlan, DirectProgress};
pub use reader::{DirectFile, TakePrimary};
pub use section::{Position, Primary, Spot};
