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
    #[error("{path:?} is not a valid socket path: expected 1 to 107 bytes without a zero byte")]
    BadPath {
        /// The path.
        path: PathBuf,
    },
    /// A server that lives listens there.
    #[error("a server already listens at {path}; stop it, or choose another path")]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something else is there, which is not removed.
    #[error(
        "{path} exists and is not a socket left by an earlier server of this user; move it away"
    )]
    Foreign {
        /// The path.
        path: PathBuf,
    },
    /// The system reported an error.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

explain! { SocketError {
    BadPath | InUse | Foreign => UnsupportedArgument,
    Io => IoFailed,
} }

impl SocketError {
    /// Converts an error of the system on `action`.
    pub(super) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }
}

/// Why a server refused a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It speaks another version.
    #[error("it uses version {server} of the ring protocol; run the same release on both sides")]
    Version {
        /// The version of the server.
        server: u16,
    },
    /// It has all connections that it allows.
    #[error("it has reached its limit of connections; close some, or try again later")]
    Full,
    /// The process belongs to another user.
    #[error("it accepts connections only from its own user and from root")]
    OtherUser,
    /// It did not understand the request.
    #[error("it rejected the requested size of the rings")]
    BadRequest,
    /// It has no memory or descriptors left.
    #[error("it could not allocate the memory of the rings")]
    NoMemory,
}

/// A connection that could not be made, or that is over.
#[derive(Debug, Error)]
pub enum ShmError {
    /// A socket could not be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Rings have bounded sizes.
    #[error("{bytes} bytes is not a valid ring size: expected a power of two from 4 KiB to 64 MiB")]
    RingBytes {
        /// What was asked for.
        bytes: u32,
    },
    /// There is no server.
    #[error("no server listens at {path}; start a server, or check the path")]
    NoServer {
        /// The path.
        path: PathBuf,
    },
    /// The process that listens belongs to somebody else.
    #[error("the server at {path} runs as user {uid}; expected the user of this process, or root")]
    OtherUser {
        /// The path.
        path: PathBuf,
        /// The user.
        uid: u32,
    },
    /// The server said no.
    #[error("the server at {path} refused the connection: {why}")]
    Refused {
        /// The path.
        path: PathBuf,
        /// Its reason.
        why: Refusal,
    },
    /// The server's answer is not one of this protocol.
    #[error("cannot connect to the ring server at {path}: {what}")]
    BadAnswer {
        /// The path.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The memory that came could be taken away while it is used.
    #[error("the shared memory of the server at {path} is not safe to use: {what}")]
    UnsafeMemory {
        /// The path.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// A frame must be cut.
    #[error("a frame of {bytes} bytes exceeds the limit of {bytes_max} bytes")]
    TooLong {
        /// What was to be sent.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The peer wrote what no peer may write.
    #[error("the peer violated the ring protocol: {what}; the connection is closed")]
    Garbled {
        /// What is wrong.
        what: &'static str,
    },
    /// The peer's process ended, or let go of the socket.
    #[error("the peer process has ended")]
    PeerGone,
    /// One of the sides closed the connection.
    #[error("the connection is closed")]
    Closed,
    /// The other side took nothing for as long as was to be waited.
    #[error("the peer did not free space in the ring in time")]
    TimedOut,
    /// The process is a fork of the one that connected.
    #[error(
        "a connection of process {made_in} cannot be used in its fork {used_in}; connect again in \
         the fork"
    )]
    Forked {
        /// Who connected.
        made_in: u32,
        /// Who uses it.
        used_in: u32,
    },
    /// The system reported an error.
    #[error("cannot {action}: {source}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

explain! { ShmError {
    RingBytes | TooLong => UnsupportedArgument,
    NoServer | OtherUser | Refused | BadAnswer | UnsafeMemory | Garbled | PeerGone => IoFailed,
    Closed | TimedOut | Forked | Io => IoFailed,
} of Socket.0 }

impl ShmError {
    /// Converts an error of the system on `action`.
    pub(super) fn io(action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io { action, source: source.into() }
    }
}

impl From<Forked> for ShmError {
    fn from(forked: Forked) -> Self {
        Self::Forked { made_in: forked.opened_in, used_in: forked.used_in }
    }
}
