//! Back ends `pread` (buffered) and `odirect` (O_DIRECT): a pool of threads makes a queue depth
//! above 1 real.
//!
//! `pread` first asks the page cache without waiting, on the calling thread, and bothers a worker
//! only with what is not there.

use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};

use super::parking::Parking;
use super::workers::{Inbox, Job, Target, Workers};
use crate::directory::{Caching, Directory, OpenFile};
use crate::disk::{Access, Disk, FileId, NextRead, ReadDone};
use crate::os::process::Home;
use crate::queue::{Admitted, Queue, QueueSize};

/// Jobs are handed to the workers in groups of at most this many.
const PUSH_BATCH: usize = 8;

/// Files read by a pool of threads.
pub(crate) struct PoolDisk {
    directory: Directory,
    caching: Caching,
    size: QueueSize,
    /// Whether the kernel can answer from the page cache without waiting.
    peek: AtomicBool,
    parking: Parking<PoolQueue>,
    workers: Workers,
    home: Home,
}

struct PoolQueue {
    queue: Queue,
    inbox: Arc<Inbox>,
    /// Jobs that workers have and have not answered.
    outstanding: usize,
    waiting: Vec<Job>,
    answers: Vec<(u32, io::Result<usize>)>,
}

impl PoolDisk {
    pub fn new(directory: Directory, caching: Caching, size: QueueSize, threads: usize) -> Self {
        Self {
            directory,
            caching,
            size,
            peek: AtomicBool::new(caching == Caching::Buffered),
            parking: Parking::new(),
            workers: Workers::new(threads),
            home: Home::here(),
        }
    }

    /// The whole read from the page cache, if it is there.
    fn peek(&self, file: &OpenFile, offset: u64, frame: &mut [u8]) -> Option<usize> {
        if !self.peek.load(Ordering::Relaxed) {
            return None;
        }
        let len = frame.len();
        let mut slices = [IoSliceMut::new(frame)];
        match rustix::io::preadv2(&file.reads, &mut slices, offset, ReadWriteFlags::NOWAIT) {
            Ok(got) if got == len => Some(got),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                self.peek.store(false, Ordering::Relaxed);
                None
            }
            _ => None,
        }
    }
}

/// A queue while it is in use. Dropping it, on a panic too, waits until no worker knows its frames.
struct Lease<'a> {
    disk: &'a PoolDisk,
    queue: Option<PoolQueue>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(mut queue) = self.queue.take() else {
            return;
        };
        queue.waiting.clear();
        while queue.outstanding > 0 {
            queue.answers.clear();
            queue.inbox.wait(&mut queue.answers);
            queue.outstanding -= queue.answers.len();
        }
        queue.answers.clear();
        // SAFETY: every job that a worker was given has been answered, and the others are gone.
        unsafe { queue.queue.reset() };
        self.disk.parking.put(queue);
    }
}

impl PoolQueue {
    fn new(size: QueueSize) -> io::Result<Self> {
        let (inbox, answers) = (Arc::default(), Vec::with_capacity(size.depth));
        Ok(Self { queue: Queue::new(size)?, inbox, outstanding: 0, waiting: Vec::new(), answers })
    }

    /// Starts reads until the queue is full or there is nothing to read now.
    fn fill(
        &mut self,
        disk: &PoolDisk,
        next: &mut NextRead<'_>,
        done: &mut ReadDone<'_>,
    ) -> io::Result<()> {
        while let Some(Admitted { index, op, address }) = self.queue.admit(next, done) {
            let file = match disk.directory.file(op.file) {
                Ok(file) => file,
                Err(error) => {
                    // SAFETY: no worker was told of this read.
                    unsafe { self.queue.retire(index, Err(error), done)? };
                    continue;
                }
            };
            let len = op.len as usize;
            // SAFETY: the frame is `len` bytes long, initialised and, until a worker is told of it,
            // this thread's alone.
            let frame = unsafe { std::slice::from_raw_parts_mut(address, len) };
            if let Some(got) = disk.peek(&file, op.offset, frame) {
                // SAFETY: no worker was told of this read.
                unsafe { self.queue.retire(index, Ok(got), done)? };
                continue;
            }
            let (address, inbox) = (Target(address), Arc::clone(&self.inbox));
            self.waiting.push(Job { file, offset: op.offset, len, address, index, inbox });
            if self.waiting.len() >= PUSH_BATCH {
                self.push(disk)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, disk: &PoolDisk) -> io::Result<()> {
        let count = self.waiting.len();
        if count > 0 {
            disk.workers.push(&mut self.waiting)?;
            self.outstanding += count;
        }
        Ok(())
    }

    fn run(
        &mut self,
        disk: &PoolDisk,
        next: &mut NextRead<'_>,
        done: &mut ReadDone<'_>,
    ) -> io::Result<()> {
        loop {
            self.fill(disk, next, done)?;
            self.push(disk)?;
            if self.outstanding == 0 {
                return Ok(());
            }
            let mut answers = std::mem::take(&mut self.answers);
            self.inbox.wait(&mut answers);
            self.outstanding -= answers.len();
            for (index, result) in answers.drain(..) {
                // SAFETY: the worker has answered, so it is done with the frame.
                unsafe { self.queue.retire(index, result, done)? };
                self.fill(disk, next, done)?;
            }
            self.answers = answers;
        }
    }
}

impl Disk for PoolDisk {
    fn backend(&self) -> &'static str {
        match self.caching {
            Caching::Buffered => "pread",
            Caching::Direct => "odirect",
        }
    }

    fn open(&self, name: &str, access: Access) -> io::Result<FileId> {
        let (id, file) = self.directory.open_file(name, access)?;
        if self.caching == Caching::Buffered {
            // Read-ahead would fetch what nobody asked for. A refusal costs speed alone.
            let _ = rustix::fs::fadvise(&file.reads, 0, None, Advice::Random);
        }
        Ok(id)
    }

    fn read(&self, next: &mut NextRead<'_>, done: &mut ReadDone<'_>) -> io::Result<()> {
        self.home.check()?;
        let queue = self.parking.take(|| PoolQueue::new(self.size))?;
        let mut lease = Lease { disk: self, queue: Some(queue) };
        match &mut lease.queue {
            Some(queue) => queue.run(self, next, done),
            None => Ok(()),
        }
    }

    fn write(&self, file: FileId, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.directory.write(file, offset, bytes)
    }

    write_side_in_directory!();
}
