//! Test doubles and generated graphs, used by tests and benchmarks alone.
//!
//! What lives here: [`MemDisk`], [`FaultDisk`] and [`CrashDisk`], disks that fail and disks that
//! are looked into; [`Citations`], a graph that no file holds; [`arrow_stream`], columns as senders
//! write them; and what the errors of every crate are tested for. What must not: anything that a
//! shipped crate needs. The faults that are played here are those of
//! `docs/explanation/crash-model.md`, and that document comes first: a fault that it does not name
//! is not played, one that it names is.
#![forbid(unsafe_code)]

mod arrow;
mod citations;
mod crash;
mod fault;
mod fault_disk;
mod mem_disk;
mod mem_locks;
mod messages;
mod random;

pub use arrow::{ArrowColumn, ArrowOddities, Named, arrow_stream, arrow_stream_with};
pub use citations::Citations;
pub use crash::{CrashDisk, CrashImage, ImageChoice, ImageKind};
pub use fault::{Fault, FaultCounts, FaultPlan, Odds};
pub use fault_disk::FaultDisk;
pub use mem_disk::{MemCounts, MemDisk, Room};
pub use messages::assert_for_every_face;
pub use random::Random;
