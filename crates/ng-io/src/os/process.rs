//! Detection of `fork`: rings and worker threads belong to the process that made them.
//!
//! A child inherits the descriptor of a ring and would share its queues with the parent; it
//! inherits no worker thread and would wait for ever. So each back end remembers its process and a
//! child gets an error at once, before any lock is touched.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{Advice, madvise};
use thiserror::Error;

use crate::os::anon_map::AnonMap;

/// A page that a fork gets empty; its first word is the process id, once somebody has asked.
static OWN_PAGE: OnceLock<Option<AnonMap>> = OnceLock::new();

fn own_page() -> Option<AnonMap> {
    let page = AnonMap::new(rustix::param::page_size()).ok()?;
    // SAFETY: the range is the mapping that was just made, and nothing is in it.
    unsafe { madvise(page.base().cast(), page.bytes(), Advice::LinuxWipeOnFork) }.ok()?;
    Some(page)
}

/// The id of this process, without a system call for each question: rings are asked a million
/// times a second.
fn process_id() -> u32 {
    let Some(page) = OWN_PAGE.get_or_init(own_page) else {
        return std::process::id();
    };
    // SAFETY: the page lives as long as the program, begins at a multiple of 4, every bit pattern
    // is a u32, and it is touched only here, as an atomic.
    let word = unsafe { AtomicU32::from_ptr(page.base().cast()) };
    match word.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            word.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

/// The process in which something was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pid: u32,
}

/// Used in a process that did not open it.
#[derive(Clone, Copy, Debug, Error)]
#[error(
    "files opened in process {opened_in} cannot be used in its fork {used_in}; open the store \
     again in the fork"
)]
pub(crate) struct Forked {
    pub opened_in: u32,
    pub used_in: u32,
}

impl Home {
    pub fn here() -> Self {
        Self { pid: process_id() }
    }

    /// Says whether this is still the process of [`Home::here`].
    pub fn check(self) -> Result<(), Forked> {
        let used_in = process_id();
        if used_in == self.pid { Ok(()) } else { Err(Forked { opened_in: self.pid, used_in }) }
    }
}

impl From<Forked> for io::Error {
    fn from(forked: Forked) -> Self {
        Self::other(forked)
    }
}
