//! What the two sides say over the socket before the memory is there (`docs/reference/shm.md`).
//!
//! The invariant: a message of any bytes is decoded or refused, without a panic.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
};
use rustix::time::Timespec;

use crate::shm::error::Refusal;

/// The version of the rings that this release speaks.
pub(super) const VERSION: u16 = 1;
/// The first bytes of each message.
const MAGIC: [u8; 8] = *b"nearshm\0";
/// Each message is one packet of this length.
pub(super) const MESSAGE_BYTES: usize = 32;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// The versions that it speaks, first and last.
    pub versions: (u16, u16),
    /// The ring that it would like; 0 leaves it to the server.
    pub ring_bytes: u32,
}

/// What a server answers. Without a refusal, the memory comes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    /// Why there is no connection; `Version` carries the server's.
    pub refused: Option<Refusal>,
    /// The version that is spoken.
    pub version: u16,
    /// Bytes of each ring.
    pub ring_bytes: u32,
}

type Message = [u8; MESSAGE_BYTES];

fn message(fields: &[(usize, &[u8])]) -> Message {
    let mut message = [0; MESSAGE_BYTES];
    message[..8].copy_from_slice(&MAGIC);
    for (at, bytes) in fields {
        message[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    message
}

/// The numbers of 16 bits behind the magic, if these are the bytes of a message.
fn halves(bytes: &[u8]) -> Option<[u16; 12]> {
    let message: &Message = bytes.try_into().ok()?;
    let (magic, rest) = message.split_at(MAGIC.len());
    let (pairs, _) = rest.as_chunks::<2>();
    (*magic == MAGIC).then(|| std::array::from_fn(|number| u16::from_le_bytes(pairs[number])))
}

fn word(low: u16, high: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

impl Hello {
    pub fn encode(self) -> Message {
        let (first, last) = self.versions;
        let ring_bytes = self.ring_bytes.to_le_bytes();
        message(&[(8, &first.to_le_bytes()), (10, &last.to_le_bytes()), (16, &ring_bytes)])
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [first, last, _, _, low, high, ..] = halves(bytes)?;
        Some(Self { versions: (first, last), ring_bytes: word(low, high) })
    }
}

impl Reply {
    pub fn encode(self) -> Message {
        let status: u32 = match self.refused {
            None => 0,
            Some(Refusal::Version { .. }) => 1,
            Some(Refusal::Full) => 2,
            Some(Refusal::OtherUser) => 3,
            Some(Refusal::BadRequest) => 4,
            Some(Refusal::NoMemory) => 5,
        };
        let (version, ring_bytes) = (self.version.to_le_bytes(), self.ring_bytes.to_le_bytes());
        message(&[(8, &status.to_le_bytes()), (12, &version), (16, &ring_bytes)])
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [low, high, version, _, ring_low, ring_high, ..] = halves(bytes)?;
        let refused = match word(low, high) {
            0 => None,
            1 => Some(Refusal::Version { server: version }),
            2 => Some(Refusal::Full),
            3 => Some(Refusal::OtherUser),
            4 => Some(Refusal::BadRequest),
            5 => Some(Refusal::NoMemory),
            _ => return None,
        };
        Some(Self { refused, version, ring_bytes: word(ring_low, ring_high) })
    }
}

/// Sends a message, and a descriptor with it, as one packet.
pub(super) fn send_message(
    socket: impl AsFd,
    message: &Message,
    memory: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let flags = SendFlags::NOSIGNAL;
    let Some(memory) = memory else {
        return send(socket, message, flags).map(drop);
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [memory];
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::NOBUFS);
    }
    sendmsg(socket, &[IoSlice::new(message)], &mut control, flags).map(drop)
}

/// What a socket that does not block had to say.
pub(super) enum Heard<T> {
    /// A packet, whole or not.
    Packet(T),
    /// Nothing yet.
    Nothing,
    /// The other side is gone.
    End,
}

/// Room for a message, and for one byte more, so that a longer packet is seen to be one.
const PACKET_BYTES: usize = MESSAGE_BYTES + 1;

/// Receives a packet without descriptors: the kernel closes those that come with it.
pub(super) fn hear(socket: impl AsFd, packet: &mut Vec<u8>) -> Heard<()> {
    packet.resize(PACKET_BYTES, 0);
    match recv(socket, &mut packet[..], RecvFlags::DONTWAIT) {
        Ok((_, 0)) => Heard::End,
        Ok((_, len)) => {
            packet.truncate(len);
            Heard::Packet(())
        }
        Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
        Err(_) => Heard::End,
    }
}

/// Receives a packet and the one descriptor that may come with it.
pub(super) fn hear_with_memory(socket: impl AsFd, packet: &mut Vec<u8>) -> Heard<Option<OwnedFd>> {
    packet.resize(PACKET_BYTES, 0);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let bytes = &mut [IoSliceMut::new(packet)];
    let mut received = recvmsg(&socket, bytes, &mut control, flags);
    if matches!(received, Err(Errno::CONNRESET)) {
        // The server closed without having read all; what it said before comes after this error.
        received = recvmsg(&socket, bytes, &mut control, flags);
    }
    match received {
        Ok(received) if received.bytes == 0 => Heard::End,
        Ok(received) => {
            let rights = |message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            };
            // All of them are taken, so that all but one are closed.
            let memory = control.drain().filter_map(rights).flatten().last();
            packet.truncate(received.bytes);
            Heard::Packet(memory)
        }
        Err(Errno::AGAIN | Errno::INTR) => Heard::Nothing,
        Err(_) => Heard::End,
    }
}

/// Waits until one of the descriptors has something, at most until `end`; past signals.
pub(super) fn wait_for(fds: &mut [PollFd<'_>], end: Option<Instant>) -> io::Result<()> {
    let left = end.map(|end| end.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    });
    match poll(fds, left.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether the other end of a connected socket is gone.
pub(super) fn is_gone(socket: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
    wait_for(&mut fds, Some(Instant::now())).is_err() || !fds[0].revents().is_empty()
}

/// The moment that lies `wait` ahead; none, if it cannot be reckoned.
pub(super) fn end_after(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were() {
        let hello = Hello { versions: (1, 0x203), ring_bytes: 0x0102_0304 };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        assert_eq!(Hello::decode(&hello.encode()[1..]), None);
        let refusals = [
            None,
            Some(Refusal::Version { server: 7 }),
            Some(Refusal::Full),
            Some(Refusal::OtherUser),
            Some(Refusal::BadRequest),
            Some(Refusal::NoMemory),
        ];
        for refused in refusals {
            let reply = Reply { refused, version: 7, ring_bytes: 1 << 20 };
            assert_eq!(Reply::decode(&reply.encode()), Some(reply));
        }
        let mut odd = Reply { refused: None, version: 7, ring_bytes: 1 }.encode();
        odd[8] = 6;
        assert_eq!(Reply::decode(&odd), None);
    }
}
