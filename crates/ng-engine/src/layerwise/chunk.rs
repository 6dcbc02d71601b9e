//! Rows of sources, chunk by chunk in the order of the files; the next one is read while one is
//! computed on.
//!
//! The invariant: two chunks take turns, so reading takes no new memory after the first ones.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ng_infer::dfg::{Elements, Value};

use super::error::LayerwiseError;
use super::model::Model;
use super::passes::Scan;
use super::rows::Stored;
use super::work::{PIECE_ROWS, Work};

/// Threads that read one chunk: while the queue of one drains, that of the other is full.
const READING_THREADS: u64 = 2;

/// Chunks that there are: one that is computed on, and one that is being read.
pub(super) const CHUNKS: usize = 2;

/// Rows of consecutive sources.
#[derive(Default)]
pub(super) struct Chunk {
    pub rows: Range<u64>,
    /// What is read, and what is computed of it.
    pub values: HashMap<Value, Elements>,
    /// By what reductions come to with it, what destinations among the rows add, and the first of
    /// them.
    pub added: HashMap<Value, (u64, Vec<f32>)>,
}

impl Chunk {
    /// The rows of a value.
    pub fn elements(&self, value: Value) -> &Elements {
        const NONE: &Elements = &Elements::F32(Vec::new());
        self.values.get(&value).unwrap_or(NONE)
    }

    /// The same, which are of f32.
    pub fn f32s(&self, value: Value) -> &[f32] {
        match self.elements(value) {
            Elements::F32(all) => all,
            _ => &[],
        }
    }

    /// What a destination adds.
    pub fn added(&self, value: Value, node: u64, width: usize) -> Option<&[f32]> {
        let (first, rows) = self.added.get(&value)?;
        let from = node.checked_sub(*first)? as usize * width;
        rows.get(from..from + width)
    }

    /// Memory for elements of f32 of a value, as it was used before.
    pub fn memory(&mut self, value: Value, len: usize) -> Vec<f32> {
        let mut memory = match self.values.remove(&value) {
            Some(Elements::F32(all)) => all,
            _ => Vec::new(),
        };
        memory.resize(len, 0.0);
        memory
    }
}

/// Where chunks come from.
pub(super) struct Chunks<'a> {
    pub model: &'a Model,
    pub work: &'a Work,
    pub scan: &'a Scan,
    pub num_sources: u64,
    pub chunk_rows: u64,
}

impl Chunks<'_> {
    /// Lends all chunks in their order, until `add` says that it is enough; whether it did not.
    pub fn each(
        &self,
        add: &mut dyn FnMut(&mut Chunk) -> Result<bool, LayerwiseError>,
    ) -> Result<bool, LayerwiseError> {
        if self.scan.reads.is_empty() {
            return add(&mut Chunk { rows: 0..self.num_sources, ..Chunk::default() });
        }
        if self.num_sources <= self.chunk_rows {
            let mut chunk = Chunk::default();
            self.read(0..self.num_sources, &mut chunk)?;
            return add(&mut chunk);
        }
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(CHUNKS);
            let (give_back, idle) = sync_channel(CHUNKS);
            for _ in 0..CHUNKS {
                // The channel has room for all of them.
                drop(give_back.send(Chunk::default()));
            }
            let reading = std::thread::Builder::new().name("ng-layer-read".into());
            let started = reading.spawn_scoped(scope, move || self.read_all(&idle, &send));
            started.map_err(|source| LayerwiseError::Folder {
                action: "start a reader thread for",
                folder: self.work.folder().to_owned(),
                source,
            })?;
            for chunk in receive {
                let mut chunk = chunk?;
                if !add(&mut chunk)? {
                    return Ok(false);
                }
                // The thread ends before the last chunks come back.
                drop(give_back.send(chunk));
            }
            Ok(true)
        })
    }

    fn read_all(&self, idle: &Receiver<Chunk>, send: &SyncSender<Result<Chunk, LayerwiseError>>) {
        for first in (0..self.num_sources).step_by(self.chunk_rows as usize) {
            let Ok(mut chunk) = idle.recv() else { return };
            let rows = first..self.num_sources.min(first + self.chunk_rows);
            let read = self.read(rows, &mut chunk);
            let is_last = read.is_err();
            if send.send(read.map(|()| chunk)).is_err() || is_last {
                return;
            }
        }
    }

    fn read(&self, rows: Range<u64>, chunk: &mut Chunk) -> Result<(), LayerwiseError> {
        chunk.added.clear();
        chunk.rows = rows.clone();
        for value in &self.scan.reads {
            let stored = &self.model.stored[value];
            let all = if stored.is_f32() {
                let len = (rows.end - rows.start) as usize * stored.width();
                let mut all = chunk.memory(*value, len);
                self.read_f32(stored, rows.clone(), &mut all)?;
                Elements::F32(all)
            } else {
                stored.read(&self.model.snapshot, self.work, rows.clone())?
            };
            chunk.values.insert(*value, all);
        }
        Ok(())
    }

    fn read_f32(
        &self,
        stored: &Stored,
        rows: Range<u64>,
        out: &mut [f32],
    ) -> Result<(), LayerwiseError> {
        let count = rows.end - rows.start;
        let part = count.div_ceil(READING_THREADS).next_multiple_of(PIECE_ROWS);
        let firsts = (rows.start..rows.end).step_by(part as usize);
        let parts = out.chunks_mut((part as usize * stored.width()).max(1));
        let read = |first: u64, out: &mut [f32]| {
            let some = first..rows.end.min(first + part);
            stored.read_f32(&self.model.snapshot, self.work, some, out)
        };
        std::thread::scope(|scope| {
            let mut parts = firsts.zip(parts);
            let own = parts.next();
            let read = &read;
            let others: Vec<_> =
                parts.map(|(first, out)| scope.spawn(move || read(first, out))).collect();
            let mut done = own.map_or(Ok(()), |(first, out)| read(first, out));
            for other in others {
                let read = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                done = done.and(read);
            }
            done
        })
    }
}
