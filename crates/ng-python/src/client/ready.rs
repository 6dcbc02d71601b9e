//! Answers that no thread waits for, until an event loop takes them.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ng_client::Running;
use ng_rpc::Status;

use super::replies::Reply;

/// Answers of calls that nobody waits for, until an event loop takes them.
pub struct Ready {
    state: Mutex<State>,
    /// Tells the event loop that there are some: no thread of the network needs the interpreter.
    wake: UnixStream,
    woken: UnixStream,
}

#[derive(Default)]
pub struct State {
    answers: Vec<(u64, Result<Reply, Status>)>,
    pub running: HashMap<u64, Running>,
}

impl Ready {
    pub fn new() -> std::io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok(Self { state: Mutex::default(), wake, woken })
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, ticket: u64, answer: Result<Reply, Status>) {
        let mut state = self.lock();
        state.answers.push((ticket, answer));
        if state.answers.len() == 1 {
            // Full means that the loop has not read earlier bytes: it is awake anyway.
            let _full = (&self.wake).write(&[1]);
        }
    }

    pub fn take(&self) -> Vec<(u64, Result<Reply, Status>)> {
        let mut state = self.lock();
        let mut bytes = [0; 64];
        let _empty = (&self.woken).read(&mut bytes);
        let answers = std::mem::take(&mut state.answers);
        for (ticket, _) in &answers {
            state.running.remove(ticket);
        }
        answers
    }

    /// What becomes readable when there are answers to take.
    pub fn fileno(&self) -> i32 {
        self.woken.as_raw_fd()
    }
}
