//! Gathering rows that are stored without their zeros.
//!
//! First what says where the entries of each row are, then the entries: both through the block
//! cache, since such rows are short, and rows that are near to each other share blocks. Entries go
//! straight from a block to where the caller wants them.

use crate::catalog::{SparseMeta, TensorMeta, TensorRef};
use crate::error::{Damage, ReadError};
use crate::io::BLOCK_BYTES;
use crate::page::{Segment, VisitRows};
use crate::store::Snapshot;
use crate::tensor::layout::SPAN_BYTES;
use crate::tensor::reader::{GatherStats, TensorReader};
use crate::tensor::sparse::{EntryForm, Span, SparseRows, put_value};

/// Rows that a scan holds at once, and bytes of them with their zeros.
const SCAN_ROWS: u64 = 1 << 14;
const SCAN_BYTES: u64 = 4 << 20;

/// Takes sparse rows: the first row, and consecutive ones.
pub type VisitSparse<'a, E = ReadError> = dyn FnMut(u64, &SparseRows) -> Result<(), E> + 'a;

/// Where the entries of some rows of a tensor are, and how many they are.
#[derive(Clone, Debug)]
pub struct SparseSpans {
    tensor: TensorRef,
    spans: Vec<Span>,
    indptr: Vec<usize>,
    rows_cached: u64,
}

impl SparseSpans {
    /// Entry `indptr()[i]` is the first of row `i` of the request; one more at the end.
    pub fn indptr(&self) -> &[usize] {
        &self.indptr
    }

    /// Entries of all rows.
    pub fn num_entries(&self) -> usize {
        self.indptr.last().copied().unwrap_or(0)
    }
}

/// A row with entries.
#[derive(Clone, Copy)]
struct Wanted {
    span: Span,
    /// Place in the request.
    place: usize,
}

impl Snapshot {
    /// Finds out how many entries the rows of `ids` in a sparse tensor have.
    ///
    /// # Errors
    /// [`ReadError::RowOutOfRange`], [`ReadError::Missing`] if rows of the tensor are not sparse,
    /// [`ReadError::Checksum`], [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn sparse_spans(&self, tensor: TensorRef, ids: &[u64]) -> Result<SparseSpans, ReadError> {
        let (meta, _, _) = self.version.tensor(tensor)?;
        meta.check_rows(ids)?;
        self.spans_of_rows(tensor, &self.rows_of(tensor.owner, ids)?)
    }

    /// The same for rows as they lie in the file, which were checked.
    fn spans_of_rows(&self, tensor: TensorRef, rows: &[u64]) -> Result<SparseSpans, ReadError> {
        let (meta, segment, layout) = self.version.tensor(tensor)?;
        let (sparse, _, _) = self.sparse_parts(tensor)?;
        let mut bytes = vec![0; rows.len() * SPAN_BYTES as usize];
        let reader = TensorReader { pages: &self.inner.pages, segment, layout, pool: None };
        let rows_cached = reader.gather(rows, &mut bytes)?.rows_cached;
        let mut spans = Vec::with_capacity(rows.len());
        let (mut indptr, mut end) = (Vec::with_capacity(rows.len() + 1), 0);
        indptr.push(0);
        for (row, bytes) in rows.iter().zip(bytes.as_chunks().0) {
            let span = Span::decode(*bytes, sparse.num_entries, meta.num_columns());
            let page = layout.place(*row).block / segment.blocks_per_page();
            let span = span.map_err(|damage| segment.damaged(page, &damage))?;
            end += span.count as usize;
            indptr.push(end);
            spans.push(span);
        }
        Ok(SparseSpans { tensor, spans, indptr, rows_cached })
    }

    /// Copies the entries of rows, in request order: i64 columns and f32 values, little-endian.
    ///
    /// # Errors
    /// [`ReadError::OutputSize`] unless there is room for all entries and no more,
    /// [`ReadError::Checksum`], [`ReadError::Damaged`], [`ReadError::Io`].
    pub fn gather_sparse(
        &self,
        spans: &SparseSpans,
        columns: &mut [u8],
        values: &mut [u8],
    ) -> Result<GatherStats, ReadError> {
        for (found, width) in [(columns.len(), 8), (values.len(), 4)] {
            let expected = spans.num_entries().saturating_mul(width);
            if found != expected {
                return Err(ReadError::OutputSize { expected, found });
            }
        }
        self.visit_entries(spans, &mut |place, at, column, value| {
            let at = spans.indptr[place] + at;
            crate::bytes::put(columns, at * 8, &u64::from(column).to_le_bytes());
            crate::bytes::put(values, at * 4, &value.to_le_bytes());
        })
    }

    /// Fills rows of f32, of ids that were checked, with their zeros.
    pub(crate) fn gather_dense(
        &self,
        tensor: TensorRef,
        ids: &[u64],
        out: &mut [u8],
    ) -> Result<GatherStats, ReadError> {
        self.fill_dense(&self.sparse_spans(tensor, ids)?, out)
    }

    fn fill_dense(&self, spans: &SparseSpans, out: &mut [u8]) -> Result<GatherStats, ReadError> {
        let width = out.len() / spans.spans.len().max(1);
        out.fill(0);
        self.visit_entries(spans, &mut |place, _, column, value| {
            let row = place * width;
            put_value(&mut out[row..row + width], column, value);
        })
    }

    /// Reads all rows of a sparse tensor in the order of the file, in runs of some thousands.
    ///
    /// # Errors
    /// [`ReadError`], also those of `visit`.
    pub fn scan_sparse<E: From<ReadError>>(
        &self,
        tensor: TensorRef,
        visit: &mut VisitSparse<'_, E>,
    ) -> Result<(), E> {
        let (meta, _, _) = self.version.tensor(tensor)?;
        let mut found = SparseRows::default();
        for first in (0..meta.num_rows).step_by(SCAN_ROWS as usize) {
            let rows: Vec<u64> = (first..meta.num_rows.min(first + SCAN_ROWS)).collect();
            let spans = self.spans_of_rows(tensor, &rows)?;
            found.columns.clear();
            found.columns.resize(spans.num_entries(), 0);
            found.values.clear();
            found.values.resize(spans.num_entries(), 0.0);
            self.visit_entries(&spans, &mut |place, at, column, value| {
                let at = spans.indptr.get(place).map_or(usize::MAX, |start| start + at);
                if let (Some(c), Some(v)) = (found.columns.get_mut(at), found.values.get_mut(at)) {
                    (*c, *v) = (column, value);
                }
            })?;
            found.indptr.clone_from(&spans.indptr);
            self.check_order(tensor, &found)?;
            visit(first, &found)?;
        }
        Ok(())
    }

    /// [`Snapshot::scan_tensor`] for rows that are stored without their zeros.
    pub(crate) fn scan_dense<E: From<ReadError>>(
        &self,
        tensor: TensorRef,
        visit: &mut VisitRows<'_, E>,
    ) -> Result<(), E> {
        let (meta, _, _) = self.version.tensor(tensor)?;
        let together = (SCAN_BYTES / meta.row_bytes().max(1)).clamp(1, SCAN_ROWS);
        let mut out = vec![0; (together * meta.row_bytes()) as usize];
        for first in (0..meta.num_rows).step_by(together as usize) {
            let rows: Vec<u64> = (first..meta.num_rows.min(first + together)).collect();
            let bytes = rows.len() * meta.row_bytes() as usize;
            let out = &mut out[..bytes];
            self.fill_dense(&self.spans_of_rows(tensor, &rows)?, out)?;
            visit(first, out)?;
        }
        Ok(())
    }

    /// Columns of a row ascend, also from one block to the next.
    fn check_order(&self, tensor: TensorRef, found: &SparseRows) -> Result<(), ReadError> {
        let ascends = |range: &[usize]| match *range {
            [start, end] => {
                found.columns.get(start..end).is_some_and(|c| c.is_sorted_by(|a, b| a < b))
            }
            _ => true,
        };
        if found.indptr.windows(2).all(ascends) {
            return Ok(());
        }
        let (_, entries, _) = self.sparse_parts(tensor)?;
        Err(entries.damaged(0, &Damage::new("the columns of a row are not ascending")))
    }

    fn sparse_parts(
        &self,
        tensor: TensorRef,
    ) -> Result<(SparseMeta, &Segment, EntryForm), ReadError> {
        let (meta, _, _) = self.version.tensor(tensor)?;
        let form = |meta: &TensorMeta| {
            let sparse = meta.sparse?;
            Some((sparse, EntryForm::of(&sparse, meta.num_columns())?))
        };
        let missing = || ReadError::Missing { what: format!("sparse rows of {:?}", meta.name) };
        let (sparse, form) = form(meta).ok_or_else(missing)?;
        Ok((sparse, self.version.segment(sparse.entries)?, form))
    }

    /// Lends all entries of rows: the place of the row in the request, the place of the entry in
    /// the row, column, value. In no particular order; a row that is asked for twice comes twice.
    fn visit_entries(
        &self,
        spans: &SparseSpans,
        take: &mut impl FnMut(usize, usize, u32, f32),
    ) -> Result<GatherStats, ReadError> {
        let (_, segment, form) = self.sparse_parts(spans.tensor)?;
        let (width, per_block) = (form.entry_bytes(), (BLOCK_BYTES / form.entry_bytes()) as u64);
        let wanted = sort_spans(&spans.spans).map_err(|damage| segment.damaged(0, &damage))?;
        let mut blocks: Vec<u64> = Vec::new();
        for Wanted { span, .. } in &wanted {
            let next = blocks.last().map_or(0, |last| last + 1);
            blocks.extend((span.start / per_block).max(next)..=(span.end() - 1) / per_block);
        }
        let overlapping = |block: u64| {
            let (from, to) = (block * per_block, (block + 1) * per_block);
            let start = wanted.partition_point(|w| w.span.end() <= from);
            let rest = wanted.iter().skip(start).take_while(move |w| w.span.start < to);
            rest.map(move |w| (w, w.span.start.max(from), w.span.end().min(to)))
        };
        let mut useful = 0;
        let mut visit = |index: usize, bytes: &[u8]| {
            let Some(block) = blocks.get(index).copied() else { return Ok(()) };
            for (w, from, to) in overlapping(block) {
                let start = (from - block * per_block) as usize * width;
                let entries = bytes.get(start..start + (to - from) as usize * width);
                useful += (to - from) * width as u64;
                let first = (from - w.span.start) as usize;
                for (at, entry) in (first..).zip(entries.unwrap_or_default().chunks_exact(width)) {
                    let (column, value) =
                        form.decode(entry).map_err(|damage| segment.damaged(block, &damage))?;
                    take(w.place, at, column, value);
                }
            }
            Ok(())
        };
        let missed = self.inner.pages.fetch(segment, &blocks, 1, &mut visit)?;
        let mut read = vec![false; spans.spans.len()];
        for block in missed.iter().filter_map(|index| blocks.get(*index)) {
            for (w, _, _) in overlapping(*block) {
                read.get_mut(w.place).into_iter().for_each(|flag| *flag = true);
            }
        }
        self.inner.pages.reader.stats().add_useful(useful);
        let rows_read = read.iter().filter(|flag| **flag).count() as u64;
        let rows = spans.spans.len() as u64;
        let stats = GatherStats { rows, rows_cached: spans.rows_cached.min(rows - rows_read) };
        self.count_rows(stats);
        Ok(stats)
    }
}

/// The rows with entries, by where these are; the same ones may be asked for many times, but no two
/// rows share some of them.
fn sort_spans(spans: &[Span]) -> Result<Vec<Wanted>, Damage> {
    let wanted = spans.iter().enumerate().map(|(place, span)| Wanted { span: *span, place });
    let mut wanted: Vec<Wanted> = wanted.filter(|w| w.span.count > 0).collect();
    if !wanted.is_sorted_by_key(|w| w.span.start) {
        wanted.sort_unstable_by_key(|w| (w.span.start, w.place));
    }
    let are_apart = |a: &Wanted, b: &Wanted| a.span == b.span || a.span.end() <= b.span.start;
    if wanted.is_sorted_by(are_apart) {
        return Ok(wanted);
    }
    Err(Damage::new("two rows share entries"))
}
