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
    #[error("a frame of kind {kind} is not valid on stream {stream}")]
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
    #[error("the frame has {bytes} bytes after its last field")]
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// Something is longer than allowed.
    #[error("the length of {what} is {count}; the limit is {count_max}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        count: usize,
        /// The bound.
        count_max: usize,
    },
    /// Something has bytes that it may not have.
    #[error("invalid bytes in {what}")]
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
