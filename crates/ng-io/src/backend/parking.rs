//! Queues at rest. A calling thread takes one for the length of its `read` and puts it back, so a
//! disk keeps as many queues as threads ever read at once, up to a limit.

use std::io;
use std::sync::{Mutex, PoisonError};

/// More idle queues than this are given back to the system.
const IDLE_MAX: usize = 16;

/// The idle queues of one disk.
pub(crate) struct Parking<T> {
    idle: Mutex<Vec<T>>,
}

impl<T> Parking<T> {
    pub fn new() -> Self {
        Self { idle: Mutex::new(Vec::new()) }
    }

    /// The queue that was used last, or a new one.
    pub fn take(&self, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(make, Ok)
    }

    /// Keeps a queue for the next caller.
    pub fn put(&self, queue: T) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(queue);
        }
    }
}
