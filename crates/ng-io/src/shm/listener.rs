//! [`ShmListener`]: the server's socket, and clients on their way to a connection.
//!
//! The invariants: a client that says nothing, or nonsense, keeps no other from connecting; there
//! are never more descriptors than the limits allow.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, SocketType, accept_with};

use crate::shm::connection::{Place, ShmConnection, ShmPeer, is_allowed, peer_of};
use crate::shm::error::{Refusal, ShmError};
use crate::shm::memory::{self, Mapping, Way};
use crate::shm::options::{ShmOptions, is_ring_size};
use crate::shm::setup::{self, Heard, Hello, Reply, VERSION};
use crate::shm::socket::{SocketFile, listen_with};

/// Clients that are connected and have not spoken. One that does is served at once, so only silent
/// ones gather here, and the oldest of them goes first.
const SILENT_MAX: usize = 16;

/// A client that has not yet said what it wants.
struct Silent {
    socket: OwnedFd,
    peer: ShmPeer,
    end: Option<Instant>,
}

/// What became of a client.
enum Outcome {
    Connected(Box<ShmConnection>),
    StillSilent(Silent),
    Gone,
}

/// Accepts connections at a path.
///
/// See [`ShmConnection`] for an example.
pub struct ShmListener {
    socket: OwnedFd,
    file: SocketFile,
    options: ShmOptions,
    silent: VecDeque<Silent>,
    taken: Arc<AtomicUsize>,
    refusals: u64,
}

impl ShmListener {
    /// Listens at `path` with a socket of mode 0600. It replaces a socket left by a dead server of
    /// this user. The socket is removed when the listener is dropped.
    ///
    /// # Errors
    /// A server lives there, something else is there, the sizes are not possible, or the system
    /// refuses.
    pub fn bind(path: &Path, options: ShmOptions) -> Result<Self, ShmError> {
        options.check()?;
        let (socket, file) = listen_with(path, SocketType::SEQPACKET)?;
        let (silent, taken) = (VecDeque::new(), Arc::default());
        Ok(Self { socket, file, options, silent, taken, refusals: 0 })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many clients were refused or gave up.
    pub fn refusals(&self) -> u64 {
        self.refusals
    }

    /// The next connection; `None` if none came within `wait`. Clients that are refused are
    /// counted, and are no error of this call.
    ///
    /// # Errors
    /// The system has no descriptors left, or failed; it may go better the next time.
    pub fn accept(&mut self, wait: Option<Duration>) -> Result<Option<ShmConnection>, ShmError> {
        let end = wait.and_then(setup::end_after);
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        loop {
            if let Some(connection) = self.serve_silent() {
                return Ok(Some(connection));
            }
            while let Some(client) = self.next_client()? {
                match self.serve(client) {
                    Outcome::Connected(connection) => return Ok(Some(*connection)),
                    Outcome::StillSilent(client) => self.keep(client),
                    Outcome::Gone => self.refusals += 1,
                }
                // Clients that come without end must not keep the caller.
                if is_over() {
                    break;
                }
            }
            if is_over() {
                return Ok(None);
            }
            let first = self.silent.iter().filter_map(|client| client.end).min();
            let until = [end, first].into_iter().flatten().min();
            let sockets = self.silent.iter().map(|client| &client.socket);
            let mut fds: Vec<PollFd<'_>> =
                sockets.chain([&self.socket]).map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            setup::wait_for(&mut fds, until)
                .map_err(|source| ShmError::io("wait for connections", source))?;
        }
    }

    fn keep(&mut self, client: Silent) {
        if self.silent.len() >= SILENT_MAX {
            self.silent.pop_front();
            self.refusals += 1;
        }
        self.silent.push_back(client);
    }

    /// Serves the first of the silent ones that has spoken, and drops those whose time is over.
    fn serve_silent(&mut self) -> Option<ShmConnection> {
        for _ in 0..self.silent.len() {
            let client = self.silent.pop_front()?;
            match self.serve(client) {
                Outcome::Connected(connection) => return Some(*connection),
                Outcome::StillSilent(client)
                    if client.end.is_none_or(|end| Instant::now() < end) =>
                {
                    self.silent.push_back(client);
                }
                Outcome::StillSilent(_) | Outcome::Gone => self.refusals += 1,
            }
        }
        None
    }

    fn next_client(&mut self) -> Result<Option<Silent>, ShmError> {
        loop {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.socket, flags) {
                Ok(socket) => {
                    let peer = peer_of(&socket)?;
                    let end = setup::end_after(self.options.setup_wait);
                    return Ok(Some(Silent { socket, peer, end }));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(ShmError::io("accept a connection", errno)),
            }
        }
    }

    /// Answers a client, if it has spoken.
    fn serve(&mut self, client: Silent) -> Outcome {
        let mut packet = Vec::new();
        match setup::hear(&client.socket, &mut packet) {
            Heard::Nothing => return Outcome::StillSilent(client),
            Heard::End => return Outcome::Gone,
            Heard::Packet(()) => {}
        }
        // After its packet was read: a socket that is closed before loses the answer.
        if !is_allowed(client.peer) {
            return refuse(&client, Refusal::OtherUser);
        }
        let ring_bytes = match Hello::decode(&packet).map(|hello| self.agree(hello)) {
            Some(Ok(ring_bytes)) => ring_bytes,
            Some(Err(why)) => return refuse(&client, why),
            None => return refuse(&client, Refusal::BadRequest),
        };
        let Some(place) = Place::take(&self.taken, self.options.connections_max) else {
            return refuse(&client, Refusal::Full);
        };
        let Ok((memory, mapping)) = make(ring_bytes) else {
            return refuse(&client, Refusal::NoMemory);
        };
        let reply = Reply { refused: None, version: VERSION, ring_bytes };
        let sent = setup::send_message(&client.socket, &reply.encode(), Some(memory.as_fd()));
        if sent.is_err() {
            return Outcome::Gone;
        }
        let Silent { socket, peer, .. } = client;
        let place = Some(place);
        let connection =
            ShmConnection::new(mapping, socket, peer, &self.options, Way::ToClient, place);
        Outcome::Connected(Box::new(connection))
    }

    /// The size of the rings for a client, or why there are none.
    fn agree(&self, hello: Hello) -> Result<u32, Refusal> {
        let (first, last) = hello.versions;
        if !(first..=last).contains(&VERSION) {
            return Err(Refusal::Version { server: VERSION });
        }
        match hello.ring_bytes {
            0 => Ok(self.options.ring_bytes),
            asked if is_ring_size(asked) => Ok(asked.min(self.options.ring_bytes)),
            _ => Err(Refusal::BadRequest),
        }
    }
}

impl AsFd for ShmListener {
    /// The socket: readable when a client comes. Silent clients are not seen by it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn make(ring_bytes: u32) -> io::Result<(OwnedFd, Mapping)> {
    let memory = memory::create(ring_bytes)?;
    let mapping = Mapping::of(&memory, ring_bytes)?;
    Ok((memory, mapping))
}

fn refuse(client: &Silent, why: Refusal) -> Outcome {
    let reply = Reply { refused: Some(why), version: VERSION, ring_bytes: 0 };
    // One that does not wait for its answer does not get it.
    let _ = setup::send_message(&client.socket, &reply.encode(), None);
    Outcome::Gone
}
