//! One io_uring with its staging arena: the queue of one calling thread.
//!
//! The depth is continuous: after every completion the caller is asked for the next read, and new
//! reads go to the kernel in small groups while older ones are still in flight; nothing waits for a
//! group to end. What must not live here: which thread uses which ring. The invariant: the kernel
//! writes only into frames of reads in flight, and a ring with reads in flight is never unmapped.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, cqueue, opcode, squeue, types};

use crate::directory::{Directory, OpenFile};
use crate::disk::{BLOCK_BYTES, FileId, NextRead, ReadDone};
use crate::os::lockable::Share;
use crate::queue::{Admitted, Queue, QueueSize};

/// New reads are handed to the kernel when they are for this many bytes together, while completions
/// are handled: the device never sees its queue drain by more, and a long read goes at once, since
/// few of them fill the queue and each takes long to handle.
const SUBMIT_BYTES: usize = 8 * BLOCK_BYTES;

/// How many files a ring can have registered; later ones go by plain descriptor.
const FILES_REGISTERED_MAX: u32 = 256;

/// Whether a ring has its staging buffer registered with the kernel, which saves pinning pages for
/// every read but counts against the lockable memory of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Registration {
    /// It has.
    Fixed,
    /// The kernel refused, for this reason.
    Refused(String),
}

/// How a file is named to the kernel by one ring.
#[derive(Clone)]
struct Known {
    /// Keeps the descriptor open while the ring may use it.
    file: Arc<OpenFile>,
    /// Whether its id is its place in the registered table.
    registered: bool,
}

/// A ring, its staging arena and the files it has met.
pub(crate) struct Ring {
    uring: IoUring,
    queue: Queue,
    /// What its registered buffer takes of the lockable memory, if it has one.
    share: Option<Share>,
    registration: Registration,
    table: bool,
    known: Vec<Option<Known>>,
    /// Reads that the kernel has and has not answered.
    outstanding: usize,
}

impl Ring {
    /// Sets a ring up; `register` asks for a registered buffer.
    pub fn new(size: QueueSize, register: bool) -> io::Result<Self> {
        let queue = Queue::new(size)?;
        let uring = build(size.depth)?;
        let mut ring = Self {
            uring,
            queue,
            share: None,
            registration: Registration::Refused("not requested".into()),
            table: false,
            known: Vec::new(),
            outstanding: 0,
        };
        ring.register_files();
        if register {
            ring.register_buffer();
        }
        Ok(ring)
    }

    fn register_files(&mut self) {
        let submitter = self.uring.submitter();
        self.table = submitter.register_files_sparse(FILES_REGISTERED_MAX).is_ok();
    }

    fn register_buffer(&mut self) {
        let region = self.queue.arena().region();
        let Some(share) = Share::take(region.bytes() as u64) else {
            let why = "this process would lock more than half of the memory that may be locked";
            self.registration = Registration::Refused(why.into());
            return;
        };
        let buffer = libc::iovec { iov_base: region.base().cast(), iov_len: region.bytes() };
        // SAFETY: the region outlives the registration: a ring is dropped only after all reads
        // have ended, and fields drop in order, the ring before the arena.
        match unsafe { self.uring.submitter().register_buffers(&[buffer]) } {
            Ok(()) => {
                self.share = Some(share);
                self.registration = Registration::Fixed;
            }
            Err(error) => self.registration = Registration::Refused(error.to_string()),
        }
    }

    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// Passes one empty request through the ring, to see whether the kernel lets it be used.
    pub fn try_out(&mut self) -> io::Result<()> {
        self.push(&opcode::Nop::new().build().user_data(0))?;
        self.enter(1)?;
        match self.reap() {
            Some((_, result)) => result.map(|_| ()),
            None => Err(io::Error::other("the ring did not complete the request")),
        }
    }

    /// Runs reads until `next` has none while nothing is in flight.
    pub fn run(
        &mut self,
        directory: &Directory,
        next: &mut NextRead<'_>,
        done: &mut ReadDone<'_>,
    ) -> io::Result<()> {
        loop {
            self.fill(directory, next, done)?;
            if self.outstanding == 0 {
                return Ok(());
            }
            self.enter(1)?;
            let mut fresh = 0;
            while let Some((index, result)) = self.reap() {
                // SAFETY: the kernel has posted the completion, so it is done with the frame.
                unsafe { self.queue.retire(index, result, done)? };
                fresh += self.fill(directory, next, done)?;
                if fresh >= SUBMIT_BYTES {
                    self.enter(0)?;
                    fresh = 0;
                }
            }
        }
    }

    /// Puts reads on the submission queue until that, the depth or the caller is exhausted; says
    /// for how many bytes.
    fn fill(
        &mut self,
        directory: &Directory,
        next: &mut NextRead<'_>,
        done: &mut ReadDone<'_>,
    ) -> io::Result<usize> {
        let mut bytes = 0;
        while let Some(admitted) = self.queue.admit(next, done) {
            match self.know(directory, admitted.op.file) {
                Ok(known) => {
                    let entry = self.entry(&admitted, &known);
                    self.push(&entry)?;
                    bytes += admitted.op.len as usize;
                }
                Err(error) => {
                    // SAFETY: the kernel was not told of this read.
                    unsafe { self.queue.retire(admitted.index, Err(error), done)? };
                }
            }
        }
        Ok(bytes)
    }

    /// How this ring names a file; registers it at the first meeting.
    fn know(&mut self, directory: &Directory, id: FileId) -> io::Result<Known> {
        let index = id.0 as usize;
        if let Some(Some(known)) = self.known.get(index) {
            return Ok(known.clone());
        }
        let file = directory.file(id)?;
        let fd = file.reads.as_raw_fd();
        let registered = self.table
            && id.0 < FILES_REGISTERED_MAX
            && matches!(self.uring.submitter().register_files_update(id.0, &[fd]), Ok(1));
        let known = Known { file, registered };
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        self.known[index] = Some(known.clone());
        Ok(known)
    }

    fn entry(&self, admitted: &Admitted, known: &Known) -> squeue::Entry {
        let Admitted { index, op, address } = *admitted;
        let fd = types::Fd(known.file.reads.as_raw_fd());
        let place = types::Fixed(op.file.0);
        let entry = match (self.share.is_some(), known.registered) {
            (true, true) => {
                opcode::ReadFixed::new(place, address, op.len, 0).offset(op.offset).build()
            }
            (true, false) => {
                opcode::ReadFixed::new(fd, address, op.len, 0).offset(op.offset).build()
            }
            (false, true) => opcode::Read::new(place, address, op.len).offset(op.offset).build(),
            (false, false) => opcode::Read::new(fd, address, op.len).offset(op.offset).build(),
        };
        entry.user_data(u64::from(index))
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the frame and the descriptor stay valid until the completion: the frame is taken
        // until `retire`, the descriptor is held by `known`, and a lease waits for all reads.
        if unsafe { self.uring.submission().push(entry) }.is_err() {
            // The submission queue is as long as the depth, so it is full of entries that the
            // kernel has not been told of yet.
            self.enter(0)?;
            // SAFETY: as above.
            unsafe { self.uring.submission().push(entry) }
                .map_err(|_| io::Error::other("the submission queue of the ring remains full"))?;
        }
        self.outstanding += 1;
        Ok(())
    }

    /// The next completion that has arrived.
    fn reap(&mut self) -> Option<(u32, io::Result<usize>)> {
        let entry: cqueue::Entry = self.uring.completion().next()?;
        self.outstanding -= 1;
        let result = usize::try_from(entry.result())
            .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
        Some((entry.user_data() as u32, result))
    }

    /// Submits what is queued and waits for `wanted` completions.
    fn enter(&mut self, wanted: usize) -> io::Result<()> {
        loop {
            match self.uring.submit_and_wait(wanted) {
                Ok(_) => return Ok(()),
                Err(error) => match error.raw_os_error() {
                    // Nothing is lost by a signal: what was submitted stays submitted.
                    Some(libc::EINTR) => {}
                    // The kernel is short of memory or its completion queue is full: completions
                    // that are already there make room, so the caller handles those first.
                    Some(libc::EAGAIN | libc::EBUSY) if self.has_completions() => return Ok(()),
                    Some(libc::EAGAIN | libc::EBUSY) => std::thread::yield_now(),
                    _ => return Err(error),
                },
            }
        }
    }

    fn has_completions(&mut self) -> bool {
        !self.uring.completion().is_empty()
    }

    /// Waits until the kernel knows no frame any more, and forgets what was in flight. False if
    /// that cannot be had.
    pub fn settle(&mut self) -> bool {
        while self.outstanding > 0 {
            if self.reap().is_none() && self.enter(1).is_err() {
                return false;
            }
        }
        // SAFETY: every read that the kernel was told of has completed.
        unsafe { self.queue.reset() };
        true
    }
}

/// Sets the ring up with what spares interrupts, and without where the kernel is older.
fn build(queue_depth: usize) -> io::Result<IoUring> {
    let entries = queue_depth.next_power_of_two() as u32;
    let modern = IoUring::builder().setup_coop_taskrun().setup_taskrun_flag().build(entries);
    match modern {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries),
        other => other,
    }
}
