//! Tensors of narrow rows that are small beside the budget, such as labels: read once, whole.

use ng_io::Region;
use ng_simd::RowDecoder;
use ng_store::{Snapshot, TensorRef};
use ng_types::Reservation;

use crate::SampleError;

/// Rows that are read together while a tensor is loaded.
const ROWS_TOGETHER: u64 = 1 << 16;

/// A tensor in memory.
#[derive(Debug)]
pub(crate) struct ResidentTensor {
    width: usize,
    bytes: Region,
    _held: Reservation,
}

impl ResidentTensor {
    /// Reads all of `tensor`.
    pub fn load(snapshot: &Snapshot, tensor: TensorRef) -> Result<Self, SampleError> {
        let meta = snapshot.catalog().tensor(tensor);
        let (rows, width) = meta.map_or((0, 0), |meta| (meta.num_rows, meta.row_bytes() as usize));
        let len = rows as usize * width;
        let held = snapshot.reserve(len as u64).map_err(SampleError::from_budget)?;
        let region = Region::with_huge_pages(len);
        let mut bytes = region.map_err(|source| SampleError::NoMemory { bytes: len, source })?;
        let mut at = 0;
        while at < rows {
            let end = rows.min(at + ROWS_TOGETHER);
            let ids: Vec<u64> = (at..end).collect();
            let out = &mut bytes.as_mut_slice()[at as usize * width..end as usize * width];
            snapshot.gather(tensor, &ids, out)?;
            at = end;
        }
        Ok(Self { width, bytes, _held: held })
    }

    /// Decodes rows to `out`, one after the other.
    pub fn gather(&self, rows: impl Iterator<Item = u32>, decoder: &RowDecoder, out: &mut [u8]) {
        let all = self.bytes.as_slice();
        for (row, out) in rows.zip(out.chunks_exact_mut(decoder.out_bytes().max(1))) {
            let at = row as usize * self.width;
            decoder.decode(&all[at..at + self.width], out);
        }
    }
}
