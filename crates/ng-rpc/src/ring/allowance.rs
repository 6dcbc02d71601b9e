//! [`Allowance`]: the credit of what a side sends on a stream, and waiting for more.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use ng_io::calls::{CallError, Credit};

#[derive(Default)]
struct State {
    credit: Credit,
    is_over: bool,
    waker: Option<Waker>,
}

/// What may be sent on a stream.
#[derive(Default)]
pub(super) struct Allowance(Mutex<State>);

impl Allowance {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer takes more.
    pub fn grant(&self, bytes: u32) -> Result<(), CallError> {
        let mut state = self.lock();
        state.credit.grant(bytes)?;
        wake(&mut state);
        Ok(())
    }

    /// The stream is over: who waits is told so.
    pub fn end(&self) {
        let mut state = self.lock();
        state.is_over = true;
        wake(&mut state);
    }

    /// Waits until the stream is over. One task at a time waits on a stream.
    pub fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.is_over {
            return Poll::Ready(());
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Takes up to `most` bytes; `None` once the stream is over.
    pub fn poll_take(&self, cx: &mut Context<'_>, most: usize) -> Poll<Option<usize>> {
        let mut state = self.lock();
        if state.is_over {
            return Poll::Ready(None);
        }
        let bytes = state.credit.left().min(u32::try_from(most).unwrap_or(u32::MAX));
        if bytes == 0 && most > 0 {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.credit.take(bytes).ok().map(|()| bytes as usize))
    }
}

fn wake(state: &mut State) {
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
}
