//! Text edge lists to edges, on several threads. Chunks are parsed in any order, but rows and lines
//! are counted in the order of the file, so edge ids and the line that an error names do not
//! depend on the threads.

mod chunks;
mod fields;
mod format;
mod names;
mod number;
mod parse;
mod preview;
mod sample;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chunks::{Chunk, Chunks};
use format::Format;
pub(crate) use format::{Bounds, check_columns};
pub(crate) use names::NamedEdges;
use names::parse_names;
pub(crate) use parse::out_of_bounds;
use parse::{BadLine, is_skipped, line_at, parse_edges};
pub(crate) use preview::first_edges;
pub use preview::{End, TextPreview};
pub(crate) use sample::sample_edges;

use ng_types::Remedy;

use crate::edges::RawEdges;
use crate::failure::read_error;
use crate::source::TextFile;
use crate::threads::run_on;
use crate::{ImportError, Note, TextOptions};

/// Bytes of a chunk, so that its text and its edges stay in the cache of a core.
const CHUNK_BYTES: usize = 512 << 10;

/// How often a waiting thread looks whether another one failed.
const FAILURE_POLL: Duration = Duration::from_millis(20);

/// What came out of a file.
pub(crate) struct TextFound {
    pub rows: u64,
    pub notes: Vec<Note>,
}

/// What parsing a file needs to know.
pub(crate) struct TextRead<'a> {
    pub path: &'a Path,
    pub options: &'a TextOptions,
    pub bounds: Bounds,
    pub threads: usize,
    /// The row of the first edge of the file.
    pub first_row: u64,
}

/// Hands the edges of a text file to `take`, from several threads, with their rows; gives the
/// number of rows and notes.
pub(crate) fn read_edges(
    read: &TextRead<'_>,
    file: TextFile,
    take: &(dyn Fn(&RawEdges) -> Result<(), ImportError> + Sync),
) -> Result<TextFound, ImportError> {
    let reader = Reader::new(read, file, false)?;
    run_on(read.threads, |_| {
        let _stop = StopOnPanic(&reader.failed);
        let mut chunk = Chunk::default();
        let mut edges = RawEdges::default();
        while let Some(format) = reader.next(&mut chunk)? {
            edges.clear();
            let parsed = parse_edges(chunk.padded(), chunk.text().len(), &format, &mut edges);
            let Some(row) = reader.count(&chunk, edges.len(), parsed)? else {
                break;
            };
            edges.first_row = row;
            take(&edges).map_err(|error| reader.fail(error))?;
        }
        Ok(())
    })?;
    Ok(reader.found())
}

/// As [`read_edges`] for nodes that are named by strings; `take` is given the row, too.
pub(crate) fn read_names(
    read: &TextRead<'_>,
    file: TextFile,
    take: &(dyn Fn(&NamedEdges, u64) -> Result<(), ImportError> + Sync),
) -> Result<TextFound, ImportError> {
    let reader = Reader::new(read, file, true)?;
    run_on(read.threads, |_| {
        let _stop = StopOnPanic(&reader.failed);
        let mut chunk = Chunk::default();
        let mut edges = NamedEdges::default();
        while let Some(format) = reader.next(&mut chunk)? {
            edges.clear();
            let parsed = parse_names(chunk.padded(), chunk.text().len(), &format, &mut edges);
            let Some(row) = reader.count(&chunk, edges.len(), parsed)? else {
                break;
            };
            reader.trimmed.fetch_add(edges.trimmed(), Ordering::Relaxed);
            take(&edges, row).map_err(|error| reader.fail(error))?;
        }
        Ok(())
    })?;
    Ok(reader.found())
}

/// Lets the other threads leave when one of them panics.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

struct Reader<'a> {
    read: &'a TextRead<'a>,
    /// Nodes are named by strings.
    strings: bool,
    input: Mutex<Input>,
    counts: Mutex<Counts>,
    turn: Condvar,
    failed: AtomicBool,
    trimmed: AtomicU64,
}

struct Input {
    chunks: Chunks,
    format: Option<Arc<Format>>,
}

/// What the chunks before the one whose turn it is contain.
struct Counts {
    chunk: u64,
    rows: u64,
    lines: u64,
}

impl<'a> Reader<'a> {
    fn new(read: &'a TextRead<'a>, file: TextFile, strings: bool) -> Result<Self, ImportError> {
        let chunks = Chunks::new(Box::new(file), CHUNK_BYTES)
            .map_err(|error| read_error(read.path.to_owned(), error))?;
        Ok(Self {
            read,
            strings,
            input: Mutex::new(Input { chunks, format: None }),
            counts: Mutex::new(Counts { chunk: 0, rows: read.first_row, lines: 0 }),
            turn: Condvar::new(),
            failed: AtomicBool::new(false),
            trimmed: AtomicU64::new(0),
        })
    }

    /// Fills `chunk` and gives the format of its lines, or `None` at the end.
    fn next(&self, chunk: &mut Chunk) -> Result<Option<Arc<Format>>, ImportError> {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        if self.failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let filled = input.chunks.next(chunk);
        if !filled.map_err(|error| self.fail(read_error(self.read.path.to_owned(), error)))? {
            return Ok(None);
        }
        if input.format.is_none() {
            input.format = self.detect(chunk)?;
        }
        let none = || Arc::new(Format::of_nothing(self.read.options, self.read.bounds));
        Ok(Some(input.format.clone().unwrap_or_else(none)))
    }

    /// The format by the first line of data, if the chunk has one. A header is blanked out.
    fn detect(&self, chunk: &mut Chunk) -> Result<Option<Arc<Format>>, ImportError> {
        let options = self.read.options;
        let comment = options.comment.as_deref().unwrap_or_default().as_bytes();
        let (mut at, mut lines) = (0, self.counts().lines);
        while at < chunk.text().len() {
            let line = line_at(chunk.padded(), at);
            if !is_skipped(line, comment) {
                let format = Format::detect(options, self.read.bounds, self.strings, line);
                let bad = |what| ImportError::line(self.read.path, lines + 1, what, line);
                let format = format.map_err(|what| self.fail(bad(what)))?;
                let end = at + line.len();
                if options.header {
                    chunk.blank(at, end);
                }
                return Ok(Some(Arc::new(format)));
            }
            at += line.len() + 1;
            lines += 1;
        }
        Ok(None)
    }

    /// Waits for the turn of the chunk, counts it, and gives the row of its first edge, or `None`
    /// if another thread failed.
    fn count(
        &self,
        chunk: &Chunk,
        rows: usize,
        parsed: Result<u64, BadLine>,
    ) -> Result<Option<u64>, ImportError> {
        let mut counts = self.counts();
        while counts.chunk != chunk.index {
            if self.failed.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let waited = self.turn.wait_timeout(counts, FAILURE_POLL);
            counts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match parsed {
            Ok(lines) => {
                let first = counts.rows;
                counts.rows += rows as u64;
                counts.lines += lines;
                counts.chunk += 1;
                self.turn.notify_all();
                Ok(Some(first))
            }
            Err(bad) => {
                let line = counts.lines + bad.lines_before + 1;
                Err(self.fail(ImportError::line(self.read.path, line, bad.what, &bad.text)))
            }
        }
    }

    /// What the lines showed, once all are read.
    fn found(self) -> TextFound {
        let rows = self.counts().rows - self.read.first_row;
        let place = || self.read.path.display().to_string();
        let input = self.input.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut notes = Vec::new();
        if let Some(format) = input.format {
            if !format.dropped.is_empty() {
                let names = format.dropped.join(", column ");
                let message = format!("not stored: column {names}");
                let count = format.dropped.len() as u64;
                let note = Note::new("columns-dropped", count, place(), message);
                notes.push(note.with(Remedy::NameColumns));
            }
            if format.header_is_edge {
                let message = "the header line has two ids, like a line of data".to_owned();
                let note = Note::new("header-has-ids", 1, place(), message);
                notes.push(note.with(Remedy::NoHeader));
            }
        }
        let trimmed = self.trimmed.into_inner();
        if trimmed > 0 {
            let message = format!(
                "spaces around {trimmed} string ids were removed; quote string ids to keep spaces"
            );
            notes.push(Note::new("names-trimmed", trimmed, place(), message));
        }
        TextFound { rows, notes }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: ImportError) -> ImportError {
        self.failed.store(true, Ordering::Relaxed);
        error
    }
}
