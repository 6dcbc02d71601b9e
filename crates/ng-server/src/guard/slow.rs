//! Requests whose bytes do not come, or that are more than there is room for.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use ng_rpc::{Code, Problem, Status};
use tokio::time::{Instant, Sleep, sleep};

use super::{Caller, Guard};

/// Bytes before each message of gRPC: a flag, and the length.
const PREFIX_BYTES: usize = 5;

/// What has to come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// All of the request. A stream that changes a graph is one: it holds one of a few places.
    OfAll,
    /// Its first message, and the rest of each that has begun. Between two, a stream may be quiet
    /// for as long as its connection lives.
    OfMessages,
}

/// How a request comes.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    /// What has to come in time.
    pub rest: Rest,
    /// In messages of gRPC.
    pub is_rpc: bool,
    /// Messages may follow one another.
    pub is_stream: bool,
}

/// The body of a request, which ends with an error if its next piece does not come in time, or
/// there is no room for it.
pub struct Timed {
    body: Body,
    guard: Arc<Guard>,
    caller: Caller,
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
    /// A piece was asked for, and had not come.
    waits: bool,
    coming: Coming,
    messages: Messages,
    /// That have come.
    bytes: u64,
}

impl Timed {
    /// Each piece of what has to come in time has to come within the limit of the rules. Of a
    /// stream's messages only the one that comes is held; all of a call is.
    pub fn new(body: Body, guard: &Arc<Guard>, caller: Caller, coming: Coming) -> Self {
        let (guard, limit) = (Arc::clone(guard), guard.rules().limits.body);
        let (messages, sleep) = (Messages::default(), Box::pin(sleep(limit)));
        let (waits, bytes) = (false, 0);
        Self { body, guard, caller, limit, sleep, waits, coming, messages, bytes }
    }

    /// More of the request has come.
    fn see(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let begun = self.messages.begun;
        self.messages.see(bytes);
        if self.coming.is_stream && self.messages.begun != begun {
            // Whoever asks for the next message has done with the one before.
            self.caller.has_taken_in();
        }
        self.bytes += bytes.len() as u64;
        let held = if self.coming.is_stream { self.messages.come } else { self.bytes };
        self.guard.take_in(&self.caller, held)
    }

    fn may_be_quiet(&self) -> bool {
        self.coming.rest == Rest::OfMessages && self.messages.is_between()
    }

    /// Whether what has come may be all of it. HTTP/2 ends the bytes of a request that was taken
    /// back as those of one that is complete.
    fn may_end(&self) -> bool {
        let is_empty = self.coming.is_stream && self.bytes == 0;
        !self.coming.is_rpc || is_empty || self.messages.is_between()
    }
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    this.see(bytes).map_err(Status::from)?;
                }
                this.waits = false;
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) if this.may_end() => Poll::Ready(None),
            Poll::Ready(Some(Err(error))) if !this.coming.is_rpc => {
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(_) => {
                let message = "the request ended before it was complete";
                let problem = Problem::new(Code::InvalidArgument, "REQUEST_INCOMPLETE", message)
                    .remedy("send one complete gRPC message");
                Poll::Ready(Some(Err(Box::new(Status::from(problem)))))
            }
            Poll::Pending if this.may_be_quiet() => Poll::Pending,
            Poll::Pending => {
                // What the server takes for the pieces before is not the client's time.
                if !mem::replace(&mut this.waits, true) {
                    this.sleep.as_mut().reset(Instant::now() + this.limit);
                }
                ready!(this.sleep.as_mut().poll(cx));
                let message = format!("no bytes of the request arrived for {:?}", this.limit);
                let problem = Problem::new(Code::DeadlineExceeded, "REQUEST_TOO_SLOW", message)
                    .remedy("send a request without long pauses");
                Poll::Ready(Some(Err(Box::new(Status::from(problem)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() && self.may_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Where messages of gRPC end in a stream of bytes.
#[derive(Default)]
struct Messages {
    prefix: [u8; PREFIX_BYTES],
    /// Bytes of the prefix that have come.
    of_prefix: usize,
    /// Bytes of the message that have not.
    left: u64,
    has_one: bool,
    /// Messages that have begun, and the bytes that have come of the last one.
    begun: u64,
    come: u64,
}

impl Messages {
    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left -= taken as u64;
                self.come += taken as u64;
                bytes = &bytes[taken..];
            } else {
                if self.of_prefix == 0 {
                    (self.begun, self.come) = (self.begun + 1, 0);
                }
                self.come += 1;
                self.prefix[self.of_prefix] = bytes[0];
                self.of_prefix += 1;
                bytes = &bytes[1..];
                if self.of_prefix == PREFIX_BYTES {
                    let [_, length @ ..] = self.prefix;
                    (self.left, self.of_prefix) = (u32::from_be_bytes(length).into(), 0);
                }
            }
            self.has_one |= self.left == 0 && self.of_prefix == 0;
        }
    }

    /// Whether all messages that have begun have ended, and there was one.
    fn is_between(&self) -> bool {
        self.has_one && self.left == 0 && self.of_prefix == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_messages_are_found_however_they_are_cut() {
        let bytes = [0, 0, 0, 0, 3, 7, 7, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9];
        let ends = [8, 13, 19];
        for size in 1..=bytes.len() {
            let (mut messages, mut at) = (Messages::default(), 0);
            assert!(!messages.is_between(), "none has come");
            for piece in bytes.chunks(size) {
                messages.see(piece);
                at += piece.len();
                assert_eq!(messages.is_between(), ends.contains(&at), "{size}, {at}");
            }
            assert_eq!((messages.begun, messages.come), (3, 6));
        }
    }
}
