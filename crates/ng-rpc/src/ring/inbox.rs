//! [`Inbox`]: what came in one direction of a stream and was not taken yet.
//!
//! The invariants: a stream holds at most the credit that it begins with, unless it has one of the
//! slots for long messages; a message never has more bytes than is allowed.

use std::collections::VecDeque;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use http::HeaderMap;
use http_body::{Body, Frame};
use ng_io::calls::{CREDIT_AT_FIRST, CallError, Credit, Event};
use tonic::Status;
use tonic::codegen::Bytes;

use super::framing::{PREFIX_BYTES, prefix};
use super::outbox::Outbox;

/// What each stream may hold.
const BASE: usize = CREDIT_AT_FIRST as usize;
/// What is under way of a long message.
const LONG: usize = 4 << 20;
/// Messages that wait: empty ones need no credit.
const MESSAGES_MAX: usize = 1 << 16;

/// Slots for streams that hold more than the credit they begin with.
pub(super) struct Slots {
    state: Mutex<(usize, VecDeque<Weak<Inbox>>)>,
}

impl Slots {
    /// So many.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new((count, VecDeque::new())) })
    }

    fn lock(&self) -> MutexGuard<'_, (usize, VecDeque<Weak<Inbox>>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one, or queues for it.
    fn take(&self, inbox: &Weak<Inbox>) -> bool {
        let (free, queue) = &mut *self.lock();
        if *free > 0 {
            *free -= 1;
            return true;
        }
        queue.retain(|other| other.strong_count() > 0 && !other.ptr_eq(inbox));
        queue.push_back(Weak::clone(inbox));
        false
    }

    /// Gives one back, and lets those look who queue, until one takes it.
    fn give(&self) {
        self.lock().0 += 1;
        while let Some(inbox) = self.next() {
            inbox.look();
        }
    }

    fn next(&self) -> Option<Arc<Inbox>> {
        let (free, queue) = &mut *self.lock();
        let mut queued = std::iter::from_fn(|| queue.pop_front());
        if *free > 0 { queued.find_map(|inbox| inbox.upgrade()) } else { None }
    }
}

/// How a direction of a stream ended.
enum End {
    /// With all messages, and what was said at the end.
    Whole(Option<HeaderMap>),
    /// With an error.
    Failed(Status),
}

#[derive(Default)]
struct State {
    credit: Credit,
    /// Messages as a body carries them.
    framed: Vec<u8>,
    /// Where a message begins that is not whole.
    begun: Option<usize>,
    /// Whole messages.
    messages: usize,
    /// Bytes of messages.
    held: usize,
    has_slot: bool,
    /// Nobody takes anything.
    is_dropped: bool,
    head: Option<HeaderMap>,
    end: Option<End>,
    waker: Option<Waker>,
}

/// What came in one direction of a stream.
pub(super) struct Inbox {
    this: Weak<Self>,
    stream: u64,
    outbox: Arc<Outbox>,
    slots: Arc<Slots>,
    message_bytes_max: usize,
    state: Mutex<State>,
}

impl Inbox {
    pub fn new(
        stream: u64,
        outbox: &Arc<Outbox>,
        slots: &Arc<Slots>,
        message_bytes_max: usize,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            stream,
            outbox: Arc::clone(outbox),
            slots: Arc::clone(slots),
            message_bytes_max,
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a message have come.
    pub fn piece(&self, bytes: &[u8], last: bool) -> Result<(), CallError> {
        let mut state = self.lock();
        state.credit.take(u32::try_from(bytes.len()).unwrap_or(u32::MAX))?;
        if state.is_dropped || state.end.is_some() {
            return Ok(());
        }
        let begin = state.begun.unwrap_or(state.framed.len());
        if state.begun.is_none() {
            state.framed.extend(prefix(0));
        }
        state.framed.extend(bytes);
        state.held += bytes.len();
        let len = state.framed.len() - begin - PREFIX_BYTES;
        if len > self.message_bytes_max || state.messages >= MESSAGES_MAX {
            let message = if len > self.message_bytes_max {
                format!(
                    "a message has more than {} bytes, which is the limit",
                    self.message_bytes_max
                )
            } else {
                format!("more than {MESSAGES_MAX} messages of one call are unread")
            };
            return self.ended(state, End::Failed(Status::resource_exhausted(message)));
        }
        state.begun = Some(begin).filter(|_| !last);
        if last {
            state.framed[begin..begin + PREFIX_BYTES].copy_from_slice(&prefix(len));
            state.messages += 1;
            wake(&mut state);
        }
        self.replenish(state);
        Ok(())
    }

    /// Headers have come.
    pub fn head(&self, headers: HeaderMap) {
        let mut state = self.lock();
        state.head.get_or_insert(headers);
        wake(&mut state);
    }

    /// Nothing more comes, with these trailers.
    pub fn finish(&self, trailers: Option<HeaderMap>) {
        let mut state = self.lock();
        if state.begun.is_some() {
            drop(state);
            return self.fail(Status::internal("the stream ended within a message"));
        }
        if state.end.is_none() {
            let _open = self.ended(state, End::Whole(trailers));
        } else {
            wake(&mut state);
        }
    }

    /// Nothing more comes, and what came is not all.
    pub fn fail(&self, status: Status) {
        let state = self.lock();
        if state.end.is_none() {
            let _open = self.ended(state, End::Failed(status));
        }
    }

    fn ended(&self, mut state: MutexGuard<'_, State>, end: End) -> Result<(), CallError> {
        // What is not whole is of no use.
        if let Some(begun) = state.begun.take() {
            state.framed.truncate(begun);
        }
        state.end = Some(end);
        wake(&mut state);
        self.replenish(state);
        Ok(())
    }

    /// Nobody takes what comes from now on; says whether more could have come.
    pub fn drop_rest(&self) -> bool {
        let mut state = self.lock();
        let is_open = state.end.is_none();
        state.is_dropped = true;
        (state.framed, state.begun, state.waker) = (Vec::new(), None, None);
        self.replenish(state);
        is_open
    }

    /// The headers, or none if the stream ended without.
    pub fn poll_head(&self, cx: &mut Context<'_>) -> Poll<Option<HeaderMap>> {
        let mut state = self.lock();
        if state.head.is_none() && state.end.is_none() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.head.take())
    }

    /// Whether there is something to take, or has been an end.
    pub fn has_news(&self) -> bool {
        let state = self.lock();
        state.head.is_some() || state.messages > 0 || state.end.is_some()
    }

    /// Lets whoever waits look again.
    pub fn nudge(&self) {
        wake(&mut self.lock());
    }

    /// The next messages, then the trailers.
    pub fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let mut state = self.lock();
        let whole = state.begun.unwrap_or(state.framed.len());
        if whole > 0 {
            let rest = state.framed.split_off(whole);
            state.held = rest.len().saturating_sub(PREFIX_BYTES);
            state.begun = state.begun.map(|_| 0);
            state.messages = 0;
            let chunk = mem::replace(&mut state.framed, rest);
            self.replenish(state);
            return Poll::Ready(Some(Ok(Frame::data(chunk.into()))));
        }
        match &mut state.end {
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(End::Whole(trailers)) => {
                Poll::Ready(trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
            }
            Some(End::Failed(_)) => {
                let end = state.end.replace(End::Whole(None));
                Poll::Ready(end.and_then(|end| match end {
                    End::Failed(status) => Some(Err(status)),
                    End::Whole(_) => None,
                }))
            }
        }
    }

    fn look(&self) {
        self.replenish(self.lock());
    }

    /// Lets the peer send what there is room for.
    fn replenish(&self, mut state: MutexGuard<'_, State>) {
        let left = state.credit.left() as usize;
        let total = left + state.held;
        let is_over = state.is_dropped || state.end.is_some();
        let mut grant = 0;
        if is_over {
        } else if total < BASE {
            if left == 0 || BASE - total >= BASE / 2 {
                grant = BASE - total;
            }
        } else if state.begun == Some(0) && left < LONG / 2 {
            state.has_slot = state.has_slot || self.slots.take(&self.this);
            grant = if state.has_slot { LONG - left } else { 0 };
        }
        if grant > 0 && state.credit.grant(grant as u32).is_ok() {
            let _over = self.outbox.post(self.stream, &Event::Credit { bytes: grant as u32 });
        }
        if state.has_slot && (is_over || state.credit.left() as usize + state.held <= BASE) {
            state.has_slot = false;
            drop(state);
            self.slots.give();
        }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        if self.lock().has_slot {
            self.slots.give();
        }
    }
}

fn wake(state: &mut State) {
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
}

/// An inbox as the body of a request.
pub(super) struct Incoming(pub Arc<Inbox>);

impl Body for Incoming {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.poll_frame(cx)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.0.drop_rest();
    }
}
