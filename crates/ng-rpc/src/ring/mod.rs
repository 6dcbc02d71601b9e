//! Calls over rings in shared memory, without HTTP (`docs/reference/shm.md`, "Calls").
//!
//! What lives here: from frames to requests for the same services that sockets serve, and from the
//! requests of a generated client to frames. What must not: memory, waiting and frames themselves
//! (`ng-io` has them), and what a request means. The invariants: a peer that breaks the rules ends
//! its own connection and nothing else; what a connection holds is bounded by its streams.

mod allowance;
mod client;
mod connection;
mod framing;
mod heads;
mod inbox;
mod link;
mod outbox;
mod pump;
mod server;

pub use client::{RingChannel, RingOptions};
pub use server::{Ring, RingLimits};
