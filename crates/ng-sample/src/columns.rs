//! The rows of a batch: what each column shall be, how much memory it takes, and getting it.
//!
//! Columns are gathered when the subgraph is known. Invariant: memory for all of them is admitted
//! at once, so a batch never waits while it holds half of its rows.

use std::sync::Arc;

use ng_simd::RowDecoder;
use ng_store::{
    GATHER_BYTES_PER_ROW, Owner, SPARSE_BYTES_PER_ROW, Snapshot, SparseSpans, TensorMeta, TensorRef,
};
use ng_types::{Dtype, Reservation};

use crate::admission::{Admit, Stage};
use crate::buffer::Pool;
use crate::compact::CompactSample;
use crate::{Buffer, Column, SampleError, SparseIndex};

/// Shorter columns cost few page faults, so their memory is not kept.
const POOLED_BYTES_MIN: usize = 256 << 10;

/// Bytes of the list of row ids that a gather is asked with.
const ROW_ID_BYTES: u64 = 8;

/// A tensor that batches carry, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// Which.
    pub tensor: TensorRef,
    /// What its elements shall be; `None` for what [`TensorMeta::read_dtype`] says.
    pub dtype: Option<Dtype>,
    /// Rows come without their zeros, as f32; for tensors that are stored so.
    pub is_sparse: bool,
}

impl From<TensorRef> for ColumnSpec {
    fn from(tensor: TensorRef) -> Self {
        Self { tensor, dtype: None, is_sparse: false }
    }
}

/// The columns of all batches of a sampler.
pub(crate) struct Columns {
    plans: Vec<Plan>,
    /// Held for a row while a column is gathered.
    row_scratch: u64,
}

#[derive(Clone)]
struct Plan {
    /// Among all columns of a batch.
    place: usize,
    tensor: TensorRef,
    /// `None` for rows without their zeros.
    decoder: Option<RowDecoder>,
}

/// A column that was gathered for a batch.
pub(crate) struct Gathered {
    /// Among all columns of the batch.
    pub place: usize,
    pub column: Column,
    /// What pays for it, unless its buffer does.
    pub held: Option<Reservation>,
}

/// A column with what is known of a batch.
struct Wanted<'a> {
    place: usize,
    tensor: TensorRef,
    rows: Wants<'a>,
    /// Bytes of the column, if its rows come with their zeros.
    len: usize,
    /// One that came back from an earlier batch.
    buffer: Option<Buffer>,
    /// What is to be admitted for it.
    bytes: u64,
}

impl Wanted<'_> {
    /// Takes a free buffer of the pool, or asks for memory for one of it.
    fn find_buffer(&mut self, pool: Option<&Arc<Pool>>) {
        let (Some(pool), Wants::Dense(_)) = (pool, &self.rows) else { return };
        if self.len < POOLED_BYTES_MIN {
            return;
        }
        self.buffer = pool.take_free(self.len);
        self.bytes = if self.buffer.is_some() { 0 } else { Pool::room(self.len) as u64 };
    }
}

/// How rows come.
enum Wants<'a> {
    Dense(&'a RowDecoder),
    Sparse(SparseSpans),
}

impl Columns {
    pub fn new(snapshot: &Snapshot, wanted: &[ColumnSpec]) -> Result<Self, SampleError> {
        let mut this = Self { plans: Vec::with_capacity(wanted.len()), row_scratch: 0 };
        for (place, column) in wanted.iter().enumerate() {
            let tensor = column.tensor;
            let Some(meta) = snapshot.catalog().tensor(tensor) else {
                return Err(SampleError::Spec(format!(
                    "tensor {tensor:?} does not exist in the store"
                )));
            };
            check_edge_ids(snapshot, tensor)?;
            let decoder = decoder(snapshot, column, meta)?;
            let sparse = if meta.is_sparse() { SPARSE_BYTES_PER_ROW } else { 0 };
            let scratch = sparse + decoder.as_ref().map_or(0, held_beside);
            this.row_scratch = this.row_scratch.max(scratch);
            this.plans.push(Plan { place, tensor, decoder });
        }
        Ok(this)
    }

    /// Gathers the columns for a subgraph from memory of the store or through its caches, into
    /// buffers of `pool` if there is one.
    pub fn gather(
        &self,
        snapshot: &Snapshot,
        sample: &CompactSample,
        pool: Option<&Arc<Pool>>,
        admit: &Admit<'_>,
    ) -> Result<Vec<Gathered>, SampleError> {
        let (mut wanted, _spans_held) = self.measure(snapshot, sample, admit)?;
        for column in &mut wanted {
            column.find_buffer(pool);
        }
        // One admission for all columns. The lists that a gather works with are in it, and end with
        // it.
        let sum: u64 = wanted.iter().map(|column| column.bytes).sum();
        let mut held = admit(Stage::Columns, sum + self.scratch_bytes(sample))?;
        let gather = |wanted: Wanted<'_>| {
            let mut held = Some(held.split(wanted.bytes));
            let Wanted { place, tensor, rows, len, buffer, .. } = wanted;
            let column = match rows {
                Wants::Dense(decoder) => {
                    let bytes = match (buffer, pool, held.take()) {
                        (Some(buffer), ..) => buffer,
                        (None, Some(pool), Some(of_buffer)) if len >= POOLED_BYTES_MIN => {
                            pool.make(len, of_buffer)?
                        }
                        (None, _, own) => {
                            held = own;
                            Buffer::new(len)?
                        }
                    };
                    gather_dense(snapshot, tensor, decoder, sample, bytes)?
                }
                Wants::Sparse(spans) => gather_sparse(snapshot, tensor, &spans)?,
            };
            Ok(Gathered { place, column, held })
        };
        wanted.into_iter().map(gather).collect()
    }

    /// Bytes that the columns take for a subgraph.
    pub fn num_bytes(
        &self,
        snapshot: &Snapshot,
        sample: &CompactSample,
        admit: &Admit<'_>,
    ) -> Result<u64, SampleError> {
        let (wanted, _spans_held) = self.measure(snapshot, sample, admit)?;
        Ok(wanted.iter().map(|column| column.bytes).sum())
    }

    /// Bytes that are held while [`Self::gather`] works.
    pub fn scratch_bytes(&self, sample: &CompactSample) -> u64 {
        let row_scratch = GATHER_BYTES_PER_ROW + ROW_ID_BYTES + self.row_scratch;
        sample.most_rows() as u64 * row_scratch
    }

    /// The tensors, and how their rows are decoded where they come with their zeros.
    pub fn tensors(&self) -> impl Iterator<Item = (TensorRef, Option<&RowDecoder>)> {
        self.plans.iter().map(|plan| (plan.tensor, plan.decoder.as_ref()))
    }

    /// Whether these are the same columns, if both are of one version.
    pub fn are(&self, other: &Self) -> bool {
        let of = |columns: &Self| -> Vec<_> {
            columns.tensors().map(|(t, decoder)| (t, decoder.map(RowDecoder::wanted))).collect()
        };
        of(self) == of(other)
    }

    /// The same columns, those at `places` alone.
    pub fn only(&self, places: &[usize]) -> Self {
        let plans = places.iter().filter_map(|at| self.plans.get(*at).cloned()).collect();
        Self { plans, row_scratch: self.row_scratch }
    }

    /// How large each column will be, and the memory that knowing it takes.
    fn measure(
        &self,
        snapshot: &Snapshot,
        sample: &CompactSample,
        admit: &Admit<'_>,
    ) -> Result<(Vec<Wanted<'_>>, Option<Reservation>), SampleError> {
        let num_rows = |plan: &Plan| sample.row_ids(plan.tensor.owner).len() as u64;
        let sparse: u64 = self.plans.iter().filter(|p| p.decoder.is_none()).map(num_rows).sum();
        let held = match sparse {
            0 => None,
            rows => Some(admit(Stage::Topology, rows * SPARSE_BYTES_PER_ROW)?),
        };
        let mut wanted = Vec::with_capacity(self.plans.len());
        for plan in &self.plans {
            let (place, tensor, num_rows) = (plan.place, plan.tensor, num_rows(plan));
            let (rows, bytes) = match &plan.decoder {
                Some(decoder) => (Wants::Dense(decoder), num_rows * decoder.out_bytes() as u64),
                None => {
                    let spans = snapshot.sparse_spans(tensor, &row_ids(sample, tensor))?;
                    let bytes = (num_rows + 1) * 8 + spans.num_entries() as u64 * 12;
                    (Wants::Sparse(spans), bytes)
                }
            };
            let len = bytes as usize;
            wanted.push(Wanted { place, tensor, rows, len, buffer: None, bytes });
        }
        Ok((wanted, held))
    }
}

fn decoder(
    snapshot: &Snapshot,
    wanted: &ColumnSpec,
    meta: &TensorMeta,
) -> Result<Option<RowDecoder>, SampleError> {
    if !wanted.is_sparse {
        let dtype = wanted.dtype.unwrap_or(meta.read_dtype());
        return Ok(Some(snapshot.decoder(wanted.tensor, dtype)?));
    }
    if meta.is_sparse() && wanted.dtype.is_none_or(|dtype| dtype == Dtype::F32) {
        return Ok(None);
    }
    Err(SampleError::Spec(format!(
        "sparse rows can be read only from a sparse tensor and only as f32; read tensor {:?} as \
         dense rows",
        meta.name
    )))
}

/// What a gather holds for a row beside the column: the stored row, where it is the wider one.
fn held_beside(decoder: &RowDecoder) -> u64 {
    let is_wider = decoder.stored_bytes() > decoder.out_bytes();
    if is_wider { decoder.stored_bytes() as u64 } else { 0 }
}

fn check_edge_ids(snapshot: &Snapshot, tensor: TensorRef) -> Result<(), SampleError> {
    let Owner::Edge(edge_type) = tensor.owner else { return Ok(()) };
    let meta = &snapshot.catalog().edge_types[usize::from(edge_type.0)];
    if meta.has_edge_ids {
        return Ok(());
    }
    Err(SampleError::NoEdgeIds { edge_type: meta.relation.clone() })
}

fn row_ids(sample: &CompactSample, tensor: TensorRef) -> Vec<u64> {
    sample.row_ids(tensor.owner).iter().collect()
}

fn gather_dense(
    snapshot: &Snapshot,
    tensor: TensorRef,
    decoder: &RowDecoder,
    sample: &CompactSample,
    mut bytes: Buffer,
) -> Result<Column, SampleError> {
    let rows = row_ids(sample, tensor);
    snapshot.gather_decoded(tensor, decoder, &rows, bytes.as_mut_slice())?;
    Ok(Column { tensor, dtype: decoder.wanted(), sparse: None, bytes })
}

fn gather_sparse(
    snapshot: &Snapshot,
    tensor: TensorRef,
    spans: &SparseSpans,
) -> Result<Column, SampleError> {
    let (entries, starts) = (spans.num_entries(), spans.indptr());
    let (mut indptr, mut columns) = (Buffer::new(starts.len() * 8)?, Buffer::new(entries * 8)?);
    let mut bytes = Buffer::new(entries * 4)?;
    for (place, start) in indptr.as_mut_slice().chunks_exact_mut(8).zip(starts) {
        place.copy_from_slice(&(*start as u64).to_le_bytes());
    }
    snapshot.gather_sparse(spans, columns.as_mut_slice(), bytes.as_mut_slice())?;
    let sparse = Some(SparseIndex { indptr, columns });
    Ok(Column { tensor, dtype: Dtype::F32, sparse, bytes })
}
