//! Requests whose bytes do not come.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use ng_rpc::{Code, Problem, Status};
use tokio::time::{Instant, Sleep, sleep};

/// The body of a request, which ends with an error if its next piece does not come in time.
pub struct Timed {
    body: Body,
    limit: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl Timed {
    /// Each piece has to come within `limit`.
    pub fn new(body: Body, limit: Duration) -> Self {
        Self { body, limit, sleep: Box::pin(sleep(limit)) }
    }
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                let next = Instant::now() + self.limit;
                self.sleep.as_mut().reset(next);
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending if self.sleep.as_mut().poll(cx).is_ready() => {
                let message = format!("no bytes of the request came for {:?}", self.limit);
                let problem = Problem::new(Code::DeadlineExceeded, "REQUEST_TOO_SLOW", message);
                Poll::Ready(Some(Err(Box::new(Status::from(problem)))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
