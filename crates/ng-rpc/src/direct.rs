//! [`Direct`]: calls over a plain HTTP/2 connection, on the one thread that polls them.
//!
//! A channel has queues, tasks and locks, so that any thread may call. A load generator makes all
//! calls on one thread, and must not use much processor time itself. What must not live here:
//! certificates, rings, retries. The invariants: a call returns an answer or an error; after a
//! connection is lost, the next call reconnects; a call that is dropped while it waits for capacity
//! is never sent.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use h2::client::{Builder, SendRequest};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, TE};
use http::{Method, Request, StatusCode, Uri, Version};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_local;
use tokio::time::timeout;
use tonic::codegen::Bytes;
use tonic::{Code, Status};

use crate::connect::{CONNECT_TIMEOUT, UNIX, WINDOW_BYTES};

/// Calls of a connection at a time, of a server that knows no bound.
const ROOMS_MAX: usize = 100_000;
/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// One connection to a server at `HOST:PORT` or `unix:PATH`. It connects when it is first used.
pub struct Direct {
    address: String,
    live: RefCell<Option<Rc<Live>>>,
    connecting: Mutex<()>,
}

/// A connection that was made.
struct Live {
    send: SendRequest<Bytes>,
    /// For as many calls as the server takes at a time. HTTP/2 would keep more of them, and send
    /// those, too, that nobody waits for any more, only to take them back.
    room: Arc<Semaphore>,
    rooms: Cell<usize>,
}

impl Live {
    fn new(send: SendRequest<Bytes>) -> Self {
        Self { send, room: Arc::new(Semaphore::new(0)), rooms: Cell::new(0) }
    }

    /// Makes room for what the server has said by now.
    fn grow(&self) {
        let most = self.send.current_max_send_streams().min(ROOMS_MAX);
        if most > self.rooms.get() {
            self.room.add_permits(most - self.rooms.replace(most));
        }
    }

    /// Room for a call, and what sends it; the error of a connection that is over.
    async fn ready(&self) -> Result<(SendRequest<Bytes>, OwnedSemaphorePermit), h2::Error> {
        self.grow();
        let room = Arc::clone(&self.room).acquire_owned().await;
        let room = room.map_err(|_| h2::Error::from(h2::Reason::REFUSED_STREAM))?;
        self.grow();
        Ok((self.send.clone().ready().await?, room))
    }
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The headers of all calls of a method.
#[derive(Clone, Debug)]
pub struct Head(Request<()>);

impl Head {
    /// The headers for the method at `path`, with `timeout` for each call.
    ///
    /// # Errors
    /// The address or the token has characters that are not valid in a header.
    pub fn new(
        address: &str,
        path: &'static str,
        token: Option<&str>,
        timeout: Duration,
    ) -> Result<Self, http::Error> {
        let authority = if address.starts_with(UNIX) { "localhost" } else { address };
        let uri =
            Uri::builder().scheme("http").authority(authority).path_and_query(path).build()?;
        let mut request = Request::builder()
            .method(Method::POST)
            .version(Version::HTTP_2)
            .uri(uri)
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .header("grpc-timeout", format!("{}m", timeout.as_millis().min(99_999_999)));
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        Ok(Self(request.body(())?))
    }
}

/// A message with its frame, as a call sends it.
pub fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(PREFIX + length);
    bytes.push(0);
    bytes.extend_from_slice(&(length as u32).to_be_bytes());
    message.encode_raw(&mut bytes);
    bytes.into()
}

impl Direct {
    /// A connection that is opened on first use, within a `LocalSet`.
    pub fn new(address: &str) -> Self {
        let (live, connecting) = (RefCell::default(), Mutex::default());
        Self { address: address.to_owned(), live, connecting }
    }

    /// Sends one framed message and returns the answer.
    ///
    /// # Errors
    /// The status of the server, `Unavailable` if it cannot be reached, or `Internal` if the answer
    /// is not valid.
    pub async fn unary<A: Message + Default>(
        &self,
        head: &Head,
        message: Bytes,
    ) -> Result<A, Status> {
        let (mut send, _room) = self.ready().await?;
        let (answer, mut body) = send.send_request(head.0.clone(), false).map_err(lost)?;
        body.send_data(message, true).map_err(lost)?;
        let (head, mut body) = answer.await.map_err(lost)?.into_parts();
        if head.status != StatusCode::OK {
            return Err(Status::unavailable(format!(
                "the server answered with HTTP {}",
                head.status
            )));
        }
        // An error may come without a body.
        if let Some(status) = Status::from_header_map(&head.headers)
            && status.code() != Code::Ok
        {
            return Err(status);
        }
        let (mut first, mut all) = (Bytes::new(), Vec::new());
        while let Some(piece) = body.data().await {
            let piece = piece.map_err(lost)?;
            body.flow_control().release_capacity(piece.len()).map_err(lost)?;
            // Most answers come in one piece, which is not copied.
            if first.is_empty() {
                first = piece;
            } else {
                if all.is_empty() {
                    all.extend_from_slice(&first);
                }
                all.extend_from_slice(&piece);
            }
        }
        let bytes = if all.is_empty() { first } else { all.into() };
        let trailers = body.trailers().await.map_err(lost)?.unwrap_or_default();
        match Status::from_header_map(&trailers) {
            Some(status) if status.code() == Code::Ok => decoded(bytes),
            Some(status) => Err(status),
            None => Err(Status::unknown("the server ended the call without a status")),
        }
    }

    /// What sends a call, and room for it. One whose connection is lost while it waits for room was
    /// not sent, and takes the next connection.
    async fn ready(&self) -> Result<(SendRequest<Bytes>, OwnedSemaphorePermit), Status> {
        match self.live().await?.ready().await {
            Ok(ready) => Ok(ready),
            Err(_) => self.live().await?.ready().await.map_err(lost),
        }
    }

    /// A connection that lives.
    async fn live(&self) -> Result<Rc<Live>, Status> {
        if let Some(live) = self.living().await {
            return Ok(live);
        }
        let _one = self.connecting.lock().await;
        // Another call may have connected meanwhile.
        if let Some(live) = self.living().await {
            return Ok(live);
        }
        let made = timeout(CONNECT_TIMEOUT, self.connected()).await;
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the connection timed out");
        let made = made.unwrap_or_else(|_| Err(late()));
        let made = made.map_err(|error| {
            Status::unavailable(format!("the server cannot be reached: {error}"))
        })?;
        let live = Rc::new(Live::new(made));
        *self.live.borrow_mut() = Some(Rc::clone(&live));
        Ok(live)
    }

    /// The connection that was made, if it is not lost.
    async fn living(&self) -> Option<Rc<Live>> {
        let live = self.live.borrow().clone()?;
        let mut send = live.send.clone();
        poll_fn(|cx| send.poll_ready(cx)).await.is_ok().then_some(live)
    }

    async fn connected(&self) -> io::Result<SendRequest<Bytes>> {
        match self.address.strip_prefix(UNIX) {
            Some(path) => started(UnixStream::connect(path).await?).await,
            None => {
                let stream = TcpStream::connect(&self.address).await?;
                stream.set_nodelay(true)?;
                started(stream).await
            }
        }
    }
}

async fn started(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
) -> io::Result<SendRequest<Bytes>> {
    let mut builder = Builder::new();
    builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
    // Until the server says how many it takes.
    builder.initial_max_send_streams(1);
    let (send, connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
    // Why it ends is what its calls are told.
    spawn_local(async move { drop(connection.await) });
    Ok(send)
}

fn lost(error: h2::Error) -> Status {
    Status::unavailable(format!("the server cannot be reached: {error}"))
}

fn decoded<A: Message + Default>(mut bytes: Bytes) -> Result<A, Status> {
    let wrong = || Status::internal("the server did not answer with one complete message");
    let head: [u8; PREFIX] =
        bytes.get(..PREFIX).and_then(|b| b.try_into().ok()).ok_or_else(wrong)?;
    let [0, length @ ..] = head else { return Err(wrong()) };
    let message = bytes.split_off(PREFIX);
    if message.len() as u64 != u64::from(u32::from_be_bytes(length)) {
        return Err(wrong());
    }
    A::decode(message).map_err(|error| Status::internal(error.to_string()))
}
