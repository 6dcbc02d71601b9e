//! Bounds on everything that comes from outside.

use std::time::Duration;

use serde::Deserialize;

use super::units::{de_bytes, de_time};

/// Bounds on everything that comes from outside. Each can be changed by a reload, where connections
/// keep those under which they were accepted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a message.
    #[serde(deserialize_with = "de_bytes")]
    pub message_bytes: u64,
    /// Bytes of all large requests under way.
    #[serde(deserialize_with = "de_bytes")]
    pub request_bytes: u64,
    /// Bytes of all headers of a request.
    #[serde(deserialize_with = "de_bytes")]
    pub header_bytes: u64,
    /// Targets of a request for answers, and nodes whose rows or lists a request reads.
    pub ids: u64,
    /// Bytes that all requests for answers under way are foreseen to read.
    #[serde(deserialize_with = "de_bytes")]
    pub bytes_in_flight: u64,
    /// Requests for answers that are taken and not computed.
    pub queue: usize,
    /// Calls under way.
    pub calls: usize,
    /// Streams under way.
    pub streams: usize,
    /// Connections.
    pub connections: usize,
    /// Clients over shared memory: each takes one or two threads.
    pub ring_connections: usize,
    /// Requests of a connection at a time. What comes together delays others by as much.
    pub streams_per_connection: u32,
    /// How long a call may take that gives no timeout.
    #[serde(deserialize_with = "de_time")]
    pub deadline: Duration,
    /// How long a call may take at most, whatever timeout it gives.
    #[serde(deserialize_with = "de_time")]
    pub deadline_max: Duration,
    /// How long a connection may take for TLS and its first bytes.
    #[serde(deserialize_with = "de_time")]
    pub handshake: Duration,
    /// After how long without a byte a connection is closed. Clients that live answer pings.
    #[serde(deserialize_with = "de_time")]
    pub silence: Duration,
    /// How often a connection is asked whether it lives.
    #[serde(deserialize_with = "de_time")]
    pub ping: Duration,
    /// How long the next piece of a request may take.
    #[serde(deserialize_with = "de_time")]
    pub body: Duration,
    /// How long a client may take to read an answer.
    #[serde(deserialize_with = "de_time")]
    pub reading: Duration,
    /// Bytes of all large answers that clients have not read.
    #[serde(deserialize_with = "de_bytes")]
    pub unread_bytes: u64,
    /// How long a mini-batch may wait for its reader.
    #[serde(deserialize_with = "de_time")]
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 64 << 20,
            request_bytes: 256 << 20,
            header_bytes: 16 << 10,
            ids: 65_536,
            bytes_in_flight: 1 << 30,
            queue: 1024,
            calls: 4096,
            streams: 256,
            connections: 1024,
            ring_connections: 16,
            streams_per_connection: 128,
            deadline: Duration::from_secs(10),
            deadline_max: Duration::from_secs(600),
            handshake: Duration::from_secs(10),
            silence: Duration::from_secs(60),
            ping: Duration::from_secs(20),
            body: Duration::from_secs(30),
            reading: Duration::from_secs(60),
            unread_bytes: 256 << 20,
            unread: Duration::from_secs(600),
        }
    }
}

impl Limits {
    /// What is wrong with them.
    ///
    /// # Errors
    /// One is 0, or two contradict each other.
    pub fn check(&self) -> Result<(), String> {
        let zeros = [
            ("message_bytes", self.message_bytes == 0),
            ("request_bytes", self.request_bytes / 2 <= self.message_bytes),
            ("header_bytes", self.header_bytes == 0 || self.header_bytes > 1 << 24),
            ("ids", self.ids == 0),
            ("bytes_in_flight", self.bytes_in_flight == 0),
            ("queue", self.queue == 0),
            ("calls", self.calls == 0),
            ("streams", self.streams == 0),
            ("connections", self.connections == 0),
            ("ring_connections", self.ring_connections == 0),
            ("streams_per_connection", self.streams_per_connection == 0),
            ("deadline", self.deadline.is_zero() || self.deadline > self.deadline_max),
            ("handshake", self.handshake.is_zero()),
            ("silence", self.silence <= self.ping),
            ("ping", self.ping.is_zero()),
            ("body", self.body.is_zero()),
            ("reading", self.reading.is_zero()),
            ("unread_bytes", self.unread_bytes == 0),
            ("unread", self.unread.is_zero()),
        ];
        let wrong: Vec<&str> =
            zeros.iter().filter(|(_, bad)| *bad).map(|(name, _)| *name).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!(
            "these limits are not valid: {}; each must be above 0, header_bytes at most 16 MiB, \
             deadline at most deadline_max, silence longer than ping, and request_bytes more than \
             twice message_bytes",
            wrong.join(", ")
        ))
    }

    /// All of them by name, in the units of their names.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        let ms = |time: Duration| time.as_millis() as u64;
        vec![
            ("message_bytes", self.message_bytes),
            ("request_bytes", self.request_bytes),
            ("header_bytes", self.header_bytes),
            ("ids", self.ids),
            ("bytes_in_flight", self.bytes_in_flight),
            ("queue_requests", self.queue as u64),
            ("calls", self.calls as u64),
            ("streams", self.streams as u64),
            ("connections", self.connections as u64),
            ("ring_connections", self.ring_connections as u64),
            ("streams_per_connection", u64::from(self.streams_per_connection)),
            ("deadline_ms", ms(self.deadline)),
            ("deadline_max_ms", ms(self.deadline_max)),
            ("unread_bytes", self.unread_bytes),
            ("unread_ms", ms(self.unread)),
        ]
    }
}
