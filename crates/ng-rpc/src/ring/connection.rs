//! A connection as the server has it: its streams, and what each frame does to them.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use http::{Request, Version};
use ng_io::calls::{CallError, Event, GoAway, Open};
use ng_io::{ShmError, ShmFrame, ShmReceiver};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::Service;

use super::allowance::Allowance;
use super::heads;
use super::inbox::{Inbox, Incoming, Slots};
use super::outbox::{Outbox, Unsent};
use super::pump::{Ended, pump};
use crate::connection::Peer;

/// How long the rest of a request is waited for before its service is asked: most requests are
/// three frames that come together.
const REST_WAIT: Duration = Duration::from_micros(20);
/// Streams that may hold a long message at a time.
const LONG_MAX: usize = 2;
/// Bytes of a status where its details do not fit.
const SHORT_TEXT: usize = 256;

type Answer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A stream that is open.
struct Stream {
    inbox: Arc<Inbox>,
    allowance: Arc<Allowance>,
    task: Option<AbortHandle>,
}

#[derive(Default)]
struct Streams {
    open: HashMap<u64, Stream>,
    /// The highest that was opened.
    last: u64,
    /// No later one is served.
    is_draining: bool,
}

/// A call that no service was asked for yet.
struct Fresh {
    stream: u64,
    answer: Answer,
}

/// A connection as the server has it.
pub(super) struct Connection {
    outbox: Arc<Outbox>,
    slots: Arc<Slots>,
    streams: Mutex<Streams>,
    streams_max: usize,
    message_bytes_max: usize,
    peer: Peer,
}

impl Connection {
    pub fn new(outbox: Arc<Outbox>, streams_max: usize, message_bytes_max: usize) -> Self {
        let (slots, streams) = (Slots::new(LONG_MAX), Mutex::default());
        let peer = Peer::default();
        Self { outbox, slots, streams, streams_max, message_bytes_max, peer }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves until the connection is over; says what rule the peer broke, if it did.
    pub fn serve(
        self: &Arc<Self>,
        mut receiver: ShmReceiver,
        routes: &Routes,
        runtime: &Handle,
    ) -> Option<String> {
        let _entered = runtime.enter();
        let (mut payload, mut fresh) = (Vec::new(), None::<Fresh>);
        let broken = loop {
            let wait = fresh.is_some().then_some(REST_WAIT);
            let frame = match receiver.receive(&mut payload, wait) {
                // A peer that goes on sending is not listened to for ever.
                Ok(_) if self.outbox.is_over() => break None,
                Ok(frame) => frame,
                Err(error) => {
                    let is_broken = matches!(error, ShmError::Garbled { .. });
                    break is_broken.then(|| error.to_string());
                }
            };
            let is_its = |fresh: &mut Fresh| frame.is_none_or(|f| f.stream != fresh.stream);
            if let Some(fresh) = fresh.take_if(is_its) {
                self.ask(fresh, runtime);
            }
            let Some(frame) = frame else { continue };
            match self.see(frame, &payload, routes) {
                Ok(Seen::Opened(opened)) => fresh = Some(opened),
                Ok(Seen::Whole) => {
                    if let Some(fresh) = fresh.take() {
                        self.ask(fresh, runtime);
                    }
                }
                Ok(Seen::Nothing) => {}
                Err(broken) => break Some(broken),
            }
        };
        self.end();
        broken
    }

    /// Ends the connection with all its streams.
    pub fn end(&self) {
        self.outbox.close();
        let streams: Vec<Stream> = self.streams().open.drain().map(|(_, stream)| stream).collect();
        streams.iter().for_each(cancel);
    }

    /// Says that no later stream is served.
    pub fn drain(&self) {
        let mut streams = self.streams();
        streams.is_draining = true;
        let text = "the server is shutting down".to_owned();
        let event = Event::GoAway(GoAway { last_stream: streams.last, text });
        let _over = self.outbox.post(0, &event);
    }

    /// Whether an answer has waited for its reader for as long as it may.
    pub fn is_unread(&self, reading: Duration) -> bool {
        self.peer.is_unread(reading)
    }

    /// Whether no stream is open.
    pub fn is_idle(&self) -> bool {
        self.streams().open.is_empty()
    }

    /// Sends what is still to be sent and then nothing more.
    pub fn finish(&self) {
        self.outbox.finish();
    }

    /// Does what a frame says, or says which rule it breaks.
    fn see(
        self: &Arc<Self>,
        frame: ShmFrame,
        payload: &[u8],
        routes: &Routes,
    ) -> Result<Seen, String> {
        let broken = |error: CallError| error.to_string();
        let stream = frame.stream;
        match Event::decode(frame, payload).map_err(broken)? {
            Event::Open(open) => return self.open(stream, open, routes),
            Event::Piece(bytes) => self.with(stream, |inbox, _| inbox.piece(bytes, false)),
            Event::Message(bytes) => self.with(stream, |inbox, _| inbox.piece(bytes, true)),
            Event::Credit { bytes } => self.with(stream, |_, allowance| allowance.grant(bytes)),
            Event::End => {
                self.with(stream, |inbox, _| {
                    inbox.finish(None);
                    Ok(())
                })?;
                return Ok(Seen::Whole);
            }
            Event::Cancel { .. } => {
                let found = self.streams().open.remove(&stream);
                found.iter().for_each(cancel);
                Ok(())
            }
            Event::Ping { mark } => {
                let _over = self.outbox.post(0, &Event::Pong { mark });
                Ok(())
            }
            Event::Pong { .. } | Event::GoAway(_) => Ok(()),
            Event::Headers(_) | Event::Trailers(_) => Err("a client answers".to_owned()),
        }?;
        Ok(Seen::Nothing)
    }

    /// Does something to a stream; frames of one that has ended are dropped.
    fn with(
        &self,
        stream: u64,
        act: impl FnOnce(&Inbox, &Allowance) -> Result<(), CallError>,
    ) -> Result<(), String> {
        let streams = self.streams();
        if stream > streams.last {
            return Err(format!("stream {stream} was not opened"));
        }
        let found = streams.open.get(&stream);
        let found = found.map(|of| (Arc::clone(&of.inbox), Arc::clone(&of.allowance)));
        drop(streams);
        match found {
            None => Ok(()),
            Some((inbox, allowance)) => act(&inbox, &allowance).map_err(|error| error.to_string()),
        }
    }

    fn open(self: &Arc<Self>, stream: u64, open: Open, routes: &Routes) -> Result<Seen, String> {
        let mut streams = self.streams();
        if stream <= streams.last {
            return Err(format!("stream {stream} was opened before"));
        }
        streams.last = stream;
        let refusal = if streams.is_draining {
            Some(Status::unavailable("the server is shutting down: connect to another one"))
        } else if streams.open.len() >= self.streams_max {
            Some(Status::resource_exhausted(format!(
                "{} requests of this connection are in flight, which is the limit",
                self.streams_max
            )))
        } else {
            None
        };
        if let Some(status) = refusal {
            drop(streams);
            self.trailers(stream, &status);
            return Ok(Seen::Nothing);
        }
        let inbox = Inbox::new(stream, &self.outbox, &self.slots, self.message_bytes_max);
        let allowance = Arc::<Allowance>::default();
        let entry =
            Stream { inbox: Arc::clone(&inbox), allowance: Arc::clone(&allowance), task: None };
        streams.open.insert(stream, entry);
        drop(streams);
        let (connection, routes) = (Arc::clone(self), routes.clone());
        let answer = Box::pin(async move {
            let deadline = open.deadline.and_then(|left| Instant::now().checked_add(left));
            // Also where the service panics.
            let mut closing = Closing { connection, stream, status: None };
            let answered = respond(&closing.connection, stream, open, (inbox, allowance), routes);
            closing.status = Some(match deadline {
                None => answered.await,
                Some(end) => timeout_at(end, answered).await.unwrap_or_else(|_late| {
                    Some(Status::deadline_exceeded("the deadline of the request has passed"))
                }),
            });
        });
        Ok(Seen::Opened(Fresh { stream, answer }))
    }

    /// Asks the service, here as long as it does not wait, and then as a task.
    fn ask(&self, fresh: Fresh, runtime: &Handle) {
        let Fresh { stream, mut answer } = fresh;
        if !self.streams().open.contains_key(&stream) {
            return;
        }
        let mut context = Context::from_waker(Waker::noop());
        let polled = catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(&mut context)));
        match polled {
            Ok(polled) if polled.is_pending() => {
                let task = runtime.spawn(answer).abort_handle();
                if let Some(of) = self.streams().open.get_mut(&stream) {
                    of.task = Some(task);
                }
            }
            // It panicked, and must not be touched again but to be dropped.
            Ok(_) | Err(_) => drop(catch_unwind(AssertUnwindSafe(|| drop(answer)))),
        }
    }

    /// Ends a stream.
    fn trailers(&self, stream: u64, status: &Status) {
        let trailers = heads::to_trailers(status);
        let sent = self.outbox.post(stream, &Event::Trailers(trailers.clone()));
        if matches!(sent, Err(Unsent::TooLong | Unsent::Invalid(_))) {
            let short = heads::without_details(trailers, SHORT_TEXT);
            let _over = self.outbox.post(stream, &Event::Trailers(short));
        }
    }
}

/// What a frame was.
enum Seen {
    Opened(Fresh),
    /// The last one of a request.
    Whole,
    Nothing,
}

fn cancel(stream: &Stream) {
    stream.allowance.end();
    stream.inbox.fail(Status::cancelled("the client cancelled the request"));
    if let Some(task) = &stream.task {
        task.abort();
    }
}

/// Ends a stream when it is dropped.
struct Closing {
    connection: Arc<Connection>,
    stream: u64,
    /// How it ended; `None` within if it is over already.
    status: Option<Option<Status>>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        let is_open = self.connection.streams().open.contains_key(&self.stream);
        let status = self.status.take();
        let status = status.unwrap_or_else(|| {
            Some(if std::thread::panicking() {
                Status::internal("the request failed because of a server bug")
            } else {
                Status::unavailable("the server has ended")
            })
        });
        if let (true, Some(status)) = (is_open, status) {
            self.connection.trailers(self.stream, &status);
        }
        // Last of all: a connection without streams may be ended.
        self.connection.streams().open.remove(&self.stream);
    }
}

/// Asks a service and sends what it answers, but for the end.
async fn respond(
    connection: &Connection,
    stream: u64,
    open: Open,
    (inbox, allowance): (Arc<Inbox>, Arc<Allowance>),
    mut routes: Routes,
) -> Option<Status> {
    let request = match request_of(open, inbox) {
        Ok(mut request) => {
            request.extensions_mut().insert(connection.peer.clone());
            request
        }
        Err(error) => return Some(Status::invalid_argument(error.to_string())),
    };
    let Ok(()) = poll_fn(|cx| Service::<Request<Body>>::poll_ready(&mut routes, cx)).await;
    let Ok(response) = routes.call(request).await;
    let (parts, body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&parts.headers) {
        return Some(status);
    }
    if parts.status != http::StatusCode::OK {
        let text = format!("the server answered with HTTP {}", parts.status);
        return Some(Status::new(Code::Unknown, text));
    }
    let headers = match heads::to_metadata(parts.headers) {
        Ok(headers) => headers,
        Err(error) => return Some(Status::internal(error.to_string())),
    };
    match connection.outbox.post(stream, &Event::Headers(headers)) {
        Ok(()) => {}
        Err(Unsent::Over) => return None,
        Err(_) => return Some(Status::internal("the headers of the answer do not fit a frame")),
    }
    match pump(Body::new(body), &connection.outbox, &allowance, stream).await {
        Ended::Whole(trailers) => {
            let status = trailers.as_ref().and_then(Status::from_header_map);
            Some(status.unwrap_or_else(|| Status::unknown("the answer has no status")))
        }
        Ended::Failed(status) => Some(status),
        Ended::Over => None,
    }
}

fn request_of(open: Open, inbox: Arc<Inbox>) -> Result<Request<Body>, http::Error> {
    let body = Body::new(Incoming(inbox));
    let mut request = Request::post(open.path).version(Version::HTTP_2).body(body)?;
    *request.headers_mut() = heads::to_headers(&open.metadata);
    let headers = request.headers_mut();
    headers.insert(http::header::TE, http::HeaderValue::from_static("trailers"));
    let kind = http::HeaderValue::from_static("application/grpc");
    headers.insert(http::header::CONTENT_TYPE, kind);
    if let Some(left) = open.deadline {
        heads::put_timeout(headers, left);
    }
    Ok(request)
}
