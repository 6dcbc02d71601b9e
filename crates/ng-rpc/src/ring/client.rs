//! [`RingChannel`]: what a generated client calls in place of a channel over a socket.

use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{HeaderMap, Request, Response, Version};
use http_body::{Body as HttpBody, Frame};
use ng_io::calls::{Event, Open};
use ng_io::{ShmConnection, ShmOptions};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tower::{BoxError, Service};

use super::heads;
use super::link::{Link, Live, Opened};
use super::pump::{Ended, pump};

/// How a client uses rings.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingOptions {
    /// How long an answer is looked for before the thread sleeps; as the cores allow, unless given.
    pub spin: Option<Duration>,
    /// The thread that polls a call may wait in the ring for its answer, which saves a change of
    /// threads. For programs that wait for each call on a thread of its own.
    pub blocking: bool,
}

struct Shared {
    path: PathBuf,
    options: RingOptions,
    live: Mutex<Option<Arc<Live>>>,
    connecting: tokio::sync::Mutex<()>,
}

/// A channel over rings, which connects when it is first used and again when it is lost.
#[derive(Clone)]
pub struct RingChannel(Arc<Shared>);

impl RingChannel {
    /// A channel to the server that listens at `path`.
    pub fn new(path: &Path, options: RingOptions) -> Self {
        let (live, connecting) = (Mutex::default(), tokio::sync::Mutex::default());
        Self(Arc::new(Shared { path: path.to_owned(), options, live, connecting }))
    }
}

impl Shared {
    fn usable(&self) -> Option<Arc<Live>> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.take_if(|live| !live.is_usable());
        live.clone()
    }

    async fn live(&self) -> Result<Arc<Live>, Status> {
        if let Some(live) = self.usable() {
            return Ok(live);
        }
        let _one = self.connecting.lock().await;
        if let Some(live) = self.usable() {
            return Ok(live);
        }
        let (path, options) = (self.path.clone(), self.options);
        let made = tokio::task::spawn_blocking(move || {
            let mut set = ShmOptions::default();
            set.spin = options.spin.unwrap_or(set.spin);
            let rings = ShmConnection::connect(&path, set.clone());
            let rings = rings.map_err(|error| Status::unavailable(error.to_string()))?;
            let lead = if options.blocking { None } else { Some(set.spin) };
            Live::start(rings, lead).map_err(|error| Status::unavailable(error.to_string()))
        });
        let made = made.await.map_err(|_| Status::cancelled("the client is closing"))??;
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&made));
        Ok(made)
    }
}

type Calling = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

impl Service<Request<Body>> for RingChannel {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Calling;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Calling {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { Ok(call(&shared, request).await?) })
    }
}

async fn call(shared: &Shared, request: Request<Body>) -> Result<Response<Body>, Status> {
    let (parts, body) = request.into_parts();
    let left = heads::timeout_of(&parts.headers);
    let deadline = left.and_then(|left| Instant::now().checked_add(left));
    let invalid = |error: ng_io::calls::CallError| Status::invalid_argument(error.to_string());
    let open = Open {
        path: parts.uri.path().to_owned(),
        deadline: left,
        metadata: heads::to_metadata(parts.headers).map_err(invalid)?,
    };
    let connected = shared.live();
    let live = match deadline {
        None => connected.await?,
        Some(end) => tokio::time::timeout_at(end, connected).await.map_err(late)??,
    };
    let Opened { stream, inbox, allowance } = live.open(&open)?;
    // From here on the stream is cancelled when the call is dropped.
    let mut answer = Answer { link: live.link(), live, stream, inbox, late: None, deadline };
    let sending = Arc::clone(answer.link.outbox());
    let failing = Arc::clone(&answer.inbox);
    let mut sending = Box::pin(async move {
        match pump(body, &sending, &allowance, stream).await {
            Ended::Whole(_) => drop(sending.post(stream, &Event::End)),
            Ended::Failed(status) => failing.fail(status),
            Ended::Over => {}
        }
    });
    // Most requests are there as a whole and are sent here, in one go.
    let polled = sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    if polled.is_pending() {
        tokio::spawn(sending);
    }
    let (head, body) = match poll_fn(|cx| answer.poll_head(cx)).await? {
        Some(head) => (head, Body::new(answer)),
        // The end is all that there is: it stands in place of the headers.
        None => match poll_fn(|cx| answer.inbox.poll_frame(cx)).await.transpose()? {
            Some(frame) => match frame.into_trailers() {
                Ok(trailers) => (trailers, Body::empty()),
                Err(_) => return Err(Status::internal("the server answered without headers")),
            },
            None => return Err(Status::internal("the server ended the call without a status")),
        },
    };
    let mut response = Response::new(body);
    *response.version_mut() = Version::HTTP_2;
    *response.headers_mut() = head;
    let kind = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    Ok(response)
}

fn late<E>(_: E) -> Status {
    Status::deadline_exceeded("no answer arrived before the deadline of the request")
}

/// An answer on its way: the body of a response. Cancels its stream when it is dropped too early.
struct Answer {
    live: Arc<Live>,
    link: Arc<Link>,
    stream: u64,
    inbox: Arc<super::inbox::Inbox>,
    deadline: Option<Instant>,
    late: Option<Pin<Box<Sleep>>>,
}

impl Answer {
    /// Waits for what `look` looks for, in the ring if that is allowed.
    fn poll_news<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut look: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, Status>> {
        if let Poll::Ready(found) = look(cx) {
            return Poll::Ready(Ok(found));
        }
        let end = self.deadline.map(Instant::into_std);
        if self.link.lead(&self.live, end, || self.inbox.has_news())
            && let Poll::Ready(found) = look(cx)
        {
            return Poll::Ready(Ok(found));
        }
        let Some(deadline) = self.deadline else { return Poll::Pending };
        let sleep = self.late.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        sleep.as_mut().poll(cx).map(|()| Err(late(())))
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<HeaderMap>, Status>> {
        let inbox = Arc::clone(&self.inbox);
        self.poll_news(cx, |cx| inbox.poll_head(cx))
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let inbox = Arc::clone(&self.inbox);
        match self.poll_news(cx, |cx| inbox.poll_frame(cx)) {
            Poll::Ready(Ok(found)) => Poll::Ready(found),
            Poll::Ready(Err(status)) => Poll::Ready(Some(Err(status))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let is_open = self.inbox.drop_rest();
        self.link.forget(self.stream, is_open);
    }
}
