//! [`CallError`]: what is wrong with an event.

use ng_types::explain;
use thiserror::Error;

/// An event that cannot be sent, or that no peer may send.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// There is no such kind of frame.
    #[error("frame kind {kind} is unknown")]
    UnknownKind {
        /// The kind.
        kind: u32,
    },
    /// The stream does not go with the kind.
    #[error("a frame of kind {kind} does not belong to stream {stream}")]
    WrongStream {
        /// The kind.
        kind: u32,
        /// The stream.
        stream: u64,
    },
    /// The frame ends in the middle of something.
    #[error("the frame ends in the middle of {what}")]
    Truncated {
        /// What it ends in.
        what: &'static str,
    },
    /// The frame goes on behind its end.
    #[error("the frame has {bytes} bytes after its end")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// Something is longer than allowed.
    #[error("{what}: {count}, at most {count_max} are allowed")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        count: usize,
        /// The bound.
        count_max: usize,
    },
    /// Something has bytes that it may not have.
    #[error("{what} is not valid: it contains bytes that are not allowed there")]
    BadBytes {
        /// What it is.
        what: &'static str,
    },
    /// More was sent than was granted, or more is granted than may be.
    #[error("the peer violates flow control: {what}")]
    Credit {
        /// What it does.
        what: &'static str,
    },
}

explain! { CallError {
    UnknownKind | WrongStream | Truncated | Trailing | Credit => IoFailed,
    TooMany | BadBytes => UnsupportedArgument,
} }
