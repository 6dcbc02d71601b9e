//! What can go wrong with sockets of files and with rings.

use std::io;
use std::path::{Path, PathBuf};

use ng_types::explain;
use thiserror::Error;

use crate::os::process::Forked;

/// A socket that could not be made at a path.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The system takes no such name.
    #[error("{path} cannot be a socket's path: it has more than 107 bytes, none, or a zero byte")]
    BadPath {
        /// The path.
        path: PathBuf,
    },
    /// A server that lives listens there.
    #[error("a server listens at {path} already; end it first or take another path")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something else is there, which is not removed.
    #[error("{path} exists and is not a socket that an earlier server of this user left; move it")]
    Foreign {
        /// The path.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

explain! { SocketError {
    BadPath | InUse | Foreign => UnsupportedArgument,
    Io => IoFailed,
} }

impl SocketError {
    /// What the system said to `action`.
    pub(super) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }
}

/// Why a server refused a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It speaks another version.
    #[error("it speaks version {server} of the rings; bring both sides to one release")]
    Version {
        /// The version of the server.
        server: u16,
    },
    /// It has all connections that it allows.
    #[error("it has as many connections as it allows; close some, or try again later")]
    Full,
    /// The process belongs to another user.
    #[error("it takes connections of its own user and of root alone")]
    OtherUser,
    /// It did not understand the request.
    #[error("it did not accept the size of the rings that was asked for")]
    BadRequest,
    /// It has no memory or descriptors left.
    #[error("it could not get the memory for rings")]
    NoMemory,
}

/// A connection that could not be made, or that is over.
#[derive(Debug, Error)]
pub enum ShmError {
    /// A socket could not be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Rings have bounded sizes.
    #[error("a ring of {bytes} bytes is not a power of two from 4 KiB to 64 MiB")]
    RingBytes {
        /// What was asked for.
        bytes: u32,
    },
    /// There is no server.
    #[error("no server listens at {path}; start it, or check the path")]
    NoServer {
        /// The path.
        path: PathBuf,
    },
    /// The process that listens belongs to somebody else.
    #[error("{path} belongs to a process of user {uid}, neither this user nor root")]
    OtherUser {
        /// The path.
        path: PathBuf,
        /// The user.
        uid: u32,
    },
    /// The server said no.
    #[error("the server at {path} refused: {why}")]
    Refused {
        /// The path.
        path: PathBuf,
        /// Its reason.
        why: Refusal,
    },
    /// The server's answer is not one of this protocol.
    #[error("{path} did not answer as a server of rings does: {what}")]
    BadAnswer {
        /// The path.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The memory that came could be taken away while it is used.
    #[error("the memory that {path} offers is refused: {what}")]
    UnsafeMemory {
        /// The path.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// A frame must be cut.
    #[error("a frame of {bytes} bytes is longer than the {bytes_max} that one may have")]
    TooLong {
        /// What was to be sent.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The peer wrote what no peer may write.
    #[error("the peer broke the rules of the ring: {what}; this connection is over")]
    Garbled {
        /// What is wrong.
        what: &'static str,
    },
    /// The peer's process ended, or let go of the socket.
    #[error("the process on the other side is gone")]
    PeerGone,
    /// One of the sides closed the connection.
    #[error("the connection is closed")]
    Closed,
    /// The other side took nothing for as long as was to be waited.
    #[error("the other side did not make room in time")]
    TimedOut,
    /// The process is a fork of the one that connected.
    #[error("connected in process {made_in} but used in its fork {used_in}; connect again there")]
    Forked {
        /// Who connected.
        made_in: u32,
        /// Who uses it.
        used_in: u32,
    },
    /// The system refused.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

explain! { ShmError {
    RingBytes | TooLong => UnsupportedArgument,
    NoServer | OtherUser | Refused | BadAnswer | UnsafeMemory | Garbled | PeerGone => IoFailed,
    Closed | TimedOut | Forked | Io => IoFailed,
} of Socket.0 }

impl ShmError {
    /// What the system said to `action`.
    pub(super) fn io(action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io { action, source: source.into() }
    }
}

impl From<Forked> for ShmError {
    fn from(forked: Forked) -> Self {
        Self::Forked { made_in: forked.opened_in, used_in: forked.used_in }
    }
}
