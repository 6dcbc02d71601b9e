//! What the tests of rings share: servers in threads, and a peer that is written from
//! `docs/reference/shm.md` alone and keeps no rule that it is not asked to keep.
#![allow(dead_code, clippy::expect_used)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ng_io::{ShmConnection, ShmError, ShmFrame, ShmListener, ShmOptions};
use ng_testing::Random;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// A test that waits for so long has failed.
pub const LONG: Option<Duration> = Some(Duration::from_secs(30));

/// Small rings, and a peer check that finds what died at once.
pub fn options(ring_bytes: u32) -> ShmOptions {
    ShmOptions {
        ring_bytes,
        peer_check: Duration::from_millis(10),
        spin: Duration::ZERO,
        ..ShmOptions::default()
    }
}

/// A generator whose seed is printed.
pub fn seeded(seed: u64) -> Random {
    println!("seed {seed}");
    Random::new(seed)
}

/// A folder for a socket: paths of sockets are short.
pub fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("shm").tempdir().expect("a folder")
}

/// Sends back what comes until the connection ends; says how, and after how many frames.
pub fn echo(connection: ShmConnection) -> (u64, ShmError) {
    let (mut sender, mut receiver) = connection.split();
    let (mut payload, mut count) = (Vec::new(), 0);
    loop {
        let echoed = match receiver.receive(&mut payload, LONG) {
            Ok(Some(frame)) => sender.send(frame, &[&payload], LONG),
            Ok(None) => Err(ShmError::TimedOut),
            Err(error) => Err(error),
        };
        match echoed {
            Ok(()) => count += 1,
            Err(error) => return (count, error),
        }
    }
}

/// A server that takes `clients` and echoes, each in a thread.
pub fn echo_server(
    path: &Path,
    options: ShmOptions,
    clients: usize,
) -> JoinHandle<Vec<(u64, ShmError)>> {
    let mut listener = ShmListener::bind(path, options).expect("bound");
    std::thread::spawn(move || {
        let accept = |_| listener.accept(LONG).expect("accepted").expect("in time");
        let connections = (0..clients).map(accept).map(|one| std::thread::spawn(|| echo(one)));
        let threads: Vec<_> = connections.collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

/// One round trip.
pub fn ask(connection: &mut (ng_io::ShmSender, ng_io::ShmReceiver), bytes: &[u8]) -> Vec<u8> {
    let (frame, mut payload) = (ShmFrame { kind: 3, stream: 1 << 40 }, Vec::new());
    connection.0.send(frame, &[bytes], LONG).expect("sent");
    let got = connection.1.receive(&mut payload, LONG).expect("received");
    assert_eq!(got, Some(frame));
    payload
}

/// How many descriptors this process has.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("listed").count()
}

/// A socket of packets.
pub fn packets() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let kind = SocketType::SEQPACKET;
    rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).expect("a socket")
}

/// Connects a socket of packets.
pub fn knock(path: &Path) -> OwnedFd {
    let socket = packets();
    let address = SocketAddrUnix::new(path).expect("an address");
    rustix::net::connect(&socket, &address).expect("connected");
    socket
}

/// A client's first packet.
pub fn hello(first: u16, last: u16, ring_bytes: u32) -> [u8; 32] {
    let mut packet = [0; 32];
    packet[..8].copy_from_slice(b"nearshm\0");
    packet[8..10].copy_from_slice(&first.to_le_bytes());
    packet[10..12].copy_from_slice(&last.to_le_bytes());
    packet[16..20].copy_from_slice(&ring_bytes.to_le_bytes());
    packet
}

/// A server's answer.
pub fn reply(status: u32, version: u16, ring_bytes: u32) -> [u8; 32] {
    let mut packet = hello(0, 0, ring_bytes);
    packet[8..12].copy_from_slice(&status.to_le_bytes());
    packet[12..14].copy_from_slice(&version.to_le_bytes());
    packet
}

/// Sends a packet with descriptors.
pub fn send(socket: &OwnedFd, packet: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let bytes = [IoSlice::new(packet)];
    rustix::net::sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL).expect("sent");
}

/// Receives a packet and a descriptor.
pub fn receive(socket: &OwnedFd) -> (Vec<u8>, Option<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut packet = vec![0; 100];
    let got = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut packet)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    );
    packet.truncate(got.expect("received").bytes);
    let mut fds = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds = rights.last();
        }
    }
    (packet, fds)
}

/// A client that has all of the memory in its hands.
pub struct RawClient {
    pub socket: OwnedFd,
    pub memory: OwnedFd,
    pub ring_bytes: usize,
    base: *mut u8,
}

// SAFETY: the memory is touched as atomics alone.
unsafe impl Send for RawClient {}

/// The words of the ring to the server; those of the other stand 512 bytes further.
pub const WRITTEN: usize = 0;
pub const WRITER_SLEEPS: usize = 4;
pub const READ: usize = 128;
pub const READER_SLEEPS: usize = 132;
pub const TO_CLIENT: usize = 512;
pub const HEAD: usize = 4096;

impl RawClient {
    pub fn connect(path: &Path, ring_bytes: u32) -> Self {
        let socket = knock(path);
        send(&socket, &hello(1, 1, ring_bytes), &[]);
        let (packet, memory) = receive(&socket);
        assert_eq!(packet, reply(0, 1, ring_bytes));
        let (memory, ring_bytes) = (memory.expect("memory"), ring_bytes as usize);
        // SAFETY: a fresh mapping of sealed memory, at an address of the kernel's choice.
        let base = unsafe {
            use rustix::mm::{MapFlags, ProtFlags, mmap};
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let bytes = HEAD + 2 * ring_bytes;
            mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, memory.as_fd(), 0)
        };
        Self { socket, memory, ring_bytes, base: base.expect("mapped").cast() }
    }

    /// A word of the head.
    pub fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at < HEAD);
        // SAFETY: inside of the mapping, aligned, and touched as atomics alone.
        unsafe { AtomicU32::from_ptr(self.base.add(at).cast()) }
    }

    /// Eight bytes anywhere.
    pub fn double(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < HEAD + 2 * self.ring_bytes);
        // SAFETY: as for `word`.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Writes the header of a frame at the start of the ring to the server.
    pub fn header(&self, len: u32) {
        self.double(HEAD).store(u64::from(len), Ordering::Relaxed);
        self.double(HEAD + 8).store(9, Ordering::Relaxed);
    }

    /// Stores an index, and wakes whoever sleeps for it.
    pub fn publish(&self, at: usize, index: u32) {
        self.word(at).store(index, Ordering::SeqCst);
        let sleeper = if at % TO_CLIENT == WRITTEN { READER_SLEEPS } else { WRITER_SLEEPS };
        let flag = self.word(at / TO_CLIENT * TO_CLIENT + sleeper);
        flag.store(0, Ordering::SeqCst);
        let _ = rustix::thread::futex::wake(flag, rustix::thread::futex::Flags::empty(), 1);
    }
}

impl Drop for RawClient {
    fn drop(&mut self) {
        // SAFETY: mapped by `connect`, unmapped once.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), HEAD + 2 * self.ring_bytes) };
    }
}
