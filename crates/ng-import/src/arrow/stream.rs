//! [`ArrowReader`]: streams that come in pieces, one stream after the other.

use std::sync::Arc;

use super::batch::ArrowBatch;
use super::error::ArrowError;
use super::flat::{Outside, Table};
use super::schema::{ArrowField, Wrong, fields};

/// What each message begins with.
const MARK: [u8; 4] = [0xff; 4];
/// Bytes of the mark and of the length behind it.
const HEAD_BYTES: usize = 8;
/// Bytes of what describes a message.
const ABOUT_BYTES_MAX: usize = 4 << 20;

/// Kinds of messages.
const SCHEMA: u8 = 1;
const DICTIONARY: u8 = 2;
const BATCH: u8 = 3;

/// What stands next in a stream.
#[derive(Clone, Debug)]
pub enum ArrowEvent {
    /// A stream begins; these are its columns.
    Schema(Arc<[ArrowField]>),
    /// Some rows.
    Batch(ArrowBatch),
    /// The stream has ended. Another one may follow.
    End,
}

/// Takes bytes in pieces that are cut anywhere, and gives what they say. It holds what has come and
/// is not a whole message yet: a batch at most, and what follows it in the last piece.
#[derive(Debug)]
pub struct ArrowReader {
    held: Vec<u8>,
    /// What of it is done.
    done: usize,
    batch_bytes_max: usize,
    fields: Option<Arc<[ArrowField]>>,
    batches: u64,
}

impl ArrowReader {
    /// A reader of batches of at most so many bytes.
    pub fn new(batch_bytes_max: usize) -> Self {
        Self { held: Vec::new(), done: 0, batch_bytes_max, fields: None, batches: 0 }
    }

    /// Takes a piece.
    pub fn push(&mut self, piece: &[u8]) {
        self.held.drain(..self.done.min(self.held.len()));
        self.done = 0;
        self.held.extend_from_slice(piece);
    }

    /// Whether all bytes belong to streams that have ended.
    pub fn is_at_end(&self) -> bool {
        self.fields.is_none() && self.done == self.held.len()
    }

    /// What stands next, or `None` if more bytes have to come first.
    ///
    /// # Errors
    /// [`ArrowError`]; the reader is of no use then.
    pub fn next_event(&mut self) -> Result<Option<ArrowEvent>, ArrowError> {
        let batch = self.batches;
        let damaged = |what| ArrowError::Damaged { batch, what };
        let rest = self.held.get(self.done..).unwrap_or_default();
        if !MARK.starts_with(&rest[..rest.len().min(MARK.len())]) {
            let is_file = rest.starts_with(b"ARRO");
            let what = if is_file {
                "it has the Arrow file format, not the stream format"
            } else {
                "a message has no continuation marker"
            };
            return Err(damaged(what));
        }
        let Some(head) = rest.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let about = i32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        if about == 0 {
            return self.end().map(Some);
        }
        let about = usize::try_from(about).ok().filter(|about| *about <= ABOUT_BYTES_MAX);
        let about = about.ok_or_else(|| damaged("the metadata of a message is too long"))?;
        let Some(described) = rest.get(HEAD_BYTES..HEAD_BYTES + about) else { return Ok(None) };
        let outside = |Outside| damaged("it is truncated, or an offset is out of range");
        let message = Table::root(described).map_err(outside)?;
        let kind = message.byte(1).map_err(outside)?;
        let header = message.table(2).map_err(outside)?;
        let header = header.ok_or_else(|| damaged("a message is empty"))?;
        let body = message.long(3).map_err(outside)?;
        let body = u64::try_from(body).map_err(|_| damaged("a length is negative"))?;
        let limit = self.batch_bytes_max;
        let body = usize::try_from(body)
            .ok()
            .filter(|body| *body <= limit)
            .ok_or(ArrowError::TooLarge { batch, bytes: body, limit: limit as u64 })?;
        let start = HEAD_BYTES + about;
        let Some(body) = rest.get(start..start + body) else { return Ok(None) };
        let event = match (kind, &self.fields) {
            (SCHEMA, None) => {
                let found = fields(header).map_err(|wrong| match wrong {
                    Wrong::Outside => {
                        damaged("the schema is truncated, or an offset is out of range")
                    }
                    Wrong::What(what) => damaged(what),
                    Wrong::Type(error) => error,
                })?;
                let found: Arc<[ArrowField]> = found.into();
                self.fields = Some(Arc::clone(&found));
                ArrowEvent::Schema(found)
            }
            (SCHEMA, Some(_)) => {
                return Err(damaged("a stream starts before the previous one ended"));
            }
            (BATCH, Some(fields)) => {
                let decoded = ArrowBatch::decode(fields, (batch, limit), header, body)?;
                self.batches += 1;
                ArrowEvent::Batch(decoded)
            }
            (BATCH, None) => return Err(damaged("it has rows before the schema")),
            (DICTIONARY, _) => return Err(damaged("it has a dictionary, but no column uses one")),
            _ => return Err(damaged("a message has an unknown type")),
        };
        self.done += start + body.len();
        Ok(Some(event))
    }

    fn end(&mut self) -> Result<ArrowEvent, ArrowError> {
        let batch = self.batches;
        if self.fields.take().is_none() {
            let what = "a stream ends before it started";
            return Err(ArrowError::Damaged { batch, what });
        }
        (self.done, self.batches) = (self.done + HEAD_BYTES, 0);
        Ok(ArrowEvent::End)
    }
}
