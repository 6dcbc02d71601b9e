//! [`Link`]: a connection as a client has it. Who reads the ring: a thread of the connection, or
//! the thread that waits for an answer, which saves the way from one to the other.
//!
//! The invariants: while a call waits, somebody reads the ring or begins to within [`REST`]; a
//! frame reaches its stream whoever reads it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ng_io::calls::{Event, Open};
use ng_io::{ShmConnection, ShmError, ShmFrame, ShmReceiver};
use tonic::Status;
use tonic::codegen::http::HeaderMap;

use super::allowance::Allowance;
use super::heads;
use super::inbox::{Inbox, Slots};
use super::outbox::{Outbox, Unsent};

/// How long the thread leaves the ring alone after a call has read it.
const REST: Duration = Duration::from_millis(20);
/// How long the thread reads before it looks whether a call wants to.
const TURN: Duration = Duration::from_secs(10);
/// How long the server may leave the ring full.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Bytes of a message: the server limits what it sends by itself.
const MESSAGE_BYTES_MAX: usize = crate::connect::MESSAGE_BYTES_MAX;

/// A stream that was opened.
#[derive(Clone)]
pub(super) struct Opened {
    pub stream: u64,
    pub inbox: Arc<Inbox>,
    pub allowance: Arc<Allowance>,
}

#[derive(Default)]
struct Streams {
    open: HashMap<u64, Opened>,
    last: u64,
    /// Later ones are not served.
    served: Option<u64>,
    is_over: bool,
}

/// What reads: one at a time.
struct Reading {
    receiver: ShmReceiver,
    payload: Vec<u8>,
}

/// Whether the thread shall read.
struct Keeper {
    /// Set by calls that wait and do not read.
    is_wanted: bool,
    /// When a call read last.
    led: Option<Instant>,
}

/// A connection as a client has it.
pub(super) struct Link {
    outbox: Arc<Outbox>,
    slots: Arc<Slots>,
    streams: Mutex<Streams>,
    reading: Mutex<Reading>,
    keeper: Mutex<Keeper>,
    turn: Condvar,
    /// A call would read if the thread did not.
    asked: AtomicBool,
    /// How long a call reads; `None` is until its answer has come.
    lead: Option<Duration>,
}

/// A connection in use; it ends when all uses are dropped.
pub(super) struct Live(Arc<Link>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.outbox.close();
        self.0.turn.notify_all();
    }
}

impl Live {
    /// Begins to read.
    pub fn start(rings: ShmConnection, lead: Option<Duration>) -> std::io::Result<Arc<Self>> {
        let closer = rings.closer();
        let (sender, receiver) = rings.split();
        let link = Arc::new(Link {
            outbox: Outbox::new(sender, closer, STALL_MAX),
            slots: Slots::new(usize::MAX / 2),
            streams: Mutex::default(),
            reading: Mutex::new(Reading { receiver, payload: Vec::new() }),
            keeper: Mutex::new(Keeper { is_wanted: false, led: None }),
            turn: Condvar::new(),
            asked: AtomicBool::new(false),
            lead,
        });
        let keeping = Arc::clone(&link);
        std::thread::Builder::new().name("ng-ring-keep".into()).spawn(move || keeping.keep())?;
        Ok(Arc::new(Self(link)))
    }

    pub fn link(&self) -> Arc<Link> {
        Arc::clone(&self.0)
    }

    /// Whether it takes calls.
    pub fn is_usable(&self) -> bool {
        let streams = self.0.streams();
        !streams.is_over && streams.served.is_none() && !self.0.outbox.is_over()
    }

    /// Opens a stream.
    pub fn open(&self, open: &Open) -> Result<Opened, Status> {
        let link = &self.0;
        let mut streams = link.streams();
        if streams.is_over {
            return Err(lost());
        }
        let stream = streams.last + 1;
        let inbox = Inbox::new(stream, &link.outbox, &link.slots, MESSAGE_BYTES_MAX);
        // Under the lock, so that streams are opened in the order of their numbers.
        match link.outbox.post(stream, &Event::Open(open.clone())) {
            Ok(()) => {}
            Err(Unsent::Over) => return Err(lost()),
            Err(Unsent::Invalid(error)) => {
                return Err(Status::invalid_argument(error.to_string()));
            }
            Err(Unsent::TooLong) => {
                let most = link.outbox.payload_bytes_max();
                let text =
                    format!("the method and the metadata have more than {most} bytes together");
                return Err(Status::invalid_argument(text));
            }
        }
        streams.last = stream;
        let opened = Opened { stream, inbox, allowance: Arc::default() };
        streams.open.insert(stream, opened.clone());
        Ok(opened)
    }
}

impl Link {
    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keeper(&self) -> MutexGuard<'_, Keeper> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// The stream is of no use any more; the server is told if it is still open.
    pub fn forget(&self, stream: u64, is_open: bool) {
        let found = self.streams().open.remove(&stream);
        if let Some(opened) = found {
            opened.allowance.end();
            if is_open {
                let status = tonic::Code::Cancelled as u32;
                let _over = self.outbox.post(stream, &Event::Cancel { status });
            }
        }
    }

    /// Reads for a call until `has_news`, or as long as it may; says whether it read. Otherwise
    /// the thread of the connection does it.
    pub fn lead(&self, _live: &Live, end: Option<Instant>, has_news: impl Fn() -> bool) -> bool {
        if self.lead.is_some_and(|lead| lead.is_zero()) {
            return false;
        }
        let Ok(mut reading) = self.reading.try_lock() else {
            self.asked.store(true, Ordering::Relaxed);
            // What was read meanwhile must not be missed: the waker is registered already.
            return has_news();
        };
        let spin_end = self.lead.and_then(|lead| Instant::now().checked_add(lead));
        let end = [end, spin_end].into_iter().flatten().min();
        while !has_news() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) || !self.read(&mut reading, left) {
                break;
            }
        }
        drop(reading);
        // Its own stream may wait on, or others do.
        let is_wanted = !has_news() || self.streams().open.len() > 1;
        let mut keeper = self.keeper();
        keeper.led = Some(Instant::now());
        if is_wanted {
            keeper.is_wanted = true;
            self.turn.notify_one();
        }
        true
    }

    /// Reads for as long as the connection lives, unless calls do.
    fn keep(&self) {
        while !self.outbox.is_over() {
            let mut keeper = self.keeper();
            let rest = keeper.led.map_or(Duration::ZERO, |led| REST.saturating_sub(led.elapsed()));
            if !keeper.is_wanted && !rest.is_zero() {
                drop(self.turn.wait_timeout(keeper, rest));
                continue;
            }
            keeper.is_wanted = false;
            drop(keeper);
            let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            self.asked.store(false, Ordering::Relaxed);
            while self.read(&mut reading, Some(TURN)) {
                // The only call reads for itself from now on.
                let only = self.asked.load(Ordering::Relaxed).then(|| self.only()).flatten();
                if let Some(only) = only {
                    self.keeper().led = Some(Instant::now());
                    drop(reading);
                    // It may have found the ring in use since its frame was read.
                    only.nudge();
                    break;
                }
            }
        }
        self.end();
    }

    /// The only call that there is.
    fn only(&self) -> Option<Arc<Inbox>> {
        let streams = self.streams();
        let mut open = streams.open.values();
        open.next().filter(|_| streams.open.len() == 1).map(|opened| Arc::clone(&opened.inbox))
    }

    /// Reads a frame, if one comes; says whether the connection goes on.
    fn read(&self, reading: &mut Reading, wait: Option<Duration>) -> bool {
        let Reading { receiver, payload } = reading;
        let goes_on = match receiver.receive(payload, wait) {
            Ok(None) => return true,
            Ok(Some(frame)) => self.see(frame, payload),
            Err(error) => Err(error),
        };
        if goes_on.is_err() || self.outbox.is_over() {
            self.end();
            return false;
        }
        true
    }

    /// Does what a frame says.
    fn see(&self, frame: ShmFrame, payload: &[u8]) -> Result<(), ShmError> {
        let garbled = |_| ShmError::Garbled { what: "a frame of a call is not valid" };
        let event = Event::decode(frame, payload).map_err(garbled)?;
        let found = self.streams().open.get(&frame.stream).cloned();
        match (event, found) {
            (Event::Piece(bytes), Some(of)) => of.inbox.piece(bytes, false).map_err(garbled),
            (Event::Message(bytes), Some(of)) => of.inbox.piece(bytes, true).map_err(garbled),
            (Event::Credit { bytes }, Some(of)) => of.allowance.grant(bytes).map_err(garbled),
            (Event::Headers(metadata), Some(of)) => {
                of.inbox.head(heads::to_headers(&metadata));
                Ok(())
            }
            (Event::Trailers(trailers), Some(of)) => {
                let (status, mut headers) = (heads::to_status(&trailers), HeaderMap::new());
                // An error may come in the middle of a message.
                match status.add_header(&mut headers) {
                    Ok(()) if status.code() == tonic::Code::Ok => of.inbox.finish(Some(headers)),
                    Ok(()) => of.inbox.fail(status),
                    Err(status) => of.inbox.fail(status),
                }
                of.allowance.end();
                Ok(())
            }
            (Event::Cancel { status }, Some(of)) => {
                let code = tonic::Code::from_i32(i32::try_from(status).unwrap_or(i32::MAX));
                of.inbox.fail(Status::new(code, "the server ended the request"));
                of.allowance.end();
                Ok(())
            }
            (Event::Ping { mark }, _) => {
                let _over = self.outbox.post(0, &Event::Pong { mark });
                Ok(())
            }
            (Event::GoAway(away), _) => {
                self.go_away(away.last_stream, &away.text);
                Ok(())
            }
            (Event::Open(_) | Event::End, _) => {
                Err(ShmError::Garbled { what: "the server sent a request" })
            }
            // Of a stream that has ended.
            _ => Ok(()),
        }
    }

    fn go_away(&self, last: u64, text: &str) {
        let mut streams = self.streams();
        streams.served = Some(last);
        let late: Vec<_> = streams.open.extract_if(|stream, _| *stream > last).collect();
        drop(streams);
        for (_, opened) in late {
            fail(&opened, &Status::unavailable(text));
        }
    }

    fn end(&self) {
        self.outbox.close();
        let mut streams = self.streams();
        streams.is_over = true;
        let open: Vec<_> = streams.open.drain().collect();
        drop(streams);
        open.iter().for_each(|(_, opened)| fail(opened, &lost()));
    }
}

fn fail(opened: &Opened, status: &Status) {
    opened.inbox.fail(status.clone());
    opened.allowance.end();
}

fn lost() -> Status {
    Status::unavailable("the server has ended or closed the connection")
}
