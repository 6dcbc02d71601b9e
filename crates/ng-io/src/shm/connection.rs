//! [`ShmConnection`]: two rings and the socket that tells of the peer's death.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketType, connect, shutdown};

use crate::os::process::Home;
use crate::shm::error::{ShmError, SocketError};
use crate::shm::memory::{self, Mapping, Way};
use crate::shm::options::{ShmOptions, is_ring_size};
use crate::shm::ring::{Found, Reader, Ring, ShmFrame, Writer, payload_bytes_max};
use crate::shm::setup::{self, Heard, Hello, Reply, VERSION};
use crate::shm::{socket, wake};

/// How often a spinning side looks at the ring before it looks at the clock.
const LOOKS: u32 = 32;
/// How soon a client comes back to a server whose queue of connections is full.
const RETRY_WAIT: Duration = Duration::from_millis(2);

/// The peer process, as recorded by the kernel when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShmPeer {
    /// Its user.
    pub uid: u32,
    /// Its process; `None` if it is not visible from this pid namespace.
    pub pid: Option<u32>,
}

/// A place among the connections of a server; given back when dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    /// One more, if there are fewer than `most`.
    pub fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let below = |count: usize| (count < most).then_some(count + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below).ok()?;
        Some(Self(Arc::clone(taken)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What both halves of a connection use.
#[derive(Debug)]
struct Shared {
    mapping: Mapping,
    socket: OwnedFd,
    peer: ShmPeer,
    spin: Duration,
    peer_check: Duration,
    home: Home,
    closed: AtomicBool,
    _place: Option<Place>,
}

impl Shared {
    /// Waits until `has_news`, or says that the time is over. `flag` is the word to sleep on.
    fn wait(
        &self,
        flag: &AtomicU32,
        end: Option<Instant>,
        has_news: impl Fn() -> bool,
    ) -> Result<bool, ShmError> {
        let begin = Instant::now();
        let spin_end = begin + self.spin.min(Duration::from_secs(1));
        let spin_end = end.map_or(spin_end, |end| end.min(spin_end));
        while Instant::now() < spin_end {
            for _ in 0..LOOKS {
                if has_news() {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
        }
        let mut slept = false;
        loop {
            if has_news() {
                return Ok(true);
            }
            if self.closed.load(Ordering::Acquire) {
                return Err(ShmError::Closed);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let over = left.is_some_and(|left| left.is_zero());
            // Not before the first sleep: an answer that comes soon costs no call for this.
            if (slept || over) && setup::is_gone(&self.socket) {
                // It may have written something before it went.
                return if has_news() { Ok(true) } else { Err(ShmError::PeerGone) };
            }
            if over {
                return Ok(false);
            }
            let slice = left.map_or(self.peer_check, |left| left.min(self.peer_check));
            wake::sleep(flag, slice, || has_news() || self.closed.load(Ordering::Relaxed));
            slept = true;
        }
    }
}

/// One end of a connection.
///
/// ```
/// use std::time::Duration;
/// use ng_io::{ShmConnection, ShmFrame, ShmListener, ShmOptions};
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("rings");
/// let mut listener = ShmListener::bind(&path, ShmOptions::default())?;
/// let server = std::thread::spawn(move || -> Result<(), ng_io::ShmError> {
///     let connection = listener.accept(None)?.expect("without an end, one comes");
///     let (mut sender, mut receiver) = connection.split();
///     let mut payload = Vec::new();
///     while let Some(frame) = receiver.receive(&mut payload, None)? {
///         sender.send(frame, &[b"you said ", &payload], None)?;
///     }
///     Ok(())
/// });
/// let (mut sender, mut receiver) = ShmConnection::connect(&path, ShmOptions::default())?.split();
/// let (frame, mut payload) = (ShmFrame { kind: 1, stream: 7 }, Vec::new());
/// sender.send(frame, &[b"some", b"thing"], None)?;
/// assert_eq!(receiver.receive(&mut payload, Some(Duration::from_secs(5)))?, Some(frame));
/// assert_eq!(payload, b"you said something");
/// drop((sender, receiver));
/// assert!(matches!(server.join().expect("no panic"), Err(ng_io::ShmError::Closed)));
/// # Ok::<(), ng_io::ShmError>(())
/// ```
#[derive(Debug)]
pub struct ShmConnection {
    sender: ShmSender,
    receiver: ShmReceiver,
}

impl ShmConnection {
    /// Connects to the server that listens at `path`.
    ///
    /// # Errors
    /// There is none, it belongs to another user, refuses, does not answer in time, or offers
    /// memory that could be taken away.
    pub fn connect(path: &Path, options: ShmOptions) -> Result<Self, ShmError> {
        options.check()?;
        let end = setup::end_after(options.setup_wait);
        let socket = reach(path, end)?;
        let peer = peer_of(&socket)?;
        if !is_allowed(peer) {
            return Err(ShmError::OtherUser { path: path.to_owned(), uid: peer.uid });
        }
        let hello = Hello { versions: (VERSION, VERSION), ring_bytes: options.ring_bytes };
        // A server that refuses without having read has answered already.
        let sent = setup::send_message(&socket, &hello.encode(), None);
        let heard = answer(&socket, end).map_err(|what| bad(path, what));
        let (reply, memory) = match (sent, heard) {
            (_, Ok(heard)) => heard,
            (Err(Errno::PIPE) | Ok(()), Err(error)) => return Err(error),
            (Err(errno), Err(_)) => return Err(ShmError::io("request a connection", errno)),
        };
        if let Some(why) = reply.refused {
            return Err(ShmError::Refused { path: path.to_owned(), why });
        }
        if reply.version != VERSION {
            return Err(bad(path, "the server selected a version that was not offered"));
        }
        if !is_ring_size(reply.ring_bytes) || reply.ring_bytes > options.ring_bytes {
            return Err(bad(
                path,
                "the server selected a ring size that is not valid or larger than requested",
            ));
        }
        let memory = memory.ok_or_else(|| bad(path, "the server sent no shared memory"))?;
        memory::check(memory.as_fd(), reply.ring_bytes)
            .map_err(|what| ShmError::UnsafeMemory { path: path.to_owned(), what })?;
        let mapping = Mapping::of(&memory, reply.ring_bytes);
        let mapping = mapping.map_err(|source| ShmError::io("map the rings", source))?;
        Ok(Self::new(mapping, socket, peer, &options, Way::ToServer, None))
    }

    /// Puts the parts of an end together; `way` is the one in which it sends.
    pub(super) fn new(
        mapping: Mapping,
        socket: OwnedFd,
        peer: ShmPeer,
        options: &ShmOptions,
        way: Way,
        place: Option<Place>,
    ) -> Self {
        let shared = Arc::new(Shared {
            mapping,
            socket,
            peer,
            spin: options.spin,
            peer_check: options.peer_check.max(Duration::from_millis(1)),
            home: Home::here(),
            closed: AtomicBool::new(false),
            _place: place,
        });
        let sender = ShmSender { shared: Arc::clone(&shared), way, writer: Writer::default() };
        let receiver = ShmReceiver { shared, way: way.back(), reader: Reader::default() };
        Self { sender, receiver }
    }

    /// Returns the peer process.
    pub fn peer(&self) -> ShmPeer {
        self.sender.shared.peer
    }

    /// The size of each ring that was agreed upon.
    pub fn ring_bytes(&self) -> u32 {
        self.sender.shared.mapping.ring_bytes()
    }

    /// Both halves, for two threads. When one is dropped, the peer's other half ends; the
    /// connection is over when both are dropped.
    pub fn split(self) -> (ShmSender, ShmReceiver) {
        (self.sender, self.receiver)
    }

    /// Ends the connection from any thread.
    pub fn closer(&self) -> ShmCloser {
        ShmCloser { shared: Arc::clone(&self.sender.shared) }
    }
}

impl AsFd for ShmConnection {
    /// The socket. It has `POLLHUP` once the peer is gone; nothing else is said over it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.sender.shared.socket.as_fd()
    }
}

/// Ends a connection while its halves are in use elsewhere.
#[derive(Clone, Debug)]
pub struct ShmCloser {
    shared: Arc<Shared>,
}

impl ShmCloser {
    /// Makes the halves of this side return [`ShmError::Closed`] instead of waiting. Frames that
    /// have arrived are still received. The peer notices the end at its next check of the socket.
    pub fn close(&self) {
        let shared = &self.shared;
        if shared.home.check().is_err() {
            return;
        }
        shared.closed.store(true, Ordering::Release);
        let _ = shutdown(&shared.socket, Shutdown::Both);
        for way in [Way::ToServer, Way::ToClient] {
            let ring = shared.mapping.ring(way);
            wake::wake_always(ring.reader_sleeps);
            wake::wake_always(ring.writer_sleeps);
        }
    }
}

/// The half that sends.
#[derive(Debug)]
pub struct ShmSender {
    shared: Arc<Shared>,
    way: Way,
    writer: Writer,
}

impl ShmSender {
    /// Returns the longest payload of a frame: a quarter of the ring minus 16 bytes. The layer
    /// above splits longer payloads, so that other streams get their turn.
    pub fn payload_bytes_max(&self) -> usize {
        payload_bytes_max(self.shared.mapping.ring_bytes())
    }

    fn ring(&self) -> Ring<'_> {
        self.shared.mapping.ring(self.way)
    }

    /// Sends a frame whose payload is `parts` one behind the other, copied once, into the ring.
    /// Waits for room for `wait`, or for as long as the peer lives. As with every network, a frame
    /// that was sent need not have been received.
    ///
    /// # Errors
    /// [`ShmError::TimedOut`] without room in time, [`ShmError::TooLong`]; nothing was sent then,
    /// and the connection goes on. With all others it is over.
    pub fn send(
        &mut self,
        frame: ShmFrame,
        parts: &[&[u8]],
        wait: Option<Duration>,
    ) -> Result<(), ShmError> {
        let shared = &self.shared;
        shared.home.check()?;
        if shared.closed.load(Ordering::Relaxed) {
            return Err(ShmError::Closed);
        }
        let ring = shared.mapping.ring(self.way);
        let mut end = None;
        while !self.writer.push(ring, frame, parts)? {
            end = end.or_else(|| wait.and_then(setup::end_after));
            let writer = &self.writer;
            if !shared.wait(ring.writer_sleeps, end, || writer.has_news(ring))? {
                return Err(ShmError::TimedOut);
            }
        }
        wake::wake(ring.reader_sleeps);
        Ok(())
    }
}

impl Drop for ShmSender {
    fn drop(&mut self) {
        if self.shared.home.check().is_ok() {
            self.writer.close(self.ring());
            wake::wake(self.ring().reader_sleeps);
        }
    }
}

/// The half that receives.
#[derive(Debug)]
pub struct ShmReceiver {
    shared: Arc<Shared>,
    way: Way,
    reader: Reader,
}

impl ShmReceiver {
    fn ring(&self) -> Ring<'_> {
        self.shared.mapping.ring(self.way)
    }

    /// Receives the next frame; `payload` becomes its payload, copied out of reach of the peer.
    /// Waits for `wait`, or for as long as the peer lives; `None` if nothing came in time. A buffer
    /// that is used again is not allocated again, and only zeroed where it grows.
    ///
    /// # Errors
    /// The peer closed, died or wrote garbage: after all frames that it had sent before, and the
    /// connection is over then.
    pub fn receive(
        &mut self,
        payload: &mut Vec<u8>,
        wait: Option<Duration>,
    ) -> Result<Option<ShmFrame>, ShmError> {
        let shared = &self.shared;
        shared.home.check()?;
        let ring = shared.mapping.ring(self.way);
        let mut end = None;
        loop {
            match self.reader.pop(ring, payload)? {
                Found::Frame(frame) => {
                    wake::wake(ring.writer_sleeps);
                    return Ok(Some(frame));
                }
                Found::Closed => return Err(ShmError::Closed),
                Found::Nothing => {}
            }
            end = end.or_else(|| wait.and_then(setup::end_after));
            let reader = &self.reader;
            if !shared.wait(ring.reader_sleeps, end, || reader.has_news(ring))? {
                return Ok(None);
            }
        }
    }
}

impl Drop for ShmReceiver {
    fn drop(&mut self) {
        if self.shared.home.check().is_ok() {
            self.reader.close(self.ring());
            wake::wake(self.ring().writer_sleeps);
        }
    }
}

fn bad(path: &Path, what: &'static str) -> ShmError {
    ShmError::BadAnswer { path: path.to_owned(), what }
}

/// Whether a peer is of this user, or root.
pub(super) fn is_allowed(peer: ShmPeer) -> bool {
    peer.uid == 0 || peer.uid == rustix::process::geteuid().as_raw()
}

/// Asks the kernel who is on the other side.
pub(super) fn peer_of(socket: impl AsFd) -> Result<ShmPeer, ShmError> {
    use std::os::fd::AsRawFd;
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: both pointers are those of live variables, and `len` is the length of the first.
    // rustix is not used: its type cannot hold the 0 of a process in another pid namespace.
    let result = unsafe {
        let found = (&raw mut found).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, found, &raw mut len)
    };
    if result != 0 {
        return Err(ShmError::io(
            "find out the user of the peer process",
            std::io::Error::last_os_error(),
        ));
    }
    Ok(ShmPeer { uid: found.uid, pid: u32::try_from(found.pid).ok().filter(|pid| *pid != 0) })
}

/// A socket that is connected to the server's.
fn reach(path: &Path, end: Option<Instant>) -> Result<OwnedFd, ShmError> {
    let address = socket::address(path)?;
    let socket = socket::new_socket(SocketType::SEQPACKET);
    let socket = socket.map_err(|errno| ShmError::io("create a socket", errno))?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => return Ok(socket),
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NOTDIR) => {
                return Err(ShmError::NoServer { path: path.to_owned() });
            }
            Err(Errno::PROTOTYPE) => return Err(bad(path, "the path is a socket of another type")),
            Err(Errno::INTR) => {}
            // As many wait as the system lets wait.
            Err(Errno::AGAIN) if end.is_none_or(|end| Instant::now() < end) => {
                std::thread::sleep(RETRY_WAIT);
            }
            Err(errno) => return Err(SocketError::io("connect to", path, errno).into()),
        }
    }
}

/// The server's reply, and the memory that came with it.
fn answer(
    socket: &OwnedFd,
    end: Option<Instant>,
) -> Result<(Reply, Option<OwnedFd>), &'static str> {
    let mut packet = Vec::new();
    loop {
        match setup::hear_with_memory(socket, &mut packet) {
            Heard::Packet(memory) => {
                let reply =
                    Reply::decode(&packet).ok_or("the answer of the server cannot be read")?;
                return Ok((reply, memory));
            }
            Heard::End => return Err("the server closed the connection"),
            Heard::Nothing if end.is_some_and(|end| Instant::now() >= end) => {
                return Err("the server did not answer in time");
            }
            Heard::Nothing => {
                let mut fds = [PollFd::new(socket, PollFlags::IN)];
                setup::wait_for(&mut fds, end)
                    .map_err(|_| "waiting for the answer of the server failed")?;
            }
        }
    }
}
