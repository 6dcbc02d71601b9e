//! [`Outbox`]: what is sent, straight into the ring if there is room.
//!
//! The invariants: a task never waits for the ring on its thread; what does not fit waits in a
//! backlog whose length is bounded, and a thread of its own writes it, the streams in turns; frames
//! of one stream keep their order.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ng_io::calls::{CallError, Event};
use ng_io::{ShmCloser, ShmError, ShmFrame, ShmSender};
use tokio::sync::oneshot;
use tonic::codegen::Bytes;

/// Frames that wait for room: far more than the streams of a peer that keeps to the rules need.
const BACKLOG_MAX: usize = 4096;

/// Why something was not sent.
#[derive(Debug)]
pub(super) enum Unsent {
    /// It cannot be said in a frame.
    Invalid(CallError),
    /// It has more bytes than a frame of this ring.
    TooLong,
    /// The connection is over.
    Over,
}

impl From<CallError> for Unsent {
    fn from(error: CallError) -> Self {
        Self::Invalid(error)
    }
}

/// A frame that waits: its head, or what is left of a message.
struct Waiting {
    stream: u64,
    head: Option<(ShmFrame, Vec<u8>)>,
    body: Bytes,
    last: bool,
    done: Option<oneshot::Sender<()>>,
}

struct State {
    /// With the thread while that writes.
    sender: Option<ShmSender>,
    backlog: VecDeque<Waiting>,
    /// Nothing more is sent.
    is_over: bool,
    /// Nothing more is taken, and the rest is sent.
    is_ending: bool,
    has_thread: bool,
}

/// The sending half of a connection, shared by its streams.
pub(super) struct Outbox {
    state: Mutex<State>,
    more: Condvar,
    closer: ShmCloser,
    payload_bytes_max: usize,
    /// How long the peer may leave the ring full.
    stall_max: Duration,
}

impl Outbox {
    pub fn new(sender: ShmSender, closer: ShmCloser, stall_max: Duration) -> Arc<Self> {
        let payload_bytes_max = sender.payload_bytes_max();
        let state = State {
            sender: Some(sender),
            backlog: VecDeque::new(),
            is_over: false,
            is_ending: false,
            has_thread: false,
        };
        let (state, more) = (Mutex::new(state), Condvar::new());
        Arc::new(Self { state, more, closer, payload_bytes_max, stall_max })
    }

    /// The longest payload of a frame.
    pub fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is not part of a message, at the latest when there is room.
    pub fn post(self: &Arc<Self>, stream: u64, event: &Event<'_>) -> Result<(), Unsent> {
        let mut head = Vec::new();
        let frame = event.encode(stream, &mut head)?;
        if head.len() > self.payload_bytes_max {
            return Err(Unsent::TooLong);
        }
        let mut state = self.lock();
        if self.try_send(&mut state, frame, &head)? {
            return Ok(());
        }
        let head = Some((frame, head));
        let waiting = Waiting { stream, head, body: Bytes::new(), last: false, done: None };
        self.wait(&mut state, waiting)
    }

    /// Sends bytes of a message; `last` says that it ends with them. Returns when they are in the
    /// ring.
    pub async fn data(
        self: &Arc<Self>,
        stream: u64,
        mut body: Bytes,
        last: bool,
    ) -> Result<(), Unsent> {
        let (done, sent) = oneshot::channel();
        loop {
            let mut state = self.lock();
            let (frame, len) = self.piece(stream, &body, last)?;
            if self.try_send(&mut state, frame, &body[..len])? {
                drop(body.split_to(len));
                if body.is_empty() {
                    return Ok(());
                }
                continue;
            }
            let waiting = Waiting { stream, head: None, body, last, done: Some(done) };
            self.wait(&mut state, waiting)?;
            break;
        }
        sent.await.map_err(|_| Unsent::Over)
    }

    /// The frame of the first bytes of `body`, and how many they are.
    fn piece(&self, stream: u64, body: &[u8], last: bool) -> Result<(ShmFrame, usize), CallError> {
        let len = body.len().min(self.payload_bytes_max);
        let is_end = last && len == body.len();
        let event = if is_end { Event::Message(&[]) } else { Event::Piece(&[]) };
        Ok((event.encode(stream, &mut Vec::new())?, len))
    }

    /// Sends at once, if nothing waits and there is room.
    fn try_send(&self, state: &mut State, frame: ShmFrame, bytes: &[u8]) -> Result<bool, Unsent> {
        if state.is_over || state.is_ending {
            return Err(Unsent::Over);
        }
        let (true, Some(sender)) = (state.backlog.is_empty(), &mut state.sender) else {
            return Ok(false);
        };
        let sent = sender.send(frame, &[bytes], Some(Duration::ZERO));
        if sent.is_ok() || matches!(sent, Err(ShmError::TimedOut)) {
            return Ok(sent.is_ok());
        }
        self.end(state);
        Err(Unsent::Over)
    }

    fn wait(self: &Arc<Self>, state: &mut State, waiting: Waiting) -> Result<(), Unsent> {
        // A peer that asks without end and reads no answers.
        let is_full = state.backlog.len() >= BACKLOG_MAX;
        if !state.has_thread && !is_full {
            let outbox = Arc::clone(self);
            let thread = std::thread::Builder::new().name("ng-ring-write".into());
            state.has_thread = thread.spawn(move || outbox.write()).is_ok();
        }
        if !state.has_thread || is_full {
            self.end(state);
            return Err(Unsent::Over);
        }
        state.backlog.push_back(waiting);
        self.more.notify_one();
        Ok(())
    }

    /// Writes what waits, until the connection is over.
    fn write(&self) {
        let mut state = self.lock();
        loop {
            while state.backlog.is_empty() && !state.is_over && !state.is_ending {
                state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let Some(mut sender) = state.sender.take() else { return };
            while let Some(mut waiting) = state.backlog.pop_front() {
                drop(state);
                let is_sent = self.send_part(&mut sender, &mut waiting);
                state = self.lock();
                if !is_sent || state.is_over {
                    drop(sender);
                    return self.end(&mut state);
                }
                if !waiting.body.is_empty() {
                    state.backlog.push_back(waiting);
                } else if let Some(done) = waiting.done {
                    let _gone = done.send(());
                }
            }
            if state.is_over || state.is_ending {
                return;
            }
            state.sender = Some(sender);
        }
    }

    /// Sends a frame of what waits; says whether the connection goes on.
    fn send_part(&self, sender: &mut ShmSender, waiting: &mut Waiting) -> bool {
        if let Some((frame, head)) = &waiting.head {
            return sender.send(*frame, &[head], Some(self.stall_max)).is_ok();
        }
        let Ok((frame, len)) = self.piece(waiting.stream, &waiting.body, waiting.last) else {
            return false;
        };
        let piece = waiting.body.split_to(len);
        sender.send(frame, &[&piece], Some(self.stall_max)).is_ok()
    }

    fn end(&self, state: &mut State) {
        state.is_over = true;
        state.sender = None;
        state.backlog.clear();
        self.more.notify_all();
        self.closer.close();
    }

    /// Whether the connection is over, though frames may still come.
    pub fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Ends the connection.
    pub fn close(&self) {
        self.end(&mut self.lock());
    }

    /// Sends what waits, and then nothing more.
    pub fn finish(&self) {
        let mut state = self.lock();
        state.is_ending = true;
        if state.backlog.is_empty() {
            state.sender = None;
        }
        self.more.notify_all();
    }
}
