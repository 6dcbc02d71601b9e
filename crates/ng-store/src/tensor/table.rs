//! All rows of a tensor in memory, in the order of the file.
//!
//! A table is loaded in chunks, each in one pass over its part of the file, and a row can be read
//! as soon as its chunk is there. What must not live here: which tensors are held, and when that
//! pays. The invariant: a table has what one checkpoint wrote; rows that commits changed since are
//! not taken from it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ng_simd::prefetch;
use ng_types::Reservation;

use crate::bytes::put;
use crate::error::ReadError;
use crate::io::{AnonMap, BLOCK_BYTES};
use crate::page::{Located, Pages, Placed, Segment};
use crate::tensor::layout::RowLayout;

/// Bytes of a chunk. Longer than what a full queue has in flight, so that the queue drains rarely.
const CHUNK_BYTES: usize = 64 << 20;

/// While a table is loaded, one of so many bytes is read on behalf of a batch that cannot wait.
const BESIDE_PARTS: u64 = 4;

/// How long a batch waits for loading at most: after that its consumer would.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// The same where everything was to be in memory from the start.
const PATIENT_WAIT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// The part of a row that is fetched early; the processor foresees the rest.
const NEAR_BYTES: usize = 1024;

/// Rows of a tensor in memory.
#[derive(Debug)]
pub(crate) struct ResidentTable {
    placed: Arc<Placed>,
    layout: RowLayout,
    rows_per_chunk: u64,
    chunks: Box<[OnceLock<AnonMap>]>,
    loaded: AtomicUsize,
    progress: Mutex<Progress>,
    has_progressed: Condvar,
    is_stopped: AtomicBool,
    /// Whoever wants a row waits for it rather than reading it twice.
    is_patient: bool,
    held: Reservation,
}

/// How far loading is.
#[derive(Debug, Default)]
struct Progress {
    is_over: bool,
    loaded_bytes: u64,
    /// Bytes that were read one by one meanwhile.
    beside_bytes: u64,
}

impl ResidentTable {
    /// Bytes that the table of a tensor takes: its rows without padding, in whole pages of memory.
    pub fn num_bytes_for(placed: &Placed, layout: RowLayout) -> u64 {
        let shape = Shape::of(placed, layout);
        (0..shape.chunks()).map(|chunk| shape.chunk_bytes(chunk)).sum()
    }

    /// A table that nothing is loaded of yet, in memory that `held` pays for.
    pub fn new(
        placed: Arc<Placed>,
        layout: RowLayout,
        is_patient: bool,
        held: Reservation,
    ) -> Self {
        let shape = Shape::of(&placed, layout);
        let chunks = (0..shape.chunks()).map(|_| OnceLock::new()).collect();
        let rows_per_chunk = shape.units_per_chunk * layout.unit_rows();
        let (loaded, is_stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (progress, has_progressed) = (Mutex::default(), Condvar::new());
        Self {
            placed,
            layout,
            rows_per_chunk,
            chunks,
            loaded,
            progress,
            has_progressed,
            is_stopped,
            is_patient,
            held,
        }
    }

    /// Where its rows were read from.
    pub fn placed(&self) -> &Arc<Placed> {
        &self.placed
    }

    /// Bytes of the budget that are held for it.
    pub fn num_bytes(&self) -> u64 {
        self.held.bytes()
    }

    /// How many chunks it has.
    pub fn num_chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Whether all chunks are there.
    pub fn is_whole(&self) -> bool {
        self.loaded.load(Ordering::Acquire) == self.chunks.len()
    }

    /// Ends loading: the memory is wanted elsewhere.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Whether loading shall end.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Reads a chunk past the caches. Where a page of it has no place the chunk is left out: its
    /// rows are read one by one, and whoever reads one without a place gets the error.
    ///
    /// # Errors
    /// Those of reading, and [`ReadError::NoMemory`]; the chunk is left out then.
    pub fn load(&self, pages: &Pages, chunk: usize) -> Result<(), ReadError> {
        let shape = Shape::of(&self.placed, self.layout);
        let (first, units) = shape.units_of(chunk);
        let (of_unit, payload) = (shape.unit_blocks, shape.payload);
        let blocks: Vec<u64> = (first * of_unit..(first + units) * of_unit).collect();
        let located = pages.resolve(&self.placed, &blocks)?;
        if located.contains(&Located::NOWHERE) {
            return Ok(());
        }
        let bytes = units as usize * payload;
        let no_memory = |source| ReadError::NoMemory { bytes: bytes as u64, source };
        let mut region = AnonMap::with_huge_pages(bytes).map_err(no_memory)?;
        let out = region.as_mut_slice();
        let mut take = |from: usize, bytes: &[u8]| {
            if payload == of_unit as usize * BLOCK_BYTES {
                put(out, from * BLOCK_BYTES, bytes);
                return Ok(());
            }
            for (block, bytes) in (from as u64..).zip(bytes.chunks_exact(BLOCK_BYTES)) {
                let start = (block % of_unit) as usize * BLOCK_BYTES;
                let len = payload.saturating_sub(start).min(BLOCK_BYTES);
                put(out, (block / of_unit) as usize * payload + start, &bytes[..len]);
            }
            Ok(())
        };
        pages.read_data(&self.placed, &located, &mut take)?;
        pages.reader.stats().add_useful(bytes as u64);
        if self.chunks.get(chunk).is_some_and(|place| place.set(region).is_ok()) {
            self.loaded.fetch_add(1, Ordering::Release);
            self.lock().loaded_bytes += bytes as u64;
            self.has_progressed.notify_all();
        }
        Ok(())
    }

    /// Says that no more chunks come.
    pub fn end_loading(&self) {
        self.lock().is_over = true;
        self.has_progressed.notify_all();
    }

    /// Waits until no more chunks come: a moment after [`Self::stop`].
    pub fn wait_for_end(&self) {
        let deadline = Instant::now() + WAIT_MAX;
        let mut progress = self.lock();
        while !progress.is_over && Instant::now() < deadline {
            let waited = self.has_progressed.wait_timeout(progress, POLL);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits, before so many bytes of it are read one by one, until the disk has mostly loaded it:
    /// what is read twice delays all batches after the next few.
    pub fn wait_for_turn(&self, bytes: u64) {
        let most = if self.is_patient { PATIENT_WAIT_MAX } else { WAIT_MAX };
        let deadline = Instant::now() + most;
        let mut progress = self.lock();
        loop {
            let may_read = progress.beside_bytes + bytes;
            let is_first = !self.is_patient && progress.loaded_bytes / BESIDE_PARTS >= may_read;
            let left = deadline.saturating_duration_since(Instant::now());
            if progress.is_over || is_first || left.is_zero() || self.is_stopped() {
                progress.beside_bytes += bytes;
                return;
            }
            let waited = self.has_progressed.wait_timeout(progress, left.min(POLL));
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a row of a version of the tensor; `None` where they have not been loaded or
    /// were changed since.
    #[inline]
    pub fn row(&self, segment: &Segment, row: u64) -> Option<&[u8]> {
        if !segment.changed.is_empty() {
            let page = self.layout.place(row).block / segment.blocks_per_page();
            if segment.changed.get(page).is_some() {
                return None;
            }
        }
        let chunk = self.chunks.get(usize::try_from(row / self.rows_per_chunk).ok()?)?.get()?;
        let width = self.layout.row_bytes();
        let at = (row % self.rows_per_chunk) as usize * width;
        chunk.as_slice().get(at..at + width)
    }

    /// Lends each of `rows` with its place, while the memory of those behind it is on its way;
    /// returns the places of those that are not here.
    pub fn each(
        &self,
        segment: &Segment,
        rows: &[u64],
        mut take: impl FnMut(usize, &[u8]),
    ) -> Vec<usize> {
        let mut missing = Vec::new();
        let near = (4 * NEAR_BYTES / self.layout.row_bytes().max(1)).clamp(3, 16);
        let fetch = |row: &u64| {
            if let Some(bytes) = self.row(segment, *row) {
                prefetch(&bytes[..bytes.len().min(NEAR_BYTES)]);
            }
        };
        rows.iter().take(near).for_each(fetch);
        for (place, row) in rows.iter().enumerate() {
            rows.get(place + near).into_iter().for_each(fetch);
            match self.row(segment, *row) {
                Some(bytes) => take(place, bytes),
                None => missing.push(place),
            }
        }
        missing
    }
}

/// How a tensor is cut into chunks.
struct Shape {
    /// Pages of rows, or single wide rows.
    units: u64,
    units_per_chunk: u64,
    unit_blocks: u64,
    /// Bytes of the rows of a unit.
    payload: usize,
}

impl Shape {
    fn of(placed: &Placed, layout: RowLayout) -> Self {
        let unit_blocks = (layout.unit_bytes() / BLOCK_BYTES) as u64;
        let payload = layout.unit_rows() as usize * layout.row_bytes();
        let units = placed.meta.num_pages * placed.blocks_per_page() / unit_blocks.max(1);
        let units_per_chunk = (CHUNK_BYTES / payload.max(1)).max(1) as u64;
        Self { units, units_per_chunk, unit_blocks, payload }
    }

    fn chunks(&self) -> usize {
        self.units.div_ceil(self.units_per_chunk) as usize
    }

    /// The first unit of a chunk, and how many it has.
    fn units_of(&self, chunk: usize) -> (u64, u64) {
        let first = (chunk as u64 * self.units_per_chunk).min(self.units);
        (first, self.units_per_chunk.min(self.units - first))
    }

    fn chunk_bytes(&self, chunk: usize) -> u64 {
        (self.units_of(chunk).1 * self.payload as u64).next_multiple_of(BLOCK_BYTES as u64)
    }
}
