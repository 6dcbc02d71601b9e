//! Frames of bytes between two processes of one machine, through memory that both have mapped
//! (`docs/reference/shm.md`).
//!
//! What lives here: the set-up over a Unix socket, sealed memory, two rings and the wake-ups. What
//! must not: what the bytes of a frame mean. The invariants: nothing that the peer can change is
//! read twice or believed unchecked; a peer that dies or writes garbage ends its own connection,
//! and nothing else.

mod connection;
mod copy;
mod error;
mod listener;
mod memory;
mod options;
mod ring;
mod setup;
mod socket;
mod wake;

pub(crate) mod fuzzing;

pub use connection::{ShmCloser, ShmConnection, ShmPeer, ShmReceiver, ShmSender};
pub use error::{Refusal, ShmError, SocketError};
pub use listener::ShmListener;
pub use options::ShmOptions;
pub use ring::ShmFrame;
pub use socket::{SocketFile, listen_at};
