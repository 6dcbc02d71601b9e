//! Detection of `fork`: rings and worker threads belong to the process that made them.
//!
//! A child inherits the descriptor of a ring and would share its queues with the parent; it
//! inherits no worker thread and would wait for ever. So each back end remembers its process and a
//! child gets an error at once, before any lock is touched.

use std::io;

use thiserror::Error;

/// The process in which something was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pid: u32,
}

/// Used in a process that did not open it.
#[derive(Clone, Copy, Debug, Error)]
#[error("opened in process {opened_in} but used in its fork {used_in}; open it again")]
pub(crate) struct Forked {
    pub opened_in: u32,
    pub used_in: u32,
}

impl Home {
    pub fn here() -> Self {
        Self { pid: std::process::id() }
    }

    /// Says whether this is still the process of [`Home::here`].
    pub fn check(self) -> Result<(), Forked> {
        let used_in = std::process::id();
        if used_in == self.pid { Ok(()) } else { Err(Forked { opened_in: self.pid, used_in }) }
    }
}

impl From<Forked> for io::Error {
    fn from(forked: Forked) -> Self {
        Self::other(forked)
    }
}
