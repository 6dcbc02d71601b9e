//! The log files `wal.a` and `wal.b`: whole records in, made durable together.
//!
//! A record is one commit. It takes whole blocks, each with a header that says which record and
//! which part of it the block is, so no payload can be taken for one. Commits that are synced
//! together are a group; a group is written only after the one before it is durable. With each
//! group goes a note of that into the other file, so that a log that lost its end shows. Invariant:
//! a byte of a durable record is never written again before a checkpoint contains the record.

use std::sync::Arc;

use ng_io::{WriteStats, Writer};
use ng_types::checksum;

use crate::bytes::{ensure, le_u16, le_u32, le_u64, put};
use crate::error::Damage;
use crate::io::{BLOCK_BYTES, Disk, WriteError};

/// Names of the two files.
pub(crate) const LOGS: [&str; 2] = ["wal.a", "wal.b"];
/// A log has at least this length and grows by multiples of it.
pub(crate) const LOG_STEP_BYTES: u64 = 64 << 10;
/// A log grows by this much at least, once it is this long.
const GROWTH_BYTES: u64 = 1 << 20;

const MAGIC: u16 = 0x474C;
const HEADER_BYTES: usize = 32;
/// Bytes of a record in one block.
const PAYLOAD_BYTES: usize = BLOCK_BYTES - HEADER_BYTES;
/// Length of the payload, length of the file, chain.
const PREFIX_BYTES: usize = 24;
/// A block that says so of itself belongs to no record, but is a note.
const NOTE_BLOCKS: u32 = u32::MAX;

/// The header of one block of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Which commit.
    pub lsn: u64,
    /// The first commit of its group.
    pub group: u64,
    /// Which block of the record, from 0.
    pub index: u32,
    /// Blocks of the record.
    pub blocks: u32,
}

impl BlockHeader {
    /// Types a block; an error is a block that was never written, torn, or damaged.
    pub fn decode(block: &[u8]) -> Result<Self, Damage> {
        ensure(block.len() == BLOCK_BYTES && le_u16(block, 0) == MAGIC, || {
            "log block: wrong size or magic".into()
        })?;
        ensure(le_u16(block, 2) == 0 && checksum::is_sealed(block, 8..BLOCK_BYTES, 4), || {
            "log block: the checksum is wrong".into()
        })?;
        let header = Self {
            lsn: le_u64(block, 8),
            group: le_u64(block, 16),
            index: le_u32(block, 24),
            blocks: le_u32(block, 28),
        };
        let sound = header.index < header.blocks && header.group <= header.lsn;
        ensure(sound, || "log block: the header is inconsistent".into())?;
        Ok(header)
    }

    /// Whether the block is part of no record, and only says that all commits below `group` were
    /// durable when it was written.
    pub fn is_note(&self) -> bool {
        self.blocks == NOTE_BLOCKS
    }

    /// Whether there was a commit after `lsn` when the block was written.
    pub fn leads_past(&self, lsn: u64) -> bool {
        if self.is_note() { self.group > lsn + 1 } else { self.lsn > lsn }
    }

    /// Writes the header of a block whose payload is in place.
    fn seal(&self, block: &mut [u8]) {
        put(block, 0, &MAGIC.to_le_bytes());
        put(block, 8, &self.lsn.to_le_bytes());
        put(block, 16, &self.group.to_le_bytes());
        put(block, 24, &self.index.to_le_bytes());
        put(block, 28, &self.blocks.to_le_bytes());
        checksum::seal(block, 8..BLOCK_BYTES, 4);
    }
}

/// The part of a record in one block.
pub(crate) fn payload(block: &[u8]) -> &[u8] {
    &block[HEADER_BYTES..]
}

/// A whole record, put together from its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// What the file's length was at least when the record was written.
    pub file_bytes: u64,
    /// [`chain`] of the record before.
    pub chain: u64,
    /// The operations.
    pub ops: Vec<u8>,
}

impl Record {
    /// Types the joined payloads of a record's blocks.
    pub fn decode(mut joined: Vec<u8>) -> Result<Self, Damage> {
        let (len, file_bytes, chain) =
            (le_u64(&joined, 0), le_u64(&joined, 8), le_u64(&joined, 16));
        let end = usize::try_from(len).ok().and_then(|len| len.checked_add(PREFIX_BYTES));
        let end = end.filter(|end| *end <= joined.len());
        let end =
            end.ok_or_else(|| Damage::new("log record: it is shorter than its length field"))?;
        ensure(joined.len() == end.div_ceil(PAYLOAD_BYTES) * PAYLOAD_BYTES, || {
            "log record: it is longer than its length field".into()
        })?;
        joined.truncate(end);
        joined.drain(..PREFIX_BYTES);
        Ok(Self { file_bytes, chain, ops: joined })
    }
}

/// Ties a record to all before it, so that no other store's log is taken for this one's, and so
/// that equal content has an equal number.
pub(crate) fn chain(before: u64, lsn: u64, ops: &[u8]) -> u64 {
    let mix = |hash: u64, part: u64| {
        let mixed = (hash ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ (mixed >> 29)
    };
    let (words, rest) = ops.as_chunks::<8>();
    let hash = mix(before, lsn);
    let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let tail = rest.iter().fold(ops.len() as u64, |tail, byte| tail << 8 | u64::from(*byte));
    mix(hash, tail)
}

/// Blocks of a record with so many bytes of operations.
pub(crate) fn record_bytes(ops: usize) -> u64 {
    ((PREFIX_BYTES + ops).div_ceil(PAYLOAD_BYTES) * BLOCK_BYTES) as u64
}

/// Appends the blocks of one record to `out`.
pub(crate) fn encode_record(
    lsn: u64,
    group: u64,
    file_bytes: u64,
    chain: u64,
    ops: &[u8],
    out: &mut Vec<u8>,
) {
    let blocks = (PREFIX_BYTES + ops.len()).div_ceil(PAYLOAD_BYTES);
    let start = out.len();
    out.resize(start + blocks * BLOCK_BYTES, 0);
    let mut prefix = [0; PREFIX_BYTES];
    put(&mut prefix, 0, &(ops.len() as u64).to_le_bytes());
    put(&mut prefix, 8, &file_bytes.to_le_bytes());
    put(&mut prefix, 16, &chain.to_le_bytes());
    let (mut head, mut rest) = (prefix.as_slice(), ops);
    let all = &mut out[start..];
    for (index, block) in all.chunks_exact_mut(BLOCK_BYTES).enumerate() {
        let skip = HEADER_BYTES + head.len();
        put(block, HEADER_BYTES, head);
        head = &[];
        let (now, later) = rest.split_at(rest.len().min(BLOCK_BYTES - skip));
        put(block, skip, now);
        rest = later;
        BlockHeader { lsn, group, index: index as u32, blocks: blocks as u32 }.seal(block);
    }
}

/// Where the next record goes: which file, and the byte in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub file: u8,
    pub offset: u64,
}

/// Both log files, open for writing.
pub(crate) struct Log {
    files: [Writer; 2],
    place: LogPlace,
}

impl Log {
    /// Opens both files, which exist, to go on at `place`.
    pub fn open(
        disk: &Arc<dyn Disk>,
        stats: &Arc<WriteStats>,
        place: LogPlace,
    ) -> Result<Self, WriteError> {
        let open = |name| {
            let file = Writer::open(Arc::clone(disk), name)?;
            Ok::<_, WriteError>(file.counting_into(Arc::clone(stats)))
        };
        Ok(Self { files: [open(LOGS[0])?, open(LOGS[1])?], place })
    }

    fn file(&mut self, number: u8) -> &mut Writer {
        let [a, b] = &mut self.files;
        if number == 0 { a } else { b }
    }

    fn active(&mut self) -> &mut Writer {
        self.file(self.place.file)
    }

    /// Where the next record goes.
    pub fn place(&self) -> LogPlace {
        self.place
    }

    /// Length of the file that is written to.
    pub fn file_bytes(&mut self) -> u64 {
        self.active().len()
    }

    /// Makes room up to byte `end` and a step beyond, so that every record stands in front of a
    /// part of the file that was there before it: a file that was cut shows. After an error the log
    /// works on, with the room it had.
    pub fn reserve(&mut self, end: u64) -> Result<(), WriteError> {
        let needed = (end + LOG_STEP_BYTES).next_multiple_of(LOG_STEP_BYTES);
        let file = self.active();
        let len = file.len();
        if needed <= len {
            return Ok(());
        }
        let grown = needed.max(len + len.min(GROWTH_BYTES)).next_multiple_of(LOG_STEP_BYTES);
        file.allocate(grown)?;
        // Blocks that were written before are synced without a change to the file's own metadata.
        let zeros = vec![0; (256 << 10).min((grown - len) as usize)];
        let mut at = len;
        while at < grown {
            let part = zeros.len().min((grown - at) as usize);
            file.write_at(at, &zeros[..part])?;
            at += part as u64;
        }
        file.sync()
    }

    /// Writes a group of records and makes it durable. Room was reserved.
    pub fn append(&mut self, group: &[u8]) -> Result<(), WriteError> {
        self.note(le_u64(group, 16))?;
        let offset = self.place.offset;
        self.active().write_at(offset, group)?;
        self.place.offset += group.len() as u64;
        if ng_types::canary::planted("skip_log_sync") {
            return Ok(());
        }
        self.active().sync()
    }

    /// Says in the other file that all commits below `group` are durable. It goes to the last
    /// block, which no record reaches, and is not synced: only what is durable may be said, so it
    /// does not matter when it arrives.
    fn note(&mut self, group: u64) -> Result<(), WriteError> {
        if ng_types::canary::planted("skip_log_note") {
            return Ok(());
        }
        let group = group + u64::from(ng_types::canary::planted("note_too_early"));
        let mut block = [0; BLOCK_BYTES];
        BlockHeader { lsn: group, group, index: 1, blocks: NOTE_BLOCKS }.seal(&mut block);
        let file = self.file(1 - self.place.file);
        let last = (file.len() / BLOCK_BYTES as u64).saturating_sub(1);
        file.write_at(last * BLOCK_BYTES as u64, &block)
    }

    /// Makes a block of a commit that was never acknowledged zeros: the one that gets its number
    /// next must not be mixed up with it.
    pub fn erase(&mut self, file: u8, at: u64) -> Result<(), WriteError> {
        self.file(file).write_at(at, &[0; BLOCK_BYTES])
    }

    /// Makes what was written to a file durable.
    pub fn sync(&mut self, file: u8) -> Result<(), WriteError> {
        self.file(file).sync()
    }

    /// Goes on at the start of the other file, whose records a checkpoint contains.
    pub fn rotate(&mut self) {
        self.place = LogPlace { file: 1 - self.place.file, offset: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(blocks: &[u8]) -> Vec<u8> {
        blocks.chunks(BLOCK_BYTES).flat_map(|block| payload(block).to_vec()).collect()
    }

    #[test]
    fn records_of_any_length_come_back_and_any_flipped_byte_is_seen() {
        for len in [0, 1, 4039, 4040, 4041, 4064 + 4040, 20_000] {
            let ops: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut blocks = Vec::new();
            encode_record(7, 6, 65_536, 99, &ops, &mut blocks);
            assert_eq!(blocks.len() as u64, record_bytes(len));
            for (index, block) in blocks.chunks(BLOCK_BYTES).enumerate() {
                let header = BlockHeader::decode(block).expect("valid");
                let count = (blocks.len() / BLOCK_BYTES) as u32;
                let expected = BlockHeader { lsn: 7, group: 6, index: index as u32, blocks: count };
                assert_eq!(header, expected);
            }
            let record = Record::decode(join(&blocks)).expect("valid");
            assert_eq!(record, Record { file_bytes: 65_536, chain: 99, ops });
            for at in (0..blocks.len()).step_by(37) {
                let mut damaged = blocks.clone();
                damaged[at] ^= 4;
                let block = at / BLOCK_BYTES * BLOCK_BYTES;
                assert!(BlockHeader::decode(&damaged[block..block + BLOCK_BYTES]).is_err());
            }
        }
    }
}
