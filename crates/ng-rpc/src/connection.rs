//! One connection: its bytes and its timeouts.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use crate::local::LocalStream;
use crate::open::Slot;

/// Bytes that a connection gives before others have their turn. They may be hundreds of calls, and
/// each of them takes its time.
const TURN_BYTES: usize = 16 << 10;

/// The timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Until its first bytes.
    pub first: Duration,
    /// Between bytes.
    pub silence: Duration,
    /// Until it has read an answer.
    pub reading: Duration,
}

pub(crate) enum Io {
    Tcp(TcpStream),
    Unix(LocalStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection that a [`crate::listen::Door`] has accepted.
pub struct Connection {
    io: Io,
    peer: Peer,
    patience: Patience,
    heard: Instant,
    /// When bytes were last given to it, and whether it takes no more.
    wrote: Instant,
    is_full: bool,
    has_spoken: bool,
    /// Bytes that it has given since others had their turn.
    of_turn: usize,
    look: Pin<Box<Sleep>>,
    _slot: Slot,
}

/// The other end of a connection, for requests.
#[derive(Clone, Default)]
pub struct Peer(Arc<Mutex<Answers>>);

#[derive(Default)]
struct Answers {
    /// Since when each is there to be read.
    open: BTreeSet<(Instant, u64)>,
    next: u64,
}

/// An answer that the client has not read yet. Dropping this marks it as read.
pub struct Answering {
    peer: Peer,
    key: (Instant, u64),
}

impl Peer {
    fn lock(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an answer that the client has to read.
    pub fn answer(&self) -> Answering {
        let mut answers = self.lock();
        answers.next += 1;
        let key = (Instant::now(), answers.next);
        answers.open.insert(key);
        drop(answers);
        Answering { peer: self.clone(), key }
    }

    /// Whether an answer has been there to be read for so long.
    pub(crate) fn is_unread(&self, reading: Duration) -> bool {
        let oldest = self.lock().open.first().map(|(since, _)| *since);
        oldest.is_some_and(|since| since.elapsed() >= reading)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.peer.lock().open.remove(&self.key);
    }
}

impl Connection {
    pub(crate) fn new(io: Io, slot: Slot, patience: Patience) -> Self {
        Self {
            io,
            peer: Peer::default(),
            patience,
            heard: Instant::now(),
            wrote: Instant::now(),
            is_full: false,
            has_spoken: false,
            of_turn: 0,
            look: Box::pin(sleep(patience.first.min(patience.reading / 2))),
            _slot: slot,
        }
    }

    /// The other end of the connection.
    pub fn peer(&self) -> Peer {
        self.peer.clone()
    }

    /// Why it is not waited for any longer.
    fn is_lost(&self, now: Instant) -> Option<&'static str> {
        if now >= self.last() + self.allowed() {
            return Some("no bytes arrived");
        }
        let why = "the client did not read an answer in time";
        self.peer.is_unread(self.patience.reading).then_some(why)
    }

    /// When it last gave a sign of life. One that reads an answer sends nothing meanwhile.
    fn last(&self) -> Instant {
        if self.is_full { self.heard.max(self.wrote) } else { self.heard }
    }

    /// How long the next bytes may take.
    fn allowed(&self) -> Duration {
        if self.has_spoken { self.patience.silence } else { self.patience.first }
    }

    /// Looks again after a while, or says why not.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.look.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if let Some(why) = self.is_lost(now) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            let next = (self.last() + self.allowed()).min(now + self.patience.reading / 2);
            self.look.as_mut().reset(next.max(now + Duration::from_millis(10)));
        }
        Ok(())
    }
}

impl Connection {
    /// What a write has given. One that waits is looked after as reads are: whoever writes may not
    /// read meanwhile.
    fn unless_lost(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.is_full = written.is_pending();
        match self.is_full {
            true => self.poll_patience(cx)?,
            false => self.wrote = Instant::now(),
        }
        written
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

macro_rules! with {
    ($self:expr, $io:ident => $do:expr) => {
        match &mut $self.io {
            Io::Tcp($io) => $do,
            Io::Unix($io) => $do,
            Io::Tls($io) => $do,
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.of_turn >= TURN_BYTES {
            self.of_turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = with!(self, io => Pin::new(io).poll_read(cx, buffer));
        self.of_turn =
            if read.is_ready() { self.of_turn + buffer.filled().len() - before } else { 0 };
        if read.is_ready() && buffer.filled().len() > before {
            self.heard = Instant::now();
            self.has_spoken = true;
        }
        // Looked at here too, so that bytes without end do not keep what is not read.
        match self.poll_patience(cx) {
            Err(error) => Poll::Ready(Err(error)),
            Ok(()) => read,
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = with!(self, io => Pin::new(io).poll_write(cx, bytes));
        self.unless_lost(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = with!(self, io => Pin::new(io).poll_write_vectored(cx, pieces));
        self.unless_lost(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Tcp(io) => io.is_write_vectored(),
            Io::Unix(io) => io.is_write_vectored(),
            Io::Tls(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, io => Pin::new(io).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with!(self, io => Pin::new(io).poll_shutdown(cx))
    }
}
