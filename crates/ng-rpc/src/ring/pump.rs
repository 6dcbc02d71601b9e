//! From the body of a request or an answer into frames.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::HeaderMap;
use http_body::Body as _;
use tonic::Status;
use tonic::body::Body;

use super::allowance::Allowance;
use super::framing::Cutter;
use super::outbox::{Outbox, Unsent};

/// How a body ended.
pub(super) enum Ended {
    /// All was sent; an answer has trailers.
    Whole(Option<HeaderMap>),
    /// It ended with an error.
    Failed(Status),
    /// The stream or the connection is over.
    Over,
}

/// Sends the messages of a body, as the peer allows.
pub(super) async fn pump(
    body: Body,
    outbox: &Arc<Outbox>,
    allowance: &Allowance,
    stream: u64,
) -> Ended {
    let (mut body, mut cutter) = (pin!(body), Cutter::default());
    loop {
        let next = poll_fn(|cx| match body.as_mut().poll_frame(cx) {
            Poll::Pending => allowance.poll_over(cx).map(|()| Some(None)),
            Poll::Ready(frame) => Poll::Ready(frame.map(Some)),
        });
        let frame = match next.await {
            Some(None) => return Ended::Over,
            None if cutter.is_between() => return Ended::Whole(None),
            None => return Ended::Failed(Status::internal("the body ends inside a message")),
            Some(Some(Err(status))) => return Ended::Failed(status),
            Some(Some(Ok(frame))) => frame,
        };
        let mut chunk = match frame.into_data() {
            Ok(chunk) => chunk,
            Err(frame) => match frame.into_trailers() {
                Ok(trailers) => return Ended::Whole(Some(trailers)),
                Err(_) => continue,
            },
        };
        loop {
            let (mut piece, last) = match cutter.next(&mut chunk) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(status) => return Ended::Failed(status),
            };
            loop {
                let most = piece.len();
                let Some(len) = poll_fn(|cx| allowance.poll_take(cx, most)).await else {
                    return Ended::Over;
                };
                let part = piece.split_to(len);
                match outbox.data(stream, part, last && piece.is_empty()).await {
                    Ok(()) if piece.is_empty() => break,
                    Ok(()) => {}
                    Err(Unsent::Over) => return Ended::Over,
                    Err(Unsent::Invalid(_) | Unsent::TooLong) => {
                        return Ended::Failed(Status::internal(
                            "a message does not fit into frames",
                        ));
                    }
                }
            }
        }
    }
}
