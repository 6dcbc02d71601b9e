//! [`Event`]: what one frame says.

use std::time::Duration;

use crate::calls::error::CallError;
use crate::calls::fields::{Fields, put_text};
use crate::calls::metadata::Metadata;
use crate::shm::ShmFrame;

/// The longest path of a method.
pub const PATH_BYTES_MAX: usize = 1 << 10;
/// The longest text of a status.
pub const TEXT_BYTES_MAX: usize = 4 << 10;

const OPEN: u32 = 1;
const HEADERS: u32 = 2;
const PIECE: u32 = 3;
const MESSAGE: u32 = 4;
const END: u32 = 5;
const TRAILERS: u32 = 6;
const CANCEL: u32 = 7;
const CREDIT: u32 = 8;
const PING: u32 = 9;
const PONG: u32 = 10;
const GO_AWAY: u32 = 11;

/// The begin of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// The method, `/package.Service/Method`.
    pub path: String,
    /// How long the caller still waits, to a microsecond; none is for ever.
    pub deadline: Option<Duration>,
    /// What the caller says beside its messages.
    pub metadata: Metadata,
}

/// The end of a call, by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trailers {
    /// The status, a code of gRPC.
    pub status: u32,
    /// What the status means here.
    pub text: String,
    /// What the server says beside its messages.
    pub metadata: Metadata,
}

/// The end of a connection that is foreseen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// The last stream that is served; later ones may be tried elsewhere.
    pub last_stream: u64,
    /// Why.
    pub text: String,
}

/// What one frame says.
///
/// ```
/// use ng_io::calls::Event;
/// let (mut head, event) = (Vec::new(), Event::Message(b"bytes"));
/// let frame = event.encode(7, &mut head)?;
/// let payload = [&head, event.body()].concat();
/// assert_eq!(Event::decode(frame, &payload)?, event);
/// # Ok::<(), ng_io::calls::CallError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The client begins a stream. Its number is higher than all before.
    Open(Open),
    /// The server begins its answer.
    Headers(Metadata),
    /// Bytes of a message that goes on.
    Piece(&'a [u8]),
    /// The last bytes of a message.
    Message(&'a [u8]),
    /// The client sends no more messages.
    End,
    /// The server ends the stream.
    Trailers(Trailers),
    /// Either side ends the stream at once, with a code of gRPC.
    Cancel {
        /// The code.
        status: u32,
    },
    /// So many bytes of messages more may be sent.
    Credit {
        /// How many.
        bytes: u32,
    },
    /// Asks whether the other side still works.
    Ping {
        /// Comes back with the answer.
        mark: u64,
    },
    /// The answer.
    Pong {
        /// That of the question.
        mark: u64,
    },
    /// No stream after the last one is served.
    GoAway(GoAway),
}

impl<'a> Event<'a> {
    fn kind(&self) -> u32 {
        match self {
            Self::Open(_) => OPEN,
            Self::Headers(_) => HEADERS,
            Self::Piece(_) => PIECE,
            Self::Message(_) => MESSAGE,
            Self::End => END,
            Self::Trailers(_) => TRAILERS,
            Self::Cancel { .. } => CANCEL,
            Self::Credit { .. } => CREDIT,
            Self::Ping { .. } => PING,
            Self::Pong { .. } => PONG,
            Self::GoAway(_) => GO_AWAY,
        }
    }

    /// The bytes of a message, which follow what [`Event::encode`] writes.
    pub fn body(&self) -> &'a [u8] {
        match self {
            Self::Piece(bytes) | Self::Message(bytes) => bytes,
            _ => &[],
        }
    }

    /// Writes the payload into `head`, which is cleared before, but for [`Event::body`].
    ///
    /// # Errors
    /// Something is longer than allowed or not valid, or the stream does not go with the event: 0
    /// is that of the connection.
    pub fn encode(&self, stream: u64, head: &mut Vec<u8>) -> Result<ShmFrame, CallError> {
        head.clear();
        match self {
            Self::Open(open) => {
                let deadline = open.deadline.map_or(0, |left| left.as_micros().max(1));
                let deadline = u64::try_from(deadline).unwrap_or(u64::MAX);
                head.extend(deadline.to_le_bytes());
                check_path(&open.path)?;
                put_text(head, &open.path, PATH_BYTES_MAX, "the path")?;
                open.metadata.encode(head);
            }
            Self::Headers(metadata) => metadata.encode(head),
            Self::Trailers(trailers) => {
                head.extend(trailers.status.to_le_bytes());
                put_text(head, &trailers.text, TEXT_BYTES_MAX, "the status")?;
                trailers.metadata.encode(head);
            }
            Self::GoAway(away) => {
                head.extend(away.last_stream.to_le_bytes());
                put_text(head, &away.text, TEXT_BYTES_MAX, "the reason")?;
            }
            Self::Cancel { status: word } | Self::Credit { bytes: word } => {
                head.extend(word.to_le_bytes());
            }
            Self::Ping { mark } | Self::Pong { mark } => head.extend(mark.to_le_bytes()),
            Self::Piece(_) | Self::Message(_) | Self::End => {}
        }
        check_stream(ShmFrame { kind: self.kind(), stream })
    }

    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// No peer may send this.
    pub fn decode(frame: ShmFrame, payload: &'a [u8]) -> Result<Self, CallError> {
        let ShmFrame { kind, .. } = check_stream(frame)?;
        let mut fields = Fields::of(payload);
        let event = match kind {
            PIECE => return Ok(Self::Piece(payload)),
            MESSAGE => return Ok(Self::Message(payload)),
            OPEN => {
                let deadline = match fields.u64("the deadline")? {
                    0 => None,
                    micros => Some(Duration::from_micros(micros)),
                };
                let path = fields.text(PATH_BYTES_MAX, "the path")?.to_owned();
                check_path(&path)?;
                Self::Open(Open { path, deadline, metadata: Metadata::decode(&mut fields)? })
            }
            HEADERS => Self::Headers(Metadata::decode(&mut fields)?),
            END => Self::End,
            TRAILERS => Self::Trailers(Trailers {
                status: fields.u32("the status")?,
                text: fields.text(TEXT_BYTES_MAX, "the status")?.to_owned(),
                metadata: Metadata::decode(&mut fields)?,
            }),
            CANCEL => Self::Cancel { status: fields.u32("the status")? },
            CREDIT => Self::Credit { bytes: fields.u32("the credit")? },
            PING => Self::Ping { mark: fields.u64("the mark")? },
            PONG => Self::Pong { mark: fields.u64("the mark")? },
            GO_AWAY => Self::GoAway(GoAway {
                last_stream: fields.u64("the last stream")?,
                text: fields.text(TEXT_BYTES_MAX, "the reason")?.to_owned(),
            }),
            kind => return Err(CallError::UnknownKind { kind }),
        };
        fields.end()?;
        Ok(event)
    }
}

/// Stream 0 is that of the connection, and all others are those of calls.
fn check_stream(frame: ShmFrame) -> Result<ShmFrame, CallError> {
    let ShmFrame { kind, stream } = frame;
    let of_connection = matches!(kind, PING | PONG | GO_AWAY);
    if (OPEN..=GO_AWAY).contains(&kind) && of_connection != (stream == 0) {
        return Err(CallError::WrongStream { kind, stream });
    }
    Ok(frame)
}

fn check_path(path: &str) -> Result<(), CallError> {
    let graphic = path.bytes().all(|byte| byte.is_ascii_graphic());
    if graphic && path.len() > 1 && path.starts_with('/') {
        return Ok(());
    }
    Err(CallError::BadBytes { what: "the path of a method (expected / and then printable ASCII)" })
}
